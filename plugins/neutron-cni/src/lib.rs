//! The CNI plugins `cni-ipam-neutron`, `cni-vm-nic` and `cni-unnumbered-ptp`, and the files that
//! they share with the daemon `neutron-node`. Must never know pools of `cilium-ipam`, plans, Cilium or Kubernetes.

#![forbid(unsafe_code)]

pub mod cni;
pub mod ipam;
pub mod nic;
pub mod unnumbered;
pub mod unnumbered_ptp;
pub mod vm_nic;

pub use commands::{
    Added, Collected, Leftover, NotAdded, add, check, collect_garbage, delete, outcome,
};
pub use conversions::file_error;
pub use identity::{Identity, Owner, RunId};
pub use liveness::{
    AttachmentRecord, Boot, CachedResult, Epochs, GarbageCandidates, LATEST_ANSWER, LATEST_PORT,
    Liveness, Netns, Remembered,
};
pub use settings::{
    AttachmentRequest, DaemonConfig, PairsConfig, RouteMtu, STATE_DIRECTORY, Settings, Source,
    VmInterface,
};
pub(crate) use settings::{invalid, shown};
pub use warm_pool::{
    KeptFacts, MadeFor, PoolNode, PoolPorts, PoolSize, PooledPort, Upkeep, upkeep,
};

mod commands;
mod conversions;
mod identity;
mod kernel;
mod liveness;
pub mod plugin;
mod settings;
pub mod state;
mod warm_pool;
