//! Texts as Go's libraries read them.

use std::net::IpAddr;

use ipnet::IpNet;

/// `strconv.ParseBool`.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// `strconv.ParseInt` of any base: a prefix such as `0x` tells it, and a zero alone means octal.
pub(super) fn integer(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = [("0x", 16), ("0b", 2), ("0o", 8)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((radix, lower.strip_prefix(prefix)?)))
        .unwrap_or_else(|| match lower.strip_prefix('0') {
            Some(octal) if !octal.is_empty() => (8, octal),
            _ => (10, lower.as_str()),
        });
    // An underscore stands between two digits, or after the prefix.
    let digits = match radix {
        10 => digits,
        _ => digits.strip_prefix('_').unwrap_or(digits),
    };
    let is_apart = digits.split('_').all(|part| !part.is_empty());
    let digits = digits.replace('_', "");
    let is_plain = digits.chars().all(|digit| digit.is_digit(radix));
    let number = i64::from_str_radix(&digits, radix).ok();
    let number = number.filter(|_| is_apart && is_plain)?;
    Some(if is_negative { -number } else { number })
}

/// `24` for `24.0` (`trimZeroDecimal` of spf13/cast).
pub(super) fn without_zero_decimal(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.chars().all(|zero| zero == '0') => whole,
        _ => text,
    }
}

/// `24` for `24.5` (`trimDecimal` of spf13/cast).
pub(super) fn cut_decimals(text: &str) -> &str {
    match text.split_once('.') {
        Some(("", decimals)) if is_digits(decimals) => "0",
        Some((whole, decimals)) if is_digits(decimals) => whole,
        _ => text,
    }
}

fn is_digits(text: &str) -> bool {
    text.chars().all(|digit| digit.is_ascii_digit())
}

/// `net.ParseCIDR`, with the prefix length that it counts: of an IPv4-mapped CIDR that of IPv6.
pub(super) fn cidr(text: &str) -> Option<(IpNet, u8)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length = length_of(length)?;
    let net = IpNet::new(address, length).ok()?;
    Some((unmapped(net), length))
}

/// `netip.ParsePrefix`. It keeps an IPv4-mapped prefix as IPv6.
pub(super) fn prefix(text: &str) -> Option<(IpNet, u8)> {
    let (address, length) = text.rsplit_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let is_padded = length.len() > 1 && length.starts_with('0');
    let length = length_of(length).filter(|_| !is_padded)?;
    let net = IpNet::new(address, length).ok()?;
    Some((net, length))
}

/// The part of the error of `netip.ParsePrefix` that does not depend on the fault of the address.
pub(super) fn prefix_error(text: &str) -> String {
    let why = match text.rsplit_once('/') {
        None => ": no '/'",
        Some((address, length)) => {
            let is_address = address.parse::<IpAddr>().is_ok();
            let is_padded = length.len() > 1 && length.starts_with('0');
            let is_number = !length.is_empty() && is_digits(length);
            match is_address && is_number && !is_padded {
                true => ": prefix length out of range",
                false => "",
            }
        }
    };
    format!("netip.ParsePrefix({text:?}){why}")
}

fn length_of(text: &str) -> Option<u8> {
    let is_number = !text.is_empty() && is_digits(text);
    text.parse().ok().filter(|_| is_number)
}

fn unmapped(net: IpNet) -> IpNet {
    match net {
        IpNet::V6(six) => {
            let four = six.addr().to_ipv4_mapped();
            let length = six.prefix_len().checked_sub(96);
            let four = four
                .zip(length)
                .and_then(|(four, length)| IpNet::new(four.into(), length).ok());
            four.unwrap_or(net)
        }
        IpNet::V4(_) => net,
    }
}
