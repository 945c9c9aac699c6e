//! Why a private file cannot be used, and how to fix it.
//!
//! Knows no program: the caller may replace the help with its own.

use std::io;

use crate::{MACHINE_ID, PRODUCT_UUID};

/// A file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Reading or writing failed.
    #[error("{what}: {why}")]
    Io {
        /// The path, or another name for the file.
        what: String,
        /// The message of the operating system.
        why: String,
        /// Tells an absent file from other faults.
        kind: io::ErrorKind,
    },
    /// Another process still held the lock at the deadline.
    #[error("another process holds the lock on {0}")]
    Locked(String),
    /// Other users can create files in the folder.
    #[error("other users may create files in {0}, which holds private files")]
    WritableFolder(String),
    /// The owner is neither root nor the current user.
    #[error("{} holds credentials, but {} owns it", .0.name, .0.owner())]
    ForeignSecret(Secret),
    /// Other users can read or write the file.
    #[error("other users may read or write {}, which holds credentials", .0.name)]
    OpenSecret(Secret),
    /// No file identifies this machine.
    #[error("neither {PRODUCT_UUID} nor {MACHINE_ID} identifies this machine")]
    UnknownMachine,
}

/// A file with credentials, and two users by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// Path of the file.
    pub name: String,
    /// The owner of the file.
    pub owner: u32,
    /// The user that the program runs as.
    pub own: u32,
}

impl Secret {
    fn owner(&self) -> String {
        match self.owner {
            0 => "root".to_owned(),
            owner => format!("user {owner}"),
        }
    }

    /// Only root may change the mode of another user's file, or give it to the current user.
    fn way_out(&self) -> String {
        let Secret { name, owner, own } = self;
        let command = format!("chmod 600 {name}");
        if owner == own {
            return command;
        }
        format!(
            "{} owns it: as root, run `chown {own} {name} && {command}`",
            self.owner()
        )
    }
}

impl FileError {
    /// An error of the operating system about `what`.
    pub fn of(what: &str, why: &io::Error) -> FileError {
        FileError::Io {
            what: what.to_owned(),
            why: why.to_string(),
            kind: why.kind(),
        }
    }

    /// How to fix the error: a sentence for people.
    pub fn way_out(&self) -> String {
        match self {
            FileError::Io {
                kind: io::ErrorKind::NotFound,
                ..
            } => "create the file, or correct its path".to_owned(),
            FileError::Io { .. } => "check its permissions and the free space".to_owned(),
            FileError::Locked(_) => "retry when the other process has ended".to_owned(),
            FileError::WritableFolder(name) => {
                format!("chown root {name} && chmod 700 {name}")
            }
            FileError::ForeignSecret(secret) | FileError::OpenSecret(secret) => secret.way_out(),
            FileError::UnknownMachine => {
                format!("create {MACHINE_ID} with `systemd-machine-id-setup`")
            }
        }
    }
}
