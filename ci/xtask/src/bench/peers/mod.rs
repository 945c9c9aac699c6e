//! `bench peers`: the programs that give nodes their blocks, on fresh nodes of one API server, and
//! the programs that show what would change. A row for each, with the command that was measured.

mod contender;
mod differ;
mod fresh;
mod tofu;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use testbed::{CiliumVersion, Program, build};
use xtask::line::Line;
use xtask::tool::Tool;
use xtask::{cluster, objects};

use crate::pairs::{PAIRS, Pairs};
use crate::samples::Samples;
use contender::Contender;
use differ::Differ;
use fresh::{Figures, Stage};
use tofu::Tofu;

/// The size of the documented figure.
pub const NODES: usize = 2_000;
/// Away from the range of Services and the nodes' own addresses.
const RANGE: &str = "10.0.0.0/11";
const BLOCK_SIZE: u8 = 24;
/// Blocks of this size in the range.
const BLOCKS: usize = 8_192;

/// How often the nodes are created while no program gives them blocks.
const CREATIONS: usize = 3;

/// Programs that the testbed cannot build, because no proxy has their modules.
#[derive(Debug, Default, clap::Args)]
pub struct Arguments {
    /// A node-ipam-controller of kubernetes-sigs, built from its sources.
    #[arg(long, value_name = "FILE")]
    node_ipam_controller: Option<PathBuf>,
    /// A kapp, built from its sources.
    #[arg(long, value_name = "FILE")]
    kapp: Option<PathBuf>,
    /// An OpenTofu, built from its sources. Needs `--tofu-provider`.
    #[arg(long, value_name = "FILE", requires = "tofu_provider")]
    tofu: Option<PathBuf>,
    /// Its provider for Kubernetes: a file `terraform-provider-kubernetes_vX.Y.Z`.
    #[arg(long, value_name = "FILE", requires = "tofu")]
    tofu_provider: Option<PathBuf>,
}

impl Arguments {
    fn tofu(&self) -> Option<Tofu> {
        let (program, provider) = self.tofu.clone().zip(self.tofu_provider.clone())?;
        Some(Tofu { program, provider })
    }
}

pub fn run(tool: &Path, nodes: usize, arguments: &Arguments) -> Result<()> {
    ensure!(
        nodes <= BLOCKS,
        "{RANGE} has {BLOCKS} blocks: --nodes must be at most {BLOCKS}"
    );
    let tool = Tool::new(tool)?;
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::Kubectl,
        Program::KubeControllerManager,
        Program::CiliumOperator(CiliumVersion::V1_19),
    ])?;
    let plane = cluster::start_with(&programs, cluster::options())?;
    objects::install_definitions(&tool, &plane)?;
    let pool = objects::pool("all", &[RANGE], BLOCK_SIZE);
    plane.create(objects::IP_POOLS, &pool)?;
    let stage = Stage {
        tool: &tool,
        programs: &programs,
        plane: &plane,
        nodes,
    };
    let [ours, theirs] = fresh_nodes(&stage, arguments)?;
    differences(&stage, arguments)?;
    conclude(nodes, &ours, &theirs);
    Ok(())
}

/// Those that are done within seconds by turns, in pairs; the others once. Returns the figures of the
/// former.
fn fresh_nodes(stage: &Stage<'_>, arguments: &Arguments) -> Result<[Vec<Figures>; 2]> {
    let quick = [Contender::Operator, Contender::ControllerManagerUnlimited];
    let mut of_quick: [Vec<Figures>; 2] = Default::default();
    let mut creation = Samples::default();
    for round in 0..PAIRS {
        if round < CREATIONS {
            creation.add(stage.create_alone(&quick[0])?);
        }
        for turn in 0..quick.len() {
            let index = (round + turn) % quick.len();
            of_quick[index].push(stage.serve(&quick[index])?);
        }
    }
    let mut slow = vec![Contender::ControllerManager, Contender::CiliumOperator];
    let given = arguments.node_ipam_controller.clone();
    slow.extend(given.map(Contender::NodeIpamController));
    println!(
        "| program | command | nodes | seconds | writes | its CPU, s | the server's CPU, s | peak memory, MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    println!(
        "| none: the nodes are only created | | {} | {} | | | | |",
        stage.nodes,
        creation.spread()
    );
    for (contender, figures) in quick.iter().zip(&of_quick) {
        println!("{}", row(contender, figures));
    }
    for contender in &slow {
        println!("{}", row(contender, &[stage.serve(contender)?]));
    }
    if arguments.node_ipam_controller.is_none() {
        eprintln!("bench peers: left out: node-ipam-controller; `--node-ipam-controller FILE`");
    }
    Ok(of_quick)
}

fn samples(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> Samples {
    let mut samples = Samples::default();
    figures.iter().for_each(|one| samples.add(of(one)));
    samples
}

fn row(contender: &Contender, figures: &[Figures]) -> String {
    let median = |of: &dyn Fn(&Figures) -> f64| samples(figures, of).median();
    let served = figures.iter().map(|one| one.served).min().unwrap_or(0);
    let seconds = match figures.len() {
        1 => format!("{:.1}", median(&|one| one.seconds)),
        _ => samples(figures, |one| one.seconds).spread(),
    };
    format!(
        "| {} | `{}` | {served} | {seconds} | {:.0} | {:.1} | {:.1} | {:.0} |",
        contender.name(),
        contender.shown(),
        median(&|one| one.writes),
        median(&|one| one.cpu_seconds),
        median(&|one| one.server_cpu_seconds),
        samples(figures, |one| one.peak_rss_mib).max(),
    )
}

fn conclude(nodes: usize, ours: &[Figures], theirs: &[Figures]) {
    let mut pairs = Pairs::default();
    for (ours, theirs) in ours.iter().zip(theirs) {
        pairs.add(ours.seconds, theirs.seconds);
    }
    println!(
        "seconds of the operator in those of kube-controller-manager with its limits lifted: {}",
        pairs.spread()
    );
    let line = Line::new("peers").with("nodes", nodes);
    pairs.at_most(line, "ratio", 1.0).print();
}

/// What shows the difference between files and the cluster, for as many objects as each can do in
/// seconds.
fn differences(stage: &Stage<'_>, arguments: &Arguments) -> Result<()> {
    println!("| program | command | objects | seconds | for each 1,000 objects, s |");
    println!("|---|---|---|---|---|");
    let differs = [Differ::Tool, Differ::Kubectl]
        .into_iter()
        .chain(arguments.kapp.clone().map(Differ::Kapp))
        .chain(arguments.tofu().map(Differ::Tofu));
    for differ in differs {
        println!("{}", differ.row(stage)?);
    }
    if arguments.kapp.is_none() {
        eprintln!("bench peers: left out: kapp; `--kapp FILE`");
    }
    if arguments.tofu.is_none() {
        eprintln!("bench peers: left out: OpenTofu; `--tofu FILE --tofu-provider FILE`");
    }
    Ok(())
}
