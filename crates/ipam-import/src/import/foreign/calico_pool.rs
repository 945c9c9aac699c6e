//! One `IPPool` of Calico: its addresses, the nodes that it selects, and what Cilium lacks.
//!
//! Source: `api/pkg/apis/projectcalico/v3/ippool.go` of Calico 3.32.

use super::calico_selector::translated;
use super::object::{Object, Remark, RemarkName, texts};
use super::{ADDRESS_POOL_LABEL, POOL_LABEL, by_own_label};
use crate::proposal;
use ipam_core::model::{PoolName, Selector};
use ipam_core::net::{Block, BlockSize, Family};
use ipam_desired::PoolState;

/// What a pool of Calico gives addresses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The pool is for Pods.
    Pods,
    /// The pool is for Services of type LoadBalancer.
    LoadBalancers,
}

/// How nodes come to use a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The selector of the pool chooses nodes, as in Calico.
    BySelector,
    /// A pin, or a label that a user sets, chooses nodes.
    ByPerson,
}

/// A pool of Calico.
#[derive(Clone, Debug)]
pub(super) struct CalicoPool {
    pub(super) name: PoolName,
    pub(super) cidr: Block,
    pub(super) size: BlockSize,
    pub(super) selector: Selector,
    pub(super) choice: Choice,
    pub(super) state: PoolState,
    pub(super) purpose: Purpose,
    pub(super) remarks: Vec<Remark>,
}

/// Default prefix lengths of blocks.
fn default_length(family: Family) -> u64 {
    match family {
        Family::Ipv4 => 26,
        Family::Ipv6 => 122,
    }
}

/// # Errors
/// Fails with the reason if neither Pods nor Services take addresses of the object.
pub(super) fn read(object: &Object<'_>) -> Result<CalicoPool, Box<Remark>> {
    let refused = |problem: &str| Box::new(object.unreadable(problem));
    let mut remarks = Vec::new();
    let name = pool_name(object, &mut remarks)
        .ok_or_else(|| refused("its name cannot be the name of a pool"))?;
    let cidr = Block::lenient(object.spec_text("cidr"))
        .map_err(|error| refused(&format!("`spec.cidr`: {error}")))?;
    let length = match object.spec("blockSize").as_u64() {
        None | Some(0) => default_length(cidr.family()),
        Some(length) => length,
    };
    let size = BlockSize::new(cidr.family(), length)
        .map_err(|error| refused(&format!("`spec.blockSize`: {error}")))?;
    let uses: Vec<&str> = texts(object.spec("allowedUses")).collect();
    let purpose = match () {
        () if uses.contains(&"LoadBalancer") => Purpose::LoadBalancers,
        () if uses.is_empty() || uses.contains(&"Workload") => Purpose::Pods,
        () => {
            return Err(Box::new(Remark::left_out(
                RemarkName::TunnelOnly,
                object.about(),
                format!(
                    "{cidr} is only for Calico's tunnels: Cilium needs no such pool. Free it when Calico is gone"
                ),
            )));
        }
    };
    if purpose == Purpose::Pods && size.prefix_len() < cidr.prefix_len() {
        return Err(refused(&format!(
            "`spec.cidr` {cidr} is smaller than a block, which is a {size}"
        )));
    }
    let (selector, choice) = selection(object, purpose, &mut remarks);
    let mut pool = CalicoPool {
        name,
        cidr,
        size,
        selector,
        choice,
        state: PoolState::Active,
        purpose,
        remarks,
    };
    if pool.choice == Choice::ByPerson {
        pool.select_by_label();
    }
    if let Some(why) = why_disabled(object) {
        pool.state = PoolState::Disabled;
        pool.remarks.push(Remark::inferred(
            RemarkName::PoolDisabled,
            object.about(),
            format!("{why}, so Calico gives no addresses of it: those in use stay, and there are no new ones"),
        ));
    }
    match purpose {
        Purpose::Pods => pool.remarks.extend(features(object)),
        Purpose::LoadBalancers => pool.remarks.push(Remark::inferred(
            RemarkName::LoadBalancerPool,
            object.about(),
            format!("`allowedUses` has `LoadBalancer`: Services get single addresses of all of {cidr}, and `blockSize` has no counterpart"),
        )),
    }
    Ok(pool)
}

impl CalicoPool {
    /// Selects nodes by a label of `cilium-ipam`.
    fn select_by_label(&mut self) {
        match by_own_label(POOL_LABEL, self.name.as_str()) {
            Some(selector) => self.selector = selector,
            None => self.state = PoolState::Disabled,
        }
    }
}

/// Why Calico allocates nothing from the pool; `None` if it allocates.
fn why_disabled(object: &Object<'_>) -> Option<String> {
    if object.is_set("disabled") {
        return Some("`disabled: true`".to_owned());
    }
    let conditions = object.value["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let refused = conditions
        .find(|condition| condition["type"] == "Allocatable" && condition["status"] == "False")?;
    let reason = refused["reason"].as_str().unwrap_or("no reason is given");
    Some(format!("its condition `Allocatable` is `False` ({reason})"))
}

/// The name, in the form of Kubernetes. Calico in etcd also allows others.
fn pool_name(object: &Object<'_>, remarks: &mut Vec<Remark>) -> Option<PoolName> {
    let written = object.name();
    if let Ok(name) = written.parse() {
        return Some(name);
    }
    let name = proposal::pool_name(written)?;
    remarks.push(Remark::inferred(
        RemarkName::NameChanged,
        object.about(),
        format!("Kubernetes does not allow the name: it is now `{name}`"),
    ));
    Some(name)
}

/// The nodes of the pool. An inexpressible selector is never approximated.
fn selection(
    object: &Object<'_>,
    purpose: Purpose,
    remarks: &mut Vec<Remark>,
) -> (Selector, Choice) {
    let about = object.about();
    let by_person = (Selector::default(), Choice::ByPerson);
    let name = object.name();
    let how = match purpose {
        Purpose::Pods => {
            format!("only pinned nodes use it, and nodes with the label {POOL_LABEL}={name}")
        }
        Purpose::LoadBalancers => {
            format!("only Services with the label {ADDRESS_POOL_LABEL}={name} get addresses of it")
        }
    };
    let namespaces = object.spec_text("namespaceSelector");
    if !namespaces.is_empty() && namespaces.trim() != "all()" {
        remarks.push(Remark::left_out(
            RemarkName::NamespaceSelector,
            &about,
            format!(
                "it serves the namespaces `{namespaces}`, and a block of Cilium serves all Pods of its node: {how}. In ipam `multi-pool`, annotate the namespaces with ipam.cilium.io/ip-pool"
            ),
        ));
        return by_person;
    }
    if object.spec_text("assignmentMode") == "Manual" {
        remarks.push(Remark::inferred(
            RemarkName::ManualAssignment,
            &about,
            format!("`assignmentMode` is `Manual`: {how}"),
        ));
        return by_person;
    }
    let text = object.spec_text("nodeSelector");
    let selector = match translated(text) {
        Ok(selector) => selector,
        Err(reason) => {
            remarks.push(Remark::left_out(
                RemarkName::SelectorNotExpressible,
                &about,
                format!(
                    "`nodeSelector` `{text}` is not translated: {reason}. Decide which nodes the pool serves: {how}. Label them, or replace `nodeSelector`"
                ),
            ));
            return by_person;
        }
    };
    if selector.contradiction().is_some() {
        remarks.push(Remark::inferred(
            RemarkName::SelectsNothing,
            &about,
            format!("`nodeSelector` `{text}` selects no node: {how}"),
        ));
        return by_person;
    }
    if selector != Selector::default() {
        remarks.push(Remark::inferred(
            RemarkName::SelectorTranslated,
            &about,
            format!("`nodeSelector` `{text}` means {selector}"),
        ));
    }
    (selector, Choice::BySelector)
}

/// Settings of the pool that Cilium has for the whole cluster, or elsewhere.
fn features(object: &Object<'_>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for field in ["ipipMode", "vxlanMode"] {
        let mode = object.spec_text(field);
        if !mode.is_empty() && mode != "Never" {
            remarks.push(Remark::left_out(
                RemarkName::Encapsulation,
                object.about(),
                format!(
                    "`{field}: {mode}`: Cilium encapsulates in the whole cluster or nowhere. Set `routingMode` and `tunnelProtocol` of its chart"
                ),
            ));
        }
    }
    if object.is_set("natOutgoing") {
        remarks.push(Remark::left_out(
            RemarkName::NatOutgoing,
            object.about(),
            "`natOutgoing: true`: set `enableIPv4Masquerade` or `enableIPv6Masquerade` of Cilium's chart, and `ipv4NativeRoutingCIDR` to the CIDRs without masquerading"
                .to_owned(),
        ));
    }
    if object.is_set("disableBGPExport") {
        remarks.push(Remark::left_out(
            RemarkName::BgpExportDisabled,
            object.about(),
            "`disableBGPExport: true`: Cilium advertises the pod CIDRs that a `CiliumBGPAdvertisement` names. Give none to these nodes' peers"
                .to_owned(),
        ));
    }
    remarks
}
