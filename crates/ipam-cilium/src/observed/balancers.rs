//! Programs beside Cilium that give LoadBalancer addresses: their workloads, and what they leave at
//! Services. Must never know what LB-IPAM serves.

use std::collections::BTreeMap;

use super::view_lb::{Container, OwnedServiceStatus, RequestManager, WorkloadView};

ipam_core::text_enum! {
    /// Such a program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Balancer {
        MetalLb = "MetalLB",
        KubeVip = "kube-vip",
    }
}

/// The namespace of MetalLB's manifests. In a cluster, no Deployment there is read.
pub(super) const METAL_LB_NAMESPACE: &str = "metallb-system";

/// Parts of the images of the containers that write the status of Services.
const IMAGES: [(&str, Balancer); 3] = [
    ("metallb/controller", Balancer::MetalLb),
    ("metallb-controller", Balancer::MetalLb),
    ("kube-vip/kube-vip", Balancer::KubeVip),
];

/// Annotations that these programs set when they give a Service an address.
pub(super) const MARKS: [(&str, Balancer); 3] = [
    (
        "metallb.universe.tf/ip-allocated-from-pool",
        Balancer::MetalLb,
    ),
    ("metallb.io/ip-allocated-from-pool", Balancer::MetalLb),
    ("kube-vip.io/vipHost", Balancer::KubeVip),
];

/// Flags with which a program leaves Services without a class to others.
const CLASS_FLAGS: [&str; 2] = ["--lb-class", "--lbClassOnly"];

/// What another controller than Cilium leaves at a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherController {
    /// The program whose annotation the Service has.
    pub mark: Option<Balancer>,
    /// The field manager that wrote addresses after Cilium's last write of the status.
    pub writer: Option<String>,
}

impl Balancer {
    /// The program that a workload runs, if it serves Services without a class.
    pub(super) fn of_workload(view: &WorkloadView<'_>) -> Option<Balancer> {
        let program = |container: &Container| {
            let mut images = IMAGES.iter();
            let (_, program) = images.find(|(part, _)| container.image.contains(part))?;
            let words = container.command.iter().chain(&container.args);
            let names_class = |word: &String| CLASS_FLAGS.iter().any(|flag| word.starts_with(flag));
            let variables = container.env.iter();
            let has_class = words.clone().any(names_class)
                || variables.clone().any(|one| one.name == "lb_class_only");
            let serves = *program != Balancer::KubeVip || serves_services(container);
            (serves && !has_class).then_some(*program)
        };
        match view.is_over() {
            true => None,
            false => view.containers().find_map(program),
        }
    }
}

/// Whether a container of kube-vip serves Services. By default, kube-vip gives only the API server an
/// address. A slim container has no words and no variables: `is_read` keeps only those that serve.
fn serves_services(container: &Container) -> bool {
    let mut words = container.command.iter().chain(&container.args);
    let is_slim = container.env.is_empty() && words.clone().next().is_none();
    let mut variables = container.env.iter();
    let by_variable =
        variables.any(|one| one.name == "svc_enable" && one.value.as_deref() != Some("false"));
    let by_flag = words.any(|word| matches!(word.as_str(), "--services" | "--services=true"));
    is_slim || by_variable || by_flag
}

impl OtherController {
    pub(super) fn of(
        annotations: &BTreeMap<String, String>,
        managers: &[RequestManager],
    ) -> OtherController {
        let mut marks = MARKS.iter();
        let mark = marks.find(|(key, _)| annotations.contains_key(*key));
        OtherController {
            mark: mark.map(|(_, program)| *program),
            writer: later_writer(managers),
        }
    }
}

/// An address that Cilium takes over keeps its first owner. So only a write after Cilium's shows that
/// the other program still runs. People who patch a status are no controllers.
fn later_writer(managers: &[RequestManager]) -> Option<String> {
    let owns = |one: &RequestManager, is_owned: fn(&OwnedServiceStatus) -> bool| {
        let status = one
            .fields
            .as_ref()
            .and_then(|fields| fields.status.as_ref());
        status.is_some_and(is_owned)
    };
    let is_of_cilium = |one: &&RequestManager| one.manager.starts_with("cilium");
    let of_cilium = managers.iter().filter(is_of_cilium);
    let of_cilium = of_cilium.filter(|one| owns(one, OwnedServiceStatus::is_of_addresses));
    let last = of_cilium.filter_map(|one| one.time.as_deref()).max()?;
    let is_later = |one: &&RequestManager| {
        owns(one, |status| status.load_balancer.is_some())
            && one.time.as_deref().is_some_and(|time| time > last)
            && !one.manager.starts_with("kubectl")
    };
    let mut others = managers
        .iter()
        .filter(|one| !is_of_cilium(one))
        .filter(is_later);
    others.next().map(|one| one.manager.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_vip_of_the_control_plane_serves_no_services() {
        let serving = Some(Balancer::KubeVip);
        for (container, expected) in [
            (
                r#""args":["manager"],"env":[{"name":"cp_enable","value":"true"}]"#,
                None,
            ),
            (r#""env":[{"name":"svc_enable","value":"false"}]"#, None),
            (r#""env":[{"name":"svc_enable","value":"true"}]"#, serving),
            (r#""args":["manager","--services"]"#, serving),
            (r#""name":"slim""#, serving),
        ] {
            let image = r#""image":"ghcr.io/kube-vip/kube-vip:v0.8.0""#;
            let text = format!(
                r#"{{"metadata":{{"name":"v"}},"spec":{{"containers":[{{{image},{container}}}]}}}}"#
            );
            let view: WorkloadView<'_> = serde_json::from_str(&text).unwrap();
            assert_eq!(Balancer::of_workload(&view), expected, "{container}");
        }
    }
}
