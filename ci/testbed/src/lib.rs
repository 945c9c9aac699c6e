//! Real Kubernetes and Cilium programs for the tests: built from their own sources,
//! started on loopback, stopped when their guard is dropped.
//!
//! Nothing here is a mock, and nothing here may reach a cluster of the person who runs
//! the tests: children get no `KUBECONFIG` and a home of their own, and this crate reads
//! neither. It knows nothing of cilium-ipam itself.
#![forbid(unsafe_code)]

mod agent_kubelets;
pub mod agent_nodes;
pub mod agent_vm;
mod browser;
mod certificates;
mod cilium;
mod clang;
mod client;
mod container_node;
mod control_plane;
mod debian;
mod error;
mod etcd_keys;
mod etcdctl;
mod faults;
mod folder;
mod gitea;
mod gitea_runner;
mod golang;
mod guest;
mod hollow;
mod kubeconfig;
mod kwok;
mod loopback_relay;
mod metallb;
mod netns;
pub mod openstack;
mod operator;
mod oracle;
mod ping;
mod player;
mod process;
mod programs;
mod prometheus;
mod racks;
mod random;
mod registry;
mod relay;
mod routers;
mod scheduler;
mod settled;
mod skip;
mod snapshot;
mod tls;
pub mod usage;
mod vm;
mod wait;

pub use agent_kubelets::AgentKubelets;
pub use browser::{Browser, ColourScheme};
pub use cilium::{CiliumInstallation, install_cilium, install_crds};
pub use client::Client;
pub use container_node::{ContainerNode, Output};
pub use control_plane::{BorrowedControlPlane, ControlPlane, Options, User};
pub use debian::{debian, debian_file, library_folders, nft};
pub use error::{Error, Result};
pub use faults::{Fault, Faults, Seen};
pub use gitea::Gitea;
pub use gitea_runner::GiteaRunner;
pub use guest::{Answer, Guest, Initramfs, Setup};
pub use hollow::{HollowKubelets, HollowNode};
pub use kwok::Kubelets;
pub use loopback_relay::LoopbackRelay;
pub use metallb::MetalLb;
pub use netns::within;
pub use openstack::OpenStack;
pub use operator::{ControllerManager, Operator};
pub use oracle::{AnnotateK8sNode, PodCidrs, agent_settings, parse_node};
pub use ping::Pings;
pub use player::{AgentPlayers, Block, BlockUse, Fault as AgentFault, PlayedIpam};
pub use process::Ending;
pub use programs::{CiliumVersion, CniPlugin, Program, Programs, build, find};
pub use prometheus::Prometheus;
pub use racks::{FlatBlocks, KubeletKind, RackCluster, RackKubelets, RackOptions};
pub use random::{Random, fresh_seed};
pub use registry::Registry;
pub use routers::exchange;
pub use scheduler::Scheduler;
pub use settled::Marks;
pub use skip::{SKIPS_VARIABLE, skip};
pub use snapshot::{Revision, Snapshot};
pub use tls::TlsFront;
pub use wait::{PATIENCE, wait_until};
