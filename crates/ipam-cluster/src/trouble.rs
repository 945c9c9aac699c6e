//! Why a controller cannot work: the kind of failure for probes, and the whole error for the log. The
//! kind must never contain text of a server: names and addresses of a cluster are not for everyone
//! who reaches the port.

use crate::{ClusterError, WriteError};

ipam_core::text_enum! {
    /// A kind of failure. The text is fixed. Of several failures, the first kind counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum TroubleKind {
        /// An old history: blocks may look free.
        WentBack = "the cluster went back in time",
        /// The API server's cache and its store differ.
        Outdated = "the API server shows an old state of the cluster: restart every kube-apiserver",
        /// No answer, or none in time.
        Unreachable = "the API server does not answer",
        /// The credentials are missing, expired or unreadable.
        Credentials = "the credentials for the API server cannot be used",
        /// The API server denies a right.
        Forbidden = "the API server denies a right",
        /// The server refuses a request for a reason that no other variant covers.
        Refused = "the API server refuses a request",
        /// The server answers 429 for too long.
        Busy = "the API server is too busy",
        /// An answer or an object cannot be parsed.
        Malformed = "the API server has a malformed object",
        /// Reading took so long that the server no longer has this version of the list (410).
        ListExpired = "a list of the API server expired before it was complete",
        /// The list is older than the claims that were read: a server of several lags behind.
        ListStale = "the API server shows an old list",
        /// The server forgot the events, or no longer serves the kind.
        WatchLost = "the API server ended a watch",
        /// The ConfigMap of the claims is at its size limit.
        ClaimsFull = "the claims have no room for more blocks",
        /// A race was lost again and again.
        Conflict = "another process changes the same objects",
        /// The OpenStack of the clouds file.
        OpenStack = "OpenStack cannot be used",
        /// A file, such as a cluster file.
        File = "a file cannot be used",
    }
}

/// A failure to read or write the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// Kind of the failure, for probes.
    pub kind: TroubleKind,
    /// For the log: names the server, the object and the cause.
    pub text: String,
}

impl Trouble {
    /// A failure of this kind.
    pub fn new(kind: TroubleKind, text: impl Into<String>) -> Trouble {
        let text = text.into();
        Trouble { kind, text }
    }

    /// Several failures as one. `None` without any.
    pub(crate) fn all<'t>(troubles: impl IntoIterator<Item = &'t Trouble>) -> Option<Trouble> {
        let mut troubles: Vec<&Trouble> = troubles.into_iter().collect();
        troubles.sort();
        let kind = troubles.first()?.kind;
        let mut texts: Vec<&str> = troubles.iter().map(|one| one.text.as_str()).collect();
        texts.sort_unstable();
        texts.dedup();
        Some(Trouble::new(kind, texts.join("; ")))
    }
}

impl From<&ClusterError> for Trouble {
    fn from(error: &ClusterError) -> Trouble {
        Trouble::new(kind(error), error.to_string())
    }
}

fn kind(error: &ClusterError) -> TroubleKind {
    match error {
        ClusterError::Unreachable(_) => TroubleKind::Unreachable,
        ClusterError::Refused { .. } => TroubleKind::Refused,
        ClusterError::Expired { .. } => TroubleKind::ListExpired,
        ClusterError::Stale { .. } => TroubleKind::ListStale,
        ClusterError::Held { .. } => TroubleKind::Conflict,
        ClusterError::Outdated { .. } => TroubleKind::Outdated,
        ClusterError::WentBack { .. } => TroubleKind::WentBack,
        ClusterError::Malformed { .. } | ClusterError::Object(_) => TroubleKind::Malformed,
        ClusterError::Indispensable { .. } => TroubleKind::Forbidden,
        ClusterError::File { .. } | ClusterError::Unsaved { .. } | ClusterError::Locked { .. } => {
            TroubleKind::File
        }
        ClusterError::Claims(error) | ClusterError::Departed { error, .. } => kind_of_write(error),
        ClusterError::ClaimsFull { .. } => TroubleKind::ClaimsFull,
        ClusterError::OpenStack(_) => TroubleKind::OpenStack,
        ClusterError::Credentials(_) => TroubleKind::Credentials,
    }
}

fn kind_of_write(error: &WriteError) -> TroubleKind {
    match error {
        WriteError::Superseded(_) => TroubleKind::Conflict,
        WriteError::Refused(_) => TroubleKind::Refused,
        WriteError::Forbidden(_) => TroubleKind::Forbidden,
        WriteError::Busy(_) => TroubleKind::Busy,
        WriteError::Unknown(_) => TroubleKind::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_failures_the_worst_kind_and_all_texts_count() {
        let full = Trouble::new(TroubleKind::ClaimsFull, "full");
        let gone = Trouble::new(TroubleKind::Unreachable, "10.0.0.1 does not answer");
        let all = Trouble::all([&full, &gone, &full]).unwrap();
        assert_eq!(all.kind, TroubleKind::Unreachable);
        assert_eq!(all.text, "10.0.0.1 does not answer; full");
        assert_eq!(Trouble::all([]), None);
    }

    #[test]
    fn an_expired_or_old_list_is_no_conflict() {
        let resource = "nodes";
        let expired = Trouble::from(&ClusterError::Expired { resource });
        assert_eq!(expired.kind, TroubleKind::ListExpired);
        let (list, claims) = (1, 2);
        let stale = Trouble::from(&ClusterError::Stale {
            resource,
            list,
            claims,
        });
        assert_eq!(stale.kind, TroubleKind::ListStale);
    }
}
