//! Addresses and CIDRs as values, with the functions of Kubernetes' CEL libraries
//! (`pkg/cel/library/ip.go` and `cidr.go` of `k8s.io/apiserver` @ 0.36). Knows no meter: the texts
//! that are read are counted before.

use std::any::Any;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use cel::common::types::{CelBool, CelInt, CelString, STRING_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use ipam_core::net::{Address, is_written_as_mapped};

/// `ip.isCanonical`. A loop's variable may have the name `ip`.
pub(crate) const IS_CANONICAL: &str = "@isCanonical";

/// The functions that an expression can call, without [`IS_CANONICAL`].
pub(crate) const FUNCTIONS: [&str; 14] = [
    "cidr",
    "containsCIDR",
    "containsIP",
    "family",
    "ip",
    "isCIDR",
    "isGlobalUnicast",
    "isIP",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isUnspecified",
    "masked",
    "prefixLength",
];

static IP_TYPE: Type = Type::new_unspecified_type("net.IP");
static CIDR_TYPE: Type = Type::new_unspecified_type("net.CIDR");

/// Longest text of an address or a CIDR in bytes.
const LONGEST: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

/// An address with the length of its network's prefix. Bits after the prefix may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr {
    address: IpAddr,
    length: u8,
}

impl Ip {
    /// Without IPv4-mapped addresses, zones and leading zeros.
    fn read(text: &str) -> Option<Ip> {
        if text.len() > LONGEST || is_written_as_mapped(text) {
            return None;
        }
        let address: Address = text.parse().ok()?;
        Some(Ip(address.into()))
    }

    fn is_link_local_multicast(self) -> bool {
        match self.0 {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        }
    }

    fn is_link_local_unicast(self) -> bool {
        match self.0 {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }

    fn is_global_unicast(self) -> bool {
        self.0 != IpAddr::V4(Ipv4Addr::BROADCAST)
            && !self.0.is_unspecified()
            && !self.0.is_loopback()
            && !self.0.is_multicast()
            && !self.is_link_local_unicast()
    }
}

impl Cidr {
    fn read(text: &str) -> Option<Cidr> {
        let (address, length) = text.split_once('/')?;
        let Ip(address) = Ip::read(address)?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || (length.len() > 1 && length.starts_with('0')) {
            return None;
        }
        let length: u8 = length.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (length <= most).then_some(Cidr { address, length })
    }

    fn contains(self, address: IpAddr) -> bool {
        let differ = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4() && differ & self.mask() == 0
    }

    /// The first bits of an address.
    fn mask(self) -> u128 {
        u128::MAX
            .checked_shl(128 - u32::from(self.length))
            .unwrap_or(0)
    }

    fn masked(self) -> Cidr {
        let first = bits(self.address) & self.mask();
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits((first >> 96) as u32)),
            IpAddr::V6(_) => IpAddr::V6(first.into()),
        };
        Cidr { address, ..self }
    }
}

/// The address as the first bits of a number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

macro_rules! value_of_cel {
    ($kind:ty, $cel_type:expr) => {
        impl Val for $kind {
            fn get_type(&self) -> &Type {
                <Self as Val>::cel_type()
            }

            fn cel_type() -> &'static Type {
                &$cel_type
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other
                    .downcast_ref::<$kind>()
                    .is_some_and(|other| other == self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
            where
                Self: 'v,
            {
                Box::new(*self)
            }

            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
        }

        impl StaticVal for $kind {}
    };
}

value_of_cel!(Ip, IP_TYPE);
value_of_cel!(Cidr, CIDR_TYPE);

type Evaluated<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Adds the functions.
///
/// # Errors
/// Fails if there is a function of the same name and types.
pub(crate) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    let (ip, cidr) = (|| IP_TYPE.to_owned(), || CIDR_TYPE.to_owned());
    let text = || vec![STRING_TYPE.to_owned()];
    env.add_overload("ip", "string_to_ip", text(), |args| {
        read_ip(&args).map(CowVal::owned)
    })?;
    env.add_overload("cidr", "string_to_cidr", text(), |args| {
        read_cidr(&args).map(CowVal::owned)
    })?;
    env.add_overload("isIP", "is_ip", text(), |args| {
        truth(Ip::read(of_text(&args, 0)?).is_some())
    })?;
    env.add_overload("isCIDR", "is_cidr", text(), |args| {
        truth(Cidr::read(of_text(&args, 0)?).is_some())
    })?;
    env.add_overload(IS_CANONICAL, "ip_is_canonical", text(), |args| {
        let ip = read_ip(&args)?;
        truth(ip.to_string() == of_text(&args, 0)?)
    })?;
    env.add_overload("string", "ip_to_string", vec![ip()], |args| {
        written(of::<Ip>(&args, 0)?)
    })?;
    env.add_overload("string", "cidr_to_string", vec![cidr()], |args| {
        written(of::<Cidr>(&args, 0)?)
    })?;
    of_an_address(env)?;
    of_a_cidr(env)
}

fn of_an_address(env: &mut Env) -> Result<(), DeclarationError> {
    let ip = || IP_TYPE.to_owned();
    let none = Vec::new;
    env.add_member_overload("family", "ip_family", ip(), none(), |args| {
        let Ip(address) = of::<Ip>(&args, 0)?;
        number(if address.is_ipv4() { 4 } else { 6 })
    })?;
    env.add_member_overload("isUnspecified", "ip_unspecified", ip(), none(), |args| {
        truth(of::<Ip>(&args, 0)?.0.is_unspecified())
    })?;
    env.add_member_overload("isLoopback", "ip_loopback", ip(), none(), |args| {
        truth(of::<Ip>(&args, 0)?.0.is_loopback())
    })?;
    let name = "isLinkLocalMulticast";
    env.add_member_overload(name, "ip_link_multicast", ip(), none(), |args| {
        truth(of::<Ip>(&args, 0)?.is_link_local_multicast())
    })?;
    let name = "isLinkLocalUnicast";
    env.add_member_overload(name, "ip_link_unicast", ip(), none(), |args| {
        truth(of::<Ip>(&args, 0)?.is_link_local_unicast())
    })?;
    env.add_member_overload("isGlobalUnicast", "ip_global", ip(), none(), |args| {
        truth(of::<Ip>(&args, 0)?.is_global_unicast())
    })
}

fn of_a_cidr(env: &mut Env) -> Result<(), DeclarationError> {
    let (ip, cidr) = (|| IP_TYPE.to_owned(), || CIDR_TYPE.to_owned());
    let text = || STRING_TYPE.to_owned();
    let none = Vec::new;
    let name = "containsIP";
    env.add_member_overload(name, "cidr_ip", cidr(), vec![ip()], |args| {
        let Ip(address) = of::<Ip>(&args, 1)?;
        truth(of::<Cidr>(&args, 0)?.contains(*address))
    })?;
    env.add_member_overload(name, "cidr_ip_string", cidr(), vec![text()], |args| {
        let Ip(address) = read_ip(args.get(1..).unwrap_or_default())?;
        truth(of::<Cidr>(&args, 0)?.contains(address))
    })?;
    let name = "containsCIDR";
    env.add_member_overload(name, "cidr_cidr", cidr(), vec![cidr()], |args| {
        within(of(&args, 0)?, of(&args, 1)?)
    })?;
    env.add_member_overload(name, "cidr_cidr_string", cidr(), vec![text()], |args| {
        let inner = read_cidr(args.get(1..).unwrap_or_default())?;
        within(of(&args, 0)?, &inner)
    })?;
    env.add_member_overload("ip", "cidr_to_ip", cidr(), none(), |args| {
        Ok(CowVal::owned(Ip(of::<Cidr>(&args, 0)?.address)))
    })?;
    env.add_member_overload("masked", "cidr_masked", cidr(), none(), |args| {
        Ok(CowVal::owned(of::<Cidr>(&args, 0)?.masked()))
    })?;
    env.add_member_overload("prefixLength", "cidr_length", cidr(), none(), |args| {
        number(i64::from(of::<Cidr>(&args, 0)?.length))
    })
}

fn within<'b, 'v>(outer: &Cidr, inner: &Cidr) -> Evaluated<'b, 'v> {
    truth(outer.length <= inner.length && outer.contains(inner.address))
}

fn wrong() -> ExecutionError {
    ExecutionError::function_error("an address", "has no such arguments")
}

fn of<'a, T: StaticVal>(args: &'a [CowVal<'_, '_>], at: usize) -> Result<&'a T, ExecutionError> {
    let value = args.get(at).ok_or_else(wrong)?;
    value.downcast_ref::<T>().ok_or_else(wrong)
}

fn of_text<'a>(args: &'a [CowVal<'_, '_>], at: usize) -> Result<&'a str, ExecutionError> {
    let value = args.get(at).ok_or_else(wrong)?;
    let text = value.downcast_ref::<CelString>().ok_or_else(wrong)?;
    Ok(text.inner())
}

fn read_ip(args: &[CowVal<'_, '_>]) -> Result<Ip, ExecutionError> {
    let ip = Ip::read(of_text(args, 0)?);
    ip.ok_or_else(|| ExecutionError::function_error("ip", "the text is not an address"))
}

fn read_cidr(args: &[CowVal<'_, '_>]) -> Result<Cidr, ExecutionError> {
    let cidr = Cidr::read(of_text(args, 0)?);
    cidr.ok_or_else(|| ExecutionError::function_error("cidr", "the text is not a CIDR"))
}

fn truth<'b, 'v>(is: bool) -> Evaluated<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(is)))
}

fn number<'b, 'v>(number: i64) -> Evaluated<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(number)))
}

fn written<'b, 'v>(value: &impl fmt::Display) -> Evaluated<'b, 'v> {
    Ok(CowVal::owned(CelString::from(value.to_string())))
}
