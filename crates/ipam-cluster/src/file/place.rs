//! What tells the objects of a cluster file apart.

use super::super::{Target, WriteError};
use ipam_cilium::observed::{CLAIMS_NAME, OWN_NAMESPACE, ObservedKind};

/// What tells objects apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) kind: ObservedKind,
    namespace: String,
    pub(super) name: String,
}

impl Place {
    pub(super) fn new(kind: ObservedKind, namespace: &str, name: &str) -> Place {
        let namespace = match kind {
            ObservedKind::Service if namespace.is_empty() => "default",
            ObservedKind::Service | ObservedKind::CiliumNodeConfig => namespace,
            // Of a kind without namespaces it says nothing, and of the others there is one object.
            _ => "",
        };
        Place {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Where the object of a write stands.
    ///
    /// # Errors
    /// A file keeps no such objects.
    pub(super) fn of(target: &Target) -> Result<Place, WriteError> {
        Ok(match target {
            Target::Node(name) => Place::new(ObservedKind::Node, "", name.as_str()),
            Target::CiliumNode(name) => Place::new(ObservedKind::CiliumNode, "", name.as_str()),
            Target::NodeConfig(_, namespace, name) => {
                Place::new(ObservedKind::CiliumNodeConfig, namespace, name)
            }
            Target::PodPool(name) => Place::new(ObservedKind::PodIpPool, "", name),
            Target::AddressPool(_, name) => {
                Place::new(ObservedKind::LoadBalancerPool, "", name.as_str())
            }
            Target::Service(service) => {
                Place::new(ObservedKind::Service, service.namespace(), service.name())
            }
            Target::Claims => Place::new(ObservedKind::Claims, OWN_NAMESPACE, CLAIMS_NAME),
            Target::Lease(_)
            | Target::Custom(..)
            | Target::Status(..)
            | Target::Event
            | Target::Port(_) => {
                return Err(WriteError::Refused("a file keeps none of these".to_owned()));
            }
        })
    }

    /// Of these kinds every object counts by itself, so a second one of the same name would hide
    /// the first.
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
