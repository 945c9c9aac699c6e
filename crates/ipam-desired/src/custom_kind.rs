//! The kinds of our own custom resources, and their names in the API.
//!
//! Knows nothing of their fields.
//!
//! An object of one of Cilium's kinds in the files, as it is written.

use serde_json::Value;

use ipam_core::model::Origin;

/// API group of the kinds of `cilium-ipam`.
pub const GROUP: &str = "cilium-ipam.io";

/// Version of the API group.
pub const VERSION: &str = "v1alpha1";

ipam_core::text_enum! {
    /// A kind of `cilium-ipam`, as written after `kind:`. All kinds are cluster-scoped, like Nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CustomKind {
        /// A pool of pod CIDRs.
        IpPool = "IPPool",
        /// A pin of a node.
        NodeAssignment = "NodeAssignment",
        /// A pin of a Service.
        ServiceAssignment = "ServiceAssignment",
        /// Write path, limits, protection and excluded ranges.
        IpamPolicy = "IPAMPolicy",
    }
}

impl CustomKind {
    /// Plural name of the kind with its group, as `kubectl` accepts it.
    pub fn resource(self) -> &'static str {
        match self {
            CustomKind::IpPool => "ippools.cilium-ipam.io",
            CustomKind::NodeAssignment => "nodeassignments.cilium-ipam.io",
            CustomKind::ServiceAssignment => "serviceassignments.cilium-ipam.io",
            CustomKind::IpamPolicy => "ipampolicies.cilium-ipam.io",
        }
    }

    /// Plural name of the kind, as in the path of its objects.
    pub fn plural(self) -> &'static str {
        let resource = self.resource();
        resource
            .split_once('.')
            .map_or(resource, |(plural, _)| plural)
    }

    /// Path of the kind's collection at the API server.
    pub fn path(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/{}", self.plural())
    }
}

/// An object of Cilium in the files. `cilium-ipam` need not read its kind otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct CiliumManifest {
    pub kind: String,
    /// Name of the object as `namespace/name`, or the name alone.
    pub name: String,
    /// The version of `apiVersion`, such as `v2alpha1`.
    pub version: String,
    /// The place of `apiVersion`.
    pub origin: Origin,
    pub object: Value,
}

impl CiliumManifest {
    /// Whether the object has a field. `[]` in the path stands for any item of a list.
    pub fn has(&self, path: &str) -> bool {
        let keys: Vec<&str> = path.split('.').collect();
        has(&self.object, &keys)
    }
}

fn has(value: &Value, path: &[&str]) -> bool {
    let Some((key, rest)) = path.split_first() else {
        return true;
    };
    match key.strip_suffix("[]") {
        None => value.get(key).is_some_and(|value| has(value, rest)),
        Some(key) => {
            let items = value.get(key).and_then(Value::as_array);
            items.is_some_and(|items| items.iter().any(|item| has(item, rest)))
        }
    }
}
