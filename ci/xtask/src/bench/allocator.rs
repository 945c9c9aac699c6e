//! The tool's allocator alone, in its own process: the counterpart of the Go program `cidrset`.
//! Both print the same fields.
//!
//! In both, every range is a /8 of /24 blocks. With fragmentation, every other block is taken
//! before. The caller keeps all blocks, and only the allocation is timed.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use ipam_core::alloc::{AllocationMode, Demand, Outcome, PoolId, PoolSupply, Supply, allocate};
use ipam_core::model::{PerFamily, PoolName};
use ipam_core::net::{Block, BlockSize, Family, Range, Slots};

const BLOCK_SIZE: u64 = 24;
const BLOCKS_PER_RANGE: usize = 1 << (24 - 8);

/// The timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// The lowest free block, again and again: like for like with AllocateNext.
    Slots,
    /// All of `allocate`, with a demand for each block. It gets the taken blocks as an argument.
    Allocate,
}

/// Run our allocator in this process.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What is timed.
    what: What,
    /// Number of blocks.
    #[arg(long)]
    blocks: usize,
    /// Take every other block first.
    #[arg(long)]
    fragmented: bool,
}

/// What was measured; Go's `cidrset` prints the same fields.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Number of blocks given.
    pub blocks: usize,
    /// Time for all blocks.
    pub nanoseconds: u64,
    /// Peak memory of the process.
    pub peak_rss_bytes: u64,
}

/// Runs the benchmark and prints a [`Measured`].
pub fn run(arguments: &Arguments) -> Result<()> {
    let Arguments {
        what,
        blocks,
        fragmented,
    } = *arguments;
    let free = if fragmented {
        BLOCKS_PER_RANGE / 2
    } else {
        BLOCKS_PER_RANGE
    };
    let ranges = ranges(blocks.div_ceil(free))?;
    let taken = if fragmented {
        every_other(&ranges)?
    } else {
        Vec::new()
    };
    let (given, nanoseconds) = match what {
        What::Slots => time_slots(&ranges, &taken, blocks, free)?,
        What::Allocate => time_allocate(&ranges, &taken, blocks)?,
    };
    ensure!(given == blocks, "{given} of {blocks} blocks were given");
    let measured = Measured {
        blocks,
        nanoseconds,
        peak_rss_bytes: peak_rss_bytes()?,
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn ranges(count: usize) -> Result<Vec<Block>> {
    ensure!(count < 256, "{count} ranges of /8 do not fit into IPv4");
    (1..=count)
        .map(|first| format!("{first}.0.0.0/8").parse().context("no range"))
        .collect()
}

fn every_other(ranges: &[Block]) -> Result<Vec<Range>> {
    let mut taken = Vec::new();
    for range in ranges {
        let start = match range.range().first() {
            std::net::IpAddr::V4(first) => first.to_bits(),
            std::net::IpAddr::V6(_) => unreachable!("the ranges are IPv4"),
        };
        for block in (0..1 << 16).step_by(2) {
            let first = std::net::Ipv4Addr::from_bits(start + (block << 8));
            let block: Block = format!("{first}/{BLOCK_SIZE}").parse()?;
            taken.push(block.range());
        }
    }
    Ok(taken)
}

fn time_slots(
    ranges: &[Block],
    taken: &[Range],
    blocks: usize,
    free: usize,
) -> Result<(usize, u64)> {
    let size = BlockSize::new(Family::Ipv4, BLOCK_SIZE)?;
    let mut slots = ranges
        .iter()
        .filter_map(|range| Slots::new(*range, size))
        .collect::<Vec<_>>();
    let per_range = BLOCKS_PER_RANGE / 2;
    for (slots, taken) in slots.iter_mut().zip(taken.chunks(per_range)) {
        taken.iter().for_each(|range| slots.take(range));
    }
    let mut given = Vec::with_capacity(blocks);
    let start = Instant::now();
    for index in 0..blocks {
        // Opaque, so that the search is neither merged over the blocks nor left out.
        let block = black_box(&mut slots[index / free]).take_lowest();
        given.extend(black_box(block));
    }
    let took = start.elapsed();
    Ok((black_box(&given).len(), u64::try_from(took.as_nanos())?))
}

fn time_allocate(ranges: &[Block], taken: &[Range], blocks: usize) -> Result<(usize, u64)> {
    let size = PerFamily {
        ipv4: Some(BlockSize::new(Family::Ipv4, BLOCK_SIZE)?),
        ipv6: None,
    };
    let name: PoolName = "bench".parse()?;
    let mut supply = Supply::new(vec![PoolSupply::new(
        name,
        AllocationMode::New,
        ranges,
        &size,
    )]);
    let demands = demands(&supply, blocks)?;
    let start = Instant::now();
    let allocation = allocate(
        black_box(&mut supply),
        black_box(taken),
        &[],
        black_box(&demands),
    );
    let took = start.elapsed();
    let outcomes = &black_box(&allocation).outcomes;
    let given = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Assigned(_)))
        .count();
    Ok((given, u64::try_from(took.as_nanos())?))
}

fn demands(supply: &Supply, count: usize) -> Result<Vec<Demand>> {
    let candidates: Arc<[PoolId]> = supply.pools().map(|(id, _)| id).collect();
    let demand = |index| {
        let node = xtask::node::name(index).parse()?;
        let families = vec![Family::Ipv4];
        Ok(Demand {
            node,
            required: families.clone(),
            families,
            candidates: candidates.clone(),
            kept: Vec::new(),
            apart: Vec::new(),
        })
    };
    (0..count).map(demand).collect()
}

/// The kernel's own count since this program started.
fn peak_rss_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("no /proc")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    let kibibytes: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .context("VmHWM is no number")?;
    Ok(kibibytes * 1024)
}
