//! `bench growth`: what reading, checking and showing files costs, from 1 KiB to 8 MiB, for many
//! shapes of input. Each size is held against the one before: what costs more for each byte than
//! there does not grow linearly.
//!
//! In this process, by its own CPU time: others on the machine do not count.

mod shapes;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use xtask::line::Line;

use self::shapes::{Shape, clusters, files};
use cilium_ipam::render::{
    Detail, diagnostics, finding_documents, findings_in_event, log_text, markdown_findings,
};
use ipam_cluster::{Extent, FileCluster, Opening, observe};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::Finding;
use ipam_desired::Desired;
use ipam_planner::check;

/// As large as a file may be.
pub const LARGEST: usize = 8 << 20;
const SMALLEST: usize = 1 << 10;
const STEP: usize = 4;
/// Below this, a step says more about caches than about growth.
const WORTH_A_LOOK_MS: f64 = 100.0;
/// How many times as much each byte may cost as at the size before. Sorting and caches take some of
/// it; what is quadratic takes 4.
const LIMIT: f64 = 2.5;

/// What a part of the program took, in milliseconds, and how many bytes it gave.
struct Taken {
    part: &'static str,
    milliseconds: f64,
    bytes: usize,
}

/// What was found so far.
#[derive(Default)]
struct Table {
    steps: usize,
    worst: f64,
    worse_than_linear: Vec<String>,
}

/// Runs it and prints its line.
pub fn run(largest: usize) -> Result<()> {
    let mut table = Table::default();
    println!(
        "{:>28} {:>8}  part ms (for each byte, against the size before) → bytes given",
        "shape", "KiB"
    );
    for shape in files() {
        table.add(&shape, largest, |text| Ok(of_file(text)))?;
    }
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let file = folder.path().join("cluster.yaml");
    for shape in clusters() {
        table.add(&shape, largest, |text| of_cluster(&file, text))?;
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
        shape: &Shape,
        largest: usize,
        measure: impl Fn(&str) -> Result<Vec<Taken>>,
    ) -> Result<()> {
        let mut before: Option<(usize, Vec<Taken>)> = None;
        let sizes = std::iter::successors(Some(SMALLEST), |size| {
            (*size < largest).then(|| largest.min(size * STEP))
        });
        for size in sizes {
            let taken = measure(&(shape.text)(size))?;
            print!("{:>28} {:>8} ", shape.name, size >> 10);
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
                    for_each_byte(*milliseconds, size) / for_each_byte(one.milliseconds, *earlier)
                });
                print!(
                    " {part} {milliseconds:.1}{} → {bytes};",
                    growth.map(|by| format!(" (×{by:.1})")).unwrap_or_default()
                );
                if let Some(by) = growth.filter(|_| *milliseconds >= WORTH_A_LOOK_MS) {
                    self.note(by, || {
                        format!(
                            "{}, {part}, {} KiB: ×{by:.1} for each byte",
                            shape.name,
                            size >> 10
                        )
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
fn for_each_byte(milliseconds: f64, size: usize) -> f64 {
    // What takes no time at all grows from something.
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
    for (part, detail) in [("human", Detail::Short), ("human --full", Detail::Full)] {
        taken.push(shown(part, || {
            log_text(&diagnostics(&findings, &documents, detail)).into_owned()
        }));
    }
    for (part, detail) in [("JSON", Detail::Short), ("JSON --full", Detail::Full)] {
        let report = || {
            serde_json::to_string(&finding_documents(&findings, &documents, detail))
                .unwrap_or_default()
        };
        taken.push(shown(part, report));
    }
    let markdown = || {
        markdown_findings(
            &finding_documents(&findings, &documents, Detail::Full).findings,
            Detail::Full,
        )
    };
    taken.push(shown("Markdown", markdown));
    taken.push(shown("news", || findings_in_event(&findings).to_string()));
    taken
}

fn checks(desired: &Desired) -> Vec<Finding> {
    let mut findings = check::files(desired);
    findings.extend(check::advice(desired));
    findings
}

/// A file that cannot be read says so, which is measured, too.
fn of_cluster(file: &Path, text: &str) -> Result<Vec<Taken>> {
    std::fs::write(file, text).context("the cluster cannot be written")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()?;
    let read = || {
        let cluster = FileCluster::open(file, Opening::Read).ok()?;
        runtime
            .block_on(observe(&cluster, Extent::Plan))
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

/// Of this process, in user space.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn cpu_ms() -> f64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return f64::NAN;
    };
    let time = usage.user_time();
    time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3
}
