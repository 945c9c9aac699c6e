//! Objects as a cache keeps them: the fields that plans read, and how they were understood, so that
//! nothing is parsed twice. It must never know which process caches them, or why.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::{ListVisitor, Seen, Target};
use ipam_cilium::observed::{
    CLAIMS_NAME, OWN_NAMESPACE, ObjectVersion, ObservedKind, ReadError, Understood, blocks_shown,
    is_read, slim,
};
use ipam_core::net::Block;

/// Kinds whose objects show which node has a block.
pub(super) const WITH_BLOCKS: [ObservedKind; 3] = [
    ObservedKind::Node,
    ObservedKind::CiliumNode,
    ObservedKind::CiliumNodeConfig,
];

/// What the cache must show before it serves plans after a write of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PendingWrite {
    /// The object at this resourceVersion or a later one.
    Version(u64),
    /// The object of this UID gone, or marked for deletion.
    Deletion(String),
}

/// The objects of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct CachedKind {
    pub(super) seen: Seen,
    /// Namespace in which the kind was listed.
    pub(super) namespace: String,
    pub(super) served: Option<String>,
    /// resourceVersion of the list.
    pub(super) listed_at: u64,
    /// All changes up to this resourceVersion were listed or reported. A kind that is not served
    /// was still not served after this resourceVersion had been read.
    pub(super) reached: u64,
    pub(super) objects: Arc<BTreeMap<String, Object>>,
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) version: u64,
    pub(super) uid: String,
    is_terminating: bool,
    /// Digest of the fields that plans read, without the resourceVersion.
    pub(super) meaning: u64,
    pub(super) blocks: Vec<Block>,
    pub(super) json: Arc<str>,
    understood: Option<Understood>,
}

pub(super) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

pub(super) fn key(object: &Value) -> String {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    full_name(&text("namespace"), &text("name"))
}

pub(super) fn full_name(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

pub(super) fn number(version: &ObjectVersion) -> u64 {
    version.resource_version.parse().unwrap_or(0)
}

/// The cached object of a target; `None` for objects that no plan reads.
pub(super) fn object_of(target: &Target) -> Option<(ObservedKind, String)> {
    Some(match target {
        Target::Node(name) => (ObservedKind::Node, name.to_string()),
        Target::CiliumNode(name) => (ObservedKind::CiliumNode, name.to_string()),
        Target::NodeConfig(_, namespace, name) => {
            (ObservedKind::CiliumNodeConfig, full_name(namespace, name))
        }
        Target::PodPool(_, name) => (ObservedKind::PodIpPool, name.clone()),
        Target::AddressPool(_, name) => (ObservedKind::LoadBalancerPool, name.to_string()),
        Target::Service(service) => (
            ObservedKind::Service,
            full_name(service.namespace(), service.name()),
        ),
        Target::Claims => (ObservedKind::Claims, claims_key()),
        Target::Departed(part) => (
            ObservedKind::Departed(*part),
            full_name(OWN_NAMESPACE, part.as_str()),
        ),
        Target::Lease(_)
        | Target::Custom(..)
        | Target::Status(..)
        | Target::Pod(..)
        | Target::Eviction(..)
        | Target::MigrationRecord(_)
        | Target::Event { .. } => return None,
    })
}

pub(super) fn claims_key() -> String {
    full_name(OWN_NAMESPACE, CLAIMS_NAME)
}

/// The resourceVersion of the claims; 0 if there are none.
pub(super) fn claims_version(kinds: &BTreeMap<ObservedKind, CachedKind>) -> u64 {
    let claims = kinds
        .get(&ObservedKind::Claims)
        .and_then(|cached| cached.objects.get(&claims_key()));
    claims.map_or(0, |claims| claims.version)
}

impl Object {
    pub(super) fn new(kind: ObservedKind, object: &Value) -> Object {
        let mut slimmed = slim(kind, object);
        let json: Arc<str> = slimmed.to_string().into();
        slimmed["metadata"]["resourceVersion"] = Value::Null;
        let mut meaning = DefaultHasher::new();
        slimmed.to_string().hash(&mut meaning);
        let understood = Understood::of(kind, &json);
        let shown = || blocks_shown(kind, &json, understood.as_ref());
        let blocks = if WITH_BLOCKS.contains(&kind) {
            shown()
        } else {
            Vec::new()
        };
        let metadata = &object["metadata"];
        Object {
            version: version(object),
            uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
            is_terminating: metadata["deletionTimestamp"].is_string(),
            meaning: meaning.finish(),
            blocks,
            json,
            understood,
        }
    }

    fn give_to(&self, visitor: &mut dyn ListVisitor) -> Result<(), ReadError> {
        match &self.understood {
            Some(understood) => visitor.known(&self.json, understood),
            None => visitor.object(&self.json),
        }
    }

    pub(super) fn satisfies(&self, pending: &PendingWrite) -> bool {
        match pending {
            PendingWrite::Version(at) => self.version >= *at,
            PendingWrite::Deletion(uid) => self.is_terminating || self.uid != *uid,
        }
    }
}

impl CachedKind {
    pub(super) fn satisfies(&self, key: &str, pending: &PendingWrite) -> bool {
        match (self.objects.get(key), pending) {
            (Some(object), pending) => object.satisfies(pending),
            // The object was deleted since, or is not reported yet.
            (None, PendingWrite::Version(at)) => self.reached >= *at,
            (None, PendingWrite::Deletion(_)) => true,
        }
    }

    pub(super) fn of(namespace: &str) -> CachedKind {
        let namespace = namespace.to_owned();
        CachedKind {
            seen: Seen::All,
            namespace,
            served: None,
            listed_at: 0,
            reached: 0,
            objects: Arc::default(),
        }
    }

    pub(super) fn begin(&mut self, version: &str) {
        self.listed_at = version.parse().unwrap_or(0);
        self.reached = self.listed_at;
    }

    /// Adds an object, and returns how it was understood.
    pub(super) fn put(&mut self, kind: ObservedKind, object: &Value) -> Option<Understood> {
        if !is_read(kind, object) {
            return None;
        }
        let new = Object::new(kind, object);
        let understood = new.understood.clone();
        Arc::make_mut(&mut self.objects).insert(key(object), new);
        understood
    }

    pub(super) fn give_to(&self, visitor: &mut dyn ListVisitor) -> Result<(), ReadError> {
        self.objects
            .values()
            .try_for_each(|object| object.give_to(visitor))
    }
}
