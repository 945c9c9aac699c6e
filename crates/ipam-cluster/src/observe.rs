//! Reads everything that a plan needs, in the order that the claims require, or exports it as a
//! `v1 List`. It must never decide anything.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use futures_util::future::{try_join, try_join_all, try_join4};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Cluster, ClusterError, ListVisitor, Moment, Seen};
use ipam_cilium::observed::{
    CiliumKind, Observed, ObservedKind, ReadError, Reader, Understood, is_read, slim,
};
use ipam_core::claims::{DepartedPart, Departure};
use ipam_core::net::Block;

/// Attempts, where lists expire or are stale.
const ATTEMPTS: usize = 3;

/// Kinds with few objects, whose order does not matter.
const SMALL: [ObservedKind; 7] = [
    ObservedKind::Definition(CiliumKind::LoadBalancerPool),
    ObservedKind::Definition(CiliumKind::PodIpPool),
    ObservedKind::LoadBalancerPool,
    ObservedKind::CiliumOperator,
    ObservedKind::ControllerPod,
    ObservedKind::ControllerDaemonSet,
    ObservedKind::ServiceCidr,
];

/// Further kinds with few objects, read at the same time.
const SMALL_TOO: [ObservedKind; 5] = [
    ObservedKind::Migration,
    ObservedKind::Definition(CiliumKind::Node),
    ObservedKind::Definition(CiliumKind::NodeConfig),
    ObservedKind::CiliumNodeConfig,
    ObservedKind::PodIpPool,
];

/// Which kinds are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The kinds that a plan needs are read.
    Plan,
    /// The kinds that an examination needs are read.
    Examination,
}

impl Extent {
    /// Kinds that are read for this extent.
    pub(super) fn kinds(self) -> impl Iterator<Item = ObservedKind> {
        ObservedKind::OF_PLANS
            .into_iter()
            .chain(self.more().iter().copied())
    }

    /// The kinds that a plan does not need.
    pub(super) fn more(self) -> &'static [ObservedKind] {
        match self {
            Extent::Plan => &[],
            Extent::Examination => &ObservedKind::OF_EXAMINATIONS,
        }
    }
}

/// Observes the cluster. A hidden kind becomes a blind spot. Nodes and CiliumNodes must be visible.
///
/// # Errors
/// Fails if the cluster does not answer, hides Nodes or CiliumNodes, or an answer is malformed.
pub async fn observe<C: Cluster>(cluster: &C, extent: Extent) -> Result<Observed, ClusterError> {
    for _ in 1..ATTEMPTS {
        match Reading::new(cluster, extent).all().await {
            Err(ClusterError::Expired { .. } | ClusterError::Stale { .. }) => {}
            outcome => return outcome,
        }
    }
    Reading::new(cluster, extent).all().await
}

/// The namespace of Cilium.
///
/// # Errors
/// Fails if the cluster does not answer.
pub(super) async fn namespace_of_cilium<C: Cluster>(cluster: &C) -> Result<String, ClusterError> {
    let reading = Reading::new(cluster, Extent::Plan);
    reading.cilium().await?;
    let reader = reading.reader.into_inner();
    let reader = reader.unwrap_or_else(PoisonError::into_inner);
    Ok(reader.cilium_namespace().to_owned())
}

struct Reading<'c, C> {
    cluster: &'c C,
    extent: Extent,
    reader: Mutex<Reader>,
    /// resourceVersion of the claims' list. resourceVersions count up through all kinds
    /// (apimachinery `pkg/util/resourceversion` @ 1.36).
    claims_at: OnceLock<u64>,
}

/// Gives objects to the reader, and reports the moment of the list.
struct Collecting<'r> {
    kind: ObservedKind,
    reader: &'r Mutex<Reader>,
    claims_at: &'r OnceLock<u64>,
    begun: Option<oneshot::Sender<Moment>>,
}

impl ListVisitor for Collecting<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.is_no_older_than_the_claims(version.parse().ok())?;
        if let Some(begun) = self.begun.take() {
            // The other list may have failed: then nothing waits for this.
            let moment = if version.is_empty() {
                Moment::Latest
            } else {
                Moment::Of(version.to_owned())
            };
            let _ = begun.send(moment);
        }
        Ok(())
    }

    fn served(&mut self, api_version: &str) {
        lock(self.reader).served(self.kind, api_version);
    }

    fn tombstone(&mut self, block: Block) {
        lock(self.reader).tombstone(block);
    }

    fn departed(&mut self, block: Block, departure: &Departure) {
        lock(self.reader).departed(block, departure);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        lock(self.reader).object(self.kind, json)
    }

    fn protobuf(&mut self, kind: ObservedKind, object: &[u8]) -> Result<(), ReadError> {
        lock(self.reader).protobuf(kind, object)
    }

    fn known(&mut self, _: &str, understood: &Understood) -> Result<(), ReadError> {
        lock(self.reader).understood(understood);
        Ok(())
    }
}

impl Collecting<'_> {
    /// A list from a cache that lags behind could show a block as free that another process has
    /// claimed and written since.
    fn is_no_older_than_the_claims(&self, version: Option<u64>) -> Result<(), ClusterError> {
        let resource = self.kind.resource();
        match (self.kind, version, self.claims_at.get()) {
            (ObservedKind::Claims, Some(version), _) => {
                let _ = self.claims_at.set(version);
                Ok(())
            }
            (
                ObservedKind::Node | ObservedKind::CiliumNode | ObservedKind::CiliumNodeConfig,
                Some(list),
                Some(&claims),
            ) if list < claims => Err(ClusterError::Stale {
                resource,
                list,
                claims,
            }),
            _ => Ok(()),
        }
    }
}

fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'c, C: Cluster> Reading<'c, C> {
    fn new(cluster: &'c C, extent: Extent) -> Reading<'c, C> {
        Reading {
            cluster,
            extent,
            reader: Mutex::new(Reader::of_cilium_in(cluster.cilium_namespace())),
            claims_at: OnceLock::new(),
        }
    }

    async fn all(self) -> Result<Observed, ClusterError> {
        self.kind(ObservedKind::Claims, Moment::Latest, None)
            .await?;
        let (begun, has_begun) = oneshot::channel();
        let cilium_nodes = self.kind(ObservedKind::CiliumNode, Moment::Latest, Some(begun));
        // Of the very same moment: a block can move from the CiliumNode to the Node. When an agent
        // starts and its Node is deleted, it moves the other way. Two moments could show it in
        // neither.
        let nodes = async {
            let moment = has_begun.await.unwrap_or(Moment::Latest);
            self.kind(ObservedKind::Node, moment, None).await
        };
        let services = self.kind(ObservedKind::Service, Moment::Latest, None);
        let (cilium_nodes, ..) =
            try_join4(cilium_nodes, nodes, services, self.small_kinds()).await?;
        // A block that another program saw disappear before the lists of Nodes and CiliumNodes is
        // recorded by now.
        let departed = DepartedPart::ALL.map(ObservedKind::Departed);
        try_join_all(departed.map(|kind| self.kind(kind, Moment::Latest, None))).await?;
        let reader = self
            .reader
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if cilium_nodes == Seen::NotServed && reader.definitions().of(CiliumKind::Node).is_some() {
            let message =
                "its CustomResourceDefinition exists, but the server does not serve it".to_owned();
            return Err(ClusterError::Indispensable {
                resource: ObservedKind::CiliumNode.resource(),
                message,
            });
        }
        Ok(reader.finish(self.cluster.now()))
    }

    /// The namespace of Cilium is known before its objects are read.
    async fn small_kinds(&self) -> Result<(), ClusterError> {
        self.cilium().await?;
        let more = self.extent.more().iter().copied();
        try_join(
            self.one_by_one(SMALL.into_iter()),
            self.one_by_one(SMALL_TOO.into_iter().chain(more)),
        )
        .await
        .map(drop)
    }

    /// Reads DaemonSets, and finds the namespace of Cilium: the one with its settings. The last list
    /// of settings is of that namespace, so that a cache follows it.
    async fn cilium(&self) -> Result<(), ClusterError> {
        let named = self.cluster.cilium_namespace().unwrap_or_default();
        let seen = self.list(ObservedKind::CiliumDaemonSet, named).await?;
        self.note(ObservedKind::CiliumDaemonSet, seen)?;
        let mut listed = lock(&self.reader).cilium_namespace().to_owned();
        let mut seen = self.list(ObservedKind::CiliumConfig, &listed).await?;
        if seen == Seen::All {
            let candidates = lock(&self.reader).candidates_for_cilium();
            for namespace in candidates {
                seen = self.list(ObservedKind::CiliumConfig, &namespace).await?;
                if let Seen::Hidden(message) = &seen {
                    let mut reader = lock(&self.reader);
                    reader.hidden_config(&namespace);
                    reader.hidden(ObservedKind::CiliumConfig, message.clone());
                }
                listed = namespace;
            }
        }
        let namespace = lock(&self.reader).cilium_namespace().to_owned();
        if listed != namespace {
            seen = self.list(ObservedKind::CiliumConfig, &namespace).await?;
        }
        self.note(ObservedKind::CiliumConfig, seen).map(drop)
    }

    /// Lists one kind after the other: a connection for each would cost more than the lists.
    async fn one_by_one(
        &self,
        kinds: impl Iterator<Item = ObservedKind>,
    ) -> Result<(), ClusterError> {
        for kind in kinds {
            self.kind(kind, Moment::Latest, None).await?;
        }
        Ok(())
    }

    async fn kind(
        &self,
        kind: ObservedKind,
        moment: Moment,
        begun: Option<oneshot::Sender<Moment>>,
    ) -> Result<Seen, ClusterError> {
        let namespace = match kind {
            // Who names Cilium's namespace may list no DaemonSets of all namespaces.
            ObservedKind::RouterDaemonSet => self.cluster.cilium_namespace().map(str::to_owned),
            _ => Some(lock(&self.reader).cilium_namespace().to_owned()),
        };
        let namespace = namespace.unwrap_or_default();
        let seen = self.list_at(kind, &namespace, moment, begun).await?;
        self.note(kind, seen)
    }

    async fn list(&self, kind: ObservedKind, namespace: &str) -> Result<Seen, ClusterError> {
        self.list_at(kind, namespace, Moment::Latest, None).await
    }

    async fn list_at(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: Moment,
        begun: Option<oneshot::Sender<Moment>>,
    ) -> Result<Seen, ClusterError> {
        let mut visitor = Collecting {
            kind,
            reader: &self.reader,
            claims_at: &self.claims_at,
            begun,
        };
        let list = self.cluster.list(kind, namespace, &moment, &mut visitor);
        list.await
    }

    /// Records whether a kind could be read.
    fn note(&self, kind: ObservedKind, seen: Seen) -> Result<Seen, ClusterError> {
        match (&seen, kind) {
            (Seen::Hidden(message), ObservedKind::Node | ObservedKind::CiliumNode) => {
                return Err(ClusterError::Indispensable {
                    resource: kind.resource(),
                    message: message.clone(),
                });
            }
            (Seen::Hidden(message), _) => lock(&self.reader).hidden(kind, message.clone()),
            (Seen::NotServed, _) => lock(&self.reader).not_served(kind),
            (Seen::All, _) => {}
        }
        Ok(seen)
    }
}

struct Slimming {
    kind: ObservedKind,
    objects: Vec<Value>,
    version: String,
}

impl ListVisitor for Slimming {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.version = version.to_owned();
        Ok(())
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object: Value =
            serde_json::from_str(json).map_err(|error| ReadError::new(self.kind, json, &error))?;
        // Kinds that `cilium-ipam` writes have a list of their own, with their fields.
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let is_listed_apart =
            self.kind == ObservedKind::MoreDefinitions && CiliumKind::of_definition(name).is_some();
        if !is_listed_apart && is_read(self.kind, &object) {
            self.objects.push(slim(self.kind, &object));
        }
        Ok(())
    }
}

/// Every object that plans and examinations read, with only the fields that they read. A hidden
/// kind is an error: the snapshot would look like a cluster without these objects.
///
/// # Errors
/// Fails as `observe` does, and if a kind is hidden.
pub async fn snapshot<C: Cluster>(cluster: &C) -> Result<Value, ClusterError> {
    let mut items: Vec<Value> = Vec::new();
    let namespace = namespace_of_cilium(cluster).await?;
    let mut moment = Moment::Latest;
    for kind in Extent::Examination.kinds() {
        let mut slimming = Slimming {
            kind,
            objects: Vec::new(),
            version: String::new(),
        };
        // Nodes and CiliumNodes of one moment, as for a plan.
        let of = if kind == ObservedKind::Node {
            &moment
        } else {
            &Moment::Latest
        };
        let of_cilium = match kind {
            ObservedKind::CiliumDaemonSet => cluster.cilium_namespace().unwrap_or_default(),
            _ => &namespace,
        };
        let seen = cluster.list(kind, of_cilium, of, &mut slimming).await?;
        let Slimming {
            objects, version, ..
        } = slimming;
        if kind == ObservedKind::CiliumNode && !version.is_empty() {
            moment = Moment::Of(version);
        }
        if let Seen::Hidden(message) = seen {
            return Err(ClusterError::Indispensable {
                resource: kind.resource(),
                message,
            });
        }
        items.extend(objects);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}
