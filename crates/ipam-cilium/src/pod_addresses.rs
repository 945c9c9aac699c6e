//! How many Pods of a node get an address of its block, in ipam `kubernetes` and `cluster-pool`.

use ipam_core::net::{BlockSize, Family};

/// Host bits of an IPv6 block from which the agent uses no more addresses (`RangeSize` in
/// `pkg/ipam/service/ipallocator` @ 1.20).
const USED_BITS: u32 = 16;

/// The first and the last address of the block, which the agent never assigns, and that of its
/// router. The health endpoint and Cilium's ingress may take one more each.
const RESERVED: u64 = 3;

/// The most addresses that Pods of a node with a block of this size can have.
pub fn pod_addresses(size: BlockSize) -> u64 {
    let host_bits = u32::from(size.family().bits() - size.prefix_len());
    let used_bits = match size.family() {
        Family::Ipv4 => host_bits,
        Family::Ipv6 => host_bits.min(USED_BITS),
    };
    (1_u64 << used_bits).saturating_sub(RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_block() {
        for (family, length, expected) in [
            (Family::Ipv4, 24, 253),
            (Family::Ipv4, 23, 509),
            (Family::Ipv4, 31, 0),
            (Family::Ipv4, 8, 16_777_213),
            (Family::Ipv6, 120, 253),
            (Family::Ipv6, 64, 65_533),
        ] {
            let size = BlockSize::new(family, length).unwrap();
            assert_eq!(pod_addresses(size), expected, "{size}");
        }
    }
}
