//! Clients that break a rule on purpose, to show that the simulator notices.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::{Faults, SimClient, SimCluster, Yield};
use ipam_cilium::observed::{CLAIMS_KEY, ObservedKind, ReadError};
use ipam_cluster::{
    Cluster, ClusterError, Follow, Following, LeaseName, ListVisitor, LockSeen, Moment,
    ObjectEvent, Operation, Seen, Stored, Target, Write, WriteError, Written,
};

/// A rule to break.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// Claims are replaced whatever version they have.
    BlindClaims,
    /// Claims are neither read nor written.
    NoClaims,
    /// Nodes are written without their resourceVersion.
    UnguardedVersion,
    /// CiliumNodes are deleted in whatever version they are.
    UnguardedDeletion,
    /// A list that lags behind passes for a fresh one.
    TrustedCache,
    /// Nodes are listed as of a later moment than CiliumNodes.
    TwoMoments,
    /// Of following processes: a bookmark comes before earlier events.
    EarlyBookmarks,
    /// Of following processes: an event never comes.
    LostNotices,
    /// Of following processes: a list that lags behind, as at resourceVersion 0, passes for a fresh
    /// one.
    StaleBase,
    /// Of following processes: the claims of others are hidden.
    HiddenClaims,
    /// Of following processes: blocks that a restore forgot are not quarantined.
    NoQuarantine,
    /// Of following processes: no resourceVersion ever goes back.
    FakedVersions,
}

impl Sabotage {
    /// Every rule of an apply.
    pub const OF_APPLIES: [Sabotage; 6] = [
        Sabotage::BlindClaims,
        Sabotage::NoClaims,
        Sabotage::UnguardedVersion,
        Sabotage::UnguardedDeletion,
        Sabotage::TrustedCache,
        Sabotage::TwoMoments,
    ];

    /// Every rule of a process that follows the cluster.
    pub const OF_LIVES: [Sabotage; 6] = [
        Sabotage::EarlyBookmarks,
        Sabotage::LostNotices,
        Sabotage::StaleBase,
        Sabotage::HiddenClaims,
        Sabotage::NoQuarantine,
        Sabotage::FakedVersions,
    ];

    /// Adds the faults without which the broken rule does not matter.
    pub(crate) fn provoked_by(self, faults: Faults) -> Faults {
        match self {
            Sabotage::TrustedCache | Sabotage::StaleBase => Faults {
                stale_list: 500,
                ..faults
            },
            Sabotage::EarlyBookmarks => Faults {
                early_bookmark: 300,
                late_notice: 200,
                ..faults
            },
            Sabotage::LostNotices => Faults {
                lost_notice: 300,
                ..faults
            },
            Sabotage::None
            | Sabotage::BlindClaims
            | Sabotage::NoClaims
            | Sabotage::UnguardedVersion
            | Sabotage::UnguardedDeletion
            | Sabotage::TwoMoments
            | Sabotage::HiddenClaims
            | Sabotage::NoQuarantine
            | Sabotage::FakedVersions => faults,
        }
    }
}

/// Number of polls of others between the two moments.
const BETWEEN_MOMENTS: u32 = 60;

/// A client with a broken rule.
pub(crate) struct Saboteur {
    pub(crate) client: SimClient,
    pub(crate) cluster: SimCluster,
    pub(crate) sabotage: Sabotage,
}

/// Hides how old a list is.
struct Trusting<'l>(&'l mut dyn ListVisitor);

impl ListVisitor for Trusting<'_> {
    fn begun(&mut self, _: &str) -> Result<(), ClusterError> {
        self.0.begun("")
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        self.0.object(json)
    }
}

/// Pretends that a list shows the newest resourceVersion ever used.
struct Rejuvenating<'l> {
    visitor: &'l mut dyn ListVisitor,
    cluster: &'l SimCluster,
}

impl ListVisitor for Rejuvenating<'_> {
    fn begun(&mut self, _: &str) -> Result<(), ClusterError> {
        self.visitor.begun(&self.cluster.newest().to_string())
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        self.visitor.object(json)
    }
}

/// Removes the claims from the objects that it passes on.
struct Hiding<'l>(&'l mut dyn ListVisitor);

impl ListVisitor for Hiding<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.0.begun(version)
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object = serde_json::from_str(json).unwrap_or_default();
        self.0.object(&without_claims(object).to_string())
    }
}

fn without_claims(mut object: Value) -> Value {
    if let Some(data) = object["data"].as_object_mut() {
        data.insert(CLAIMS_KEY.to_owned(), json!(r#"{"format_version":"1.0"}"#));
    }
    object
}

/// The same claims without quarantines.
fn without_quarantine(content: &mut Value) {
    let text = content["data"][CLAIMS_KEY].as_str().unwrap_or_default();
    let mut claims: Value = serde_json::from_str(text).unwrap_or_default();
    if let Some(record) = claims.as_object_mut() {
        record.remove("quarantined");
        content["data"][CLAIMS_KEY] = json!(claims.to_string());
    }
}

impl Cluster for Saboteur {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        match (self.sabotage, kind) {
            (Sabotage::TrustedCache, _) => {
                self.client
                    .list(kind, namespace, moment, &mut Trusting(visitor))
                    .await
            }
            (Sabotage::StaleBase | Sabotage::FakedVersions, _) => {
                let mut visitor = Rejuvenating {
                    visitor,
                    cluster: &self.cluster,
                };
                self.client
                    .list(kind, namespace, &Moment::Latest, &mut visitor)
                    .await
            }
            (Sabotage::HiddenClaims, ObservedKind::Claims) => {
                self.client
                    .list(kind, namespace, moment, &mut Hiding(visitor))
                    .await
            }
            (Sabotage::NoClaims, ObservedKind::Claims) => Ok(Seen::All),
            (Sabotage::TwoMoments, _) => {
                Yield(if kind == ObservedKind::Node {
                    BETWEEN_MOMENTS
                } else {
                    0
                })
                .await;
                self.client
                    .list(kind, namespace, &Moment::Latest, visitor)
                    .await
            }
            _ => self.client.list(kind, namespace, moment, visitor).await,
        }
    }

    fn cilium_namespace(&self) -> Option<&str> {
        self.client.cilium_namespace()
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        let mut write = write.clone();
        if let (
            Sabotage::NoQuarantine,
            Target::Claims,
            Operation::Patch(content) | Operation::Create(content),
        ) = (self.sabotage, &write.target, &mut write.operation)
        {
            without_quarantine(content);
        }
        if let (Sabotage::UnguardedDeletion, Operation::Delete(version)) =
            (self.sabotage, &mut write.operation)
        {
            version.resource_version.clear();
        }
        let metadata = match &mut write.operation {
            Operation::Patch(patch) => patch["metadata"].as_object_mut(),
            Operation::Apply(_) | Operation::Create(_) | Operation::Delete(_) => None,
        };
        match (self.sabotage, &write.target, metadata) {
            (Sabotage::NoClaims, Target::Claims, _) => {
                let version = ipam_cilium::observed::ObjectVersion {
                    uid: String::new(),
                    resource_version: String::new(),
                };
                return Ok(Written { version });
            }
            (Sabotage::BlindClaims, Target::Claims, Some(metadata))
            | (Sabotage::UnguardedVersion, Target::Node(_), Some(metadata)) => {
                metadata.remove("resourceVersion");
            }
            _ => {}
        }
        self.client.write(&write).await
    }

    async fn lock(&self, name: LeaseName) -> Result<LockSeen, ClusterError> {
        self.client.lock(name).await
    }

    fn now(&self) -> Timestamp {
        self.client.now()
    }
}

impl Follow for Saboteur {
    async fn stored_claims(&self) -> Result<Stored, ClusterError> {
        match self.sabotage {
            Sabotage::FakedVersions => Ok(Stored::Hidden),
            _ => self.client.stored_claims().await,
        }
    }

    async fn follow(
        &self,
        kind: ObservedKind,
        namespace: &str,
        from: u64,
        on_event: &mut (dyn FnMut(ObjectEvent<'_>) + Send),
    ) -> Result<Following, ClusterError> {
        let mut hiding = |object_event: ObjectEvent<'_>| match (self.sabotage, kind, object_event) {
            (Sabotage::HiddenClaims, ObservedKind::Claims, ObjectEvent::Changed(object)) => {
                on_event(ObjectEvent::Changed(&without_claims(object.clone())));
            }
            _ => on_event(object_event),
        };
        self.client.follow(kind, namespace, from, &mut hiding).await
    }
}
