//! Reads the input of LB-IPAM: address pools and Services of type LoadBalancer.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::view_lb::{
    AddressPoolView, Condition, Ingress, OwnedKeys, OwnerReference, RequestManager, ServiceView,
    SpecManager,
};
use super::{FIELD_MANAGER, Observed, OtherController};
use crate::lbipam::{
    ADDRESSES, AddressBlock, AddressPool, AddressPoolApi, AddressPoolManifest, Annotation,
    FamilyPolicy, LbRules, LbService, Marking, Port, RequestAuthor, ServedHostname, ServiceOwner,
    TrafficPolicy, WrittenSelector,
};
use ipam_core::model::{Finding, ObjectRef, ObjectVersion, Rule, ServiceName, Severity};
use ipam_core::net::{Address, Family, Range};

/// Keys of annotations, the newer one first (`pkg/annotation/k8s.go` @ 1.19,
/// `operator/pkg/lbipam/lbipam.go` @ 1.15).
const SHARING_KEY: [&str; 2] = [
    "lbipam.cilium.io/sharing-key",
    "io.cilium/lb-ipam-sharing-key",
];
const SHARING_NAMESPACES: [&str; 2] = [
    "lbipam.cilium.io/sharing-cross-namespace",
    "io.cilium/lb-ipam-sharing-cross-namespace",
];

/// Every annotation of a Service that is read.
pub(super) const SERVICE_ANNOTATIONS: [[&str; 2]; 3] = [ADDRESSES, SHARING_KEY, SHARING_NAMESPACES];

/// The condition that tells whether a Service's request is satisfied: from 1.15 on, and before.
const SATISFIED: [&str; 2] = [
    "cilium.io/IPAMRequestSatisfied",
    "io.cilium/lb-ipam-request-satisfied",
];

/// Whether the server serves `CiliumLoadBalancerIPPool`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPoolsServed {
    /// `CiliumLoadBalancerIPPool`s are served in this version, and perhaps in others.
    As(AddressPoolApi),
    /// `CiliumLoadBalancerIPPool`s are not served: their CustomResourceDefinition is not installed.
    No,
    /// It is unknown whether they are served: a cluster in a file does not say.
    #[default]
    Unknown,
}

/// An observed `CiliumLoadBalancerIPPool`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenAddressPool {
    pub name: String,
    pub version: ObjectVersion,
    /// `metadata.creationTimestamp`; `None` if the pool does not exist yet.
    pub created: Option<String>,
    /// The parts of the pool that users and `cilium-ipam` write.
    pub manifest: AddressPoolManifest,
    /// Keys of labels that `cilium-ipam` wrote.
    pub our_labels: BTreeSet<String>,
    /// Keys of annotations that `cilium-ipam` wrote.
    pub our_annotations: BTreeSet<String>,
    /// Field manager of the last write to its spec, and the time.
    pub author: Option<(String, String)>,
    pub status: AddressPoolStatus,
    pub marking: Marking,
}

/// Conditions of a `CiliumLoadBalancerIPPool`, as Cilium writes them. Absent until the operator has
/// processed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPoolStatus {
    /// `True` if the pool overlaps another pool.
    pub conflicting: Option<String>,
    /// Number of all addresses of the pool, as text.
    pub total: Option<String>,
    /// Number of the pool's addresses that are in use, as text.
    pub used: Option<String>,
    /// Number of the pool's free addresses, as text.
    pub available: Option<String>,
}

impl SeenAddressPool {
    /// The pool, read as an operator with these rules reads it.
    pub fn as_read(&self, rules: &LbRules) -> AddressPool {
        self.manifest
            .spec
            .as_read(rules, &self.name, self.created.as_deref(), self.marking)
    }

    pub fn is_ours(&self) -> bool {
        self.manifest.is_ours()
    }
}

impl Observed {
    /// The rules of the operator, which runs LB-IPAM; of several ones, those of the latest release.
    pub fn lb_rules(&self) -> LbRules {
        let setting = |key: &str| {
            let value = self.cilium.operator_setting(key)?;
            Some((key.to_owned(), value.to_owned()))
        };
        let settings: BTreeMap<String, String> =
            LbRules::SETTINGS.into_iter().filter_map(setting).collect();
        LbRules::new(
            self.operator_releases().last().copied().flatten(),
            &settings,
        )
    }

    pub fn address_pools_as_read(&self, rules: &LbRules) -> Vec<AddressPool> {
        self.address_pools
            .values()
            .map(|pool| pool.as_read(rules))
            .collect()
    }

    /// Every range of every address pool, even if Cilium ignores it, with the pool's name.
    pub fn load_balancer_ranges(&self) -> impl Iterator<Item = (&str, Range)> {
        let ranges = |pool: &SeenAddressPool| pool.manifest.spec.ranges().collect::<Vec<_>>();
        self.address_pools.iter().flat_map(move |(name, pool)| {
            ranges(pool).into_iter().map(|range| (name.as_str(), range))
        })
    }

    /// API version for writing address pools; `None` if the server does not serve them.
    pub fn address_pool_api(&self) -> Option<AddressPoolApi> {
        match self.address_pools_served {
            AddressPoolsServed::As(api) => Some(api),
            AddressPoolsServed::No => None,
            AddressPoolsServed::Unknown => Some(self.lb_rules().address_pool_api()),
        }
    }

    pub(super) fn read_address_pool(&mut self, view: AddressPoolView) {
        let AddressPoolView {
            api_version,
            metadata,
            spec,
            status,
        } = view;
        if let (AddressPoolsServed::Unknown, Some(api)) = (
            self.address_pools_served,
            api_version.as_deref().and_then(|text| text.parse().ok()),
        ) {
            self.address_pools_served = AddressPoolsServed::As(api);
        }
        let name = metadata.name;
        for _ in spec
            .cidrs
            .iter()
            .chain(&spec.blocks)
            .filter(|block| block.range().is_none())
        {
            self.faulty_pool(
                &name,
                "an entry of its spec is not a range",
                "its addresses are not reserved",
            );
        }
        for block in spec
            .cidrs
            .iter()
            .chain(&spec.blocks)
            .filter(|block| block.is_written_as_mapped())
        {
            self.mapped_range(&name, block);
        }
        if let Some(Err(error)) = spec
            .service_selector
            .as_ref()
            .map(WrittenSelector::selector)
        {
            let what = format!("its selector cannot be read: {error}");
            self.faulty_pool(&name, &what, "it selects nothing");
        }
        let status = read_status(&status.conditions);
        let pool = SeenAddressPool {
            name: name.clone(),
            version: ObjectVersion {
                uid: metadata.uid,
                resource_version: metadata.resource_version,
            },
            created: metadata.creation_timestamp,
            manifest: AddressPoolManifest {
                labels: metadata.labels,
                annotations: metadata.annotations,
                spec,
            },
            our_labels: our_keys(&metadata.managed_fields, |metadata| &metadata.labels),
            our_annotations: our_keys(&metadata.managed_fields, |metadata| &metadata.annotations),
            author: author(&metadata.managed_fields),
            marking: match status.conflicting.as_deref() {
                Some("True") => Marking::Conflicting,
                _ => Marking::None,
            },
            status,
        };
        self.address_pools.insert(name, pool);
    }

    fn mapped_range(&mut self, name: &str, block: &AddressBlock) {
        let Some(range) = block.range() else { return };
        let message = format!(
            "CiliumLoadBalancerIPPool `{}` has `{}`, which is IPv4-mapped: LB-IPAM gives it out as IPv6",
            name.escape_debug(),
            block.text().escape_debug()
        );
        let finding = Finding::new(Severity::Warning, Rule("mapped-ipv4"), message);
        let finding = finding.about(ObjectRef::address_pool(name));
        let help = format!("write {} instead; no node gets a block there", range.range);
        self.findings.push(finding.help(help));
    }

    fn faulty_pool(&mut self, name: &str, what: &str, consequence: &str) {
        let message = format!("CiliumLoadBalancerIPPool `{}`: {what}", name.escape_debug());
        let finding = Finding::new(Severity::Warning, Rule("unreadable-range"), message);
        let finding = finding.about(ObjectRef::address_pool(name));
        self.findings
            .push(finding.help(format!("fix the object; {consequence}")));
    }

    pub(super) fn read_service(&mut self, view: ServiceView) {
        if view.spec.kind.as_deref() != Some("LoadBalancer") {
            return;
        }
        let annotations = view.metadata.annotations.clone().unwrap_or_default();
        let service = service(view);
        self.note_annotations(&service.name, &annotations);
        self.services.insert(service.name.clone(), service);
    }
}

fn our_keys(
    entries: &[SpecManager],
    of: fn(&OwnedKeys) -> &BTreeMap<String, serde::de::IgnoredAny>,
) -> BTreeSet<String> {
    let ours = entries
        .iter()
        .filter(|entry| entry.manager == FIELD_MANAGER)
        .filter_map(|entry| entry.fields.as_ref());
    let keys = ours
        .filter_map(|fields| fields.metadata.as_ref())
        .flat_map(|metadata| of(metadata).keys());
    keys.filter_map(|key| Some(key.strip_prefix("f:")?.to_owned()))
        .collect()
}

fn request_author(entries: &[RequestManager]) -> RequestAuthor {
    let mut ours = entries
        .iter()
        .filter(|entry| entry.manager == FIELD_MANAGER)
        .filter_map(|entry| {
            entry
                .fields
                .as_ref()?
                .metadata
                .as_ref()?
                .annotations
                .as_ref()
        });
    match ours.any(|owned| owned.newer.is_some() || owned.older.is_some()) {
        true => RequestAuthor::Us,
        false => RequestAuthor::Others,
    }
}

fn owner(references: Vec<OwnerReference>) -> Option<ServiceOwner> {
    let mut references = references.into_iter();
    let owner = references.find(|reference| reference.controller == Some(true))?;
    Some(ServiceOwner {
        kind: owner.kind,
        name: owner.name,
    })
}

fn author(entries: &[SpecManager]) -> Option<(String, String)> {
    let of_spec = entries.iter().filter(|entry| {
        entry
            .fields
            .as_ref()
            .is_some_and(|fields| fields.spec.is_some())
    });
    let last = of_spec.max_by(|a, b| a.time.cmp(&b.time))?;
    Some((last.manager.clone(), last.time.clone().unwrap_or_default()))
}

fn find<'c>(conditions: &'c [Condition], names: [&str; 2]) -> Option<&'c Condition> {
    conditions
        .iter()
        .find(|condition| names.contains(&condition.kind.as_str()))
}

fn read_status(conditions: &[Condition]) -> AddressPoolStatus {
    let count = |names| find(conditions, names).map(|condition| condition.message.clone());
    let conflict = find(conditions, ["cilium.io/PoolConflict", "io.cilium/conflict"]);
    AddressPoolStatus {
        conflicting: conflict.map(|condition| condition.status.clone()),
        total: count(["cilium.io/IPsTotal", "io.cilium/ips-total"]),
        used: count(["cilium.io/IPsUsed", "io.cilium/ips-used"]),
        available: count(["cilium.io/IPsAvailable", "io.cilium/ips-available"]),
    }
}

fn service(view: ServiceView) -> LbService {
    let ServiceView {
        metadata,
        spec,
        status,
    } = view;
    let annotations = metadata.annotations.unwrap_or_default();
    let annotation = |[newer, older]: [&str; 2]| Annotation {
        newer: annotations.get(newer).cloned(),
        older: annotations.get(older).cloned(),
    };
    let address = |text: &str| text.parse::<Address>().ok().map(IpAddr::from);
    let mut ingress: Vec<IpAddr> = status
        .load_balancer
        .ingress
        .iter()
        .filter_map(|ingress| address(ingress.ip.as_deref()?))
        .collect();
    ingress.dedup();
    let hostnames = hostnames(&status.load_balancer.ingress);
    let name = ServiceName::new(
        metadata.namespace.as_deref().unwrap_or("default"),
        &metadata.name,
    );
    let family = |text: &String| text.parse::<Family>().ok();
    let port = |port: &super::view_lb::ServicePort| Port {
        port: port.port,
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
    };
    LbService {
        labels: LbService::with_pseudo_labels(&name, metadata.labels.unwrap_or_default()),
        name,
        version: ObjectVersion {
            uid: metadata.uid,
            resource_version: metadata.resource_version,
        },
        class: spec.load_balancer_class,
        family_policy: match spec.ip_family_policy.as_deref() {
            Some("PreferDualStack") => FamilyPolicy::PreferDual,
            Some("RequireDualStack") => FamilyPolicy::RequireDual,
            _ => FamilyPolicy::Single,
        },
        families: spec.ip_families.iter().filter_map(family).collect(),
        spec_request: spec.load_balancer_ip.filter(|text| !text.is_empty()),
        addresses: annotation(ADDRESSES),
        request_author: request_author(&metadata.managed_fields),
        other_controller: OtherController::of(&annotations, &metadata.managed_fields),
        owner: owner(metadata.owner_references),
        sharing_key: annotation(SHARING_KEY),
        sharing_namespaces: annotation(SHARING_NAMESPACES),
        traffic_policy: match spec.external_traffic_policy.as_deref() {
            Some("Local") => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        },
        ports: spec.ports.iter().map(port).collect(),
        pod_selector: spec.selector.unwrap_or_default(),
        reason: find(&status.conditions, SATISFIED).map(|condition| condition.reason.clone()),
        ingress,
        hostnames,
    }
}

/// The hostnames, each once; an entry without an address counts before one with it.
fn hostnames(ingress: &[Ingress]) -> Vec<ServedHostname> {
    let named = ingress.iter().filter_map(|entry| {
        let hostname = entry.hostname.clone().filter(|name| !name.is_empty())?;
        let ip = entry.ip.as_deref();
        let ip = ip.and_then(|text| text.parse::<Address>().ok());
        Some(ServedHostname {
            hostname,
            ip: ip.map(IpAddr::from),
        })
    });
    let mut hostnames: Vec<ServedHostname> = named.collect();
    hostnames.sort();
    hostnames.dedup_by(|later, first| later.hostname == first.hostname);
    hostnames
}
