//! Events: what people read with `kubectl describe`.

use jiff::Timestamp;
use serde_json::{Value, json};

use ipam_cluster::EVENT_NAMESPACE;
use ipam_desired::{CustomKind, GROUP, VERSION};

/// Longest message that the server takes, in bytes (core/v1 validation of Kubernetes 1.36).
const LONGEST_MESSAGE: usize = 1024;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Not as it should be.
    Warning,
}

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSubject {
    api_version: String,
    kind: &'static str,
    name: String,
    uid: String,
}

impl EventSubject {
    /// A Node.
    pub fn node(name: &str, uid: &str) -> EventSubject {
        EventSubject {
            api_version: "v1".to_owned(),
            kind: "Node",
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// An object of ours.
    pub fn custom(kind: CustomKind, name: &str, uid: &str) -> EventSubject {
        let api_version = format!("{GROUP}/{VERSION}");
        EventSubject {
            api_version,
            kind: kind.as_str(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// To what.
    pub about: EventSubject,
    /// How much it matters.
    pub kind: EventKind,
    /// One word for machines.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl EventText {
    /// The Event as an object, told by this process at this time.
    pub fn object(&self, reporter: &str, at: Timestamp) -> Value {
        let EventText {
            about,
            kind,
            reason,
            message,
        } = self;
        let kind = match kind {
            EventKind::Normal => "Normal",
            EventKind::Warning => "Warning",
        };
        let time = format!("{at:.0}");
        let mut message = message.clone();
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "cilium-ipam.", "namespace": EVENT_NAMESPACE},
            "involvedObject": {
                "apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": "cilium-ipam"},
            "reportingComponent": "cilium-ipam.io/operator",
            "reportingInstance": reporter,
        })
    }
}
