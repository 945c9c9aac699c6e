//! Where a network of this node keeps its files, which of them are locks, and by what name Neutron
//! knows the node.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cni::{CniError, ErrorCode};
use crate::conversions::file_error;
use crate::state::{AttachmentRecords, Pool};
use crate::{Identity, Settings};
use private_files::{self, Locked, kept, node_name, state_folder};

/// Keeps the name of the node.
const NODE_FILE: &str = "node.json";

/// The files of one network.
pub struct NodeState {
    state: PathBuf,
    network_name: String,
    /// What the node is called now.
    named: String,
    /// What its ports call it.
    pub node: String,
}

impl NodeState {
    pub fn of(settings: &Settings) -> Result<NodeState, CniError> {
        let with_cluster = |node: String| {
            settings
                .cluster
                .as_ref()
                .map_or(node.clone(), |cluster| format!("{cluster}/{node}"))
        };
        // Ports were made by the name that the node had first.
        let first: Option<String> = kept::read(&settings.state.join(NODE_FILE));
        let named = match (&settings.node, &first) {
            (Some(node), _) => with_cluster(node.clone()),
            (None, None) => with_cluster(node_name()?),
            // What tells the machine may not be seen from within a container.
            (None, Some(first)) => node_name().map_or_else(|_| first.clone(), with_cluster),
        };
        let node = first.unwrap_or_else(|| named.clone());
        Ok(NodeState {
            state: settings.state.clone(),
            network_name: settings.network_name.clone(),
            named,
            node,
        })
    }

    /// What all ports of this network on this node are called.
    pub fn port_name(&self) -> String {
        Identity::name_of(&self.node, &self.network_name)
    }

    /// Where it keeps what it keeps.
    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn pool(&self) -> Pool {
        Pool::of(&self.state, &self.network_name)
    }

    pub fn attachment_records(&self) -> AttachmentRecords {
        AttachmentRecords::of(&self.state, &self.network_name)
    }

    /// A node that gets another name would not find the ports that it has.
    pub fn keeps_its_name(&self) -> Result<(), CniError> {
        let path = self.node_file();
        if self.named != self.node {
            let message = format!(
                "this node's ports are called {}, and its name is {} now",
                self.node, self.named
            );
            let details = format!(
                "give it its name back, or remove {} when no Pod has an address any more",
                path.display()
            );
            return Err(CniError::new(
                ErrorCode::InvalidConfiguration,
                message,
                details,
            ));
        }
        if !path.exists() {
            state_folder(&self.state)?;
            kept::keep(&path, &self.named)
                .map_err(|why| file_error(&path.display().to_string(), &why))?;
        }
        Ok(())
    }

    /// It is written once, before the first port is made.
    pub fn node_file(&self) -> PathBuf {
        self.state.join(NODE_FILE)
    }

    /// One at a time for each attachment: a runtime that lost its patience may ask again while the
    /// first one still runs. And none while garbage is collected.
    pub fn locks_for(&self, identity: &Identity, until: Instant) -> Result<[Locked; 2], CniError> {
        let folder = state_folder(&self.state)?;
        let garbage = Locked::shared(&self.garbage_lock(), until)?;
        // As many files as there are pairs of digits, whatever comes and goes.
        let attachment = folder.join(format!("attachment-{}.lock", &identity.file_name()[..2]));
        Ok([garbage, Locked::alone(&attachment, until)?])
    }

    /// Nothing is added or deleted meanwhile.
    pub fn lock_all(&self, until: Instant) -> Result<Locked, CniError> {
        state_folder(&self.state)?;
        Ok(Locked::alone(&self.garbage_lock(), until)?)
    }

    /// Whether locks could be had.
    pub fn can_be_locked(&self) -> Result<(), CniError> {
        state_folder(&self.state)?;
        Ok(Locked::is_possible(&self.garbage_lock())?)
    }

    /// Only one daemon is about it.
    pub fn lock_daemon(&self, until: Instant) -> Result<Locked, CniError> {
        let folder = state_folder(&self.state)?;
        Ok(Locked::alone(
            &folder.join(format!("daemon-{}.lock", self.network_name)),
            until,
        )?)
    }

    /// Of this network: collecting for one keeps no other waiting.
    fn garbage_lock(&self) -> PathBuf {
        self.state
            .join(format!("garbage-{}.lock", self.network_name))
    }
}
