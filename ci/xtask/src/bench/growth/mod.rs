//! `bench growth`: how the cost of reading, checking, planning, showing and applying grows. Files
//! have 1 KiB to 8 MiB, in many shapes; plans have up to 100,000 nodes or 8,000 pools. Each size is
//! compared with the one before: if a byte or a node costs more, growth is worse than linear.
//!
//! It measures the CPU time of this process, so other load on the machine does not count.

mod address_pools;
mod crowds;
mod plans;
mod shapes;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use xtask::line::Line;

use self::shapes::{clusters, files};
use cilium_ipam::render::{
    Detail, PageLimit, diagnostics, finding_documents, findings_in_event, log_text,
    markdown_findings,
};
use ipam_cluster::{Extent, observe_files};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::Finding;
use ipam_desired::Desired;
use ipam_plan::check;

/// The largest file that the tool accepts, in bytes.
pub const LARGEST: usize = 8 << 20;
const SMALLEST: usize = 1 << 10;
const FEWEST_NODES: usize = 1_600;
const FEWEST_POOLS: usize = 125;
const STEP: usize = 4;
/// A shorter step says more about caches than about growth.
const WORTH_A_LOOK_MS: f64 = 100.0;
/// How many times as much a byte or a node may cost as at the size before. Sorting and caches take
/// some of it; quadratic growth takes 4.
const LIMIT: f64 = 2.5;

/// The cost of one part of the program.
struct Taken {
    part: &'static str,
    milliseconds: f64,
    /// The size of its output.
    bytes: usize,
}

/// What a size counts.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Nodes,
    Pools,
}

impl Unit {
    fn shown(self, size: usize) -> String {
        match self {
            Unit::Bytes => format!("{} KiB", size >> 10),
            Unit::Nodes => format!("{size} nodes"),
            Unit::Pools => format!("{size} pools"),
        }
    }
}

/// The steps so far.
#[derive(Default)]
struct Table {
    steps: usize,
    worst: f64,
    worse_than_linear: Vec<String>,
}

/// Measures every shape with `text` in its name, up to this size, in bytes for files, and in nodes
/// or pools for plans.
pub fn run(largest: usize, text: &str) -> Result<()> {
    let is_asked = |name: &str| name.contains(text);
    let mut table = Table::default();
    println!(
        "{:>28} {:>12}  part ms (for each byte or node, against the size before) → bytes of output",
        "shape", "size"
    );
    for shape in files().into_iter().filter(|shape| is_asked(shape.name)) {
        table.add(shape.name, Unit::Bytes, SMALLEST, largest, |size| {
            Ok(of_file(&(shape.text)(size)))
        })?;
    }
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let file = folder.path().join("cluster.yaml");
    for shape in clusters().into_iter().filter(|shape| is_asked(shape.name)) {
        table.add(shape.name, Unit::Bytes, SMALLEST, largest, |size| {
            of_cluster(&file, &(shape.text)(size))
        })?;
    }
    let file = folder.path().join("cluster.json");
    let plans = plans::shapes().into_iter().chain(crowds::shapes());
    let plans = plans.chain(address_pools::shapes());
    for shape in plans.filter(|shape| is_asked(shape.name)) {
        let smallest = match shape.unit {
            Unit::Nodes => FEWEST_NODES,
            Unit::Pools | Unit::Bytes => FEWEST_POOLS,
        };
        let largest = largest.min(shape.most);
        table.add(shape.name, shape.unit, smallest, largest, |size| {
            (shape.measure)(&file, size)
        })?;
    }
    for step in &table.worse_than_linear {
        println!("worse than linear: {step}");
    }
    Line::new("growth")
        .with("largest_kib", largest >> 10)
        .with("steps", table.steps)
        .measured("worst_step", table.worst)
        .with("limit", LIMIT)
        .required("worse_than_linear", table.worse_than_linear.len(), 0)
        .conclude()
}

impl Table {
    fn add(
        &mut self,
        name: &str,
        unit: Unit,
        smallest: usize,
        largest: usize,
        measure: impl Fn(usize) -> Result<Vec<Taken>>,
    ) -> Result<()> {
        let mut before: Option<(usize, Vec<Taken>)> = None;
        let sizes = std::iter::successors(Some(smallest.min(largest)), |size| {
            (*size < largest).then(|| largest.min(size * STEP))
        });
        for size in sizes {
            let taken = measure(size).with_context(|| format!("{name}, {}", unit.shown(size)))?;
            print!("{name:>28} {:>12} ", unit.shown(size));
            for Taken {
                part,
                milliseconds,
                bytes,
            } in &taken
            {
                let earlier = before.as_ref().and_then(|(size, parts)| {
                    Some((size, parts.iter().find(|one| one.part == *part)?))
                });
                let growth = earlier.map(|(earlier, one)| {
                    for_each(*milliseconds, size) / for_each(one.milliseconds, *earlier)
                });
                print!(
                    " {part} {milliseconds:.1}{} → {bytes};",
                    growth.map(|by| format!(" (×{by:.1})")).unwrap_or_default()
                );
                if let Some(by) = growth.filter(|_| *milliseconds >= WORTH_A_LOOK_MS) {
                    self.note(by, || {
                        format!("{name}, {part}, {}: ×{by:.1} for each", unit.shown(size))
                    });
                }
            }
            println!();
            std::io::stdout().flush()?;
            before = Some((size, taken));
        }
        Ok(())
    }

    fn note(&mut self, growth: f64, what: impl Fn() -> String) {
        self.steps += 1;
        self.worst = self.worst.max(growth);
        if growth > LIMIT {
            self.worse_than_linear.push(what());
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn for_each(milliseconds: f64, size: usize) -> f64 {
    // A lower bound: growth from no time at all would be infinite.
    milliseconds.max(0.1) / size as f64
}

fn of_file(text: &str) -> Vec<Taken> {
    let documents = Documents {
        files: vec![SourceFile {
            path: "pools/a.yaml".into(),
            text: text.into(),
        }],
    };
    let (read, (desired, mut findings)) = measured("read", || lower(&documents));
    let (checked, more) = measured("check", || checks(&desired));
    findings.extend(more);
    findings.sort();
    let mut taken = vec![read, checked];
    for (part, detail) in [("human", Detail::Short), ("human --show-all", Detail::Full)] {
        taken.push(shown(part, || {
            log_text(&diagnostics(&findings, &documents, detail)).into_owned()
        }));
    }
    for (part, detail) in [("JSON", Detail::Short), ("JSON --show-all", Detail::Full)] {
        taken.push(shown(part, || {
            json(&finding_documents(&findings, &documents, detail))
        }));
    }
    let markdown = || {
        markdown_findings(
            &finding_documents(&findings, &documents, Detail::Full).findings,
            Detail::Full,
            PageLimit::COMMENT,
        )
    };
    taken.push(shown("Markdown", markdown));
    taken.push(shown("news", || findings_in_event(&findings).to_string()));
    taken
}

fn json(document: &impl serde::Serialize) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

fn checks(desired: &Desired) -> Vec<Finding> {
    let mut findings = check::files(desired);
    findings.extend(check::advice(desired));
    findings
}

/// The cost of opening and reading a cluster file. A file that is refused is measured as well.
fn of_cluster(file: &Path, text: &str) -> Result<Vec<Taken>> {
    std::fs::write(file, text).context("the cluster cannot be written")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let read = || {
        runtime
            .block_on(observe_files(&[file], Extent::Plan, None))
            .ok()
            .map(|observed| observed.nodes.len())
    };
    let (mut taken, nodes) = measured("cluster file", read);
    taken.bytes = nodes.unwrap_or(0);
    Ok(vec![taken])
}

fn shown(part: &'static str, show: impl FnOnce() -> String) -> Taken {
    let (mut taken, text) = measured(part, show);
    taken.bytes = text.len();
    taken
}

fn measured<T>(part: &'static str, work: impl FnOnce() -> T) -> (Taken, T) {
    let before = cpu_ms();
    let result = work();
    (
        Taken {
            part,
            milliseconds: cpu_ms() - before,
            bytes: 0,
        },
        result,
    )
}

/// CPU time of this process in user space, in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn cpu_ms() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return f64::NAN;
    };
    let time = usage.user_time();
    time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3
}
