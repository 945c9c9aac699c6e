//! Programs beside Cilium that route or announce `spec.podCIDR` of Nodes, whatever field Cilium reads.
//! Found by the images of DaemonSets.

use serde_json::{Map, Value, json};

use super::kind::OWN_NAMESPACE;
use super::view_lb::{Container, WorkloadView};

ipam_core::text_enum! {
    /// Such a program. The text is in its image.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SpecRouter {
        /// Announces the field by BGP (`--advertise-pod-cidr`), and makes routes on nodes.
        KubeRouter = "kube-router",
        /// Makes routes or tunnels for the field (its manager for Kubernetes).
        Flannel = "flannel",
        /// The network of kind, which makes routes.
        Kindnet = "kindnetd",
        /// Routes the field only with [`USE_POD_CIDR`].
        Calico = "calico",
    }
}

/// A program in the cluster that routes or announces the field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenSpecRouter {
    pub program: SpecRouter,
    /// Namespace of the DaemonSet.
    pub namespace: String,
    /// Name of the DaemonSet.
    pub name: String,
}

impl SeenSpecRouter {
    /// Whether only administrators can create it.
    pub fn is_of_administrators(&self) -> bool {
        self.namespace == OWN_NAMESPACE
    }
}

/// With this argument, kube-router neither makes routes nor speaks BGP (`docs/user-guide.md`).
const ROUTES_OFF: &str = "--run-router=false";

/// With this variable, Calico's node routes the block of the Node, for CNI's `host-local`. Without it,
/// Calico routes blocks of its own.
const USE_POD_CIDR: &str = "USE_POD_CIDR";

/// The program of a DaemonSet whose Pods run. Outside `kube-system`, tenants create DaemonSets; those
/// without the network of the host, which these programs need, are left out.
pub(super) fn spec_router(view: &WorkloadView<'_>) -> Option<SeenSpecRouter> {
    let template = view.spec.template.as_ref()?;
    let namespace = view.metadata.namespace.as_deref().unwrap_or(OWN_NAMESPACE);
    let can_route = namespace == OWN_NAMESPACE || template.spec.host_network == Some(true);
    if !can_route || view.status.current_number_scheduled == Some(0) {
        return None;
    }
    Some(SeenSpecRouter {
        program: view.containers().find_map(program)?,
        namespace: namespace.to_owned(),
        name: view.metadata.name.clone().into_owned(),
    })
}

fn program(container: &Container) -> Option<SpecRouter> {
    if switches_routes_off(container) {
        return None;
    }
    let name = container.image_name();
    let is_of = |program: &SpecRouter| match program {
        SpecRouter::Calico => is_calico(container) && pod_cidr_variable(container) == Some("true"),
        _ => name.contains(program.as_str()),
    };
    SpecRouter::ALL.into_iter().find(is_of)
}

fn switches_routes_off(container: &Container) -> bool {
    let mut words = container.command.iter().chain(&container.args);
    words.any(|word| word == ROUTES_OFF)
}

/// `quay.io/calico/node` and copies such as `rancher/mirrored-calico-node`.
fn is_calico(container: &Container) -> bool {
    let name = container.image_name();
    let folder = container.image.rsplit('/').nth(1);
    name.contains("calico-node") || name == "node" && folder == Some("calico")
}

fn pod_cidr_variable(container: &Container) -> Option<&str> {
    let mut variables = container.env.iter();
    let variable = variables.find(|one| one.name == USE_POD_CIDR)?;
    variable.value.as_deref()
}

/// The part of a container from which [`spec_router`] reads the same, beside its image: other words and
/// variables may be secrets.
pub(super) fn slim_routing(container: &Container) -> Map<String, Value> {
    let off = switches_routes_off(container).then(|| ("command", json!([ROUTES_OFF])));
    let variable = pod_cidr_variable(container)
        .map(|value| ("env", json!([{"name": USE_POD_CIDR, "value": value}])));
    let kept = off.into_iter().chain(variable);
    kept.map(|(key, value)| (key.to_owned(), value)).collect()
}
