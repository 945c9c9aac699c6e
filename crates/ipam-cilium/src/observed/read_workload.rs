//! Reads Cilium's agent and operator, its CRD, and kube-controller-manager. Versions come from
//! images and labels, settings from arguments.

use super::cilium::{version_of_chart, version_of_image, version_of_schema};
use super::installation::{DaemonSetSeen, Installation, OperatorSeen, Scheduled};
use super::read::Reader;
use super::served::{CiliumKind, DefinitionView, schema_label};
use super::settings::arguments;
use super::view_workload::{Container, WorkloadView};
use super::{Evidence, NodeCidrAllocation, OperatorState};
use ipam_core::net::Block;

impl Reader {
    pub(super) fn daemon_set(&mut self, view: &WorkloadView<'_>) {
        let templates = view.spec.template.iter();
        let agents: Vec<&Container> = templates
            .clone()
            .flat_map(|template| &template.spec.containers)
            .filter(|container| container.name == "cilium-agent")
            .collect();
        let resolvers = templates
            .flat_map(|template| &template.spec.init_containers)
            .filter(|container| container.name == "config");
        let chart = (view.metadata.labels.as_ref()).and_then(|labels| labels.get("helm.sh/chart"));
        let images = agents
            .iter()
            .filter_map(|agent| version_of_image(&agent.image));
        let images = images.map(|version| (Evidence::ImageTag, version));
        let chart = chart.and_then(|label| version_of_chart(label));
        let chart = chart.map(|version| (Evidence::ChartLabel, version));
        let seen = DaemonSetSeen {
            name: view.metadata.name.clone().into_owned(),
            scheduled: match view.status.current_number_scheduled {
                None => Scheduled::Unknown,
                Some(0) => Scheduled::No,
                Some(_) => Scheduled::Yes,
            },
            versions: images.chain(chart).collect(),
            agent_arguments: agents.into_iter().flat_map(arguments).collect(),
            resolver_arguments: resolvers.flat_map(arguments).collect(),
        };
        self.installation(view).daemon_sets.push(seen);
    }

    pub(super) fn operator(&mut self, view: &WorkloadView<'_>) {
        let templates = view.spec.template.iter();
        let containers = templates.flat_map(|template| &template.spec.containers);
        for container in containers.filter(|container| container.name == "cilium-operator") {
            let seen = OperatorSeen {
                name: view.metadata.name.clone().into_owned(),
                state: match view.is_settled() {
                    true => OperatorState::Settled,
                    false => OperatorState::Changing,
                },
                replicas: view.spec.replicas,
                version: version_of_image(&container.image),
                arguments: arguments(container),
            };
            self.installation(view).operators.push(seen);
        }
    }

    fn installation(&mut self, view: &WorkloadView<'_>) -> &mut Installation {
        let namespace = view.metadata.namespace.as_deref();
        self.installations.of(namespace.unwrap_or_default())
    }

    pub(super) fn definition(&mut self, view: DefinitionView<'_>) {
        if CiliumKind::of_definition(&view.metadata.name) == Some(CiliumKind::Node) {
            let version = schema_label(&view).and_then(version_of_schema);
            self.versions
                .extend(version.map(|version| (Evidence::SchemaLabel, version)));
        }
        self.observed.definitions.add(view);
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
