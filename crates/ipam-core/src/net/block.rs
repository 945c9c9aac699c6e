//! A block: an aligned CIDR, and the size that a pool hands out.
//!
//! An address as text, by the one rule for IPv4-mapped IPv6 addresses (RFC 4291, 2.5.5.2):
//! `::ffff:10.0.0.1` is 10.0.0.1. Go's `net` package, which kubelet and Cilium's datapath use,
//! treats the two as one address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use super::{Range, touching};

crate::text_enum! {
    /// An address family, spelled as Kubernetes spells it in `ipFamilies`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Family {
        /// IPv4, with addresses of 32 bits.
        Ipv4 = "IPv4",
        /// IPv6, with addresses of 128 bits.
        Ipv6 = "IPv6",
    }
}

impl Family {
    /// Both families, IPv4 first, as Kubernetes lists them by default.
    pub const BOTH: [Family; 2] = Family::ALL;

    pub fn bits(self) -> u8 {
        match self {
            Family::Ipv4 => 32,
            Family::Ipv6 => 128,
        }
    }

    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::Ipv4,
            IpAddr::V6(_) => Family::Ipv6,
        }
    }

    /// The address with this number. Bits beyond the family's length are dropped.
    pub(super) fn address(self, number: u128) -> IpAddr {
        match self {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::from_bits(
                u32::try_from(number & 0xffff_ffff).unwrap_or(u32::MAX),
            )),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// An aligned CIDR: no host bits, not `/0`, not IPv4-mapped. Parsing an IPv4-mapped text gives the
/// embedded IPv4 CIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(IpNet);

crate::serde_as_text! { Block: "CIDR" }

/// Why a text is not a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Not of the form `address/length`.
    #[error("`{text}` is not a CIDR")]
    NotACidr { text: String },
    /// Bits after the prefix are set.
    #[error("`{text}` has host bits set")]
    HostBits {
        /// The text as given.
        text: String,
        /// The block with the host bits cleared.
        aligned: Block,
    },
    /// `::ffff:a.b.c.d` with a prefix shorter than /96, which has no meaning in IPv4.
    #[error("`{text}` is IPv4-mapped with a prefix shorter than /96, so it is not an IPv4 CIDR")]
    MappedIpv4 {
        /// The text as given.
        text: String,
        /// The IPv6 addresses as Go reads them.
        literal: Range,
    },
    /// The whole address space.
    #[error("`{text}` is the whole address space")]
    Everything {
        /// The text as given.
        text: String,
        family: Family,
    },
}

impl Block {
    /// Reads a CIDR of a live object as Kubernetes and Cilium do, with Go's `net.ParseCIDR`: host
    /// bits are cleared.
    ///
    /// # Errors
    /// Fails if Go rejects the text, if it is the whole address space, or if it is a mapped CIDR
    /// without an IPv4 meaning.
    pub fn lenient(text: &str) -> Result<Block, BlockError> {
        match Block::read(text) {
            Err(BlockError::HostBits { aligned, .. }) => Ok(aligned),
            other => other,
        }
    }

    /// The block of `size` that starts at `first`, which must be a multiple of that size.
    pub(super) fn from_aligned(first: u128, size: BlockSize) -> Block {
        debug_assert!(
            Block::at(first, size).is_some(),
            "a block cannot be misaligned"
        );
        let address = size.family().address(first);
        Block(IpNet::new_assert(address, size.prefix_len()))
    }

    /// The largest parts that share no address with `taken`, sorted by address. No part is smaller
    /// than `smallest`. `taken` must come from [`merge`](super::merge).
    pub fn without(self, taken: &[Range], smallest: BlockSize) -> Vec<Block> {
        let range = self.range();
        let taken = touching(taken, &range);
        let [first, ..] = taken else {
            return vec![self];
        };
        if first.contains(&range) || self.prefix_len() >= smallest.prefix_len() {
            return Vec::new();
        }
        self.halves()
            .flat_map(|half| half.without(taken, smallest))
            .collect()
    }

    /// The lower and the upper half; nothing if this is a single address.
    pub fn halves(self) -> impl Iterator<Item = Block> {
        let length = self.prefix_len() + 1;
        self.0.subnets(length).into_iter().flatten().map(Block)
    }

    /// The block of `size` that starts at `first`; `None` if it would be misaligned.
    pub(crate) fn at(first: u128, size: BlockSize) -> Option<Block> {
        let address = size.family().address(first);
        let net = IpNet::new(address, size.prefix_len()).ok()?;
        (net.network() == address).then_some(Block(net))
    }

    /// The first block of `size` in this one; `None` if this one is smaller.
    pub fn first_of(self, size: BlockSize) -> Option<Block> {
        let fits = size.family() == self.family() && size.prefix_len() >= self.prefix_len();
        fits.then(|| Block::at(number(self.0.network()), size))?
    }

    pub fn family(self) -> Family {
        Family::of(self.0.addr())
    }

    pub fn prefix_len(self) -> u8 {
        self.0.prefix_len()
    }

    pub fn size(self) -> BlockSize {
        BlockSize {
            family: self.family(),
            prefix_len: self.prefix_len(),
        }
    }

    pub fn range(self) -> Range {
        range_of(&self.0)
    }

    /// How many blocks of this size precede the block in the address space.
    pub(crate) fn index_in_space(self) -> u128 {
        number(self.0.network()) >> self.size().host_bits()
    }

    /// The block itself and every larger block that contains it.
    pub fn enclosing(self) -> impl Iterator<Item = Block> {
        std::iter::successors(Some(self), |block| block.0.supernet().map(Block))
    }

    pub fn overlaps(self, other: Block) -> bool {
        self.range().overlaps(&other.range())
    }

    pub fn contains(self, other: Block) -> bool {
        self.range().contains(&other.range())
    }
}

impl FromStr for Block {
    type Err = BlockError;

    /// Rejects numbers with leading zeros, as Go's netip does, which Cilium uses. Some parsers read
    /// them as octal.
    fn from_str(text: &str) -> Result<Block, BlockError> {
        if has_leading_zeros(text) {
            return Err(BlockError::NotACidr {
                text: text.to_owned(),
            });
        }
        Block::read(text)
    }
}

/// Whether an IPv4 number or the prefix length has a leading zero.
fn has_leading_zeros(text: &str) -> bool {
    let is_padded = |number: &str| number.len() > 1 && number.starts_with('0');
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    // IPv6 may end in an IPv4 address; its other numbers are hexadecimal.
    let ipv4 = address.rsplit(':').next().filter(|last| last.contains('.'));
    is_padded(length) || ipv4.is_some_and(|ipv4| ipv4.split('.').any(is_padded))
}

impl Block {
    fn read(text: &str) -> Result<Block, BlockError> {
        let written: IpNet = text.parse().map_err(|_| BlockError::NotACidr {
            text: text.to_owned(),
        })?;
        let net = unmapped(written).ok_or_else(|| BlockError::MappedIpv4 {
            text: text.to_owned(),
            literal: range_of(&written),
        })?;
        if net.prefix_len() == 0 {
            return Err(BlockError::Everything {
                text: text.to_owned(),
                family: Family::of(net.addr()),
            });
        }
        if net.network() == net.addr() {
            Ok(Block(net))
        } else {
            Err(BlockError::HostBits {
                text: text.to_owned(),
                aligned: Block(net.trunc()),
            })
        }
    }
}

/// The CIDR with an IPv4-mapped address replaced by the IPv4 address; `None` if the prefix is
/// shorter than /96.
pub fn unmapped(net: IpNet) -> Option<IpNet> {
    let IpNet::V6(v6) = net else { return Some(net) };
    let Some(embedded) = v6.addr().to_ipv4_mapped() else {
        return Some(net);
    };
    let length = v6.prefix_len().checked_sub(96)?;
    Ipv4Net::new(embedded, length).ok().map(IpNet::V4)
}

fn range_of(net: &IpNet) -> Range {
    let family = Family::of(net.addr());
    let host_bits = family.bits() - net.prefix_len();
    let first = number(net.network());
    let last = if host_bits == 128 {
        u128::MAX
    } else {
        first | ((1u128 << host_bits) - 1)
    };
    Range::from_numbers(family, first, last)
}

impl From<Block> for IpNet {
    fn from(block: Block) -> IpNet {
        block.0
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Size of a pool's blocks, as a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize {
    family: Family,
    prefix_len: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/{prefix_len} is not an {family} prefix length; expected 1 to {}", family.bits())]
pub struct BlockSizeError {
    family: Family,
    prefix_len: u64,
}

impl BlockSize {
    /// # Errors
    /// Fails if the prefix length is 0 or longer than an address of the family.
    pub fn new(family: Family, prefix_len: u64) -> Result<BlockSize, BlockSizeError> {
        match u8::try_from(prefix_len) {
            Ok(length) if length >= 1 && length <= family.bits() => Ok(BlockSize {
                family,
                prefix_len: length,
            }),
            _ => Err(BlockSizeError { family, prefix_len }),
        }
    }

    pub fn family(self) -> Family {
        self.family
    }

    /// Length of the prefix in bits.
    pub fn prefix_len(self) -> u8 {
        self.prefix_len
    }

    /// Binary logarithm of the number of addresses in a block.
    pub(super) fn host_bits(self) -> u8 {
        self.family.bits() - self.prefix_len
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.prefix_len)
    }
}

/// An address that is never IPv4-mapped. Every address is parsed as this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(IpAddr);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address")]
pub struct AddressError(String);

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Address {
        Address(address.to_canonical())
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> IpAddr {
        address.0
    }
}

impl From<Address> for Range {
    fn from(address: Address) -> Range {
        Range::from(address.0)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        text.parse::<IpAddr>()
            .map(Address::from)
            .map_err(|_| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the text of an address, CIDR or range contains an IPv4-mapped address.
pub fn is_written_as_mapped(text: &str) -> bool {
    let is_mapped = |text: &str| {
        text.trim()
            .parse::<Ipv6Addr>()
            .is_ok_and(|v6| v6.to_ipv4_mapped().is_some())
    };
    match text.split_once('/') {
        Some((address, _)) => is_mapped(address),
        None => text.split('-').any(is_mapped),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_cannot_be_misaligned() {
        let aligned: Block = "10.0.0.0/24".parse().unwrap();
        assert_eq!(
            "10.0.0.7/24".parse::<Block>(),
            Err(BlockError::HostBits {
                text: "10.0.0.7/24".into(),
                aligned
            })
        );
        assert_eq!(Block::lenient("10.0.0.7/24"), Ok(aligned));
        assert_eq!(Block::at(1, aligned.size()), None);
    }

    #[test]
    fn a_mapped_cidr_is_the_ipv4_cidr_that_it_embeds() {
        for length in 1..=32u8 {
            let ipv4: Block = IpNet::new_assert(Ipv4Addr::new(10, 77, 3, 201).into(), length)
                .trunc()
                .to_string()
                .parse()
                .unwrap();
            let text = format!("::ffff:{}/{}", IpNet::from(ipv4).addr(), length + 96);
            assert_eq!(text.parse::<Block>(), Ok(ipv4), "{text}");
            let unaligned = format!("::ffff:10.77.3.201/{}", length + 96);
            assert_eq!(Block::lenient(&unaligned), Ok(ipv4), "{unaligned}");
        }
        for length in 0..96u8 {
            let text = format!("::ffff:10.0.0.0/{length}");
            assert!(
                matches!(Block::lenient(&text), Err(BlockError::MappedIpv4 { .. })),
                "{text}"
            );
        }
        assert!(matches!(
            "::ffff:0:0/96".parse::<Block>(),
            Err(BlockError::Everything {
                family: Family::Ipv4,
                ..
            })
        ));
    }

    #[test]
    fn hostile_texts_are_no_blocks() {
        for text in [
            "",
            "10.0.0.0",
            "010.0.0.0/24",
            "10.0.0.0/024",
            "10.0.0.0/33",
            "::ffff:10.0.0.0/95",
            "::ffff:0.0.0.0/96",
            "::ffff:010.0.0.0/120",
            "::ffff:10.0.0.7/120",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/24 ",
            "10.1/16",
            "fd00::/129",
        ] {
            assert!(text.parse::<Block>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_of_blocks_reach_both_ends_of_the_address_space() {
        let last: Block = "ffff:ffff:ffff:ffff::/64".parse().unwrap();
        assert_eq!(
            last.range().last().to_string(),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
        );
        let half: Block = "8000::/1".parse().unwrap();
        assert!(half.contains(last) && half.overlaps(last) && !last.contains(half));
    }

    #[test]
    fn what_is_left_without_what_is_taken() {
        let block = |text: &str| text.parse::<Block>().unwrap();
        let size = BlockSize::new(Family::Ipv4, 26).unwrap();
        let left = |taken: &[&str]| {
            let taken: Vec<Range> = taken.iter().map(|text| block(text).range()).collect();
            block("10.0.0.0/23")
                .without(&taken, size)
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), ["10.0.0.0/23"]);
        assert_eq!(left(&["10.0.0.0/22"]), [""; 0]);
        assert_eq!(left(&["10.0.1.0/24"]), ["10.0.0.0/24"]);
        // A part of a block is the whole block.
        assert_eq!(
            left(&["10.0.0.65/32"]),
            ["10.0.0.0/26", "10.0.0.128/25", "10.0.1.0/24"]
        );
        assert_eq!(
            left(&["10.0.0.0/25", "10.0.1.128/27"]),
            ["10.0.0.128/25", "10.0.1.0/25", "10.0.1.192/26"]
        );
    }
}

#[cfg(test)]
mod address_tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_the_ipv4_address_that_it_embeds() {
        for text in [
            "10.0.0.1",
            "::ffff:10.0.0.1",
            "::FFFF:a00:1",
            "0:0:0:0:0:ffff:10.0.0.1",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), "10.0.0.1", "{text}");
            assert_eq!(is_written_as_mapped(text), text != "10.0.0.1", "{text}");
        }
        // IPv4-compatible addresses and NAT64 are not mapped.
        for text in ["::10.0.0.1", "64:ff9b::10.0.0.1", "::fffe:10.0.0.1"] {
            let address: Address = text.parse().unwrap();
            assert!(
                IpAddr::from(address).is_ipv6() && !is_written_as_mapped(text),
                "{text}"
            );
        }
    }

    #[test]
    fn texts_that_are_not_addresses() {
        for text in [
            "",
            "10.0.0",
            "10.0.0.1/32",
            "010.0.0.1",
            "::ffff:010.0.0.1",
            "fe80::1%eth0",
            " 10.0.0.1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
