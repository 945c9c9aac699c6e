//! A Service of type LoadBalancer as LB-IPAM sees it.
//!
//! Decides which Services may share one address (`ServiceView.isCompatible`).

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use super::pool::ServedHostname;
use super::rules::LbRules;
use crate::behaviours;
use crate::observed::OtherController;
use ipam_core::model::{Labels, ObjectVersion, ServiceName};
use ipam_core::net::{Address, Family, is_written_as_mapped};

/// Pseudo-label of a Service's namespace.
const NAMESPACE_LABEL: &str = "io.kubernetes.service.namespace";
/// Pseudo-label of a Service's name.
const NAME_LABEL: &str = "io.kubernetes.service.name";

/// Label of the Service of all Ingresses that share one (Helm chart of 1.20,
/// `templates/cilium-ingress-service.yaml`).
const SHARED_INGRESS_LABEL: &str = "cilium.io/ingress";

/// Keys of the annotation that requests addresses, the newer one first (`pkg/annotation/k8s.go` @
/// 1.19, `operator/pkg/lbipam/lbipam.go` @ 1.15).
pub const ADDRESSES: [&str; 2] = ["lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"];

/// `spec.ipFamilyPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyPolicy {
    /// `SingleStack`, or absent.
    #[default]
    Single,
    /// `PreferDualStack`.
    PreferDual,
    /// `RequireDualStack`.
    RequireDual,
}

/// `spec.externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// `Cluster`, or absent.
    #[default]
    Cluster,
    /// `Local`.
    Local,
}

/// An entry of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    pub port: u16,
    /// Such as `TCP`.
    pub protocol: String,
}

/// An annotation with its newer and its older key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotation {
    /// `lbipam.cilium.io/…`.
    pub newer: Option<String>,
    /// `io.cilium/lb-ipam-…`.
    pub older: Option<String>,
}

impl Annotation {
    /// The value at `key`, which is one of two keys, the newer one first. `None` for any other key.
    pub fn at(&mut self, [newer, older]: [&str; 2], key: &str) -> Option<&mut Option<String>> {
        match key {
            _ if key == newer => Some(&mut self.newer),
            _ if key == older => Some(&mut self.older),
            _ => None,
        }
    }

    /// The value at `key`, which is one of two keys, the newer one first.
    pub fn get(&self, [newer, older]: [&str; 2], key: &str) -> Option<&String> {
        match key {
            _ if key == newer => self.newer.as_ref(),
            _ if key == older => self.older.as_ref(),
            _ => None,
        }
    }

    /// The value that an operator with these rules reads (`annotation.Get`). An empty text counts
    /// as absent.
    pub(super) fn read(&self, rules: &LbRules) -> Option<&str> {
        Some(self.read_at(["", ""], rules)?.1)
    }

    /// The value that is read, and which of two keys it has.
    fn read_at<'k>(&self, keys: [&'k str; 2], rules: &LbRules) -> Option<(&'k str, &str)> {
        let newer = self
            .newer
            .as_deref()
            .filter(|_| rules.is_of(behaviours::NEWER_SERVICE_ANNOTATIONS));
        let newer = newer.map(|text| (keys[0], text));
        newer
            .or(self.older.as_deref().map(|text| (keys[1], text)))
            .filter(|(_, text)| !text.is_empty())
    }
}

/// Who wrote the annotation that requests addresses, by the server's record of field managers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestAuthor {
    /// We wrote one of its keys.
    Us,
    /// Others wrote it, or it is absent.
    #[default]
    Others,
}

/// The object for which a controller made a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceOwner {
    /// Such as `Gateway`.
    pub kind: String,
    pub name: String,
}

impl fmt::Display for ServiceOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} `{}`",
            self.kind.escape_debug(),
            self.name.escape_debug()
        )
    }
}

/// A Service of type LoadBalancer.
#[derive(Clone, Debug)]
pub struct LbService {
    pub name: ServiceName,
    pub version: ObjectVersion,
    /// Its labels, including the pseudo-labels.
    pub labels: Labels,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
    /// `spec.ipFamilyPolicy`.
    pub family_policy: FamilyPolicy,
    /// `spec.ipFamilies`.
    pub families: Vec<Family>,
    /// `spec.loadBalancerIP`.
    pub spec_request: Option<String>,
    /// Requested addresses, separated by commas.
    pub addresses: Annotation,
    /// Who wrote that annotation.
    pub request_author: RequestAuthor,
    /// Another program that writes its status.
    pub other_controller: OtherController,
    /// The controller that made the Service, by its owner reference.
    pub owner: Option<ServiceOwner>,
    /// Services with equal keys may share addresses.
    pub sharing_key: Annotation,
    /// Namespaces to share with, separated by commas; `*` for all.
    pub sharing_namespaces: Annotation,
    /// `spec.externalTrafficPolicy`.
    pub traffic_policy: TrafficPolicy,
    /// `spec.ports`.
    pub ports: BTreeSet<Port>,
    /// `spec.selector`.
    pub pod_selector: Labels,
    /// `status.loadBalancer.ingress[].ip`.
    pub ingress: Vec<IpAddr>,
    /// `status.loadBalancer.ingress[].hostname`, each once.
    pub hostnames: Vec<ServedHostname>,
    /// Reason of the condition that tells whether Cilium satisfied the request.
    pub reason: Option<String>,
}

/// An address that a Service requests, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WrittenRequest<'s> {
    /// The annotation, or `spec.loadBalancerIP`.
    pub field: &'static str,
    pub text: &'s str,
}

impl WrittenRequest<'_> {
    /// The address as `netip.ParseAddr` reads it; `None` if LB-IPAM ignores the entry. An IPv4-mapped
    /// address stays IPv6: no pool has it.
    pub fn address(self) -> Option<IpAddr> {
        let address = IpAddr::from(self.text.parse::<Address>().ok()?);
        Some(match address {
            IpAddr::V4(mapped) if is_written_as_mapped(self.text) => mapped.to_ipv6_mapped().into(),
            address => address,
        })
    }
}

/// The field of a Service that requests one address.
pub const SPEC_REQUEST: &str = "spec.loadBalancerIP";

/// The addresses that a Service requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRequest {
    /// These addresses.
    Exactly(Vec<IpAddr>),
    /// One address of each of these families.
    AnyOf(Vec<Family>),
}

impl LbService {
    /// Whether it has this class, or none.
    pub fn has_no_class_but(&self, class: &str) -> bool {
        self.class.as_deref().is_none_or(|of| of == class)
    }

    /// The labels with the pseudo-labels added. Pseudo-labels win.
    pub fn with_pseudo_labels(name: &ServiceName, mut labels: Labels) -> Labels {
        labels.insert(NAMESPACE_LABEL.to_owned(), name.namespace().to_owned());
        labels.insert(NAME_LABEL.to_owned(), name.name().to_owned());
        labels
    }

    /// Requested addresses, or else families (`serviceIPFamilyRequest`, `isSatisfied`).
    pub fn address_request(&self, rules: &LbRules) -> AddressRequest {
        let requested = self.requested(rules);
        if requested.is_empty() {
            AddressRequest::AnyOf(self.wanted_families(rules))
        } else {
            AddressRequest::Exactly(requested)
        }
    }

    /// Every entry of the fields that request addresses and that the operator reads
    /// (`getSVCRequestedIPs`).
    pub fn written_requests(&self, rules: &LbRules) -> impl Iterator<Item = WrittenRequest<'_>> {
        let in_spec = self.spec_request.as_deref().map(|text| WrittenRequest {
            field: SPEC_REQUEST,
            text,
        });
        let annotation = self.addresses.read_at(ADDRESSES, rules).into_iter();
        let annotated = annotation.flat_map(|(field, text)| {
            let entries = text.split(',').map(str::trim);
            entries.map(move |text| WrittenRequest { field, text })
        });
        let all = in_spec.into_iter().chain(annotated);
        all.filter(|request| !request.text.is_empty())
    }

    /// The requested addresses, without the entries that the operator ignores.
    pub fn requested(&self, rules: &LbRules) -> Vec<IpAddr> {
        let written = self.written_requests(rules);
        let mut requested: Vec<IpAddr> = written.filter_map(WrittenRequest::address).collect();
        requested.dedup();
        requested
    }

    /// `spec.loadBalancerIP`, if it is an address.
    pub fn spec_address(&self) -> Option<IpAddr> {
        let address = self.spec_request.as_deref()?.parse::<Address>();
        address.ok().map(IpAddr::from)
    }

    /// Whether no node has a backend that serves only local traffic: the Service of a Gateway or an
    /// Ingress has one synthetic endpoint without a node (cilium#48799).
    pub fn has_no_local_backend(&self) -> bool {
        let is_of_proxy =
            |owner: &ServiceOwner| matches!(owner.kind.as_str(), "Gateway" | "Ingress");
        let is_shared_ingress = || {
            let label = self.labels.get(SHARED_INGRESS_LABEL);
            label.is_some_and(|value| value == "true")
        };
        self.traffic_policy == TrafficPolicy::Local
            && (self.owner.as_ref().is_some_and(is_of_proxy) || is_shared_ingress())
    }

    /// The sharing key that an operator with these rules reads.
    pub fn sharing_key(&self, rules: &LbRules) -> Option<&str> {
        self.sharing_key.read(rules)
    }

    /// The value of an annotation that requests addresses.
    pub fn request_at(&self, key: &str) -> Option<&str> {
        self.addresses.get(ADDRESSES, key).map(String::as_str)
    }

    /// The families that its spec requests.
    pub fn wanted_families(&self, rules: &LbRules) -> Vec<Family> {
        let on = |families: &[Family]| {
            families
                .iter()
                .copied()
                .filter(|family| rules.uses(*family))
                .collect::<Vec<_>>()
        };
        match self.family_policy {
            FamilyPolicy::Single => {
                let first = self.families.first().copied();
                first
                    .or(on(&Family::BOTH).first().copied())
                    .into_iter()
                    .collect()
            }
            FamilyPolicy::PreferDual if !self.families.is_empty() => on(&self.families),
            FamilyPolicy::PreferDual | FamilyPolicy::RequireDual => on(&Family::BOTH),
        }
    }
}

const ANY_NAMESPACE: &str = "*";

ipam_core::text_enum! {
    /// Why two Services may not share an address, in the operator's words and order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SharingObstacle {
        Key = "different sharing key",
        Namespace = "different and not permitted namespace",
        Port = "same port and protocol",
        TrafficPolicy = "different ExternalTrafficPolicy",
        Pods = "compatible ExternalTrafficPolicy local but selecting different set of pods",
    }
}

pub fn may_share(one: &LbService, other: &LbService, rules: &LbRules) -> bool {
    obstacles(one, other, rules).next().is_none()
}

/// Everything that keeps two Services from sharing an address.
pub fn sharing_obstacles(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> Vec<SharingObstacle> {
    obstacles(one, other, rules).collect()
}

/// Why two Services may not share an address, in the operator's words; `None` if they may.
pub(super) fn incompatibility(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> Option<&'static str> {
    let first = obstacles(one, other, rules).next()?;
    Some(first.as_str())
}

fn obstacles(
    one: &LbService,
    other: &LbService,
    rules: &LbRules,
) -> impl Iterator<Item = SharingObstacle> {
    let is = move |obstacle: &SharingObstacle| match obstacle {
        SharingObstacle::Key => {
            let key = one.sharing_key.read(rules);
            key != other.sharing_key.read(rules) || key.is_none()
        }
        SharingObstacle::Namespace => !(allows(one, other, rules) && allows(other, one, rules)),
        SharingObstacle::Port => conflicting_ports(one, other, rules).next().is_some(),
        SharingObstacle::TrafficPolicy => one.traffic_policy != other.traffic_policy,
        SharingObstacle::Pods => {
            let same_pods = one.pod_selector == other.pod_selector && !one.pod_selector.is_empty();
            one.traffic_policy == TrafficPolicy::Local
                && one.traffic_policy == other.traffic_policy
                && !same_pods
        }
    };
    SharingObstacle::ALL.iter().copied().filter(is)
}

/// The ports of the first Service that the second one has, too.
pub fn conflicting_ports<'s>(
    one: &'s LbService,
    other: &'s LbService,
    rules: &'s LbRules,
) -> impl Iterator<Item = &'s Port> {
    one.ports.iter().filter(move |port| {
        let mut others = other.ports.iter();
        others.any(|other| ports_conflict(port, other, rules))
    })
}

fn ports_conflict(one: &Port, other: &Port, rules: &LbRules) -> bool {
    one.port == other.port && (one.protocol == other.protocol || !rules.tells_protocols_apart())
}

fn allows(one: &LbService, other: &LbService, rules: &LbRules) -> bool {
    let mut namespaces = one
        .sharing_namespaces
        .read(rules)
        .unwrap_or_default()
        .split(',');
    one.name.namespace() == other.name.namespace()
        || rules.is_of(behaviours::SHARING_ACROSS_NAMESPACES)
            && namespaces
                .any(|namespace| namespace == ANY_NAMESPACE || namespace == other.name.namespace())
}
