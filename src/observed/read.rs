//! From raw JSON objects to [`Observed`], one object at a time.

use serde::Deserialize;

use super::cilium::{version_of_chart, version_of_image, version_of_schema};
use super::kind::ObservedKind;
use super::view::{
    CiliumNodeView, ConfigMapView, Container, DefinitionView, LoadBalancerBlock, LoadBalancerPoolView, ManagedFields,
    NodeMetadata, NodeView, ServiceCidrView, WorkloadView,
};
use super::{Author, BlindSpot, CiliumNode, Evidence, HoldingField, Node, NodeCidrAllocation, Observed};
use crate::model::{CiliumVersion, Finding, ObjectRef, PerFamily, Rule, Severity};
use crate::net::{Block, Range};

/// Collects objects into an [`Observed`].
#[derive(Debug, Default)]
pub struct Reader {
    observed: Observed,
    versions: Vec<(Evidence, CiliumVersion)>,
}

/// An object that is not what its kind says.
#[derive(Debug, thiserror::Error)]
#[error("an object of {resource} cannot be read: {source}")]
pub struct ReadError {
    resource: &'static str,
    source: serde_json::Error,
}

impl Reader {
    /// Reads one object of a known kind from its JSON text.
    ///
    /// # Errors
    /// JSON that is not an object of that kind. Addresses that make no sense are not an error but a finding.
    pub fn object(&mut self, kind: ObservedKind, json: &str) -> Result<(), ReadError> {
        let outcome = match kind {
            ObservedKind::Node => parse(json).map(|view| self.node(view)),
            ObservedKind::CiliumNode => parse(json).map(|view| self.cilium_node(&view)),
            ObservedKind::ServiceCidr => parse(json).map(|view| self.service_cidr(&view)),
            ObservedKind::LoadBalancerPool => parse(json).map(|view| self.load_balancer_pool(&view)),
            ObservedKind::CiliumConfig => parse(json).map(|view| self.config_map(view)),
            ObservedKind::CiliumDaemonSet => parse(json).map(|view| self.daemon_set(&view)),
            ObservedKind::ControllerManagerPod => parse(json).map(|view| self.controller_manager(&view)),
            ObservedKind::CiliumNodeDefinition => parse(json).map(|view| self.definition(&view)),
        };
        outcome.map_err(|source| ReadError { resource: kind.resource(), source })
    }

    /// Notes that a kind could not be read.
    pub fn hidden(&mut self, kind: ObservedKind, why: String) {
        self.observed.blind_spots.push(BlindSpot { kind, why });
    }

    /// Where Cilium's DaemonSet lies, once it was read.
    pub fn cilium_namespace(&self) -> Option<&str> {
        self.observed.cilium.namespace.as_deref()
    }

    /// Everything that was read.
    pub fn finish(mut self) -> Observed {
        self.versions.sort();
        self.observed.cilium.version = self.versions.first().map(|(evidence, version)| (*version, *evidence));
        if let Some(finding) = self.version_conflict() {
            self.observed.findings.push(finding);
        }
        self.observed.findings.sort();
        self.observed
    }

    fn version_conflict(&self) -> Option<Finding> {
        let (_, first) = self.versions.first()?;
        let (_, other) = self.versions.iter().find(|(_, version)| version.minor != first.minor)?;
        let message = format!("two Cilium versions are visible, {first} and {other}: an upgrade seems to be under way");
        Some(
            Finding::new(Severity::Warning, Rule("two-cilium-versions"), message)
                .help("finish the upgrade before planning, or check that both read the same fields"),
        )
    }

    fn node(&mut self, view: NodeView<'_>) {
        let NodeView { metadata, spec, status } = view;
        let Ok(name) = metadata.name.parse() else { return self.unusable_name("Node", &metadata.name) };
        let mut unreadable = Vec::new();
        let listed: Vec<&str> = if spec.pod_cidrs.is_empty() {
            spec.pod_cidr.iter().map(|c| c.as_ref()).filter(|c| !c.is_empty()).collect()
        } else {
            spec.pod_cidrs.iter().map(|c| c.as_ref()).collect()
        };
        let in_spec = blocks("spec.podCIDRs", listed, &mut unreadable).into_iter().collect();
        let annotations = metadata.annotations.as_ref();
        let mut annotated = |pairs: [(&'static str, Option<&str>); 2]| -> PerFamily<Block> {
            pairs.into_iter().flat_map(|(key, text)| blocks(key, text, &mut unreadable)).collect()
        };
        let annotation = annotations.map(|a| annotated(a.newer())).unwrap_or_default();
        let old_annotation = annotations.map(|a| annotated(a.older())).unwrap_or_default();
        let authors = metadata.managed_fields.iter().flat_map(authors).collect();
        let addresses = status.addresses.iter().filter_map(|address| address.address.parse().ok()).collect();
        let NodeMetadata { uid, resource_version, creation_timestamp, labels, .. } = metadata;
        let node = Node {
            name,
            uid,
            resource_version,
            created: creation_timestamp.unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            spec: in_spec,
            annotation,
            old_annotation,
            unreadable,
            addresses,
            authors,
        };
        self.observed.nodes.insert(node.name.clone(), node);
    }

    fn unusable_name(&mut self, kind: &'static str, name: &str) {
        let message = format!("a {kind} has the impossible name `{}`", name.escape_debug());
        self.observed
            .findings
            .push(Finding::new(Severity::Warning, Rule("unusable-name"), message).help("it is left alone"));
    }

    fn cilium_node(&mut self, view: &CiliumNodeView<'_>) {
        let Ok(name) = view.metadata.name.parse() else { return self.unusable_name("CiliumNode", &view.metadata.name) };
        let mut unreadable = Vec::new();
        let texts = view.spec.ipam.pod_cidrs.iter().map(|c| c.as_ref());
        let pod_cidrs = blocks("spec.ipam.podCIDRs", texts, &mut unreadable);
        let node = CiliumNode { name, pod_cidrs, unreadable };
        self.observed.cilium_nodes.insert(node.name.clone(), node);
    }

    fn service_cidr(&mut self, view: &ServiceCidrView) {
        for text in &view.spec.cidrs {
            match Block::lenient(text) {
                Ok(block) => self.observed.service_ranges.push(block.range()),
                Err(_) => self.unreadable_range("ServiceCIDR", "", text),
            }
        }
    }

    fn load_balancer_pool(&mut self, view: &LoadBalancerPoolView<'_>) {
        let name = view.metadata.name.to_string();
        for block in view.spec.cidrs.iter().chain(&view.spec.blocks) {
            match load_balancer_range(block) {
                Some(range) => self.observed.load_balancer_ranges.push((name.clone(), range)),
                None => self.unreadable_range("CiliumLoadBalancerIPPool", &name, "an entry of spec.blocks"),
            }
        }
    }

    fn unreadable_range(&mut self, kind: &'static str, name: &str, text: &str) {
        let message = format!("{kind} `{}` has an unreadable range: `{}`", name.escape_debug(), text.escape_debug());
        let finding = Finding::new(Severity::Warning, Rule("unreadable-range"), message);
        self.observed.findings.push(
            finding
                .about(ObjectRef { kind, name: name.to_owned() })
                .help("mend the object; its addresses are not kept free"),
        );
    }

    fn config_map(&mut self, view: ConfigMapView<'_>) {
        let namespace = view.metadata.namespace.unwrap_or_default().into_owned();
        let cilium = &mut self.observed.cilium;
        if cilium.settings.is_none() || cilium.namespace.as_deref() == Some(namespace.as_str()) {
            cilium.settings = Some(view.data);
            cilium.namespace.get_or_insert(namespace);
        }
    }

    fn daemon_set(&mut self, view: &WorkloadView<'_>) {
        self.observed.cilium.namespace = view.metadata.namespace.as_deref().map(str::to_owned);
        let containers = view.spec.template.iter().flat_map(|template| &template.spec.containers);
        let image =
            containers.filter(|container| container.name == "cilium-agent").find_map(|c| version_of_image(&c.image));
        self.versions.extend(image.map(|version| (Evidence::ImageTag, version)));
        let chart = view.metadata.labels.as_ref().and_then(|labels| labels.get("helm.sh/chart"));
        self.versions
            .extend(chart.and_then(|label| version_of_chart(label)).map(|version| (Evidence::ChartLabel, version)));
    }

    fn definition(&mut self, view: &DefinitionView<'_>) {
        let label = view.metadata.labels.as_ref().and_then(|labels| labels.get("io.cilium.k8s.crd.schema.version"));
        self.versions
            .extend(label.and_then(|label| version_of_schema(label)).map(|version| (Evidence::SchemaLabel, version)));
    }

    fn controller_manager(&mut self, view: &WorkloadView<'_>) {
        let allocates = |container: &Container| {
            let words = container.command.iter().chain(&container.args);
            words
                .filter_map(|word| word.strip_prefix("--allocate-node-cidrs"))
                .any(|value| matches!(value, "" | "=true" | "=1" | "=t" | "=T" | "=True" | "=TRUE"))
        };
        if view.spec.containers.iter().any(allocates) {
            self.observed.controller_manager = NodeCidrAllocation::On;
        } else if self.observed.controller_manager == NodeCidrAllocation::Unseen {
            self.observed.controller_manager = NodeCidrAllocation::Off;
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json)
}

fn blocks<'a>(field: &str, texts: impl IntoIterator<Item = &'a str>, unreadable: &mut Vec<String>) -> Vec<Block> {
    let mut read = Vec::new();
    for text in texts {
        match Block::lenient(text) {
            Ok(block) => read.push(block),
            Err(_) => unreadable.push(format!("{field}: {}", text.escape_debug())),
        }
    }
    read
}

fn load_balancer_range(block: &LoadBalancerBlock) -> Option<Range> {
    match (&block.cidr, &block.start, &block.stop) {
        (Some(cidr), _, _) if !cidr.is_empty() => Block::lenient(cidr).ok().map(Block::range),
        (_, Some(start), Some(stop)) if !stop.is_empty() => format!("{start}-{stop}").parse().ok(),
        (_, Some(start), _) => start.parse().ok(),
        _ => None,
    }
}

fn authors(entry: &ManagedFields) -> Vec<Author> {
    let Some(fields) = &entry.fields else { return Vec::new() };
    let spec = fields.spec.as_ref().filter(|spec| spec.pod_cidr.is_some() || spec.pod_cidrs.is_some());
    let annotations = fields.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let newer = annotations.filter(|a| a.ipv4.is_some() || a.ipv6.is_some());
    let older = annotations.filter(|a| a.old_ipv4.is_some() || a.old_ipv6.is_some());
    let owned = [
        spec.map(|_| HoldingField::NodeSpec),
        newer.map(|_| HoldingField::Annotation),
        older.map(|_| HoldingField::OldAnnotation),
    ];
    let author = |field| Author { manager: entry.manager.clone(), time: entry.time.clone().unwrap_or_default(), field };
    owned.into_iter().flatten().map(author).collect()
}
