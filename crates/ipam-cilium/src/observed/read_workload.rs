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
        let ranges = view.spec.containers.iter().flat_map(cluster_cidrs);
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

const PROGRAM: &str = "kube-controller-manager";
const ALLOCATE_FLAG: &str = "--allocate-node-cidrs";

/// The words from which [`Reader`] derives the same as from the whole command line of a
/// kube-controller-manager. Of a shell script, they hold the program and its flags only.
pub(super) fn controller_manager_words(container: &Container) -> Vec<String> {
    let program = runs_controller_manager(container).then(|| PROGRAM.to_owned());
    let allocate = words(container)
        .flat_map(allocate_flags)
        .map(|is_on| format!("{ALLOCATE_FLAG}={is_on}"));
    let cidrs: Vec<String> = cluster_cidrs(container)
        .iter()
        .map(Block::to_string)
        .collect();
    let cidrs = (!cidrs.is_empty()).then(|| format!("--cluster-cidr={}", cidrs.join(",")));
    program.into_iter().chain(allocate).chain(cidrs).collect()
}

/// Value of the flag in a command line, including scripts of a shell. `None` if the container does
/// not run kube-controller-manager. The flag is off by default.
fn allocation(container: &Container) -> Option<NodeCidrAllocation> {
    let flags: Vec<bool> = words(container).flat_map(allocate_flags).collect();
    if flags.contains(&true) {
        Some(NodeCidrAllocation::On)
    } else if !flags.is_empty() || runs_controller_manager(container) {
        Some(NodeCidrAllocation::Off)
    } else {
        None
    }
}

fn words(container: &Container) -> impl Iterator<Item = &str> {
    let words = container.command.iter().chain(&container.args);
    words.map(String::as_str)
}

fn runs_controller_manager(container: &Container) -> bool {
    words(container).any(|word| word.contains(PROGRAM))
}

/// The values of `--allocate-node-cidrs` in a word, which may be a script.
fn allocate_flags(word: &str) -> impl Iterator<Item = bool> {
    const OFF: [&str; 6] = ["=false", "=0", "=f", "=F", "=False", "=FALSE"];
    let values = word.split(ALLOCATE_FLAG).skip(1);
    values.map(|value| !OFF.iter().any(|off| value.starts_with(off)))
}

fn cluster_cidrs(container: &Container) -> Vec<Block> {
    let texts = arguments(container).remove("cluster-cidr");
    let texts = texts.iter().flat_map(|texts| texts.split(','));
    texts
        .filter_map(|text| Block::lenient(text.trim()).ok())
        .collect()
}
