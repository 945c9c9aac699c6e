//! Recognizes the Kubernetes distribution by its Nodes and Pods, and knows where a distribution
//! sets the flags of its controllers. It must never know the meaning of the flags.

use super::controller_process::ControllerProgram;
use ipam_core::model::Labels;

ipam_core::text_enum! {
    /// A distribution with its own way to configure controllers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Distribution {
        Kubeadm = "kubeadm",
        K3s = "k3s",
        Rke2 = "RKE2",
        MicroK8s = "MicroK8s",
        Talos = "Talos",
        Kops = "kOps",
        Eks = "EKS",
        Gke = "GKE",
        Aks = "AKS",
        DigitalOcean = "DigitalOcean Kubernetes",
        Linode = "Linode Kubernetes Engine",
        Ibm = "IBM Cloud Kubernetes Service",
        Gardener = "Gardener",
        OpenShift = "OpenShift",
    }
}

/// Start of a label's key.
const LABELS: [(&str, Distribution); 9] = [
    ("kops.k8s.io/", Distribution::Kops),
    ("microk8s.io/", Distribution::MicroK8s),
    ("eks.amazonaws.com/", Distribution::Eks),
    ("cloud.google.com/gke-", Distribution::Gke),
    ("kubernetes.azure.com/", Distribution::Aks),
    ("doks.digitalocean.com/", Distribution::DigitalOcean),
    ("lke.linode.com/", Distribution::Linode),
    ("worker.gardener.cloud/", Distribution::Gardener),
    ("node.openshift.io/", Distribution::OpenShift),
];

/// Text in a kubelet's version that shows the distribution.
const VERSIONS: [(&str, Distribution); 5] = [
    ("+k3s", Distribution::K3s),
    ("+rke2", Distribution::Rke2),
    ("-eks-", Distribution::Eks),
    ("-gke.", Distribution::Gke),
    ("+IKS", Distribution::Ibm),
];

impl Distribution {
    /// Recognises the distribution of a Node. `image` is the Node's `osImage`.
    pub(super) fn of_node(
        labels: Option<&Labels>,
        kubelet: &str,
        image: &str,
        provider: &str,
    ) -> Option<Distribution> {
        let by_version = VERSIONS.iter().find(|(part, _)| kubelet.contains(part));
        let of_label = |(start, _): &&(&str, Distribution)| {
            labels.is_some_and(|labels| labels.keys().any(|key| key.starts_with(start)))
        };
        match provider {
            _ if image.starts_with("Talos") => Some(Distribution::Talos),
            _ if provider.starts_with("k3s://") => Some(Distribution::K3s),
            _ if provider.starts_with("rke2://") => Some(Distribution::Rke2),
            _ => {
                let found = by_version.or_else(|| LABELS.iter().find(of_label));
                found.map(|(_, distribution)| *distribution)
            }
        }
    }

    /// By the labels of the Pod of a kube-controller-manager. kubeadm sets `component` and `tier`,
    /// older Talos `k8s-app` and `tier`, kOps only `k8s-app`.
    pub(super) fn of_pod(labels: &Labels) -> Option<Distribution> {
        let program = ControllerProgram::KubeControllerManager.as_str();
        let is_set = |key: &str| labels.get(key).is_some_and(|value| value == program);
        let has_tier = labels
            .get("tier")
            .is_some_and(|value| value == "control-plane");
        match (is_set("component"), is_set("k8s-app"), has_tier) {
            (true, false, true) => Some(Distribution::Kubeadm),
            (false, true, true) => Some(Distribution::Talos),
            (false, true, false) => Some(Distribution::Kops),
            _ => None,
        }
    }

    /// The process that runs kube-controller-manager in itself, without a Pod.
    pub(super) fn embedding_process(self) -> Option<&'static str> {
        match self {
            Distribution::K3s => Some("k3s"),
            Distribution::MicroK8s => Some("kubelite"),
            _ => None,
        }
    }

    fn is_hosted(self) -> bool {
        use Distribution::{Aks, DigitalOcean, Eks, Gardener, Gke, Ibm, Linode};
        matches!(
            self,
            Eks | Gke | Aks | DigitalOcean | Linode | Ibm | Gardener
        )
    }

    /// Whether nothing that is read shows how its controllers run. Those of OpenShift have
    /// namespaces of their own.
    pub(super) fn hides_controllers(self) -> bool {
        let has_namespaces = self == Distribution::OpenShift;
        self.is_hosted() || self.embedding_process().is_some() || has_namespaces
    }

    /// How to switch off `--allocate-node-cidrs` of a controller, named as in
    /// `acknowledgedAllocators`.
    fn switch_off(self, controller: &str) -> Option<String> {
        let is_cloud = controller == ControllerProgram::CloudControllerManager.as_str();
        let text = match self {
            Distribution::Eks
            | Distribution::Gke
            | Distribution::Aks
            | Distribution::DigitalOcean
            | Distribution::Linode
            | Distribution::Ibm
            | Distribution::Gardener => format!(
                "the control plane is hosted ({self}): ask its provider to switch off the allocation of pod CIDRs, or run Cilium with ipam `cluster-pool`"
            ),
            Distribution::K3s | Distribution::Rke2 => {
                let (folder, service) = match self {
                    Distribution::K3s => ("k3s", "k3s"),
                    _ => ("rke2", "rke2-server"),
                };
                let key = match is_cloud {
                    true => "kube-cloud-controller-manager-arg",
                    false => "kube-controller-manager-arg",
                };
                format!(
                    "set `{key}: [allocate-node-cidrs=false]` in /etc/rancher/{folder}/config.yaml on every server, and restart {service}"
                )
            }
            Distribution::Kops => {
                let field = match is_cloud {
                    true => "cloudControllerManager",
                    false => "kubeControllerManager",
                };
                format!(
                    "set `spec.{field}.allocateNodeCIDRs: false` with `kops edit cluster`, then run `kops update cluster --yes` and `kops rolling-update cluster --yes`"
                )
            }
            _ if is_cloud => return None,
            Distribution::OpenShift => "set `allocate-node-cidrs: [\"false\"]` in `spec.unsupportedConfigOverrides.extendedArguments` of the KubeControllerManager `cluster` (operator.openshift.io)".to_owned(),
            Distribution::Kubeadm => "set `--allocate-node-cidrs=false` in /etc/kubernetes/manifests/kube-controller-manager.yaml on every control-plane node, and in `controllerManager.extraArgs` of the ConfigMap `kubeadm-config`".to_owned(),
            Distribution::Talos => "set `cluster.controllerManager.extraArgs.allocate-node-cidrs: \"false\"` in the machine config of every control-plane node".to_owned(),
            Distribution::MicroK8s => "add `--allocate-node-cidrs=false` to /var/snap/microk8s/current/args/kube-controller-manager on every control-plane node, and run `snap restart microk8s.daemon-kubelite`".to_owned(),
        };
        Some(text)
    }
}

/// How to keep a controller from assigning pod CIDRs.
pub(super) fn switch_off(distribution: Option<Distribution>, controller: &str) -> String {
    let embeds = |one: &Distribution| one.embedding_process() == Some(controller);
    let distribution = distribution.or_else(|| Distribution::ALL.into_iter().find(embeds));
    let program = super::controller_process::named_in(controller);
    let has_flag = match program {
        Some(program) => program != ControllerProgram::NodeIpamController,
        None => false,
    };
    // Not the place of a program such as kops-controller.
    let distribution = distribution.filter(|one| has_flag || embeds(one));
    let exact = distribution.and_then(|distribution| distribution.switch_off(controller));
    exact.unwrap_or_else(|| match program {
        Some(ControllerProgram::NodeIpamController) | None => {
            format!("stop {controller}, or switch off its allocation of pod CIDRs")
        }
        Some(_) => format!("run {controller} with --allocate-node-cidrs=false"),
    })
}
