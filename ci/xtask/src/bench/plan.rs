//! `bench plan`: a whole `cilium-ipam plan` on a real API server, from the start of the process to
//! its end, against the raw paged LIST of the same objects.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Result, ensure};
use testbed::ControlPlane;
use xtask::line::Line;
use xtask::pools::Pools;
use xtask::tool::Tool;
use xtask::{cluster, fleet};

use crate::pairs::Pairs;
use crate::process::timed;
use crate::raw;
use crate::samples::Samples;

/// The size of the documented figure.
pub const NODES: usize = 5_000;
const RATIO_LIMIT: f64 = 0.6;
const RSS_LIMIT_MIB: f64 = 40.0;

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    let plane = cluster::start()?;
    eprintln!("bench plan: creating {nodes} Nodes and as many CiliumNodes");
    fleet::create_cilium_nodes(&plane, 0..nodes)?;
    fleet::create_nodes(&plane, 0..nodes)?;
    let pools = Pools::racks()?;
    measure(&tool, &plane, &pools, nodes)
}

fn measure(tool: &Tool, plane: &ControlPlane, pools: &Pools, nodes: usize) -> Result<()> {
    let [plan, kubeconfig, output, json] =
        ["plan", "--kubeconfig", "--output", "json"].map(OsStr::new);
    let arguments = [
        plan,
        pools.path(),
        kubeconfig,
        plane.kubeconfig().as_os_str(),
        output,
        json,
    ];
    // The runs that do not count.
    let summary = &tool.json(&arguments)?["summary"];
    ensure!(
        summary["assign"] == nodes && summary["blocked"] == 0,
        "not the plan that is to be measured: {summary}"
    );
    let bytes = raw::list(plane.client())?.bytes;

    let mut rss = Samples::default();
    let pairs = Pairs::measure(
        || {
            let run = timed(&tool.words(&arguments))?;
            rss.add(run.peak_rss_mib);
            Ok(run.milliseconds)
        },
        || Ok(raw::list(plane.client())?.milliseconds),
    )?;
    println!(
        "raw LIST of {} KiB, warm connection, ms: {}",
        bytes / 1024,
        pairs.theirs.spread()
    );
    println!(
        "plan --output json, whole process, ms: {}",
        pairs.ours.spread()
    );
    let line = Line::new("plan").with("nodes", nodes);
    pairs
        .at_most(line, "ratio", RATIO_LIMIT)
        .measured("raw_list_ms", pairs.theirs.median())
        .measured("plan_ms", pairs.ours.median())
        .at_most("peak_rss_mib", rss.max(), "rss_limit_mib", RSS_LIMIT_MIB)
        .print();
    Ok(())
}
