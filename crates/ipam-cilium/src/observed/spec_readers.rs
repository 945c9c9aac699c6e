//! Programs beside Cilium that route or announce `spec.podCIDR` of Nodes, whatever field Cilium reads.
//! Found by the images of DaemonSets in `kube-system`.

use super::view_lb::WorkloadView;

ipam_core::text_enum! {
    /// Such a program. The text is in the name of its image.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SpecRouter {
        /// Announces the field by BGP (`--advertise-pod-cidr`), and makes routes on nodes.
        KubeRouter = "kube-router",
        /// Makes routes or tunnels for the field (its manager for Kubernetes).
        Flannel = "flannel",
        /// The network of kind, which makes routes.
        Kindnet = "kindnetd",
    }
}

/// A program in the cluster that routes or announces the field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenSpecRouter {
    pub program: SpecRouter,
    /// Name of the DaemonSet.
    pub object: String,
}

/// With this argument, kube-router neither makes routes nor speaks BGP (`docs/user-guide.md`).
const ROUTES_OFF: &str = "--run-router=false";

/// The program of a DaemonSet whose Pods run.
pub(super) fn spec_router(view: &WorkloadView<'_>) -> Option<SeenSpecRouter> {
    if view.status.current_number_scheduled == Some(0) {
        return None;
    }
    let program = view.containers().find_map(|container| {
        let mut words = container.command.iter().chain(&container.args);
        if words.any(|word| word == ROUTES_OFF) {
            return None;
        }
        let name = container.image_name();
        let mut programs = SpecRouter::ALL.into_iter();
        programs.find(|program| name.contains(program.as_str()))
    });
    Some(SeenSpecRouter {
        program: program?,
        object: view.metadata.name.clone().into_owned(),
    })
}
