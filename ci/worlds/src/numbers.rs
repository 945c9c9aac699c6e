//! Numbers of blocks: the same number is a block of each family. It knows no nodes.

use std::ops::Range;

use ipam_core::net::Block;

/// The number of a block.
pub type Number = u8;

/// Blocks of pool `a`.
pub(crate) const POOL_A: Range<Number> = 0..8;
/// Blocks of pool `b` while it is small; it goes on up to [`FALLBACK`].
pub(crate) const POOL_B: Range<Number> = 8..16;
/// Blocks of pool `fallback`.
pub const FALLBACK: Range<Number> = 72..76;
/// One that reaches over two of pool `a`.
pub(crate) const WIDE: Number = 76;
/// A block that contains all pools.
pub const AROUND: Number = 77;
/// The CIDR of pool `b` while it is large. It has 64 blocks. A field that no agent reads keeps only
/// the first ones free.
pub const WHOLE_B: Number = 78;
/// One in no pool.
pub(crate) const OUTSIDE: Number = 79;
/// Added to a number, it is the first half of that block in IPv4.
pub(crate) const HALF: Number = 128;

/// The IPv4 block.
#[must_use]
pub fn ipv4(number: Number) -> String {
    let length = if number < HALF { 26 } else { 27 };
    let within =
        |first: u8, index: u8| format!("10.{first}.{}.{}/{length}", index / 4, index % 4 * 64);
    match number % HALF {
        WIDE => "10.0.0.0/25".to_owned(),
        AROUND => "10.0.0.0/15".to_owned(),
        WHOLE_B => "10.1.0.0/20".to_owned(),
        OUTSIDE => "10.0.2.0/26".to_owned(),
        number if POOL_A.contains(&number) => within(0, number),
        number if number < FALLBACK.start => within(1, number - POOL_B.start),
        number => format!("10.0.8.{}/26", (number - FALLBACK.start) * 64),
    }
}

/// The IPv6 block.
#[must_use]
pub(crate) fn ipv6(number: Number) -> String {
    let subnet = match number % HALF {
        WIDE => return "fd00::/63".to_owned(),
        AROUND => return "fd00::/55".to_owned(),
        WHOLE_B => return "fd00:0:0:100::/58".to_owned(),
        OUTSIDE => 9,
        number if POOL_A.contains(&number) => u16::from(number),
        number if number < FALLBACK.start => 0x100 + u16::from(number - POOL_B.start),
        number => 0x20 + u16::from(number - FALLBACK.start),
    };
    format!("fd00:0:0:{subnet:x}::/64")
}

/// The IPv4 block and the IPv6 block.
#[must_use]
pub(crate) fn block_of(number: Number) -> [Block; 2] {
    [ipv4(number), ipv6(number)].map(|text| text.parse().expect("a block"))
}

/// Whether a block is [`AROUND`] or [`WHOLE_B`]. If no agent reads the field that shows so wide a
/// range, only the first blocks of the range are kept free, so overlaps with it do not count.
#[must_use]
pub fn is_widest(block: Block) -> bool {
    let widest = [AROUND, WHOLE_B].map(block_of);
    widest.as_flattened().contains(&block)
}

/// The number of an IPv4 block of a pool.
pub(crate) fn number_of(block: Block) -> Option<Number> {
    (0..FALLBACK.end).find(|number| block_of(*number)[0] == block)
}
