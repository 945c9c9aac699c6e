//! Programs beside Cilium that route or announce `spec.podCIDR` of Nodes, whatever field Cilium reads.
//! Found by the images of DaemonSets.

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
    /// Namespace and name of the DaemonSet.
    pub object: String,
}

/// With this argument, kube-router neither makes routes nor speaks BGP (`docs/user-guide.md`).
const ROUTES_OFF: &str = "--run-router=false";

/// With this variable, Calico's node routes the block of the Node, for CNI's `host-local`. Without it,
/// Calico routes blocks of its own.
const USE_POD_CIDR: &str = "USE_POD_CIDR";

/// The program of a DaemonSet whose Pods run. Outside `kube-system`, tenants create DaemonSets, but
/// only administrators allow the network of the host, which these programs need.
pub(super) fn spec_router(view: &WorkloadView<'_>) -> Option<SeenSpecRouter> {
    let template = view.spec.template.as_ref()?;
    let namespace = view.metadata.namespace.as_deref().unwrap_or(OWN_NAMESPACE);
    let is_trusted = namespace == OWN_NAMESPACE || template.spec.host_network == Some(true);
    if !is_trusted || view.status.current_number_scheduled == Some(0) {
        return None;
    }
    Some(SeenSpecRouter {
        program: view.containers().find_map(program)?,
        object: format!("{namespace}/{}", view.metadata.name),
    })
}

fn program(container: &Container) -> Option<SpecRouter> {
    let mut words = container.command.iter().chain(&container.args);
    if words.any(|word| word == ROUTES_OFF) {
        return None;
    }
    let name = container.image_name();
    let is_of = |program: &SpecRouter| match program {
        SpecRouter::Calico => container.image.contains("calico") && uses_pod_cidr(container),
        _ => name.contains(program.as_str()),
    };
    SpecRouter::ALL.into_iter().find(is_of)
}

/// A slim container has no words and no variables: `is_read` keeps only those that route the field.
fn uses_pod_cidr(container: &Container) -> bool {
    let is_slim =
        container.env.is_empty() && container.command.is_empty() && container.args.is_empty();
    let mut variables = container.env.iter();
    let is_on =
        variables.any(|one| one.name == USE_POD_CIDR && one.value.as_deref() == Some("true"));
    is_on || is_slim
}
