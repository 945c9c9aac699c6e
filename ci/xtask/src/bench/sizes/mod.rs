//! `bench sizes`: how the time, the processor time and the memory of the commands grow with the
//! cluster. Each size has ten times the nodes of the one before: on a real API server of its own, and
//! up to one size more in a JSON file. The limit is n log n.
//!
//! Only the processor time of the tool is judged: the seconds contain the server's work.

mod picture;
mod series;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::running::Running;
use xtask::tool::Tool;
use xtask::{cluster, fleet};

use crate::file;
use crate::process::timed;
use crate::samples::Samples;
use series::{Command, Cost, Place, SMALLEST, STEP, Series};

/// The largest size on a server of the documented figure.
pub const NODES: usize = 10_000;
/// Runs of each command. On a server, `apply` and the start of `watch` are measured once for each
/// size: they need a cluster without blocks, and a free Lease.
const RUNS: usize = 3;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Also draw the processor time of each command into this SVG file.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// Measures up to this many nodes on a server, and ten times as many in a file.
pub fn run(tool: &Path, largest: usize, arguments: &Arguments) -> Result<()> {
    ensure!(largest >= SMALLEST, "`--nodes` is at least {SMALLEST}");
    let tool = Tool::new(tool)?;
    let pools = Pools::racks()?;
    let mut all = Series::of_every_command();
    for nodes in sizes(largest) {
        series::add(&mut all, Place::Server, on_a_server(&tool, &pools, nodes)?);
    }
    for nodes in sizes(largest * STEP) {
        series::add(&mut all, Place::File, in_a_file(&tool, &pools, nodes)?);
    }
    println!("{}", series::costs(&all));
    println!("Processor time for each node, against the size before:\n");
    println!("{}", series::growths(&all));
    if let Some(file) = &arguments.picture {
        std::fs::write(file, picture::svg(&all))
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    conclude(largest, &all).print();
    Ok(())
}

/// The sizes up to this one, the smallest first.
fn sizes(largest: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(SMALLEST), |size| size.checked_mul(STEP))
        .take_while(move |size| *size <= largest)
}

/// The step that comes closest to its limit, or exceeds it most.
fn conclude(largest: usize, all: &[Series]) -> Line {
    let line = Line::new("sizes")
        .with("largest", largest)
        .with("largest_in_a_file", largest * STEP);
    match series::worst(all) {
        Some(step) => line
            .at_most("worst_growth", step.growth, "limit", step.limit())
            .with("command", step.name)
            .with("nodes", step.nodes),
        None => line.with("worst_growth", "none").with("command", "none"),
    }
}

/// A cluster, and how the tool finds it.
struct Cluster<'c> {
    tool: &'c Tool,
    pools: &'c Pools,
    /// A flag and its value.
    at: [&'c OsStr; 2],
    /// A cluster in a file as it was before any `apply`, and the file itself.
    original: Option<[&'c Path; 2]>,
    nodes: usize,
}

fn on_a_server(tool: &Tool, pools: &Pools, nodes: usize) -> Result<Vec<(Command, Cost)>> {
    eprintln!("bench sizes: creating {nodes} Nodes and as many CiliumNodes");
    let plane = cluster::start()?;
    fleet::create_cilium_nodes(&plane, 0..nodes)?;
    fleet::create_nodes(&plane, 0..nodes)?;
    let cluster = Cluster {
        tool,
        pools,
        at: [OsStr::new("--kubeconfig"), plane.kubeconfig().as_os_str()],
        original: None,
        nodes,
    };
    let mut costs = cluster.costs()?;
    costs.push((Command::Watch, cluster.watch(plane.kubeconfig())?));
    Ok(costs)
}

fn in_a_file(tool: &Tool, pools: &Pools, nodes: usize) -> Result<Vec<(Command, Cost)>> {
    eprintln!("bench sizes: writing a cluster of {nodes} nodes");
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let [original, file] = ["original.json", "cluster.json"].map(|name| folder.path().join(name));
    file::write(&original, nodes)?;
    let cluster = Cluster {
        tool,
        pools,
        at: [OsStr::new("--cluster-file"), file.as_os_str()],
        original: Some([&original, &file]),
        nodes,
    };
    cluster.restore()?;
    cluster.costs()
}

impl Cluster<'_> {
    /// Of a plan for nodes without blocks, of its apply, and of an examination of what it gives.
    fn costs(&self) -> Result<Vec<(Command, Cost)>> {
        let json = ["--output", "json"];
        self.check_plan(self.nodes)?;
        let plan = self.cost("plan", &json, RUNS, || Ok(()))?;
        let applies = self.original.map_or(1, |_| RUNS);
        let apply = self.cost("apply", &["--auto-approve"], applies, || self.restore())?;
        self.check_plan(0)?;
        let whatever_it_finds = [&json[..], &["--fail-on", "never"]].concat();
        let doctor = self.cost("doctor", &whatever_it_finds, RUNS, || Ok(()))?;
        Ok(vec![
            (Command::Plan, plan),
            (Command::Doctor, doctor),
            (Command::Apply, apply),
        ])
    }

    /// Takes the blocks away again, if the cluster is in a file.
    fn restore(&self) -> Result<()> {
        if let Some([original, file]) = self.original {
            std::fs::copy(original, file).context("the cluster cannot be copied")?;
        }
        Ok(())
    }

    fn words<'w>(&'w self, verb: &'w str, flags: &[&'w str]) -> Vec<&'w OsStr> {
        let mut arguments = vec![OsStr::new(verb), self.pools.path()];
        arguments.extend(self.at);
        arguments.extend(flags.iter().map(|flag| OsStr::new(*flag)));
        arguments
    }

    /// A run that is not measured.
    fn check_plan(&self, assigns: usize) -> Result<()> {
        let plan = self.words("plan", &["--output", "json"]);
        let summary = &self.tool.json(&plan)?["summary"];
        ensure!(
            summary["assign"] == assigns && summary["blocked"] == 0,
            "not the plan that is to be measured: {summary}"
        );
        Ok(())
    }

    fn cost(
        &self,
        verb: &str,
        flags: &[&str],
        runs: usize,
        prepare: impl Fn() -> Result<()>,
    ) -> Result<Cost> {
        let arguments = self.words(verb, flags);
        let [mut seconds, mut cpu, mut rss] = <[Samples; 3]>::default();
        for _ in 0..runs {
            prepare()?;
            let run = timed(&self.tool.words(&arguments))?;
            seconds.add(run.milliseconds / 1e3);
            cpu.add(run.cpu_seconds);
            rss.add(run.peak_rss_mib);
        }
        Ok(Cost {
            nodes: self.nodes,
            seconds: seconds.median(),
            cpu_seconds: cpu.median(),
            peak_rss_mib: rss.max(),
        })
    }

    /// From its start until it has read the cluster and planned. All nodes have their blocks, so it
    /// writes nothing.
    fn watch(&self, kubeconfig: &Path) -> Result<Cost> {
        let began = Instant::now();
        let arguments = [OsStr::new("watch"), self.pools.path()];
        let watching = Running::start(self.tool, &arguments, kubeconfig)?;
        let planned = watching.until("seen", None)?;
        Ok(Cost {
            nodes: self.nodes,
            seconds: planned.saturating_duration_since(began).as_secs_f64(),
            cpu_seconds: watching.cpu_ms()? / 1e3,
            peak_rss_mib: watching.peak_rss_mib()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_is_ten_times_the_one_before() {
        assert_eq!(sizes(10_000).collect::<Vec<_>>(), [100, 1_000, 10_000]);
        assert_eq!(sizes(9_999).collect::<Vec<_>>(), [100, 1_000]);
    }
}
