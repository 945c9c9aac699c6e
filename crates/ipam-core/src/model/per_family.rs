//! One optional value for each address family.

use crate::net::{Block, Family};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerFamily<T> {
    pub ipv4: Option<T>,
    pub ipv6: Option<T>,
}

impl<T> PerFamily<T> {
    /// Neither family has a value.
    pub const NONE: PerFamily<T> = PerFamily {
        ipv4: None,
        ipv6: None,
    };

    pub fn get(&self, family: Family) -> Option<&T> {
        match family {
            Family::Ipv4 => self.ipv4.as_ref(),
            Family::Ipv6 => self.ipv6.as_ref(),
        }
    }

    pub fn get_mut(&mut self, family: Family) -> &mut Option<T> {
        match family {
            Family::Ipv4 => &mut self.ipv4,
            Family::Ipv6 => &mut self.ipv6,
        }
    }

    /// The present values, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.ipv4.iter().chain(&self.ipv6)
    }

    /// The families that have a value.
    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        Family::BOTH
            .into_iter()
            .filter(|family| self.get(*family).is_some())
    }

    /// Whether neither family has a value.
    pub fn is_empty(&self) -> bool {
        self.ipv4.is_none() && self.ipv6.is_none()
    }
}

impl<T> Default for PerFamily<T> {
    fn default() -> PerFamily<T> {
        PerFamily::NONE
    }
}

impl PerFamily<Block> {
    /// Sets the value of the block's family, unless it is set already.
    pub fn offer(&mut self, block: Block) {
        self.get_mut(block.family()).get_or_insert(block);
    }
}

impl FromIterator<Block> for PerFamily<Block> {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> PerFamily<Block> {
        let mut all = PerFamily::NONE;
        blocks.into_iter().for_each(|block| all.offer(block));
        all
    }
}
