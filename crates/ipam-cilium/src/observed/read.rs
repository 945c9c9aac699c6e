//! From raw JSON objects to [`Observed`], one object at a time.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use super::cilium::{version_of_chart, version_of_image, version_of_schema};
use super::kind::ObservedKind;
use super::pod_pools::PodPoolView;
use super::read_error::ReadError;
use super::read_node::{read_cilium_node, read_node};
use super::settings::{AgentView, NodeConfigView, arguments};
use super::view::{
    CiliumNodeView, ConfigMapView, Container, DefinitionView, NodeView, ServiceCidrView,
    WorkloadView,
};
use super::{
    AddressPoolsServed, BlindSpot, CiliumNode, Evidence, KeptClaims, Node, NodeCidrAllocation,
    NodeConfig, NodeConfigApi, NodeConfigsServed, Observed, OperatorState, PodPoolsServed,
};
use crate::lbipam::AddressPoolApi;
use ipam_core::model::{CiliumVersion, Finding, ObjectRef, Rule, Severity};
use ipam_core::net::Block;

/// Collects objects into an [`Observed`].
#[derive(Debug, Default)]
pub struct Reader {
    observed: Observed,
    /// Namespaces of DaemonSets that run the agent.
    daemon_sets: Vec<String>,
    /// Settings with their namespaces.
    config_maps: Vec<ConfigMapView>,
    versions: Vec<(Evidence, CiliumVersion)>,
    definition: Definition,
    /// Settings of some nodes, with their namespaces.
    node_configs: Vec<(String, NodeConfig)>,
}

/// Whether Cilium's CRDs are installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Definition {
    /// The CRD of CiliumNode is there.
    Installed,
    /// It was not seen.
    #[default]
    Unseen,
}

impl Reader {
    /// Reads one object of a known kind from its JSON text.
    ///
    /// # Errors
    /// JSON that is not an object of that kind. Addresses that make no sense are not an error but a
    /// finding.
    pub fn object(&mut self, kind: ObservedKind, json: &str) -> Result<(), ReadError> {
        let outcome = match kind {
            ObservedKind::Claims => {
                let claims = parse(json).map_err(|error| ReadError::new(kind, json, &error))?;
                self.observed.claims = KeptClaims::read(&claims)
                    .map_err(|error| ReadError::new(kind, json, &error))?;
                Ok(())
            }
            ObservedKind::Node => parse(json).map(|view| self.node(&view)),
            ObservedKind::CiliumNode => parse(json).map(|view| self.cilium_node(&view)),
            ObservedKind::ServiceCidr => parse(json).map(|view| self.service_cidr(&view)),
            ObservedKind::LoadBalancerPool => {
                parse(json).map(|view| self.observed.read_address_pool(view))
            }
            ObservedKind::Service => parse(json).map(|view| self.observed.read_service(view)),
            ObservedKind::PodIpPool => parse::<PodPoolView>(json).map(|view| {
                let (name, pool) = view.into();
                self.observed.pod_pools.insert(name, pool);
            }),
            ObservedKind::CiliumConfig => parse(json).map(|view| self.config_maps.push(view)),
            ObservedKind::CiliumDaemonSet => parse(json).map(|view| self.daemon_set(&view)),
            ObservedKind::ControllerManagerPod => {
                parse(json).map(|view| self.controller_manager(&view))
            }
            ObservedKind::CiliumNodeDefinition => parse(json).map(|view| self.definition(&view)),
            ObservedKind::CiliumOperator => parse(json).map(|view| self.operator(&view)),
            ObservedKind::CiliumAgentPod => {
                parse::<AgentView>(json).map(|view| self.observed.cilium.agents.push(view.into()))
            }
            ObservedKind::CiliumNodeConfig => {
                parse::<NodeConfigView>(json).map(|view| self.node_configs.push(view.into()))
            }
            ObservedKind::BgpPeeringPolicy => self.observed.announcing.read_policy(json),
            ObservedKind::BgpClusterConfig => self.observed.announcing.read_cluster_config(json),
            ObservedKind::BgpPeerConfig => self.observed.announcing.read_peer_config(json),
            ObservedKind::BgpAdvertisement => self.observed.announcing.read_advertisement(json),
            ObservedKind::L2AnnouncementPolicy => self.observed.announcing.read_l2_policy(json),
        };
        match outcome.map_err(|error| ReadError::new(kind, json, &error)) {
            Err(error) if kind.can_be_missed() => {
                if self.observed.blind_spot(kind).is_none() {
                    self.hidden(kind, error.to_string());
                }
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Notes in which version the server serves a kind.
    pub fn served(&mut self, kind: ObservedKind, api_version: &str) {
        if let (ObservedKind::LoadBalancerPool, Some(api)) =
            (kind, AddressPoolApi::from_text(api_version))
        {
            self.observed.address_pools_served = AddressPoolsServed::As(api);
        }
        if let (ObservedKind::CiliumNodeConfig, Some(api)) =
            (kind, NodeConfigApi::from_text(api_version))
        {
            self.observed.node_configs_served = NodeConfigsServed::As(api);
        }
    }

    /// Notes that the server does not know a kind.
    pub fn not_served(&mut self, kind: ObservedKind) {
        if kind == ObservedKind::LoadBalancerPool {
            self.observed.address_pools_served = AddressPoolsServed::No;
        }
        if kind == ObservedKind::PodIpPool {
            self.observed.pod_pools_served = PodPoolsServed::No;
        }
        if kind == ObservedKind::CiliumNodeConfig {
            self.observed.node_configs_served = NodeConfigsServed::No;
        }
    }

    /// Notes that a kind could not be read.
    pub fn hidden(&mut self, kind: ObservedKind, why: String) {
        self.observed.blind_spots.push(BlindSpot { kind, why });
    }

    /// Notes addresses that somebody had a moment ago: nobody gets them.
    pub fn lingering(&mut self, block: Block) {
        self.observed.unattributed.push(block);
    }

    /// Where Cilium's DaemonSet lies, once it was read.
    pub fn cilium_namespace(&self) -> Option<&str> {
        self.daemon_sets.first().map(String::as_str)
    }

    /// Whether the CRD of CiliumNode was read.
    pub fn definition_of_cilium_node(&self) -> Definition {
        self.definition
    }

    /// Everything that was read, at this time.
    pub fn finish(mut self, at: Timestamp) -> Observed {
        self.observed.at = at;
        self.versions.sort();
        let version = self
            .versions
            .first()
            .map(|(evidence, version)| (*version, *evidence));
        if let Some(finding) = self.version_conflict() {
            self.observed.findings.push(finding);
        }
        self.observed.cilium.version = version;
        self.choose_settings();
        self.choose_node_configs();
        self.observed.service_ranges.sort_unstable();
        self.observed.findings.sort();
        self.observed
    }

    fn version_conflict(&self) -> Option<Finding> {
        let (of_first, first) = self.versions.first()?;
        let (of_other, other) = self
            .versions
            .iter()
            .find(|(_, version)| version.minor != first.minor)?;
        let message = format!(
            "two Cilium versions are visible, {first} and {other}: an upgrade seems to be under way"
        );
        let finding = Finding::new(Severity::Warning, Rule("two-cilium-versions"), message);
        let finding = finding.seen([
            format!("{of_first}: {first}"),
            format!("{of_other}: {other}"),
        ]);
        let finding =
            finding.causes("what is read and what is announced may differ from node to node");
        Some(
            finding.help(
                "finish the upgrade before planning, or check that both read the same fields",
            ),
        )
    }

    /// The settings beside the DaemonSet; without one, the only ones there are. Two Ciliums are
    /// nobody's settings.
    fn choose_settings(&mut self) {
        self.daemon_sets.sort();
        self.daemon_sets.dedup();
        let mut candidates: Vec<ConfigMapView> = std::mem::take(&mut self.config_maps);
        if !self.daemon_sets.is_empty() {
            candidates.retain(|view| self.daemon_sets.contains(&view.namespace()));
        }
        if candidates.len() > 1 || self.daemon_sets.len() > 1 {
            let message = "more than one Cilium is visible, so it is not known whose settings hold";
            let finding = Finding::new(Severity::Warning, Rule("two-ciliums"), message);
            self.observed.findings.push(
                finding.help(
                    "remove the DaemonSet and the ConfigMap `cilium-config` of the other one",
                ),
            );
            return;
        }
        let Some(view) = candidates.pop() else { return };
        let cilium = &mut self.observed.cilium;
        cilium.namespace = Some(view.namespace());
        cilium.settings_written = view.written();
        cilium.settings = Some(view.data);
    }

    /// Those beside the settings, by name: the later one wins.
    fn choose_node_configs(&mut self) {
        let namespace = self.observed.cilium.namespace.clone();
        let is_read = |of: &str| namespace.as_deref().is_none_or(|namespace| namespace == of);
        let mut configs: Vec<NodeConfig> = std::mem::take(&mut self.node_configs)
            .into_iter()
            .filter(|(of, _)| is_read(of))
            .map(|(_, config)| config)
            .collect();
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        self.observed.node_configs = configs;
    }

    fn node(&mut self, view: &NodeView<'_>) {
        let (node, shown) = read_node(view);
        match node {
            Some(node) => self.understood(&Understood::Node(Arc::new(node))),
            None => self.unusable_name("Node", &view.metadata.name, shown),
        }
    }

    /// Its blocks count as taken all the same.
    fn unusable_name(&mut self, kind: &'static str, name: &str, shown: Vec<Block>) {
        let message = format!("a {kind} has the impossible name `{}`", name.escape_debug());
        let finding = Finding::new(Severity::Warning, Rule("unusable-name"), message);
        self.observed
            .findings
            .push(finding.help("it is left alone, and its blocks are kept free"));
        self.observed.unattributed.extend(shown);
    }

    fn cilium_node(&mut self, view: &CiliumNodeView<'_>) {
        let (node, shown) = read_cilium_node(view);
        match node {
            Some(node) => self.understood(&Understood::CiliumNode(Arc::new(node))),
            None => self.unusable_name("CiliumNode", &view.metadata.name, shown),
        }
    }

    /// Takes an object that was read before.
    pub fn understood(&mut self, object: &Understood) {
        match object {
            Understood::Node(node) => {
                self.observed.nodes.insert(node.name.clone(), node.clone());
            }
            Understood::CiliumNode(node) => {
                if let Some(text) = node.unreadable.first() {
                    let name = &node.name;
                    let message =
                        format!("CiliumNode `{name}` shows a block that cannot be read ({text})");
                    let finding =
                        Finding::new(Severity::Warning, Rule("unreadable-block"), message);
                    let help = "mend the object; nothing is known about what its node holds";
                    self.observed.findings.push(finding.help(help));
                }
                self.observed
                    .cilium_nodes
                    .insert(node.name.clone(), node.clone());
            }
        }
    }

    fn service_cidr(&mut self, view: &ServiceCidrView<'_>) {
        for text in &view.spec.cidrs {
            match Block::lenient(text) {
                Ok(block) => self.observed.service_ranges.push(block.range()),
                Err(_) => self.unreadable_range("ServiceCIDR", &view.metadata.name, text),
            }
        }
        // The one that kube-apiserver makes from --service-cluster-ip-range; others may come in any
        // order.
        if view.metadata.name == "kubernetes" {
            let first = view
                .spec
                .cidrs
                .first()
                .and_then(|text| Block::lenient(text).ok());
            self.observed.primary_family = first.map(Block::family);
        }
    }

    fn unreadable_range(&mut self, kind: &'static str, name: &str, text: &str) {
        let message = format!(
            "{kind} `{}` has an unreadable range: `{}`",
            name.escape_debug(),
            text.escape_debug()
        );
        let finding = Finding::new(Severity::Warning, Rule("unreadable-range"), message);
        let finding = finding.about(ObjectRef {
            kind,
            name: name.to_owned(),
        });
        self.observed
            .findings
            .push(finding.help("mend the object; its addresses are not kept free"));
    }

    fn daemon_set(&mut self, view: &WorkloadView<'_>) {
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

    fn operator(&mut self, view: &WorkloadView<'_>) {
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

    fn definition(&mut self, view: &DefinitionView<'_>) {
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

    fn controller_manager(&mut self, view: &WorkloadView<'_>) {
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

/// An object of a kind of which there are many, as it was read: who keeps it need not read it
/// again.
#[derive(Clone, Debug)]
pub enum Understood {
    /// A Node.
    Node(Arc<Node>),
    /// A CiliumNode.
    CiliumNode(Arc<CiliumNode>),
}

impl Understood {
    /// `None` for other kinds, and for objects that cannot be taken as they are: those are told of
    /// whenever the object itself is read.
    pub fn of(kind: ObservedKind, json: &str) -> Option<Understood> {
        match kind {
            ObservedKind::Node => read_node(&parse(json).ok()?)
                .0
                .map(|node| Understood::Node(Arc::new(node))),
            ObservedKind::CiliumNode => read_cilium_node(&parse(json).ok()?)
                .0
                .map(|node| Understood::CiliumNode(Arc::new(node))),
            _ => None,
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json)
}

/// What a container's command line says; a shell's script counts, and no trace of the program says
/// nothing. The flag is off by default.
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
