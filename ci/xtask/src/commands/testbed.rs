//! `testbed`: builds or starts the real programs of the tests, to try things on.

use std::io::Read;

use anyhow::{Context, Result};
use testbed::{
    CiliumInstallation, CiliumVersion, ControlPlane, Options, Program, Programs, build,
    install_cilium, install_crds,
};
use xtask::fleet;

/// All programs of the tests, except the agents of the slow ones.
pub const PROGRAMS: [Program; 22] = [
    Program::KubeApiserver,
    Program::Etcd,
    Program::Etcdctl,
    Program::Etcdutl,
    Program::KubeControllerManager,
    Program::KubeScheduler,
    Program::HollowKubelet,
    Program::Kubelet,
    Program::KubeProxy,
    Program::Kubectl,
    Program::Containerd,
    Program::ContainerdShim,
    Program::Ctr,
    Program::Kwok,
    Program::Helm,
    Program::MetalLbController,
    Program::CiliumOperator(CiliumVersion::V1_15),
    Program::CiliumOperator(CiliumVersion::V1_19),
    Program::CiliumOperator(CiliumVersion::V1_20),
    Program::ParseNodeOracle,
    Program::NodeSettingsOracle,
    Program::CidrsetBenchmark,
];

/// Build or start the real Kubernetes and Cilium programs.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Build them into the cache; takes 15 minutes the first time.
    Build(Build),
    /// Start a control plane and keep it until Ctrl-C or the end of the input. There is no `stop`:
    /// nothing outlives this.
    Start(Start),
}

/// Which programs.
#[derive(Debug, clap::Args)]
pub struct Build {
    /// The cilium-operators of all release lines, too; 5 minutes more for each.
    #[arg(long)]
    all_operators: bool,
}

/// The content of the control plane.
#[derive(Debug, clap::Args)]
pub struct Start {
    /// Nodes with the label `rack`, a, b and c by turns, and none with a block.
    #[arg(long, value_name = "N", default_value_t = 0)]
    nodes: usize,
    /// The CRDs and settings of this release of Cilium, with `ipam: kubernetes`, and a CiliumNode
    /// for each Node; for example 1.19.3.
    #[arg(long, value_name = "RELEASE")]
    cilium: Option<String>,
}

pub fn run(verb: &Command) -> Result<()> {
    match verb {
        Command::Build(verb) => build_all(verb),
        Command::Start(start) => serve(start),
    }
}

fn build_all(verb: &Build) -> Result<()> {
    build(&PROGRAMS)?;
    if verb.all_operators {
        build(&CiliumVersion::ON_DEMAND.map(Program::CiliumOperator))?;
    }
    Ok(())
}

fn serve(start: &Start) -> Result<()> {
    let programs = build(&[Program::KubeApiserver, Program::Etcd, Program::Kubectl])?;
    let plane = ControlPlane::start(&programs, Options::default())?;
    if let Some(release) = &start.cilium {
        install_crds(&plane, release)?;
        install_cilium(
            &plane,
            &CiliumInstallation {
                version: release.clone(),
                ..CiliumInstallation::default()
            },
        )?;
        fleet::create_cilium_nodes(&plane, 0..start.nodes)?;
    }
    fleet::create_nodes(&plane, 0..start.nodes)?;
    tell(&programs, &plane)?;
    // A signal ends this process, and with it the servers: each watches a pipe from here.
    std::io::stdin()
        .lock()
        .read_to_end(&mut Vec::new())
        .context("cannot read the input")?;
    Ok(())
}

/// Only the path goes to stdout; the rest goes to stderr.
fn tell(programs: &Programs, plane: &ControlPlane) -> Result<()> {
    let kubeconfig = plane.kubeconfig().display();
    println!("{kubeconfig}");
    eprintln!(
        "{} runs until Ctrl-C. In another terminal:",
        plane.server_url()
    );
    eprintln!(
        "  {} --kubeconfig {kubeconfig} get nodes",
        programs.path(Program::Kubectl)?.display()
    );
    eprintln!("  cargo run -- plan examples/racks/pools --kubeconfig {kubeconfig}");
    Ok(())
}
