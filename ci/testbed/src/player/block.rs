//! An IPv4 block as an agent uses it. It knows nothing of who uses it.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The network itself and the node's own router.
const RESERVED: u32 = 2;

/// An IPv4 block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    first: u32,
    prefix: u8,
}

impl Block {
    /// Whether any address is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last() && other.first <= self.last()
    }

    /// Whether the address is in it.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        (self.first..=self.last()).contains(&address.to_bits())
    }

    /// The addresses for Pods, lowest first.
    pub(crate) fn addresses(self) -> impl Iterator<Item = Ipv4Addr> {
        (self.first + RESERVED..self.last()).map(Ipv4Addr::from_bits)
    }

    /// The blocks of one size in it, lowest first.
    pub(crate) fn split(self, prefix: u8) -> impl Iterator<Item = Self> {
        let size = 1_usize << (32 - u32::from(prefix));
        (self.first..=self.last())
            .step_by(size)
            .map(move |first| Self { first, prefix })
    }

    fn last(self) -> u32 {
        self.first | u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0)
    }
}

impl FromStr for Block {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an IPv4 block");
        let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
        let block = Self {
            first: address.to_bits(),
            prefix,
        };
        let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
        if prefix > 32 || block.first & host_bits != 0 {
            return Err(wrong());
        }
        Ok(block)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.first), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Block {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_overlap_when_one_is_in_the_other() {
        let wide = block("10.0.0.0/16");
        assert!(wide.overlaps(block("10.0.255.0/24")) && block("10.0.255.0/24").overlaps(wide));
        assert!(!wide.overlaps(block("10.1.0.0/24")));
        assert!(wide.contains(Ipv4Addr::new(10, 0, 255, 255)));
        assert!(!wide.contains(Ipv4Addr::new(10, 1, 0, 0)));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "fd00::/64", "10.0.0.1/24"] {
            assert!(wrong.parse::<Block>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_is_split_and_gives_addresses_from_below() {
        let parts: Vec<String> = block("10.0.0.0/24")
            .split(26)
            .map(|part| part.to_string())
            .collect();
        assert_eq!(
            parts,
            [
                "10.0.0.0/26",
                "10.0.0.64/26",
                "10.0.0.128/26",
                "10.0.0.192/26"
            ]
        );
        let addresses: Vec<Ipv4Addr> = block("10.0.0.64/29").addresses().collect();
        assert_eq!(addresses.len(), 5);
        assert_eq!(addresses[0], Ipv4Addr::new(10, 0, 0, 66));
    }
}
