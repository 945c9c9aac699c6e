//! A block: an aligned CIDR, and the size that a pool hands out.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Range;

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4, 32 bits.
    Ipv4,
    /// IPv6, 128 bits.
    Ipv6,
}

impl Family {
    /// Both families, IPv4 first, as Kubernetes lists them by default.
    pub const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

    /// Length of an address in bits.
    pub fn bits(self) -> u8 {
        match self {
            Family::Ipv4 => 32,
            Family::Ipv6 => 128,
        }
    }

    /// The family of an address.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::Ipv4,
            IpAddr::V6(_) => Family::Ipv6,
        }
    }

    /// The address with this number; bits beyond the family's length are dropped.
    pub(super) fn address(self, number: u128) -> IpAddr {
        match self {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number & 0xffff_ffff).unwrap_or(u32::MAX))),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        })
    }
}

pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// An aligned CIDR: no host bits, not `/0`, not an IPv4 address dressed as IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(IpNet);

/// Why a text is no block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Not of the form `address/length`.
    #[error("`{text}` is not a CIDR")]
    NotACidr {
        /// The text as given.
        text: String,
    },
    /// Bits are set behind the prefix.
    #[error("`{text}` has host bits set")]
    HostBits {
        /// The text as given.
        text: String,
        /// The block that contains the address.
        aligned: Block,
    },
    /// `::ffff:a.b.c.d`.
    #[error("`{text}` is an IPv4 address written as IPv6")]
    MappedIpv4 {
        /// The text as given.
        text: String,
    },
    /// The whole address space.
    #[error("`{text}` is the whole address space")]
    Everything {
        /// The text as given.
        text: String,
    },
}

impl Block {
    /// Reads a CIDR as a live object shows it, with the meaning of Go's `net.ParseCIDR`, which Kubernetes and Cilium read it
    /// with: host bits are cut off, and an IPv4 address that is dressed as IPv6 is IPv4.
    ///
    /// # Errors
    /// What Go would not read either, and the whole address space.
    pub fn lenient(text: &str) -> Result<Block, BlockError> {
        match Block::read(text) {
            Err(BlockError::HostBits { aligned, .. }) => Ok(aligned),
            Err(BlockError::MappedIpv4 { text }) => Block::unmapped(&text).ok_or(BlockError::MappedIpv4 { text }),
            other => other,
        }
    }

    fn unmapped(text: &str) -> Option<Block> {
        let net: Ipv6Net = text.parse().ok()?;
        let length = net.prefix_len().checked_sub(96).filter(|length| *length > 0)?;
        Some(Block::from(Ipv4Net::new(net.addr().to_ipv4_mapped()?, length).ok()?))
    }

    /// The block of `size` that starts at an address number which is a multiple of that size.
    pub(super) fn from_aligned(first: u128, size: BlockSize) -> Block {
        debug_assert!(Block::at(first, size).is_some(), "a block cannot be misaligned");
        let address = size.family().address(first);
        Block(IpNet::new_assert(address, size.prefix_len()))
    }

    /// The largest blocks of it that share no address with `taken`, by address; none smaller than `smallest`.
    pub fn without(self, taken: &[Range], smallest: BlockSize) -> Vec<Block> {
        let range = self.range();
        let mut touching = taken.iter().filter(|taken| taken.overlaps(&range));
        let Some(first) = touching.next() else { return vec![self] };
        if first.contains(&range) || self.prefix_len() >= smallest.prefix_len() {
            return Vec::new();
        }
        let length = self.prefix_len() + 1;
        let halves = self.0.subnets(length).into_iter().flatten().map(Block);
        halves.flat_map(|half| half.without(taken, smallest)).collect()
    }

    /// The block of `size` that starts at the given address number; `None` when it would be misaligned.
    pub(crate) fn at(first: u128, size: BlockSize) -> Option<Block> {
        let address = size.family().address(first);
        let net = IpNet::new(address, size.prefix_len()).ok()?;
        (net.network() == address).then_some(Block(net))
    }

    /// Address family.
    pub fn family(self) -> Family {
        Family::of(self.0.addr())
    }

    /// Prefix length in bits.
    pub fn prefix_len(self) -> u8 {
        self.0.prefix_len()
    }

    /// The size of this block.
    pub fn size(self) -> BlockSize {
        BlockSize { family: self.family(), prefix_len: self.prefix_len() }
    }

    /// All addresses of the block.
    pub fn range(self) -> Range {
        let first = number(self.0.network());
        let host_bits = self.family().bits() - self.prefix_len();
        let last = if host_bits == 128 { u128::MAX } else { first | ((1u128 << host_bits) - 1) };
        Range::from_numbers(self.family(), first, last)
    }

    /// Whether the two share an address.
    pub fn overlaps(self, other: Block) -> bool {
        self.range().overlaps(&other.range())
    }

    /// Whether every address of `other` is in this block.
    pub fn contains(self, other: Block) -> bool {
        self.range().contains(&other.range())
    }
}

impl FromStr for Block {
    type Err = BlockError;

    /// Numbers with leading zeros are refused, as Go's netip refuses them, with which Cilium reads: to some they are octal.
    fn from_str(text: &str) -> Result<Block, BlockError> {
        if has_leading_zeros(text) {
            return Err(BlockError::NotACidr { text: text.to_owned() });
        }
        Block::read(text)
    }
}

/// Whether an IPv4 number or the prefix length begins with a zero that it does not need.
fn has_leading_zeros(text: &str) -> bool {
    let is_padded = |number: &str| number.len() > 1 && number.starts_with('0');
    match text.split_once('/') {
        Some((address, length)) => is_padded(length) || !address.contains(':') && address.split('.').any(is_padded),
        None => false,
    }
}

impl Block {
    fn read(text: &str) -> Result<Block, BlockError> {
        let not_a_cidr = || BlockError::NotACidr { text: text.to_owned() };
        let net: IpNet = text.parse().map_err(|_| not_a_cidr())?;
        if let IpNet::V6(v6) = net
            && v6.addr().to_ipv4_mapped().is_some()
        {
            return Err(BlockError::MappedIpv4 { text: text.to_owned() });
        }
        if net.prefix_len() == 0 {
            return Err(BlockError::Everything { text: text.to_owned() });
        }
        if net.network() == net.addr() {
            Ok(Block(net))
        } else {
            Err(BlockError::HostBits { text: text.to_owned(), aligned: Block(net.trunc()) })
        }
    }
}

impl From<Block> for IpNet {
    fn from(block: Block) -> IpNet {
        block.0
    }
}

impl From<Ipv4Net> for Block {
    fn from(net: Ipv4Net) -> Block {
        Block(IpNet::V4(net.trunc()))
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The size of the blocks that a pool gives, as a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize {
    family: Family,
    prefix_len: u8,
}

/// A prefix length that its family does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("/{prefix_len} is no {family} prefix length: 1 to {} are", family.bits())]
pub struct BlockSizeError {
    family: Family,
    prefix_len: u64,
}

impl BlockSize {
    /// # Errors
    /// A prefix length of 0, or longer than an address of the family.
    pub fn new(family: Family, prefix_len: u64) -> Result<BlockSize, BlockSizeError> {
        match u8::try_from(prefix_len) {
            Ok(length) if length >= 1 && length <= family.bits() => Ok(BlockSize { family, prefix_len: length }),
            _ => Err(BlockSizeError { family, prefix_len }),
        }
    }

    /// Address family.
    pub fn family(self) -> Family {
        self.family
    }

    /// Prefix length in bits.
    pub fn prefix_len(self) -> u8 {
        self.prefix_len
    }

    /// Addresses in one block, as a power of two.
    pub(super) fn host_bits(self) -> u8 {
        self.family.bits() - self.prefix_len
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.prefix_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_cannot_be_misaligned() {
        let aligned: Block = "10.0.0.0/24".parse().unwrap();
        assert_eq!("10.0.0.7/24".parse::<Block>(), Err(BlockError::HostBits { text: "10.0.0.7/24".into(), aligned }));
        assert_eq!(Block::lenient("10.0.0.7/24"), Ok(aligned));
        assert_eq!(Block::lenient("::ffff:10.0.0.0/120"), Ok(aligned));
        assert!(Block::lenient("::ffff:10.0.0.0/90").is_err());
        assert_eq!(Block::at(1, aligned.size()), None);
    }

    #[test]
    fn hostile_texts_are_no_blocks() {
        for text in [
            "",
            "10.0.0.0",
            "010.0.0.0/24",
            "10.0.0.0/024",
            "10.0.0.0/33",
            "::ffff:10.0.0.0/120",
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
        assert_eq!(last.range().last().to_string(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        let half: Block = "8000::/1".parse().unwrap();
        assert!(half.contains(last) && half.overlaps(last) && !last.contains(half));
    }

    #[test]
    fn what_is_left_without_what_is_taken() {
        let block = |text: &str| text.parse::<Block>().unwrap();
        let size = BlockSize::new(Family::Ipv4, 26).unwrap();
        let left = |taken: &[&str]| {
            let taken: Vec<Range> = taken.iter().map(|text| block(text).range()).collect();
            block("10.0.0.0/23").without(&taken, size).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), ["10.0.0.0/23"]);
        assert_eq!(left(&["10.0.0.0/22"]), [""; 0]);
        assert_eq!(left(&["10.0.1.0/24"]), ["10.0.0.0/24"]);
        // A part of a block is the whole block.
        assert_eq!(left(&["10.0.0.65/32"]), ["10.0.0.0/26", "10.0.0.128/25", "10.0.1.0/24"]);
        assert_eq!(left(&["10.0.0.0/25", "10.0.1.128/27"]), ["10.0.0.128/25", "10.0.1.0/25", "10.0.1.192/26"]);
    }
}
