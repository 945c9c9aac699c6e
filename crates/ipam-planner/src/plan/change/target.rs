//! The object that a change is about.

use std::fmt;

use strum::IntoStaticStr;

use ipam_core::model::{AddressPoolName, NodeName, ServiceName};
use ipam_core::neutron::Id;

/// The object that a change is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
pub enum Target {
    /// A `CiliumLoadBalancerIPPool`.
    #[strum(serialize = "CiliumLoadBalancerIPPool")]
    AddressPool(AddressPoolName),
    /// A Service.
    Service(ServiceName),
    /// A `CiliumPodIPPool`.
    #[strum(serialize = "CiliumPodIPPool")]
    PodPool(String),
    /// A `CiliumNodeConfig`.
    #[strum(serialize = "CiliumNodeConfig")]
    NodeConfig(String),
    /// A port of a VM, at OpenStack Neutron.
    Port(Id),
    /// A Node.
    Node(NodeName),
}

impl Target {
    /// Kind as Kubernetes writes it; `Port` for a port of Neutron.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Name, as `NAMESPACE/NAME` if the kind has namespaces.
    pub fn name(&self) -> String {
        match self {
            Target::AddressPool(name) => name.to_string(),
            Target::Service(name) => name.to_string(),
            Target::PodPool(name) | Target::NodeConfig(name) => name.clone(),
            Target::Port(id) => id.to_string(),
            Target::Node(name) => name.to_string(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_the_api() {
        let kinds = [
            Target::AddressPool("p".parse().unwrap()),
            Target::Service("n/s".parse().unwrap()),
            Target::PodPool("p".to_owned()),
            Target::NodeConfig("c".to_owned()),
            Target::Node("n".parse().unwrap()),
        ]
        .map(|target| target.kind());
        assert_eq!(
            kinds,
            [
                "CiliumLoadBalancerIPPool",
                "Service",
                "CiliumPodIPPool",
                "CiliumNodeConfig",
                "Node"
            ]
        );
    }
}
