//! Leases: one says who applies, since when, and what; another one which of several operators
//! works. Both are a courtesy that keeps them from getting into each other's way; that no block is
//! given twice rests on the claims alone.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::write::{guard, own_metadata};
use super::{Operation, Target, Write};
use ipam_cilium::observed::ObjectVersion;

/// A Lease of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseName {
    /// Held while something is applied.
    Apply,
    /// Held by the operator that works; the others stand by.
    Leader,
}

impl LeaseName {
    /// Its name in the cluster.
    pub fn as_str(self) -> &'static str {
        match self {
            LeaseName::Apply => "cilium-ipam",
            LeaseName::Leader => "cilium-ipam-operator",
        }
    }
}

/// Says what the holder does.
const OPERATION_ANNOTATION: &str = "cilium-ipam.io/operation";

/// What reading the lock gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockSeen {
    /// This cluster keeps others out in another way.
    NotKept,
    /// The server does not let us see it.
    Hidden(String),
    /// Nobody has ever held it.
    Absent,
    /// Somebody holds it, or did.
    Record(Box<LockRecord>),
}

/// The lock as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// Who; empty when it was given back.
    pub holder: String,
    /// What they do.
    pub operation: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Last sign of life.
    pub renewed: Option<Timestamp>,
    /// How long a sign of life is good for.
    pub duration: SignedDuration,
    /// The version of the object.
    pub version: ObjectVersion,
}

#[derive(Deserialize)]
struct LeaseView {
    metadata: LeaseMetadata,
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseMetadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseSpec {
    holder_identity: Option<String>,
    lease_duration_seconds: Option<i64>,
    acquire_time: Option<String>,
    renew_time: Option<String>,
}

impl LockRecord {
    /// Reads a Lease.
    ///
    /// # Errors
    /// JSON that is none.
    pub fn read(json: &[u8]) -> Result<LockRecord, serde_json::Error> {
        let LeaseView { metadata, spec } = serde_json::from_slice(json)?;
        let time = |text: Option<String>| text.and_then(|text| text.parse().ok());
        Ok(LockRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            operation: metadata
                .annotations
                .get(OPERATION_ANNOTATION)
                .cloned()
                .unwrap_or_default(),
            since: time(spec.acquire_time),
            renewed: time(spec.renew_time),
            duration: SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or_default()),
            version: ObjectVersion {
                uid: metadata.uid,
                resource_version: metadata.resource_version,
            },
        })
    }

    /// Whether somebody is still there.
    pub fn is_held(&self, now: Timestamp) -> bool {
        let until = self
            .renewed
            .and_then(|renewed| renewed.saturating_add(self.duration).ok());
        !self.holder.is_empty() && until.is_some_and(|until| now < until)
    }
}

impl Write {
    /// Takes a lock, or renews it; without a version, creates it.
    pub fn take_lock(name: LeaseName, lock: &LockRecord, version: Option<&ObjectVersion>) -> Write {
        let LockRecord {
            holder,
            operation,
            since,
            renewed,
            duration,
            version: _,
        } = lock;
        let spec = json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": duration.as_secs().max(1),
            "acquireTime": since.map(micro_time),
            "renewTime": renewed.map(micro_time),
        });
        let annotations = json!({OPERATION_ANNOTATION: operation});
        let operation = match version {
            Some(version) => {
                let mut metadata = guard(version);
                metadata["annotations"] = annotations;
                Operation::Patch(json!({"metadata": metadata, "spec": spec}))
            }
            None => {
                let mut metadata = own_metadata(name.as_str());
                metadata["annotations"] = annotations;
                let (api_version, kind) = ("coordination.k8s.io/v1", "Lease");
                Operation::Create(
                    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}),
                )
            }
        };
        Write {
            target: Target::Lease(name),
            operation,
        }
    }

    /// Gives a lock back.
    pub fn give_lock_back(name: LeaseName, version: &ObjectVersion) -> Write {
        let patch: Value = json!({"metadata": guard(version), "spec": {"holderIdentity": ""}});
        Write {
            target: Target::Lease(name),
            operation: Operation::Patch(patch),
        }
    }
}

/// `metav1.MicroTime`: RFC 3339 with exactly six digits.
fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_its_last_sign_of_life_is_too_old() {
        let json = r#"{"metadata":{"uid":"u","resourceVersion":"5","annotations":{"cilium-ipam.io/operation":"apply"}},
            "spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.000000Z"}}"#;
        let lock = LockRecord::read(json.as_bytes()).unwrap();
        let at = |text: &str| lock.is_held(text.parse().unwrap());
        assert!(at("2026-01-01T00:00:14Z") && !at("2026-01-01T00:00:15Z"));
        assert_eq!(lock.operation, "apply");
        assert_eq!(
            micro_time("2026-01-01T00:00:14Z".parse().unwrap()),
            "2026-01-01T00:00:14.000000Z"
        );
    }
}
