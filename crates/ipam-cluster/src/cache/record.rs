//! Passes lists on and keeps their objects. It must never know what they are listed for.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::cached_kind::{CachedKind, version};
use crate::{Cluster, ClusterError, ListVisitor, Moment, Seen, Write, WriteError, Written};
use ipam_cilium::observed::{OWN_NAMESPACE, ObservedKind, ReadError, value_of_protobuf};
use ipam_core::claims::Departure;
use ipam_core::net::Block;

/// A cluster whose lists are kept.
pub(super) struct Recorder<'r, C> {
    cluster: &'r C,
    kinds: Mutex<BTreeMap<ObservedKind, CachedKind>>,
}

/// Keeps the objects of a list, and passes them on to another visitor.
struct Tee<'l> {
    kind: ObservedKind,
    cached: CachedKind,
    visitor: &'l mut dyn ListVisitor,
}

impl ListVisitor for Tee<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.cached.begin(version);
        self.visitor.begun(version)
    }

    fn served(&mut self, api_version: &str) {
        self.cached.served = Some(api_version.to_owned());
        self.visitor.served(api_version);
    }

    fn tombstone(&mut self, block: Block) {
        self.visitor.tombstone(block);
    }

    fn departed(&mut self, block: Block, departure: &Departure) {
        self.visitor.departed(block, departure);
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let object =
            serde_json::from_str(json).map_err(|error| ReadError::new(self.kind, json, &error))?;
        match self.cached.put(self.kind, &object) {
            Some(understood) => self.visitor.known(json, &understood),
            None => self.visitor.object(json),
        }
    }

    fn protobuf(&mut self, kind: ObservedKind, object: &[u8]) -> Result<(), ReadError> {
        let value = value_of_protobuf(kind, object)?;
        match self.cached.put(kind, &value) {
            Some(understood) => self.visitor.known(&value.to_string(), &understood),
            None => self.visitor.protobuf(kind, object),
        }
    }
}

impl<'r, C> Recorder<'r, C> {
    pub(super) fn new(cluster: &'r C) -> Recorder<'r, C> {
        Recorder {
            cluster,
            kinds: Mutex::default(),
        }
    }

    pub(super) fn kinds(self) -> BTreeMap<ObservedKind, CachedKind> {
        self.kinds
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Cluster> Cluster for Recorder<'_, C> {
    async fn list(
        &self,
        kind: ObservedKind,
        namespace: &str,
        moment: &Moment,
        visitor: &mut dyn ListVisitor,
    ) -> Result<Seen, ClusterError> {
        let mut tee = Tee {
            kind,
            cached: CachedKind::of(namespace),
            visitor,
        };
        let seen = self.cluster.list(kind, namespace, moment, &mut tee).await?;
        tee.cached.seen = seen.clone();
        self.kinds
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(kind, tee.cached);
        Ok(seen)
    }

    async fn write(&self, write: &Write) -> Result<Written, WriteError> {
        self.cluster.write(write).await
    }

    delegate_others!(self => self.cluster);
}

/// Ignores the objects of a list.
struct Ignore;

impl ListVisitor for Ignore {
    fn object(&mut self, _: &str) -> Result<(), ReadError> {
        Ok(())
    }

    fn protobuf(&mut self, _: ObservedKind, _: &[u8]) -> Result<(), ReadError> {
        Ok(())
    }
}

/// Keeps the resourceVersions of a list of claims.
#[derive(Default)]
pub(super) struct ClaimsVersions<'l> {
    /// Receives the objects of the list, too. Without a visitor, objects are not parsed.
    pub(super) visitor: Option<&'l mut dyn ListVisitor>,
    /// resourceVersion of the list; `None` if the list has none.
    pub(super) list: Option<u64>,
    /// resourceVersion of the ConfigMap of claims; 0 without a ConfigMap.
    pub(super) claims: u64,
}

impl ListVisitor for ClaimsVersions<'_> {
    fn begun(&mut self, version: &str) -> Result<(), ClusterError> {
        self.list = version.parse().ok();
        match &mut self.visitor {
            Some(visitor) => visitor.begun(version),
            None => Ok(()),
        }
    }

    fn object(&mut self, json: &str) -> Result<(), ReadError> {
        let Some(visitor) = &mut self.visitor else {
            return Ok(());
        };
        let claims = serde_json::from_str(json)
            .map_err(|error| ReadError::new(ObservedKind::Claims, json, &error))?;
        self.claims = version(&claims);
        visitor.object(json)
    }
}

/// The newest resourceVersion of the cluster, from a list of one small object.
pub(super) async fn newest_version<C: Cluster>(cluster: &C) -> Result<Option<u64>, ClusterError> {
    let mut versions = ClaimsVersions::default();
    cluster
        .list(
            ObservedKind::Claims,
            OWN_NAMESPACE,
            &Moment::Latest,
            &mut versions,
        )
        .await?;
    Ok(versions.list)
}

/// Reads all objects of one kind as of a moment.
pub(super) async fn read<C: Cluster>(
    cluster: &C,
    kind: ObservedKind,
    namespace: &str,
    moment: &Moment,
) -> Result<CachedKind, ClusterError> {
    let mut tee = Tee {
        kind,
        cached: CachedKind::of(namespace),
        visitor: &mut Ignore,
    };
    tee.cached.seen = cluster.list(kind, namespace, moment, &mut tee).await?;
    Ok(tee.cached)
}

/// Whether a kind can be read now.
pub(super) async fn look<C: Cluster>(
    cluster: &C,
    kind: ObservedKind,
    namespace: &str,
) -> Result<Seen, ClusterError> {
    cluster
        .list(kind, namespace, &Moment::Latest, &mut Ignore)
        .await
}
