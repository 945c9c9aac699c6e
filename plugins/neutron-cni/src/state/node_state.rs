//! The paths and locks of one network on this node, and the name of the node at Neutron.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::cni::{Attachment, CniError, ErrorCode};
use crate::conversions::file_error;
use crate::state::{AttachmentRecords, Pool};
use crate::{Identity, Settings};
use ipam_core::neutron::Id;
use private_files::{Locked, disk, kept, node_name, product_uuid, state_folder};

/// Stores the name of the node.
const NODE_FILE: &str = "node.json";

/// The folder of the servers that Neutron has shown, by network.
const SERVERS: &str = "servers";

/// The files of one network.
pub struct NodeState {
    state: PathBuf,
    network_name: String,
    /// The current name of the node.
    named: String,
    /// Name of the node in the names of its ports.
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
        // The first name of the node is the one in its ports.
        let first: Option<String> = kept::read(&settings.state.join(NODE_FILE));
        let named = match (&settings.node, &first) {
            (Some(node), _) => with_cluster(node.clone()),
            (None, None) => with_cluster(node_name()?),
            // Within a container, the id of the machine may not be visible.
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

    /// The id of this machine by its firmware. Nova writes the id of a server there, but the firmware
    /// of other machines has an id, too.
    pub fn machine() -> Option<Id> {
        product_uuid().ok().flatten()?.parse().ok()
    }

    /// The server that this machine is, if Neutron has shown it to the credentials of this network.
    pub fn server(&self) -> Option<Id> {
        let shown: Id = kept::read(&self.server_file())?;
        (NodeState::machine()? == shown).then_some(shown)
    }

    /// Records that Neutron shows this server, or none. Writes nothing if that was known.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn record_server(&self, shown: Option<&Id>) -> Result<(), CniError> {
        let file = self.server_file();
        if kept::read::<Id>(&file).as_ref() == shown {
            return Ok(());
        }
        state_folder(&self.state)?;
        let written = match shown {
            Some(server) => disk::create_folders(&self.state.join(SERVERS))
                .and_then(|()| kept::keep(&file, server)),
            None => disk::remove(&file),
        };
        written.map_err(|why| file_error(&file.display().to_string(), &why))
    }

    fn server_file(&self) -> PathBuf {
        let file = format!("{}.json", self.network_name);
        self.state.join(SERVERS).join(file)
    }

    /// The `name` of all ports of this network on this node.
    pub fn port_name(&self) -> String {
        Identity::name_of(&self.node, &self.network_name)
    }

    /// The identity of an interface's own port.
    pub fn identity(&self, attachment: &Attachment) -> Identity {
        Identity::new(&self.node, &self.network_name, attachment)
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn pool(&self) -> Pool {
        Pool::of(&self.state, &self.network_name)
    }

    pub fn attachment_records(&self) -> AttachmentRecords {
        AttachmentRecords::of(&self.state, &self.network_name)
    }

    /// Stores the node's name, or fails if it changed: a renamed node would not find its ports.
    pub fn keeps_its_name(&self) -> Result<(), CniError> {
        let path = self.node_file();
        if self.named != self.node {
            let message = format!(
                "the node's name changed from {}, the name in its ports, to {}",
                self.node, self.named
            );
            let details = format!(
                "restore its name, or remove {} when no Pod has an address any more",
                path.display()
            );
            return Err(CniError::new(
                ErrorCode::InvalidConfiguration,
                message,
                details,
            ));
        }
        if kept::read::<String>(&path).is_none() {
            state_folder(&self.state)?;
            // Once and first: if this file exists, the folder survives with all that is synced in it.
            disk::sync_names_above(&self.state)
                .and_then(|()| kept::keep_synced(&path, &self.named))
                .map_err(|why| file_error(&path.display().to_string(), &why))?;
        }
        Ok(())
    }

    /// Whether the file with the node's name was damaged. [`NodeState::keeps_its_name`] writes it
    /// again.
    pub fn has_unreadable_name(&self) -> bool {
        let path = self.node_file();
        path.exists() && kept::read::<String>(&path).is_none()
    }

    /// The file with the node's name. Written once, before the first port is created.
    pub fn node_file(&self) -> PathBuf {
        self.state.join(NODE_FILE)
    }

    /// Locks one attachment, and keeps the garbage collection out. A runtime may retry while the
    /// first request still runs.
    pub fn locks_for(&self, identity: &Identity, until: Instant) -> Result<[Locked; 2], CniError> {
        let folder = state_folder(&self.state)?;
        let garbage = Locked::shared(&self.garbage_lock(), until)?;
        // 256 files at most, however many attachments there are.
        let attachment = folder.join(format!("attachment-{}.lock", &identity.file_name()[..2]));
        Ok([garbage, Locked::alone(&attachment, until)?])
    }

    /// Locks the network: no ADD or DEL runs meanwhile.
    pub fn lock_all(&self, until: Instant) -> Result<Locked, CniError> {
        state_folder(&self.state)?;
        Ok(Locked::alone(&self.garbage_lock(), until)?)
    }

    /// Whether the folder and the lock files can be used.
    pub fn can_be_locked(&self) -> Result<(), CniError> {
        state_folder(&self.state)?;
        Ok(Locked::is_possible(&self.garbage_lock())?)
    }

    /// Keeps a second daemon out.
    pub fn lock_daemon(&self, until: Instant) -> Result<Locked, CniError> {
        let folder = state_folder(&self.state)?;
        Ok(Locked::alone(
            &folder.join(format!("daemon-{}.lock", self.network_name)),
            until,
        )?)
    }

    /// Path of the lock for garbage collection: one lock per network, so that networks do not wait
    /// for one another.
    fn garbage_lock(&self) -> PathBuf {
        self.state
            .join(format!("garbage-{}.lock", self.network_name))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_damaged_name_is_written_again_and_an_intact_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let node_state = |node: &str| {
            let ipam = serde_json::json!({
                "networks": [], "cloud": "c", "node": node,
                "stateDirectory": folder.path().join("state"),
            });
            let written = serde_json::json!({"cniVersion": "1.1.0", "name": "pods", "ipam": ipam});
            let settings = Settings::read(written.to_string().as_bytes()).unwrap();
            NodeState::of(&settings).unwrap()
        };
        let first = node_state("n1");
        first.keeps_its_name().unwrap();
        assert!(!first.has_unreadable_name());
        fs::write(first.node_file(), "\"n").unwrap();
        assert!(first.has_unreadable_name());
        node_state("n1").keeps_its_name().unwrap();
        assert!(!first.has_unreadable_name());
        assert!(node_state("n2").keeps_its_name().is_err());
    }
}
