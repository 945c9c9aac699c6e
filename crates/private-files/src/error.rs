//! What can be wrong with such a file, and the way out.

use std::io;

use crate::{MACHINE_ID, PRODUCT_UUID};

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error("{what}: {why}")]
    Io {
        /// The path, or another name of it.
        what: String,
        /// The system's words.
        why: String,
        /// Whether it is absent.
        kind: io::ErrorKind,
    },
    /// Another process holds the lock.
    #[error("another run of the plugin keeps {0} locked")]
    Locked(String),
    /// Other users can create files in the folder.
    #[error("others may put files into {0}, where tokens are kept")]
    WritableFolder(String),
    /// Another user owns the file.
    #[error("{0} holds credentials, and is somebody else's")]
    ForeignSecret(String),
    /// Other users can read or write the file.
    #[error("others than its owner may read or write {0}, which holds credentials")]
    OpenSecret(String),
    /// No file names this machine.
    #[error("neither {PRODUCT_UUID} nor {MACHINE_ID} tells which machine this is")]
    UnknownMachine,
}

impl FileError {
    /// An error of the system.
    pub fn of(what: &str, why: &io::Error) -> FileError {
        FileError::Io {
            what: what.to_owned(),
            why: why.to_string(),
            kind: why.kind(),
        }
    }

    /// What the person can do.
    pub fn way_out(&self) -> String {
        match self {
            FileError::Io {
                kind: io::ErrorKind::NotFound,
                ..
            } => "make it, or say where it is".to_owned(),
            FileError::Io { .. } => "see the permissions and the space left".to_owned(),
            FileError::Locked(_) => "it will be tried again".to_owned(),
            FileError::WritableFolder(name) => {
                format!("chown root {name} && chmod 700 {name}")
            }
            FileError::ForeignSecret(name) => format!("chown root {name}"),
            FileError::OpenSecret(name) => format!("chmod 600 {name}"),
            FileError::UnknownMachine => {
                "give the node a name of its own in `ipam.node`".to_owned()
            }
        }
    }
}
