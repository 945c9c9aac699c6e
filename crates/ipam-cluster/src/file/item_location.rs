//! Identifies the objects of a cluster file.

use super::super::{Target, WriteError};
use ipam_cilium::observed::{CLAIMS_NAME, OWN_NAMESPACE, ObservedKind};

/// Kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ItemLocation {
    pub(super) kind: ObservedKind,
    namespace: String,
    pub(super) name: String,
}

impl ItemLocation {
    pub(super) fn new(kind: ObservedKind, namespace: &str, name: &str) -> ItemLocation {
        let namespace = match kind {
            ObservedKind::Service if namespace.is_empty() => "default",
            ObservedKind::Service | ObservedKind::CiliumNodeConfig => namespace,
            // The other kinds have no namespaces, or one object.
            _ => "",
        };
        ItemLocation {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The object of a write.
    ///
    /// # Errors
    /// Fails if a cluster file has no such objects.
    pub(super) fn of(target: &Target) -> Result<ItemLocation, WriteError> {
        Ok(match target {
            Target::Node(name) => ItemLocation::new(ObservedKind::Node, "", name.as_str()),
            Target::CiliumNode(name) => {
                ItemLocation::new(ObservedKind::CiliumNode, "", name.as_str())
            }
            Target::NodeConfig(_, namespace, name) => {
                ItemLocation::new(ObservedKind::CiliumNodeConfig, namespace, name)
            }
            Target::PodPool(_, name) => ItemLocation::new(ObservedKind::PodIpPool, "", name),
            Target::AddressPool(_, name) => {
                ItemLocation::new(ObservedKind::LoadBalancerPool, "", name.as_str())
            }
            Target::Service(service) => {
                ItemLocation::new(ObservedKind::Service, service.namespace(), service.name())
            }
            Target::Claims => ItemLocation::new(ObservedKind::Claims, OWN_NAMESPACE, CLAIMS_NAME),
            Target::Lease(_)
            | Target::Custom(..)
            | Target::Status(..)
            | Target::Pod(..)
            | Target::Eviction(..)
            | Target::MigrationRecord(_)
            | Target::Event { .. } => {
                return Err(WriteError::Refused(
                    "a cluster file has no such objects".to_owned(),
                ));
            }
        })
    }

    /// Whether a second object of the same name would hide the first.
    pub(super) fn is_unique(&self) -> bool {
        use ObservedKind::{
            CiliumNode, CiliumNodeConfig, Claims, LoadBalancerPool, Node, PodIpPool, Service,
        };
        matches!(
            self.kind,
            Node | CiliumNode | CiliumNodeConfig | Claims | LoadBalancerPool | PodIpPool | Service
        )
    }
}
