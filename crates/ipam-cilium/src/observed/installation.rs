//! Decides which namespace Cilium runs in. Only the DaemonSet, the operator, the agents and the
//! ConfigMap of that namespace tell a version, a mode or a setting.
//!
//! A tenant can create objects with the labels of Cilium in its own namespace. It must never be
//! able to change what is known of Cilium.
//!
//! Reads Cilium's agent and operator, its CRD, and controllers of Kubernetes.

use std::collections::{BTreeMap, BTreeSet};

use super::OWN_NAMESPACE;
use super::announced_services::SpeakerPeers;
use super::balancers::Balancer;
use super::cilium::{version_of_chart, version_of_image, version_of_schema};
use super::cluster_cidrs::{ClusterCidrs, KUBEADM_KEY};
use super::controller_process::ControllerProcess;
use super::read::Reader;
use super::served::{CiliumKind, DefinitionView, schema_label};
use super::setting_key::{arguments, arguments_of_operator, only_variables};
use super::spec_readers::spec_router;
use super::view::ConfigMapView;
use super::view_lb::{Container, OPERATOR_CONTAINER, WorkloadView};
use super::{Agent, Cilium, Evidence, OperatorState};
use ipam_core::model::{CiliumVersion, Finding, ObjectRef, Rule, Severity};

/// Where Cilium usually runs. Tenants cannot write there.
pub const DEFAULT_CILIUM_NAMESPACE: &str = "kube-system";

/// Namespaces in which `cilium-config` is looked for. With more of them, none is the only one.
const MOST_CANDIDATES: usize = 8;

/// Objects that look like those of Cilium, by namespace.
#[derive(Debug, Default)]
pub(super) struct Installations {
    /// The namespace that the user names.
    named: Option<String>,
    by_namespace: BTreeMap<String, Installation>,
}

/// The objects of one namespace.
#[derive(Debug, Default)]
pub(super) struct Installation {
    pub(super) daemon_sets: Vec<DaemonSetSeen>,
    pub(super) operators: Vec<OperatorSeen>,
    /// Whether a Pod of the operator is left. Only those of `kube-system` are read.
    pub(super) has_operator_pods: bool,
    /// With the names of their Pods.
    pub(super) agents: Vec<(String, Agent)>,
    pub(super) config: Option<ConfigMapView>,
    /// Whether its ConfigMaps could not be read.
    pub(super) is_hidden: bool,
    pub(super) speaker_peers: Option<SpeakerPeers>,
}

/// A DaemonSet with the label of the agents.
#[derive(Debug)]
pub(super) struct DaemonSetSeen {
    pub(super) name: String,
    pub(super) scheduled: Scheduled,
    pub(super) versions: Vec<(Evidence, CiliumVersion)>,
    pub(super) agent_arguments: BTreeMap<String, String>,
    pub(super) resolver_arguments: BTreeMap<String, String>,
}

/// Whether Pods of a DaemonSet run on nodes, by its status. Users who may create DaemonSets cannot
/// write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheduled {
    No,
    /// The status is absent, as in a cluster file.
    Unknown,
    Yes,
}

/// A Deployment with the label of the operator.
#[derive(Debug)]
pub(super) struct OperatorSeen {
    pub(super) name: String,
    pub(super) state: OperatorState,
    pub(super) replicas: Option<u32>,
    pub(super) version: Option<CiliumVersion>,
    pub(super) arguments: BTreeMap<String, String>,
    /// Keys of the arguments that environment variables set.
    pub(super) variables: BTreeSet<String>,
}

/// Which namespace is Cilium's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice<'i> {
    In(&'i str),
    /// Several namespaces outside `kube-system` look alike, or one of them could not be read.
    Ambiguous,
}

impl Installations {
    /// The objects of a cluster in which the user names this namespace.
    pub(super) fn named(namespace: Option<&str>) -> Installations {
        Installations {
            named: namespace.map(str::to_owned),
            by_namespace: BTreeMap::new(),
        }
    }

    /// The objects of a namespace. Objects in a file may leave out the usual one.
    pub(super) fn of(&mut self, namespace: &str) -> &mut Installation {
        let namespace = match namespace {
            "" => DEFAULT_CILIUM_NAMESPACE,
            named => named,
        };
        self.by_namespace.entry(namespace.to_owned()).or_default()
    }

    /// Namespaces in which `cilium-config` may be, if the usual one has none.
    pub(super) fn candidates(&self) -> Vec<String> {
        if self.named.is_some() || self.has_config(DEFAULT_CILIUM_NAMESPACE) {
            return Vec::new();
        }
        let others = self.by_namespace.iter();
        let others = others.filter(|(name, of)| {
            *name != DEFAULT_CILIUM_NAMESPACE && of.scheduled() > Scheduled::No
        });
        let names: Vec<String> = others.map(|(name, _)| name.clone()).collect();
        match names.len() {
            0..=MOST_CANDIDATES => names,
            _ => Vec::new(),
        }
    }

    /// The namespace of Cilium, by what was read so far.
    pub(super) fn namespace(&self) -> &str {
        match self.choice() {
            Choice::In(namespace) => namespace,
            Choice::Ambiguous => DEFAULT_CILIUM_NAMESPACE,
        }
    }

    fn has_config(&self, namespace: &str) -> bool {
        let of = self.by_namespace.get(namespace);
        of.is_some_and(|of| of.config.is_some())
    }

    fn choice(&self) -> Choice<'_> {
        if let Some(named) = &self.named {
            return Choice::In(named);
        }
        if self.has_config(DEFAULT_CILIUM_NAMESPACE) {
            return Choice::In(DEFAULT_CILIUM_NAMESPACE);
        }
        if self.by_namespace.values().any(|of| of.is_hidden) {
            return Choice::Ambiguous;
        }
        let all = self.by_namespace.iter();
        let with_config: Vec<_> = all.filter(|(_, of)| of.config.is_some()).collect();
        let of_evidence = |evidence: Scheduled| {
            let all = with_config.iter();
            let running = all.filter(move |(_, of)| of.scheduled() == evidence);
            running.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        let [running, unknown] = [Scheduled::Yes, Scheduled::Unknown].map(of_evidence);
        match (&running[..], &unknown[..]) {
            ([only], _) | ([], [only]) => Choice::In(only),
            ([], []) if with_config.len() < 2 => Choice::In(DEFAULT_CILIUM_NAMESPACE),
            _ => Choice::Ambiguous,
        }
    }

    /// Takes the objects of Cilium's namespace, and reports the others.
    pub(super) fn finish(mut self) -> (Option<String>, Installation, Vec<Finding>) {
        let is_ambiguous = self.choice() == Choice::Ambiguous;
        let mut findings = Vec::new();
        let namespace = self.namespace().to_owned();
        let chosen = self.by_namespace.remove(&namespace).unwrap_or_default();
        findings.extend(match is_ambiguous {
            true => Some(ambiguous()),
            false => self.objects_like_cilium(&namespace),
        });
        (
            chosen.config.is_some().then_some(namespace),
            chosen,
            findings,
        )
    }

    /// The finding about the objects that are left: those of other namespaces.
    fn objects_like_cilium(&self, namespace: &str) -> Option<Finding> {
        let all = self.by_namespace.iter();
        let objects: Vec<ObjectRef> = all.flat_map(|(name, of)| of.objects(name)).collect();
        let (_, others) = objects.split_first()?;
        let message = format!(
            "{} outside Cilium's namespace `{}` {} like an object of Cilium",
            ipam_core::model::count(objects.len(), "object"),
            namespace.escape_debug(),
            if others.is_empty() { "looks" } else { "look" },
        );
        let finding = Finding::new(Severity::Warning, Rule("objects-like-cilium"), message);
        let finding = finding.about_all(objects.iter().cloned());
        let finding = finding
            .seen(
                objects
                    .iter()
                    .map(|object| format!("{} {}", object.kind, object.name.escape_debug())),
            )
            .causes("none: versions, modes and settings of these objects are ignored");
        Some(finding.help(
            "if Cilium runs in their namespace, pass --cilium-namespace; otherwise find out who created them, and delete them",
        ))
    }
}

/// No namespace is the only one.
fn ambiguous() -> Finding {
    let message = "several namespaces may be that of Cilium, so the effective settings are unknown";
    let finding = Finding::new(
        Severity::Warning,
        Rule("multiple-cilium-installations"),
        message,
    );
    finding.help(
        "pass --cilium-namespace, or remove the DaemonSet and the ConfigMap `cilium-config` of the other one",
    )
}

impl Installation {
    /// Whether its agents run on nodes.
    fn scheduled(&self) -> Scheduled {
        let has_agents = self.agents.iter().any(|(_, agent)| !agent.node.is_empty());
        let seen = self
            .daemon_sets
            .iter()
            .map(|daemon_set| daemon_set.scheduled);
        match seen.max() {
            Some(_) if has_agents => Scheduled::Yes,
            Some(scheduled) => scheduled,
            None => Scheduled::No,
        }
    }

    fn objects(&self, namespace: &str) -> Vec<ObjectRef> {
        let object = |kind: &'static str, name: &str| ObjectRef {
            kind,
            name: format!("{namespace}/{name}"),
        };
        let daemon_sets = self.daemon_sets.iter();
        let daemon_sets = daemon_sets.map(|seen| object("DaemonSet", &seen.name));
        let operators = self.operators.iter();
        let operators = operators.map(|seen| object("Deployment", &seen.name));
        let config = self.config.iter();
        let config = config.map(|_| object("ConfigMap", super::kind::CONFIG_NAME));
        let agents = self.agents.iter().map(|(name, _)| object("Pod", name));
        daemon_sets
            .chain(operators)
            .chain(config)
            .chain(agents)
            .collect()
    }

    /// What its objects tell of Cilium, but the version.
    pub(super) fn tell(self, cilium: &mut Cilium) {
        for daemon_set in self.daemon_sets {
            cilium.agent_arguments = Some(daemon_set.agent_arguments);
            cilium.resolver_arguments = daemon_set.resolver_arguments;
        }
        for operator in self.operators {
            cilium.operator_state = match cilium.operator_arguments {
                Some(_) => OperatorState::Several,
                // It may lead until it has ended, also on a node that nothing reaches.
                None if self.has_operator_pods && operator.replicas == Some(0) => {
                    OperatorState::Changing
                }
                None => operator.state,
            };
            cilium.operator_replicas = operator.replicas;
            cilium.operator_versions.insert(operator.version);
            let arguments = cilium.operator_arguments.get_or_insert_default();
            arguments.extend(operator.arguments);
            cilium.operator_variables.extend(operator.variables);
        }
        cilium.agents = self.agents.into_iter().map(|(_, agent)| agent).collect();
        if let Some(config) = self.config {
            cilium.settings_written = config.written();
            cilium.settings = Some(config.data);
        }
    }
}

impl Reader {
    pub(super) fn daemon_set(&mut self, view: &WorkloadView<'_>) {
        let agents = view.containers();
        let agents: Vec<&Container> = agents
            .filter(|container| container.name == "cilium-agent")
            .collect();
        let templates = view.spec.template.iter();
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
        let containers = view.containers();
        for container in containers.filter(|container| container.name == OPERATOR_CONTAINER) {
            let seen = OperatorSeen {
                name: view.metadata.name.clone().into_owned(),
                state: match view.is_settled() {
                    true => OperatorState::Settled,
                    false => OperatorState::Changing,
                },
                replicas: view.spec.replicas,
                version: version_of_image(&container.image),
                arguments: arguments_of_operator(container),
                variables: only_variables(container),
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

    /// A Pod or a DaemonSet in `kube-system`, or a workload of MetalLB in its namespace.
    pub(super) fn controllers(&mut self, view: &WorkloadView<'_>) {
        let namespace = view.metadata.namespace.as_deref().unwrap_or(OWN_NAMESPACE);
        if let Some(balancer) = Balancer::of_workload(view) {
            let object = format!("{namespace}/{}", view.metadata.name);
            self.observed.balancers.insert(balancer, object);
        }
        if namespace != OWN_NAMESPACE {
            return;
        }
        if view.is_operator_pod() {
            self.installations.of(namespace).has_operator_pods = true;
        }
        let found = ControllerProcess::of(view).into_iter();
        self.controllers.extend(found.map(|(_, process)| process));
        self.router(view);
    }

    pub(super) fn router(&mut self, view: &WorkloadView<'_>) {
        self.observed.spec_routers.extend(spec_router(view));
    }

    pub(super) fn speaker_config(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let view: ConfigMapView = serde_json::from_str(json)?;
        let peers = SpeakerPeers::read(&view)?;
        self.installations.of(&view.namespace()).speaker_peers = Some(peers);
        Ok(())
    }

    pub(super) fn kubeadm_config(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let view: ConfigMapView = serde_json::from_str(json)?;
        let text = view.data.get(KUBEADM_KEY).map_or("", String::as_str);
        self.kubeadm = Some(ClusterCidrs::of_kubeadm(text)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::announced_services::CONFIG_KEY;
    use super::*;
    use crate::observed::ObservedKind;

    fn config(namespace: &str) -> ConfigMapView {
        let text = format!(r#"{{"metadata":{{"namespace":"{namespace}"}},"data":{{}}}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn daemon_set(scheduled: Scheduled) -> DaemonSetSeen {
        DaemonSetSeen {
            name: "cilium".to_owned(),
            scheduled,
            versions: Vec::new(),
            agent_arguments: BTreeMap::new(),
            resolver_arguments: BTreeMap::new(),
        }
    }

    #[test]
    fn an_unreadable_configuration_is_not_quoted() {
        let kinds = [
            (ObservedKind::KubeadmConfig, KUBEADM_KEY),
            (ObservedKind::SpeakerConfig, CONFIG_KEY),
        ];
        for (kind, key) in kinds {
            for text in [
                "peers: hidden",
                "controllerManager: hidden",
                "networking: {podSubnet: {}}\npeers: [{password: hidden, peer-address: []}]",
                "password: hidden\nb: [1",
                "password: hidden\n\tb: 1",
                "hidden: 1\nhidden: 2",
                "hidden",
            ] {
                let object = json!({"metadata": {"name": "c"}, "data": {key: text}});
                let mut reader = Reader::default();
                reader.object(kind, &object.to_string()).unwrap();
                let observed = reader.finish(Timestamp::UNIX_EPOCH);
                if let Some(spot) = observed.blind_spot(kind) {
                    assert!(!spot.why.contains("hidden"), "{}", spot.why);
                    assert!(spot.why.contains("cannot be read"), "{}", spot.why);
                }
            }
        }
    }

    /// `a+` runs agents, `a-` runs none, `a?` does not say; `a` has a ConfigMap only, `a+!` no
    /// ConfigMap, and that of `a+~` could not be read.
    fn installations(named: Option<&str>, of: &str) -> Installations {
        let mut all = Installations::named(named);
        for word in of.split_whitespace() {
            let name = word.trim_end_matches(['+', '-', '?', '!', '~']);
            let installation = all.of(name);
            let scheduled = match word.trim_end_matches(['!', '~']).chars().last() {
                Some('+') => Some(Scheduled::Yes),
                Some('-') => Some(Scheduled::No),
                Some('?') => Some(Scheduled::Unknown),
                _ => None,
            };
            installation.daemon_sets.extend(scheduled.map(daemon_set));
            installation.is_hidden = word.ends_with('~');
            if !word.ends_with(['!', '~']) {
                installation.config = Some(config(name));
            }
        }
        all
    }

    #[test]
    fn the_namespace_of_cilium() {
        let cases = [
            ("kube-system+ a+ b+", Choice::In("kube-system")),
            ("kube-system a+", Choice::In("kube-system")),
            ("kube-system- a+", Choice::In("kube-system")),
            ("a+", Choice::In("a")),
            ("a+ b-", Choice::In("a")),
            ("a+ b?", Choice::In("a")),
            ("a+ b+!", Choice::In("a")),
            ("kube-system+! a+", Choice::In("a")),
            ("a?", Choice::In("a")),
            ("a-", Choice::In("kube-system")),
            ("a", Choice::In("kube-system")),
            ("a+!", Choice::In("kube-system")),
            ("", Choice::In("kube-system")),
            ("a+ b+", Choice::Ambiguous),
            ("a? b?", Choice::Ambiguous),
            ("a b", Choice::Ambiguous),
            ("a+ b+~", Choice::Ambiguous),
            ("kube-system a+~", Choice::In("kube-system")),
        ];
        for (of, expected) in cases {
            assert_eq!(installations(None, of).choice(), expected, "{of}");
            let named = installations(Some("b"), of);
            assert_eq!(named.choice(), Choice::In("b"), "{of}");
        }
    }

    #[test]
    fn objects_of_other_namespaces_are_reported_once() {
        let (namespace, chosen, findings) = installations(None, "kube-system+ a+ b+!").finish();
        assert_eq!(namespace.as_deref(), Some("kube-system"));
        assert_eq!(chosen.daemon_sets.len(), 1);
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        assert_eq!(finding.rule.0, "objects-like-cilium");
        assert!(
            finding.message.starts_with("3 objects outside Cilium"),
            "{finding:?}"
        );
        assert!(installations(None, "kube-system+").finish().2.is_empty());
    }

    #[test]
    fn candidates_are_limited() {
        assert_eq!(installations(None, "a+! b-! c?!").candidates(), ["a", "c"]);
        assert!(
            installations(None, "kube-system a+")
                .candidates()
                .is_empty()
        );
        assert!(installations(Some("x"), "a+").candidates().is_empty());
        let many: String = (0..9).map(|n| format!("n{n}+! ")).collect();
        assert!(installations(None, &many).candidates().is_empty());
    }
}
