//! `bench alloc`: the tool's allocator against `cidrset` of kube-controller-manager, in Go.

use std::process::Command;

use anyhow::{Context, Result, bail};
use testbed::{Program, Programs, build};
use xtask::line::Line;

use crate::allocator::Measured;
use crate::process::this;
use crate::samples::Samples;

/// The size of the documented figure.
pub const BLOCKS: usize = 1_000_000;
const RATIO_LIMIT: f64 = 10.0;
/// Runs of each, alternating.
const RUNS: usize = 7;

/// One way of measuring, and what came of it.
struct Peer {
    name: &'static str,
    milliseconds: Samples,
    rss_mib: Samples,
}

impl Peer {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            milliseconds: Samples::default(),
            rss_mib: Samples::default(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn measure(&mut self, command: &mut Command) -> Result<()> {
        let measured = measured(command)?;
        self.milliseconds.add(measured.nanoseconds as f64 / 1e6);
        self.rss_mib
            .add(measured.peak_rss_bytes as f64 / 1_048_576.0);
        Ok(())
    }

    /// How many times the other's time is this one's.
    fn faster_than(&self, other: &Peer) -> f64 {
        other.milliseconds.median() / self.milliseconds.median()
    }

    fn describe(&self, layout: &str) {
        let Self {
            name,
            milliseconds,
            rss_mib,
        } = self;
        println!(
            "{name}, {layout}, ms: {}; peak RSS {:.1} MiB",
            milliseconds.spread(),
            rss_mib.max()
        );
    }
}

/// The three that are compared on one layout of the ranges.
struct Comparison {
    cidrset: Peer,
    slots: Peer,
    allocate: Peer,
}

pub fn run(blocks: usize) -> Result<()> {
    let programs = build(&[Program::CidrsetBenchmark])?;
    let plain = compare(&programs, blocks, None)?;
    let fragmented = compare(&programs, blocks, Some("fragmented"))?;
    let rss = [&plain, &fragmented]
        .map(|c| c.slots.rss_mib.max())
        .into_iter()
        .fold(0.0, f64::max);
    let cidrset_rss = [&plain, &fragmented]
        .map(|c| c.cidrset.rss_mib.max())
        .into_iter()
        .fold(0.0, f64::max);
    Line::new("alloc")
        .with("blocks", blocks)
        .at_least(
            "slots_ratio",
            plain.slots.faster_than(&plain.cidrset),
            "limit",
            RATIO_LIMIT,
        )
        .at_least(
            "fragmented_slots_ratio",
            fragmented.slots.faster_than(&fragmented.cidrset),
            "limit",
            RATIO_LIMIT,
        )
        .measured("allocate_ratio", plain.allocate.faster_than(&plain.cidrset))
        .measured(
            "fragmented_allocate_ratio",
            fragmented.allocate.faster_than(&fragmented.cidrset),
        )
        .measured("cidrset_ms", plain.cidrset.milliseconds.median())
        .measured("slots_ms", plain.slots.milliseconds.median())
        .measured("allocate_ms", plain.allocate.milliseconds.median())
        .measured("peak_rss_mib", rss)
        .measured("cidrset_rss_mib", cidrset_rss)
        .print();
    Ok(())
}

fn compare(programs: &Programs, blocks: usize, layout: Option<&str>) -> Result<Comparison> {
    let [cidrset, slots, allocate] = ["cidrset", "slots", "allocate"].map(Peer::new);
    let mut comparison = Comparison {
        cidrset,
        slots,
        allocate,
    };
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let blocks = blocks.to_string();
    for _ in 0..RUNS {
        let mut go = programs.command(Program::CidrsetBenchmark, folder.path())?;
        let flag = layout.map(|layout| format!("-{layout}"));
        comparison
            .cidrset
            .measure(go.args(["-blocks", &blocks]).args(flag))?;
        for peer in [&mut comparison.slots, &mut comparison.allocate] {
            let flag = layout.map(|layout| format!("--{layout}"));
            peer.measure(
                this("allocator")?
                    .args([peer.name, "--blocks", &blocks])
                    .args(flag),
            )?;
        }
    }
    for peer in [&comparison.cidrset, &comparison.slots, &comparison.allocate] {
        peer.describe(layout.unwrap_or("plain"));
    }
    Ok(comparison)
}

fn measured(command: &mut Command) -> Result<Measured> {
    let output = command.output().context("a benchmark does not start")?;
    if !output.status.success() {
        bail!(
            "a benchmark failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("cannot read what a benchmark says")
}
