//! `bench events`: the processor time that `cilium-ipam watch` needs for events, in a small and in a
//! large cluster, in each ipam mode: of one processor while they come, and of each heartbeat, which
//! leads to no plan.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use testbed::{CiliumInstallation, ControlPlane, PATIENCE, Program, build, wait_until};
use xtask::line::Line;
use xtask::pools::{Pools, pin};
use xtask::running::{Running, http_get};
use xtask::tool::Tool;
use xtask::{cluster, fleet, node};

/// The size of the documented figure.
pub const NODES: usize = 5_000;
/// The size that it is compared with.
const FEW: usize = 500;
/// Of a heartbeat, to one among few nodes.
const RATIO_LIMIT: f64 = 2.0;
/// Of one processor, while events come as fast as nodes get their blocks.
const SHARE_LIMIT: f64 = 0.5;
/// Events of each kind.
const EVENTS: usize = 200;
const HEARTBEAT: &str = "heartbeat";
const OPERATOR: &str = "/apis/apps/v1/namespaces/kube-system/deployments/cilium-operator";
/// The pools of the racks in ipam `multi-pool`, and what makes them the default of their nodes.
const OBJECTS: usize = 2 * node::RACKS.len();
/// Longer than anything here takes, so that only events lead to plans.
const INTERVAL: &str = "3h";

/// The modes, and whether nodes get a block from us.
const MODES: [(&str, Blocks); 3] = [
    ("kubernetes", Blocks::Written),
    ("cluster-pool", Blocks::Written),
    ("multi-pool", Blocks::LeftToCilium),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    Written,
    LeftToCilium,
}

struct Measured {
    events: Vec<(&'static str, Cost)>,
    peak_rss_mib: f64,
}

/// Processor time for events of one kind.
struct Cost {
    /// Milliseconds for each.
    cpu_ms: f64,
    /// Of one processor, until the last of them was done.
    share: f64,
}

pub fn run(tool: &Path, nodes: usize) -> Result<()> {
    let tool = Tool::new(tool)?;
    for (ipam, blocks) in MODES {
        let few = measure(&tool, (ipam, blocks), FEW.min(nodes))?;
        let many = measure(&tool, (ipam, blocks), nodes)?;
        for ((event, many), (_, few)) in many.events.iter().zip(&few.events) {
            let line = Line::new("events")
                .with("nodes", nodes)
                .with("ipam", ipam)
                .with("event", event);
            let line = match *event {
                HEARTBEAT => line.at_most("ratio", many.cpu_ms / few.cpu_ms, "limit", RATIO_LIMIT),
                _ => line.at_most("share", many.share, "limit", SHARE_LIMIT),
            };
            line.measured("cpu_ms", many.cpu_ms)
                .measured("cpu_ms_in_500", few.cpu_ms)
                .print();
        }
        println!("{ipam}: at most {:.0} MiB", many.peak_rss_mib);
    }
    Ok(())
}

fn start(ipam: &str) -> Result<ControlPlane> {
    let programs = build(&[Program::KubeApiserver, Program::Etcd])?;
    let config = [
        ("cluster-pool-ipv4-cidr", "10.0.0.0/8"),
        ("cluster-pool-ipv4-mask-size", "26"),
    ];
    let cilium = CiliumInstallation {
        ipam: ipam.to_owned(),
        config: config
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..CiliumInstallation::default()
    };
    let plane = cluster::start_as(&programs, cluster::options(), &cilium)?;
    if ipam == "cluster-pool" {
        plane.patch(OPERATOR, &json!({"spec": {"replicas": 0}}))?;
    }
    Ok(plane)
}

/// The pools of the racks, and a pin for each of these nodes.
fn pools(pinned: std::ops::Range<usize>, ipam: &str) -> Result<Pools> {
    let mut documents = Pools::rack_documents();
    if ipam != "multi-pool" {
        for (place, index) in pinned.enumerate() {
            let block = format!("10.191.{}.{}/26", place / 4, place % 4 * 64);
            write!(documents, "{}", pin(&node::name(index), &block))?;
        }
    }
    Pools::of(&documents)
}

/// A cluster with a running `watch`.
struct Watched {
    plane: ControlPlane,
    watching: Running,
    address: String,
    blocks: Blocks,
    /// Number of nodes that exist.
    nodes: usize,
    /// The next one to create.
    next: usize,
}

impl Watched {
    /// Creates nodes one after the other.
    fn join(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let index = self.next;
            self.plane.create(node::NODES, &node::node(index))?;
            self.next += 1;
            self.nodes += 1;
            if self.blocks == Blocks::Written {
                self.watching.until("written", Some(&node::name(index)))?;
            }
        }
        self.settle()
    }

    /// Waits until all nodes that exist are counted.
    fn settle(&self) -> Result<()> {
        let expected = format!("\ncilium_ipam_nodes {}.0\n", self.nodes);
        let is_counted = || {
            let metrics = http_get(&self.address, "/metrics").unwrap_or_default();
            Ok(metrics.contains(&expected).then_some(()))
        };
        wait_until("all nodes to be counted", PATIENCE, is_counted).context("events get lost")
    }

    /// Of `count` events that `happen` makes. A node joins at the end: when it is counted, all events
    /// before it are done.
    fn cost(&mut self, count: usize, happen: impl FnOnce(&mut Self) -> Result<()>) -> Result<Cost> {
        let (before, began) = (self.watching.cpu_ms()?, Instant::now());
        happen(self)?;
        self.join(1)?;
        let cpu_ms = self.watching.cpu_ms()? - before;
        Ok(Cost {
            cpu_ms: cpu_ms / f64::from(u32::try_from(count).unwrap_or(u32::MAX)),
            share: cpu_ms / (began.elapsed().as_secs_f64() * 1e3),
        })
    }
}

fn measure(tool: &Tool, (ipam, blocks): (&str, Blocks), nodes: usize) -> Result<Measured> {
    let plane = start(ipam)?;
    eprintln!("bench events: {ipam}, creating {nodes} Nodes");
    fleet::create_nodes(&plane, 0..nodes)?;
    // After the joins without a pin.
    let pinned = nodes + 2 + EVENTS;
    let pools = pools(pinned..pinned + EVENTS, ipam)?;
    let arguments = ["watch", "--listen", "127.0.0.1:0", "--interval", INTERVAL].map(OsStr::new);
    let watching = Running::start(
        tool,
        &[&arguments[..], &[pools.path()]].concat(),
        plane.kubeconfig(),
    )?;
    let address = watching.address()?;
    let mut watched = Watched {
        plane,
        watching,
        address,
        blocks,
        nodes,
        next: nodes,
    };
    let writes = match blocks {
        Blocks::Written => nodes,
        Blocks::LeftToCilium => OBJECTS,
    };
    for _ in 0..writes {
        watched.watching.until("written", None)?;
    }
    // The plans after the first writes.
    watched.join(1)?;
    watched.join(1)?;
    let mut events = vec![(
        "join",
        watched.cost(EVENTS, |watched| watched.join(EVENTS - 1))?,
    )];
    if ipam != "multi-pool" {
        events.push((
            "pinned_join",
            watched.cost(EVENTS, |watched| watched.join(EVENTS - 1))?,
        ));
    }
    let beats = nodes / 2;
    events.push((
        HEARTBEAT,
        watched.cost(beats, |watched| {
            Ok(fleet::heartbeat(&watched.plane, 0..beats, 1)?)
        })?,
    ));
    events.push(("label", watched.cost(EVENTS, relabel)?));
    events.push(("deletion", watched.cost(EVENTS, delete)?));
    let peak_rss_mib = watched.watching.peak_rss_mib()?;
    Ok(Measured {
        events,
        peak_rss_mib,
    })
}

/// Moves nodes to another rack, whose pool did not give them their block.
fn relabel(watched: &mut Watched) -> Result<()> {
    for index in 0..EVENTS {
        let rack = node::RACKS[(index + 1) % node::RACKS.len()];
        let labels = json!({"metadata": {"labels": {"rack": rack}}});
        watched.plane.patch(&node::path(index), &labels)?;
    }
    Ok(())
}

fn delete(watched: &mut Watched) -> Result<()> {
    for index in EVENTS..2 * EVENTS {
        watched.plane.delete(&node::path(index))?;
        watched.nodes -= 1;
    }
    Ok(())
}
