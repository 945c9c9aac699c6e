//! The kinds of our own custom resources, and their names in the API.
//!
//! Knows nothing of their fields.

/// API group of our kinds.
pub const GROUP: &str = "cilium-ipam.io";

/// Version of the API group.
pub const VERSION: &str = "v1alpha1";

ipam_core::text_enum! {
    /// A kind of our own, as written after `kind:`. All are cluster-scoped, like Nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CustomKind {
        /// A pool.
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
    /// Plural name with group, as `kubectl` accepts it.
    pub fn resource(self) -> &'static str {
        match self {
            CustomKind::IpPool => "ippools.cilium-ipam.io",
            CustomKind::NodeAssignment => "nodeassignments.cilium-ipam.io",
            CustomKind::ServiceAssignment => "serviceassignments.cilium-ipam.io",
            CustomKind::IpamPolicy => "ipampolicies.cilium-ipam.io",
        }
    }

    /// Plural name, as in the path of its objects.
    pub fn plural(self) -> &'static str {
        let resource = self.resource();
        resource
            .split_once('.')
            .map_or(resource, |(plural, _)| plural)
    }

    /// Path of its collection.
    pub fn path(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/{}", self.plural())
    }
}
