//! From raw objects to what LB-IPAM works with: address pools and Services of type LoadBalancer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::view_lb::{AddressBlock, AddressPoolView, Condition, ServiceRequirement, ServiceSelector, ServiceView};
use super::{Cilium, Observed};
use crate::lbipam::{
    AddressPool, AddressRange, Annotation, FamilyPolicy, FirstLast, LbRules, LbService, Marking, Port, RangeForm,
    ServingState, TrafficPolicy,
};
use crate::model::{
    Finding, ObjectRef, Operator, Requirement, RequirementError, Rule, Selector, ServiceName, Severity,
};
use crate::net::{Block, Family};

/// Keys of annotations, the newer one first (`pkg/annotation/k8s.go` @ 1.19, `operator/pkg/lbipam/lbipam.go` @ 1.15).
const ADDRESSES: [&str; 2] = ["lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"];
const SHARING_KEY: [&str; 2] = ["lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key"];
const SHARING_NAMESPACES: [&str; 2] =
    ["lbipam.cilium.io/sharing-cross-namespace", "io.cilium/lb-ipam-sharing-cross-namespace"];

/// Names of the condition that tells whether a Service has what it asks for, from 1.15 on and before.
const SATISFIED: [&str; 2] = ["cilium.io/IPAMRequestSatisfied", "io.cilium/lb-ipam-request-satisfied"];

/// A `CiliumLoadBalancerIPPool` as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenAddressPool {
    /// The pool with the ranges of neither field.
    bare: AddressPool,
    /// `None` for an entry that cannot be read.
    cidrs: Vec<Option<AddressRange>>,
    blocks: Vec<Option<AddressRange>>,
    /// What Cilium says of it.
    pub status: AddressPoolStatus,
}

/// Conditions of a `CiliumLoadBalancerIPPool`, in Cilium's words; absent until the operator has seen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPoolStatus {
    /// `True` when it overlaps another pool.
    pub conflicting: Option<String>,
    /// Addresses.
    pub total: Option<String>,
    /// Addresses in use.
    pub used: Option<String>,
    /// Addresses that are left.
    pub available: Option<String>,
}

impl SeenAddressPool {
    /// The pool with the ranges that an operator of these rules reads.
    pub fn as_read(&self, rules: &LbRules) -> AddressPool {
        let cidrs = self.cidrs.iter().filter(|_| rules.reads_cidrs());
        let blocks = self.blocks.iter().filter(|_| rules.reads_blocks());
        // The operator stops at the first entry that it cannot read (`handleNewPool`).
        let ranges = cidrs.chain(blocks).map_while(|range| *range).collect();
        AddressPool { ranges, ..self.bare.clone() }
    }
}

impl Observed {
    /// The rules of the running operator.
    pub fn lb_rules(&self) -> LbRules {
        let Cilium { namespace: _, version, settings } = &self.cilium;
        LbRules::new(version.map(|(version, _)| version), settings.as_ref().unwrap_or(&BTreeMap::new()))
    }

    /// The address pools as the running operator reads them.
    pub fn address_pools_as_read(&self, rules: &LbRules) -> Vec<AddressPool> {
        self.address_pools.values().map(|pool| pool.as_read(rules)).collect()
    }

    pub(super) fn read_address_pool(&mut self, view: AddressPoolView) {
        let name = view.metadata.name;
        let read = |blocks: &[AddressBlock]| blocks.iter().map(address_range).collect::<Vec<_>>();
        let (cidrs, blocks) = (read(&view.spec.cidrs), read(&view.spec.blocks));
        for range in cidrs.iter().chain(&blocks) {
            match range {
                Some(range) => self.load_balancer_ranges.push((name.clone(), range.range)),
                None => self.faulty_pool(&name, "an entry of its spec is no range", "its addresses are not kept free"),
            }
        }
        let selector = view.spec.service_selector.as_ref().map(selector);
        let selector = selector.map(|selector| {
            selector.unwrap_or_else(|error| {
                self.faulty_pool(
                    &name,
                    &format!("its selector cannot be read: {error}"),
                    "it is taken to select nothing",
                );
                Selector::nothing()
            })
        });
        let status = status(&view.status.conditions);
        let bare = AddressPool {
            name: name.clone(),
            created: view.metadata.creation_timestamp,
            ranges: Vec::new(),
            selector,
            first_last: match view.spec.allow_first_last.as_deref() {
                Some("Yes") => FirstLast::Allowed,
                Some("No") => FirstLast::Reserved,
                _ => FirstLast::Unset,
            },
            state: if view.spec.disabled { ServingState::Disabled } else { ServingState::Enabled },
            marking: match status.conflicting.as_deref() {
                Some("True") => Marking::Conflicting,
                Some("False") => Marking::Free,
                _ => Marking::None,
            },
        };
        self.address_pools.insert(name, SeenAddressPool { bare, cidrs, blocks, status });
    }

    fn faulty_pool(&mut self, name: &str, what: &str, consequence: &str) {
        let message = format!("CiliumLoadBalancerIPPool `{}`: {what}", name.escape_debug());
        let finding = Finding::new(Severity::Warning, Rule("unreadable-range"), message);
        let finding = finding.about(ObjectRef { kind: "CiliumLoadBalancerIPPool", name: name.to_owned() });
        self.findings.push(finding.help(format!("mend the object; {consequence}")));
    }

    pub(super) fn read_service(&mut self, view: ServiceView) {
        if view.spec.kind.as_deref() != Some("LoadBalancer") {
            return;
        }
        let service = service(view);
        self.services.insert(service.name.clone(), service);
    }
}

fn address_range(block: &AddressBlock) -> Option<AddressRange> {
    let range = match (&block.cidr, &block.start, &block.stop) {
        (Some(cidr), _, _) if !cidr.is_empty() => {
            let range = Block::lenient(cidr).ok()?.range();
            return Some(AddressRange { range, form: RangeForm::Cidr });
        }
        (_, Some(start), Some(stop)) if !stop.is_empty() => format!("{start}-{stop}").parse().ok()?,
        (_, Some(start), _) => start.parse::<IpAddr>().ok()?.into(),
        _ => return None,
    };
    Some(AddressRange { range, form: RangeForm::StartStop })
}

fn selector(written: &ServiceSelector) -> Result<Selector, String> {
    let text = |error: RequirementError| error.to_string();
    let mut requirements = Vec::new();
    for (key, value) in &written.match_labels {
        requirements.push(Requirement::new(key, Operator::In([value.clone()].into())).map_err(text)?);
    }
    for ServiceRequirement { key, operator, values } in &written.match_expressions {
        let operator = match operator.as_str() {
            "In" => Operator::In(values.clone()),
            "NotIn" => Operator::NotIn(values.clone()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(format!("`{}` is no operator", other.escape_debug())),
        };
        requirements.push(Requirement::new(key, operator).map_err(text)?);
    }
    Ok(Selector::all_of(requirements))
}

/// A condition by its name from 1.15 on, or before.
fn find<'c>(conditions: &'c [Condition], names: [&str; 2]) -> Option<&'c Condition> {
    conditions.iter().find(|condition| names.contains(&condition.kind.as_str()))
}

fn status(conditions: &[Condition]) -> AddressPoolStatus {
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
    let ServiceView { metadata, spec, status } = view;
    let annotations = metadata.annotations.unwrap_or_default();
    let annotation = |[newer, older]: [&str; 2]| Annotation {
        newer: annotations.get(newer).cloned(),
        older: annotations.get(older).cloned(),
    };
    let mut ingress: Vec<IpAddr> =
        status.load_balancer.ingress.iter().filter_map(|ingress| ingress.ip.as_deref()?.parse().ok()).collect();
    ingress.dedup();
    let name = ServiceName::new(metadata.namespace.as_deref().unwrap_or("default"), &metadata.name);
    let family = |text: &String| Family::BOTH.into_iter().find(|family| family.to_string() == *text);
    let port = |port: &super::view_lb::ServicePort| Port {
        port: port.port,
        protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
    };
    LbService {
        labels: LbService::with_pseudo_labels(&name, metadata.labels.unwrap_or_default()),
        name,
        class: spec.load_balancer_class,
        family_policy: match spec.ip_family_policy.as_deref() {
            Some("PreferDualStack") => FamilyPolicy::PreferDual,
            Some("RequireDualStack") => FamilyPolicy::RequireDual,
            _ => FamilyPolicy::Single,
        },
        families: spec.ip_families.iter().filter_map(family).collect(),
        spec_address: spec.load_balancer_ip.as_deref().and_then(|text| text.parse().ok()),
        addresses: annotation(ADDRESSES),
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
    }
}
