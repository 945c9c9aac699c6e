//! Reads Cilium's agent and operator, its CRD, and kube-controller-manager. Versions come from
//! images and labels, settings from arguments.

use super::cilium::{version_of_chart, version_of_image, version_of_schema};
use super::read::{Definition, Reader};
use super::settings::arguments;
use super::view_workload::{Container, DefinitionView, WorkloadView};
use super::{Evidence, NodeCidrAllocation, OperatorState};
use ipam_core::net::Block;

impl Reader {
    pub(super) fn daemon_set(&mut self, view: &WorkloadView<'_>) {
        let containers = view
            .spec
            .template
            .iter()
            .flat_map(|template| &template.spec.containers);
        let agent: Vec<&Container> = containers
            .filter(|container| container.name == "cilium-agent")
            .collect();
        let resolvers = view
            .spec
            .template
            .iter()
            .flat_map(|template| &template.spec.init_containers);
        let resolvers = resolvers.filter(|container| container.name == "config");
        self.observed.cilium.resolver_arguments = resolvers.flat_map(arguments).collect();
        self.observed.cilium.agent_arguments = agent
            .iter()
            .flat_map(|container| arguments(container))
            .collect();
        self.daemon_sets.push(
            view.metadata
                .namespace
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
        );
        self.versions.extend(
            agent
                .iter()
                .filter_map(|c| version_of_image(&c.image))
                .map(|v| (Evidence::ImageTag, v)),
        );
        let chart = view
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("helm.sh/chart"));
        self.versions.extend(
            chart
                .and_then(|label| version_of_chart(label))
                .map(|v| (Evidence::ChartLabel, v)),
        );
    }

    pub(super) fn operator(&mut self, view: &WorkloadView<'_>) {
        let containers = view
            .spec
            .template
            .iter()
            .flat_map(|template| &template.spec.containers);
        for container in containers.filter(|container| container.name == "cilium-operator") {
            let cilium = &mut self.observed.cilium;
            cilium.operator_state = match (&cilium.operator_arguments, view.is_settled()) {
                (Some(_), _) => OperatorState::Several,
                (None, true) => OperatorState::Settled,
                (None, false) => OperatorState::Changing,
            };
            cilium.operator_replicas = view.spec.replicas;
            cilium.operator_version =
                version_of_image(&container.image).or(cilium.operator_version);
            cilium
                .operator_arguments
                .get_or_insert_default()
                .extend(arguments(container));
        }
    }

    pub(super) fn definition(&mut self, view: &DefinitionView<'_>) {
        self.definition = Definition::Installed;
        let label = view
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("io.cilium.k8s.crd.schema.version"));
        self.versions.extend(
            label
                .and_then(|label| version_of_schema(label))
                .map(|v| (Evidence::SchemaLabel, v)),
        );
    }

    pub(super) fn controller_manager(&mut self, view: &WorkloadView<'_>) {
        let cidrs = view
            .spec
            .containers
            .iter()
            .filter_map(|container| arguments(container).remove("cluster-cidr"));
        let ranges = cidrs.flat_map(|texts| {
            texts
                .split(',')
                .filter_map(|text| Block::lenient(text.trim()).ok())
                .collect::<Vec<_>>()
        });
        self.observed
            .cluster_cidrs
            .extend(ranges.map(|block| block.range()));
        let seen: Vec<NodeCidrAllocation> =
            view.spec.containers.iter().filter_map(allocation).collect();
        if seen.contains(&NodeCidrAllocation::On) {
            self.observed.controller_manager = NodeCidrAllocation::On;
        } else if !seen.is_empty() && self.observed.controller_manager == NodeCidrAllocation::Unseen
        {
            self.observed.controller_manager = NodeCidrAllocation::Off;
        }
    }
}

/// Value of the flag in a command line, including scripts of a shell. `None` if the container does
/// not run kube-controller-manager. The flag is off by default.
fn allocation(container: &Container) -> Option<NodeCidrAllocation> {
    const FLAG: &str = "--allocate-node-cidrs";
    let words: Vec<&str> = container
        .command
        .iter()
        .chain(&container.args)
        .map(String::as_str)
        .collect();
    let values: Vec<&str> = words
        .iter()
        .flat_map(|word| word.split(FLAG).skip(1))
        .collect();
    let is_off = |value: &&str| {
        ["=false", "=0", "=f", "=F", "=False", "=FALSE"]
            .iter()
            .any(|off| value.starts_with(off))
    };
    if !values.is_empty() {
        return Some(if values.iter().all(is_off) {
            NodeCidrAllocation::Off
        } else {
            NodeCidrAllocation::On
        });
    }
    words
        .iter()
        .any(|word| word.contains("kube-controller-manager"))
        .then_some(NodeCidrAllocation::Off)
}
