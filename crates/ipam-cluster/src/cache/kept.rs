//! Objects as a mirror keeps them: what is read of each, and what was understood of it, so that
//! nothing is read twice.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::{Listener, Seen, Target};
use ipam_cilium::observed::{
    CLAIMS_NAME, OWN_NAMESPACE, ObjectVersion, ObservedKind, ReadError, Understood, blocks_shown,
    slim,
};
use ipam_core::net::Block;

/// Kinds that tell who has a block.
pub(super) const WITH_BLOCKS: [ObservedKind; 3] = [
    ObservedKind::Node,
    ObservedKind::CiliumNode,
    ObservedKind::CiliumNodeConfig,
];

/// What must show before a write of ours counts as heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owed {
    /// The object in this version, or a later one.
    Version(u64),
    /// That the object of this UID is gone, or going.
    End(String),
}

/// One kind. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) seen: Seen,
    /// Where it was listed.
    pub(super) namespace: String,
    pub(super) served: Option<String>,
    /// The moment of the list.
    pub(super) listed_at: u64,
    /// All that happened up to this moment is known.
    pub(super) reached: u64,
    pub(super) objects: Arc<BTreeMap<String, Object>>,
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) version: u64,
    pub(super) uid: String,
    is_going: bool,
    /// A digest of what is read of it, its version aside.
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

/// The object of a target, as it is kept; what no plan needs is not.
pub(super) fn object_of(target: &Target) -> Option<(ObservedKind, String)> {
    Some(match target {
        Target::Node(name) => (ObservedKind::Node, name.to_string()),
        Target::CiliumNode(name) => (ObservedKind::CiliumNode, name.to_string()),
        Target::NodeConfig(_, namespace, name) => {
            (ObservedKind::CiliumNodeConfig, full_name(namespace, name))
        }
        Target::PodPool(name) => (ObservedKind::PodIpPool, name.clone()),
        Target::AddressPool(_, name) => (ObservedKind::LoadBalancerPool, name.to_string()),
        Target::Service(service) => (
            ObservedKind::Service,
            full_name(service.namespace(), service.name()),
        ),
        Target::Claims => (ObservedKind::Claims, claims_key()),
        Target::Lease(_)
        | Target::Custom(..)
        | Target::Status(..)
        | Target::Event
        | Target::Port(_) => return None,
    })
}

/// Where the claims are kept.
pub(super) fn claims_key() -> String {
    full_name(OWN_NAMESPACE, CLAIMS_NAME)
}

/// The resourceVersion of the claims; 0 where there are none.
pub(super) fn claims_version(kinds: &BTreeMap<ObservedKind, Kept>) -> u64 {
    let claims = kinds
        .get(&ObservedKind::Claims)
        .and_then(|kept| kept.objects.get(&claims_key()));
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
            is_going: metadata["deletionTimestamp"].is_string(),
            meaning: meaning.finish(),
            blocks,
            json,
            understood,
        }
    }

    fn give_to(&self, listener: &mut dyn Listener) -> Result<(), ReadError> {
        match &self.understood {
            Some(understood) => listener.known(&self.json, understood),
            None => listener.object(&self.json),
        }
    }

    pub(super) fn pays(&self, owed: &Owed) -> bool {
        match owed {
            Owed::Version(at) => self.version >= *at,
            Owed::End(uid) => self.is_going || self.uid != *uid,
        }
    }
}

impl Kept {
    /// Whether what is owed of this object shows.
    pub(super) fn pays(&self, key: &str, owed: &Owed) -> bool {
        match (self.objects.get(key), owed) {
            (Some(object), owed) => object.pays(owed),
            // It is gone again, or is not heard of yet.
            (None, Owed::Version(at)) => self.reached >= *at,
            (None, Owed::End(_)) => true,
        }
    }

    /// Nothing yet.
    pub(super) fn of(namespace: &str) -> Kept {
        let namespace = namespace.to_owned();
        Kept {
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

    pub(super) fn put(&mut self, kind: ObservedKind, object: &Value) {
        Arc::make_mut(&mut self.objects).insert(key(object), Object::new(kind, object));
    }

    pub(super) fn give_to(&self, listener: &mut dyn Listener) -> Result<(), ReadError> {
        self.objects
            .values()
            .try_for_each(|object| object.give_to(listener))
    }

    /// The moment that a list of it shows. Of the claims it is that of their last change by
    /// somebody else: what we changed since is known.
    pub(super) fn shown_version(&self, kind: ObservedKind) -> u64 {
        if kind == ObservedKind::Claims {
            self.listed_at
        } else {
            self.reached
        }
    }
}
