//! Reads raw JSON objects into [`Observed`], one at a time.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use super::cluster_cidrs::ClusterCidrs;
use super::controller_process::ControllerProcess;
use super::identify::ReadError;
use super::installation::Installations;
use super::kind::ObservedKind;
use super::node_allocators::{allocators, service_ranges};
use super::pod_pools::PodPoolView;
use super::protobuf::{self, value_of_protobuf};
use super::read_node::{Understood, read_cilium_node, read_node};
use super::settings::{AgentView, NodeConfigView};
use super::view::{CiliumNodeView, ConfigMapView, NodeView, ServiceCidrView};
use super::{
    AddressPoolsServed, BlindSpot, Definitions, Evidence, NodeConfig, NodeConfigs,
    NodeConfigsServed, Observed, PodPoolsServed, StoredClaims, UnfinishedMigration,
};
use ipam_core::claims::Departure;
use ipam_core::model::{CiliumVersion, Finding, ObjectRef, Rule, Severity};
use ipam_core::net::Block;

/// Collects objects into an [`Observed`].
#[derive(Debug, Default)]
pub struct Reader {
    pub(super) observed: Observed,
    pub(super) installations: Installations,
    pub(super) versions: Vec<(Evidence, CiliumVersion)>,
    /// `CiliumNodeConfig`s with their namespaces.
    node_configs: Vec<(String, NodeConfig)>,
    pub(super) controllers: Vec<ControllerProcess>,
    pub(super) kubeadm: Option<ClusterCidrs>,
}

impl Reader {
    /// Reads one object from its JSON text.
    ///
    /// # Errors
    /// Fails if the JSON is not an object of that kind. An invalid address is a finding, not an
    /// error.
    pub fn object(&mut self, kind: ObservedKind, json: &str) -> Result<(), ReadError> {
        let outcome = match kind {
            ObservedKind::Claims => {
                let claims = parse(json).map_err(|error| ReadError::new(kind, json, &error))?;
                self.observed.claims = StoredClaims::read(&claims)
                    .map_err(|error| ReadError::new(kind, json, &error))?;
                Ok(())
            }
            ObservedKind::Departed(part) => {
                let read = self.observed.departed.read(part, json);
                return self.missed(kind, read);
            }
            ObservedKind::Migration => parse(json).and_then(|view| {
                self.observed.migration = UnfinishedMigration::read(&view)?;
                Ok(())
            }),
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
            ObservedKind::CiliumConfig => parse::<ConfigMapView>(json).map(|view| {
                let namespace = view.namespace();
                self.installations.of(&namespace).config = Some(view);
            }),
            ObservedKind::CiliumDaemonSet => parse(json).map(|view| self.daemon_set(&view)),
            ObservedKind::ControllerPod | ObservedKind::ControllerDaemonSet => {
                parse(json).map(|view| self.controllers(&view))
            }
            ObservedKind::Definition(_) | ObservedKind::MoreDefinitions => {
                parse(json).map(|view| self.definition(view))
            }
            ObservedKind::CiliumOperator => parse(json).map(|view| self.operator(&view)),
            ObservedKind::CiliumAgentPod => parse(json).map(|view| self.agent(view)),
            ObservedKind::CiliumNodeConfig => {
                parse::<NodeConfigView>(json).map(|view| self.node_configs.push(view.into()))
            }
            ObservedKind::BgpPeeringPolicy => self.observed.announcing.read_policy(json),
            ObservedKind::BgpClusterConfig => self.observed.announcing.read_cluster_config(json),
            ObservedKind::BgpPeerConfig => self.observed.announcing.read_peer_config(json),
            ObservedKind::BgpAdvertisement => self.observed.announcing.read_advertisement(json),
            ObservedKind::SpeakerConfig => self.speaker_config(json),
            ObservedKind::KubeadmConfig => self.kubeadm_config(json),
            ObservedKind::RouterDaemonSet => parse(json).map(|view| self.router(&view)),
            ObservedKind::L2AnnouncementPolicy => self.observed.announcing.read_l2_policy(json),
        };
        self.missed(
            kind,
            outcome.map_err(|error| ReadError::new(kind, json, &error)),
        )
    }

    /// Reads one object in the binary encoding.
    ///
    /// # Errors
    /// Fails as [`object`](Reader::object) does.
    pub fn protobuf(&mut self, kind: ObservedKind, object: &[u8]) -> Result<(), ReadError> {
        let outcome = match kind {
            ObservedKind::Node => protobuf::read(kind, object).map(|view| self.node(&view)),
            ObservedKind::Service => {
                protobuf::read(kind, object).map(|view| self.observed.read_service(view))
            }
            ObservedKind::CiliumAgentPod => {
                protobuf::read(kind, object).map(|view| self.agent(view))
            }
            _ => value_of_protobuf(kind, object)
                .and_then(|value| self.object(kind, &value.to_string())),
        };
        self.missed(kind, outcome)
    }

    /// An unreadable object makes some kinds a blind spot.
    fn missed(
        &mut self,
        kind: ObservedKind,
        outcome: Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        match outcome {
            Err(error) if kind.can_be_missed() => {
                if self.observed.blind_spot(kind).is_none() {
                    self.hidden(kind, error.to_string());
                }
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Records the API version of a kind.
    pub fn served(&mut self, kind: ObservedKind, api_version: &str) {
        if let (ObservedKind::LoadBalancerPool, Some(api)) = (kind, api_version.parse().ok()) {
            self.observed.address_pools_served = AddressPoolsServed::As(api);
        }
        if let (ObservedKind::CiliumNodeConfig, Some(api)) = (kind, api_version.parse().ok()) {
            self.observed.node_configs_served = NodeConfigsServed::As(api);
        }
    }

    /// Records that the server does not serve a kind.
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

    /// Records that a kind could not be read.
    pub fn hidden(&mut self, kind: ObservedKind, why: String) {
        self.observed.blind_spots.push(BlindSpot { kind, why });
    }

    /// Reserves a block of an object that was just deleted.
    pub fn tombstone(&mut self, block: Block) {
        self.observed.tombstones.insert(block);
    }

    /// Quarantines a block of a deleted node that the record lacks.
    pub fn departed(&mut self, block: Block, departure: &Departure) {
        let waiting = &mut self.observed.departed.departed.waiting;
        waiting.insert(block, departure.clone());
    }

    /// A reader for a cluster whose user names the namespace of Cilium.
    pub fn of_cilium_in(namespace: Option<&str>) -> Reader {
        Reader {
            installations: Installations::named(namespace),
            ..Reader::default()
        }
    }

    /// The namespace of Cilium, by what was read so far.
    pub fn cilium_namespace(&self) -> &str {
        self.installations.namespace()
    }

    /// Other namespaces that may have `cilium-config`.
    pub fn candidates_for_cilium(&self) -> Vec<String> {
        self.installations.candidates()
    }

    /// Records that the ConfigMaps of a namespace that may be Cilium's could not be read.
    pub fn hidden_config(&mut self, namespace: &str) {
        self.installations.of(namespace).is_hidden = true;
    }

    /// The CustomResourceDefinitions that were read.
    pub fn definitions(&self) -> &Definitions {
        &self.observed.definitions
    }

    /// The observation, made at this time.
    pub fn finish(mut self, at: Timestamp) -> Observed {
        self.observed.at = at;
        self.read_cilium();
        self.versions.sort();
        let first = self.versions.first();
        self.observed.cilium.version = first.map(|(evidence, version)| (*version, *evidence));
        let conflict = self.version_conflict();
        self.observed.findings.extend(conflict);
        self.choose_node_configs();
        if self.observed.service_ranges.is_empty() {
            self.observed.service_ranges = service_ranges(&self.controllers);
        }
        let allocators = allocators(&self.observed.nodes, self.controllers, self.kubeadm);
        self.observed.allocators = allocators;
        self.observed.service_ranges.sort_unstable();
        self.observed.blind_spots.sort_by_key(|spot| spot.kind);
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
        let finding = finding.causes("nodes may read and announce different fields");
        Some(
            finding.help(
                "finish the upgrade before planning, or check that both read the same fields",
            ),
        )
    }

    fn agent(&mut self, view: AgentView) {
        let of = self.installations.of(view.namespace());
        of.agents.push((view.name().to_owned(), view.into()));
    }

    /// Reads versions, arguments and settings from the objects in Cilium's namespace.
    fn read_cilium(&mut self) {
        let (namespace, chosen, findings) = std::mem::take(&mut self.installations).finish();
        let observed = &mut self.observed;
        observed.findings.extend(findings);
        observed.cilium.namespace = namespace;
        let daemon_sets = chosen.daemon_sets.iter();
        self.versions
            .extend(daemon_sets.flat_map(|daemon_set| &daemon_set.versions));
        observed.announcing.speaker_peers = chosen.speaker_peers.clone();
        chosen.tell(&mut observed.cilium);
    }

    /// Selects the `CiliumNodeConfig`s in the namespace of the settings.
    fn choose_node_configs(&mut self) {
        let namespace = self.observed.cilium.namespace.clone();
        let is_read = |of: &str| namespace.as_deref().is_none_or(|namespace| namespace == of);
        let configs: Vec<NodeConfig> = std::mem::take(&mut self.node_configs)
            .into_iter()
            .filter(|(of, _)| is_read(of))
            .map(|(_, config)| config)
            .collect();
        self.observed.node_configs = NodeConfigs::new(configs);
    }

    fn node(&mut self, view: &NodeView<'_>) {
        let (node, shown) = read_node(view);
        match node {
            Some(node) => self.understood(&Understood::Node(Arc::new(node))),
            None => self.unusable_name("Node", &view.metadata.name, shown),
        }
    }

    /// Records an object with an invalid name. Its blocks count as taken.
    fn unusable_name(&mut self, kind: &'static str, name: &str, shown: Vec<Block>) {
        let message = format!("a {kind} has the invalid name `{}`", name.escape_debug());
        let finding = Finding::new(Severity::Warning, Rule("unusable-name"), message);
        self.observed
            .findings
            .push(finding.help("it is ignored, and its blocks are reserved"));
        self.observed.unattributed.extend(shown);
    }

    fn cilium_node(&mut self, view: &CiliumNodeView<'_>) {
        let (node, shown) = read_cilium_node(view);
        match node {
            Some(node) => self.understood(&Understood::CiliumNode(Arc::new(node))),
            None => self.unusable_name("CiliumNode", &view.metadata.name, shown),
        }
    }

    /// Adds an object that was read before.
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
                    let help = "fix the object; the blocks of its node are unknown";
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
        // kube-apiserver creates this one from --service-cluster-ip-range. Others come in any
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
            .push(finding.help("fix the object; its addresses are not reserved"));
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json)
}
