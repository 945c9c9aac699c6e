//! URL paths of objects on the API server.

use std::borrow::Cow;

use crate::Target;
use ipam_cilium::observed::{CLAIMS_NAME, OWN_NAMESPACE};

/// The path of a collection.
pub(super) fn collection(target: &Target) -> Cow<'static, str> {
    match target {
        Target::Node(_) => "/api/v1/nodes".into(),
        Target::Pod(namespace, _) => format!("/api/v1/namespaces/{namespace}/pods").into(),
        Target::Eviction(namespace, pod) => {
            format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction").into()
        }
        Target::NodeConfig(api, namespace, _) => format!(
            "/apis/{}/namespaces/{namespace}/ciliumnodeconfigs",
            api.as_str()
        )
        .into(),
        Target::PodPool(api, _) => format!("/apis/{}/ciliumpodippools", api.as_str()).into(),
        Target::CiliumNode(_) => "/apis/cilium.io/v2/ciliumnodes".into(),
        Target::AddressPool(api, _) => {
            format!("/apis/{}/ciliumloadbalancerippools", api.as_str()).into()
        }
        Target::Service(service) => {
            format!("/api/v1/namespaces/{}/services", service.namespace()).into()
        }
        Target::Claims | Target::MigrationRecord(_) => {
            format!("/api/v1/namespaces/{OWN_NAMESPACE}/configmaps").into()
        }
        Target::Custom(kind, _) | Target::Status(kind, _) => kind.path().into(),
        Target::Event { namespace } => format!("/api/v1/namespaces/{namespace}/events").into(),
        Target::Lease(_) => {
            format!("/apis/coordination.k8s.io/v1/namespaces/{OWN_NAMESPACE}/leases").into()
        }
    }
}

/// The path of an object below its collection.
pub(super) fn object_name(target: &Target) -> Cow<'_, str> {
    let name = match target {
        Target::Status(_, name) => return format!("{name}/status").into(),
        Target::Node(name) | Target::CiliumNode(name) => name.as_str(),
        Target::Pod(_, name) | Target::MigrationRecord(name) => name,
        Target::AddressPool(_, name) => name.as_str(),
        Target::NodeConfig(_, _, name) | Target::PodPool(_, name) | Target::Custom(_, name) => name,
        Target::Service(service) => service.name(),
        Target::Claims => CLAIMS_NAME,
        Target::Lease(name) => name.as_str(),
        Target::Event { .. } | Target::Eviction(..) => "",
    };
    name.into()
}
