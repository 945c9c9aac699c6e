//! The records of our Leases and the writes that change them: one Lease names who applies, the
//! other which operator leads.
//!
//! Leases are a courtesy. Only the claims guarantee that no block is given twice. When a record
//! expires is not decided here, because that needs the reader's own clock.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};

use super::write::{guard, own_metadata};
use super::{Operation, Target, Write};
use ipam_cilium::observed::ObjectVersion;

ipam_core::text_enum! {
    /// A Lease of `cilium-ipam`, by the name of the object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LeaseName {
        /// Lease that is held during an apply.
        Apply = "cilium-ipam",
        /// Lease of the operator that leads.
        Leader = "cilium-ipam-operator",
        /// Held while a migration is carried out.
        Migration = "cilium-ipam-migration",
    }
}

const OPERATION_ANNOTATION: &str = "cilium-ipam.io/operation";

/// Result of reading a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockSeen {
    /// This cluster needs no lock: it excludes others in another way.
    NotKept,
    /// The server denies reading the Lease, with the server's message.
    Hidden(String),
    /// The Lease does not exist yet.
    Absent,
    /// The Lease exists; it may be free or expired.
    Record(Box<LockRecord>),
}

/// A Lease as it was read from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRecord {
    /// Identity of the holder; empty when the lock was released.
    pub holder: String,
    /// What the holder does, such as `apply`.
    pub operation: String,
    /// When the holder acquired the Lease, by the holder's clock.
    pub since: Option<Timestamp>,
    /// When the holder renewed the Lease last, by the holder's clock.
    pub renewed: Option<Timestamp>,
    /// How long the Lease stays held after a renewal.
    pub duration: SignedDuration,
    pub version: ObjectVersion,
}

impl LockRecord {
    /// Reads a Lease.
    ///
    /// # Errors
    /// Fails if the JSON is not a Lease.
    pub fn read(json: &[u8]) -> Result<LockRecord, serde_json::Error> {
        let Lease { metadata, spec } = serde_json::from_slice(json)?;
        let spec = spec.unwrap_or_default();
        let operation = metadata
            .annotations
            .and_then(|mut annotations| annotations.remove(OPERATION_ANNOTATION));
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        Ok(LockRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            operation: operation.unwrap_or_default(),
            since: spec.acquire_time.map(|MicroTime(time)| time),
            renewed: spec.renew_time.map(|MicroTime(time)| time),
            duration: SignedDuration::from_secs(seconds.into()),
            version: ObjectVersion {
                uid: metadata.uid.unwrap_or_default(),
                resource_version: metadata.resource_version.unwrap_or_default(),
            },
        })
    }
}

impl Write {
    /// Acquires or renews a lock; creates the Lease where `version` is absent.
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

    /// Releases a lock.
    pub fn release_lock(name: LeaseName, version: &ObjectVersion) -> Write {
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
    fn a_lease_is_read_as_it_was_written() {
        let json = r#"{"metadata":{"uid":"u","resourceVersion":"5","annotations":{"cilium-ipam.io/operation":"apply"}},
            "spec":{"holderIdentity":"a","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.000000Z"}}"#;
        let lock = LockRecord::read(json.as_bytes()).unwrap();
        assert_eq!(
            (lock.holder.as_str(), lock.operation.as_str()),
            ("a", "apply")
        );
        assert_eq!(lock.duration, SignedDuration::from_secs(15));
        assert_eq!(lock.since, None);
        assert_eq!(
            lock.renewed.map(micro_time).as_deref(),
            Some("2026-01-01T00:00:00.000000Z")
        );
        assert_eq!(lock.version.resource_version, "5");
    }

    #[test]
    fn a_lease_without_a_holder_is_free() {
        let json =
            r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n"}}"#;
        let lock = LockRecord::read(json.as_bytes()).unwrap();
        assert!(lock.holder.is_empty() && lock.duration.is_zero());
    }
}
