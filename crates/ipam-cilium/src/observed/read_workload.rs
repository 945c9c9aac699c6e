//! Reads Cilium's agent and operator, its CRD, and controllers of Kubernetes. Versions come from
//! images and labels, settings from arguments.

use super::arguments::arguments;
use super::cilium::{version_of_chart, version_of_image, version_of_schema};
use super::controller_process::ControllerProcess;
use super::installation::{DaemonSetSeen, Installation, OperatorSeen, Scheduled};
use super::read::Reader;
use super::served::{CiliumKind, DefinitionView, schema_label};
use super::view_workload::{Container, WorkloadView};
use super::{Evidence, OperatorState};

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

    /// A Pod or a DaemonSet in `kube-system`.
    pub(super) fn controllers(&mut self, view: &WorkloadView<'_>) {
        let found = ControllerProcess::of(view).into_iter();
        self.controllers.extend(found.map(|(_, process)| process));
    }
}
