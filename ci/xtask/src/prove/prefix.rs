//! CIDRs as ranges of numbers: the proofs' own arithmetic, so that a fault in the tool's cannot
//! hide itself.

use std::fmt::{self, Display};
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};

/// The addresses of one CIDR.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// 32 or 128. Addresses of different widths have nothing in common.
    pub width: u32,
    /// The lowest address.
    pub first: u128,
    /// The highest address.
    pub last: u128,
    text: String,
}

impl Prefix {
    /// Reads `address/length`.
    pub fn parse(text: &str) -> Result<Self> {
        let (address, length) = text
            .split_once('/')
            .with_context(|| format!("`{text}` is not a CIDR"))?;
        let (width, address) = match address
            .parse()
            .with_context(|| format!("`{text}` is not a CIDR"))?
        {
            IpAddr::V4(address) => (32, u128::from(address.to_bits())),
            IpAddr::V6(address) => (128, address.to_bits()),
        };
        let length: u32 = length
            .parse()
            .with_context(|| format!("`{text}` is not a CIDR"))?;
        ensure!(length <= width, "`{text}` is not a CIDR");
        // Shifting by the whole width is not defined.
        let hosts = 1u128
            .checked_shl(width - length)
            .map_or(u128::MAX, |hosts| hosts - 1);
        Ok(Self {
            width,
            first: address & !hosts,
            last: address | hosts,
            text: text.to_owned(),
        })
    }
}

impl Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::parse(text).unwrap()
    }

    #[test]
    fn addresses_and_not_texts_are_compared() {
        assert_eq!(
            (prefix("10.0.1.9/24").first, prefix("10.0.1.9/24").last),
            (0x0a00_0100, 0x0a00_01ff)
        );
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/24", "x/8"] {
            assert!(Prefix::parse(bad).is_err(), "{bad}");
        }
    }
}
