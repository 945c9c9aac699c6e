//! Events: what people read with `kubectl describe`.
//!
//! It only builds objects; it must not know when an Event is written.

use jiff::Timestamp;
use serde_json::{Value, json};

use ipam_desired::{CustomKind, GROUP, VERSION};

/// The namespace of Events about objects without a namespace (client-go `tools/record`).
pub(crate) const EVENT_NAMESPACE: &str = "default";

/// Longest message that the server accepts, in bytes (core/v1 validation of Kubernetes 1.36).
const LONGEST_MESSAGE: usize = 1024;

ipam_core::text_enum! {
    /// Severity of an Event (core/v1 of Kubernetes).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EventKind {
        /// For information.
        Normal = "Normal",
        /// A person should look.
        Warning = "Warning",
    }
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

    /// One of our custom resources.
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

/// An Event before it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    /// The object.
    pub about: EventSubject,
    /// Its severity.
    pub kind: EventKind,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// For people; longer messages are cut when it is written.
    pub message: String,
}

impl EventText {
    /// The Event as an object of the API server.
    pub fn object(&self, reporter: &str, at: Timestamp) -> Value {
        let EventText {
            about,
            kind,
            reason,
            message,
        } = self;
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
            "type": kind.as_str(),
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
