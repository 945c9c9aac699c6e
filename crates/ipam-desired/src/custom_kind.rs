//! The kinds of our own custom resources.

/// API group of our kinds.
pub const GROUP: &str = "cilium-ipam.io";

/// Its version.
pub const VERSION: &str = "v1alpha1";

/// A kind of our own. All are cluster-scoped, as the Nodes are that they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CustomKind {
    /// A pool.
    IpPool,
    /// A pin of a node.
    NodeAssignment,
    /// A pin of a Service.
    ServiceAssignment,
    /// The policy.
    Policy,
}

impl CustomKind {
    /// All kinds.
    pub const ALL: [CustomKind; 4] = [
        CustomKind::IpPool,
        CustomKind::NodeAssignment,
        CustomKind::ServiceAssignment,
        CustomKind::Policy,
    ];

    /// As written after `kind:`.
    pub fn as_str(self) -> &'static str {
        match self {
            CustomKind::IpPool => "IPPool",
            CustomKind::NodeAssignment => "NodeAssignment",
            CustomKind::ServiceAssignment => "ServiceAssignment",
            CustomKind::Policy => "Policy",
        }
    }

    /// Plural name, as in the path of its objects.
    pub fn plural(self) -> &'static str {
        match self {
            CustomKind::IpPool => "ippools",
            CustomKind::NodeAssignment => "nodeassignments",
            CustomKind::ServiceAssignment => "serviceassignments",
            CustomKind::Policy => "policies",
        }
    }

    /// Plural name with group, as `kubectl` takes it.
    pub fn resource(self) -> &'static str {
        match self {
            CustomKind::IpPool => "ippools.cilium-ipam.io",
            CustomKind::NodeAssignment => "nodeassignments.cilium-ipam.io",
            CustomKind::ServiceAssignment => "serviceassignments.cilium-ipam.io",
            CustomKind::Policy => "policies.cilium-ipam.io",
        }
    }

    /// Path of its collection.
    pub fn path(self) -> String {
        format!("/apis/{GROUP}/{VERSION}/{}", self.plural())
    }
}
