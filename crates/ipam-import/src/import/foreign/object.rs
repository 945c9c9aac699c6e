//! Parts that the imports of all managers share: parsed objects, any field of which may have any type;
//! remarks with names that documentation and tests can refer to; LabelSelectors for lists of
//! alternatives; and the blocks that the nodes of the cluster hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::{ForeignPin, ForeignPools, listed};
use crate::proposal::held_by;
use ipam_cilium::lbipam::WrittenSelector;
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, Operator, Requirement, Selector, count};
use ipam_plan::plan::Misplaced;

/// An object, with the kind that a List gives to it.
#[derive(Clone, Debug)]
pub(super) struct Object<'v> {
    pub(super) kind: &'v str,
    pub(super) group: &'v str,
    pub(super) value: &'v Value,
}

impl<'v> Object<'v> {
    pub(super) fn name(&self) -> &'v str {
        self.value["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &'v str {
        self.value["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default()
    }

    pub(super) fn spec(&self, field: &str) -> &'v Value {
        &self.value["spec"][field]
    }

    pub(super) fn spec_text(&self, field: &str) -> &'v str {
        self.spec(field).as_str().unwrap_or_default()
    }

    /// Whether a field of `spec` is true. Some versions of Calico write the text `true`.
    pub(super) fn is_set(&self, field: &str) -> bool {
        let value = self.spec(field);
        value.as_bool() == Some(true) || value.as_str() == Some("true")
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'v str> {
        self.value["metadata"]["annotations"][key].as_str()
    }

    /// Kind and name of the object, for remarks.
    pub(super) fn about(&self) -> String {
        format!("{} {}", self.kind, self.name())
    }

    /// A remark that a field cannot be read.
    pub(super) fn unreadable(&self, problem: &str) -> Remark {
        Remark::left_out(
            RemarkName::ObjectUnreadable,
            self.about(),
            format!("{problem}: it is not imported"),
        )
    }
}

/// The objects, out of any Lists. Items of a typed List need no kind.
pub(super) fn flattened(values: &[Value]) -> Vec<Object<'_>> {
    let mut objects = Vec::new();
    let mut rest: Vec<(&Value, &str, &str)> =
        values.iter().rev().map(|value| (value, "", "")).collect();
    while let Some((value, kind_of_list, group_of_list)) = rest.pop() {
        if let Some(values) = value.as_array() {
            rest.extend(values.iter().rev().map(|value| (value, "", "")));
            continue;
        }
        let kind = value["kind"].as_str().unwrap_or(kind_of_list);
        let group = value["apiVersion"].as_str().map_or(group_of_list, |text| {
            text.split_once('/').map_or("", |(group, _)| group)
        });
        match (kind.strip_suffix("List"), value["items"].as_array()) {
            (Some(kind), Some(items)) => {
                rest.extend(items.iter().rev().map(|item| (item, kind, group)));
            }
            _ => objects.push(Object { kind, group, value }),
        }
    }
    objects
}

/// The texts of a list. Other items are dropped.
pub(super) fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// LabelSelectors of a list.
///
/// # Errors
/// Fails if Kubernetes rejects one of them.
pub(super) fn selectors(list: &Value) -> Result<Vec<Selector>, String> {
    let selector = |value: &Value| {
        let written: WrittenSelector =
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        written.selector()
    };
    list.as_array()
        .into_iter()
        .flatten()
        .map(selector)
        .collect()
}

ipam_core::text_enum! {
    /// The subject of a remark.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RemarkName {
        ObjectIgnored = "object-ignored",
        ObjectUnreadable = "object-unreadable",
        NameChanged = "name-changed",
        NameTwice = "name-twice",
        OtherNamespace = "other-namespace",
        PoolsOverlap = "pools-overlap",
        PoolOrder = "pool-order",
        FamiliesJoined = "families-joined",
        FamilyAlone = "family-alone",
        SelectorTranslated = "selector-translated",
        SelectorNotExpressible = "selector-not-expressible",
        SelectsNothing = "selects-nothing",
        ManualAssignment = "manual-assignment",
        NamespaceSelector = "namespace-selector",
        TunnelOnly = "tunnel-only",
        SmallBlocks = "small-blocks",
        Encapsulation = "encapsulation",
        NatOutgoing = "nat-outgoing",
        BgpExportDisabled = "bgp-export-disabled",
        PoolDisabled = "pool-disabled",
        Reservation = "reservation",
        IpamConfig = "ipam-config",
        BlockPinned = "block-pinned",
        SeveralBlocks = "several-blocks",
        FamiliesInTwoPools = "families-in-two-pools",
        BlockOfSeveralNodes = "block-of-several-nodes",
        BlockOverlaps = "block-overlaps",
        BlockOutsidePools = "block-outside-pools",
        BlockOfOtherSize = "block-of-other-size",
        BlockWithoutNode = "block-without-node",
        AffinityUnconfirmed = "affinity-unconfirmed",
        BorrowedAddresses = "borrowed-addresses",
        NotAutomatic = "not-automatic",
        LoadBalancerPool = "load-balancer-pool",
        ServiceAllocation = "service-allocation",
        Priority = "priority",
        BuggyAddresses = "buggy-addresses",
        AddressInvalid = "address-invalid",
        L2Announced = "l2-announced",
        L2NotExpressible = "l2-not-expressible",
        BgpAnnounced = "bgp-announced",
        BgpNotExpressible = "bgp-not-expressible",
        BgpPeer = "bgp-peer",
        ServicePinned = "service-pinned",
        AddressRequested = "address-requested",
        AddressOutsidePools = "address-outside-pools",
        PoolRequested = "pool-requested",
        SharingKey = "sharing-key",
        LoadBalancerClass = "load-balancer-class",
        OtherAllocator = "other-allocator",
        KindUnread = "kind-unread",
    }
}

ipam_core::text_enum! {
    /// What a remark means for the reader.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum RemarkKind {
        /// The remark explains how a field of an imported document was inferred.
        Inferred = "inferred",
        /// A person has to act before the old address manager is removed.
        ToDo = "to-do",
        /// An object or a field could not be carried over.
        LeftOut = "left-out",
    }
}

/// A remark for the person who reads the imported files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    pub kind: RemarkKind,
    pub name: RemarkName,
    /// The foreign object, such as `IPPool rack-a`. Its text can come from a stranger.
    pub about: String,
    pub text: String,
}

impl Remark {
    pub(super) fn inferred(name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark::new(RemarkKind::Inferred, name, about, text)
    }

    pub(super) fn to_do(name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark::new(RemarkKind::ToDo, name, about, text)
    }

    pub(super) fn left_out(name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark::new(RemarkKind::LeftOut, name, about, text)
    }

    fn new(kind: RemarkKind, name: RemarkName, about: impl fmt::Display, text: String) -> Remark {
        Remark {
            kind,
            name,
            about: about.to_string(),
            text,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Remark {
            kind,
            name,
            about,
            text,
        } = self;
        write!(f, "{about}: {text} ({kind}: {name})")
    }
}

/// Whether pins were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amended {
    Yes,
    No,
}

impl ForeignPools {
    /// Pins nodes whose blocks are misplaced: the other manager gave them before their labels or its
    /// pools were what they are.
    pub fn pin_misplaced(&mut self, misplaced: &[Misplaced], observed: &Observed) -> Amended {
        let mut pins: BTreeMap<NodeName, ForeignPin> = BTreeMap::new();
        for one in misplaced {
            if let Some(pin) = self.pin(one, observed) {
                pins.insert(pin.node.clone(), pin);
            }
        }
        let amended = match pins.is_empty() {
            true => Amended::No,
            false => Amended::Yes,
        };
        self.pins.extend(pins.into_values());
        self.pins.sort_by(|one, two| one.node.cmp(&two.node));
        amended
    }

    /// A pin that keeps the node's blocks; `None` if it has one, or no pool has them all.
    fn pin(&self, misplaced: &Misplaced, observed: &Observed) -> Option<ForeignPin> {
        if self.pins.iter().any(|pin| pin.node == misplaced.node) {
            return None;
        }
        let blocks = held_by(observed, observed.nodes.get(&misplaced.node)?);
        let pool = self.pools.iter().find(|pool| {
            blocks.iter().all(|block| {
                pool.block_size.get(block.family()) == Some(&block.size())
                    && pool.cidrs.iter().any(|cidr| cidr.contains(*block))
            })
        })?;
        Some(ForeignPin {
            node: misplaced.node.clone(),
            pool: pool.name.clone(),
            blocks,
            remarks: vec![Remark::inferred(
                RemarkName::BlockPinned,
                format!("Node {}", misplaced.node),
                format!(
                    "without this pin, its block is misplaced: {}",
                    misplaced.reason
                ),
            )],
        })
    }

    /// Names the nodes whose block no imported pool gives, by the reason. They keep their blocks, and
    /// no pin helps.
    pub fn name_misplaced(&mut self, misplaced: &[Misplaced]) -> Amended {
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in misplaced {
            let reason = format!("{}; {}", one.reason, one.reason.help());
            let nodes = reasons.entry(reason).or_default();
            nodes.push(format!("{} {}", one.node, one.block));
        }
        let remarks = reasons.into_iter().map(|(reason, nodes)| {
            let text = format!(
                "{} without a pin, and the block stays: {}: {reason}",
                count(nodes.len(), "node"),
                listed(nodes)
            );
            Remark::left_out(RemarkName::BlockOutsidePools, "Nodes", text)
        });
        let new: Vec<Remark> = remarks
            .filter(|remark| !self.remarks.contains(remark))
            .collect();
        let amended = match new.is_empty() {
            true => Amended::No,
            false => Amended::Yes,
        };
        self.remarks.extend(new);
        amended
    }

    /// Omits the remarks on unread kinds that other programs own: a cluster file has all kinds.
    pub fn omit_unread_of_others(&mut self, group: &str) {
        self.remarks.retain(|remark| {
            remark.name != RemarkName::ObjectIgnored || remark.about.ends_with(group)
        });
    }

    /// Records a kind of the other manager that was not read.
    pub fn unread(&mut self, resource: &str, why: &str) {
        self.remarks.push(Remark::left_out(
            RemarkName::KindUnread,
            resource,
            format!("not read: {why}"),
        ));
    }
}

/// Different selectors that are alternatives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has alternatives that differ in more than the values of one label: {0}")]
pub(super) struct Alternatives(String);

/// A LabelSelector equivalent to the union of these selectors; `None` if they select nothing. Only
/// values of one label are joined.
///
/// # Errors
/// Fails if the selectors differ in anything else.
pub(super) fn any_of(
    selectors: impl IntoIterator<Item = Selector>,
) -> Result<Option<Selector>, Alternatives> {
    let different: BTreeSet<Selector> = selectors
        .into_iter()
        .filter(|selector| selector.contradiction().is_none())
        .collect();
    if different.len() < 2 {
        return Ok(different.into_iter().next());
    }
    match values_of_one_label(&different) {
        Some(joined) => Ok(Some(joined)),
        None => Err(Alternatives(listed(different))),
    }
}

/// One requirement `In` with the values of all selectors, if each selector is a single `In` of the
/// same label.
fn values_of_one_label(selectors: &BTreeSet<Selector>) -> Option<Selector> {
    let label = selectors.first()?.keys().next()?;
    let mut all = BTreeSet::new();
    for selector in selectors {
        let mut requirements = selector.requirements();
        let (Some(only), None) = (requirements.next(), requirements.next()) else {
            return None;
        };
        match only.operator() {
            Operator::In(values) if only.key() == label => all.extend(values.iter().cloned()),
            _ => return None,
        }
    }
    let joined = Requirement::new(label, Operator::In(all)).ok()?;
    Some(Selector::all_of([joined]))
}
