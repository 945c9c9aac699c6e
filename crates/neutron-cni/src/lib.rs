//! The programs that run on nodes: the CNI plugins `cni-ipam-neutron` and `cni-vm-nic`. Which port belongs to which interface of which container, and what is
//! done at Neutron for it. Knows nothing of pools or plans.
#![forbid(unsafe_code)]

pub mod cni;
pub mod ipam;
pub mod nic;
pub mod vm_nic;

mod commands;
mod conversions;
mod identity;
mod liveness;
pub mod plugin;
mod settings;
pub mod state;
mod warm_pool;

pub use commands::{
    Added, Collected, Left, NotAdded, add, check, collect_garbage, delete, outcome,
};
pub use conversions::file_error;
pub use identity::{Identity, Owner, RunId};
pub use liveness::{
    AttachmentRecord, Boot, Epochs, GarbageCandidates, Liveness, Netns, Remembered,
};
pub use settings::{
    AttachmentRequest, DaemonConfig, GuardedInterface, PairsConfig, RouteMtu, STATE_DIRECTORY,
    Settings, Source,
};
pub(crate) use settings::{invalid, shown};
pub use warm_pool::{KeptFacts, MadeFor, PoolPorts, PoolSize, PooledPort, Upkeep, upkeep};
