//! From the parts of a plan to the texts and JSON of its document.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::{
    BlockedDocument, ChangeDocument, DriftDocument, EditDocument, MisplacedDocument,
    OriginDocument, PlanDocument, RefusalDocument, UnapprovedBlockDocument, WriterDocument,
};
use crate::plan::blocked::Blocked;
use crate::plan::change::{
    Change, CiliumNodeObject, Edit, NodeChange, Reason, TargetKind, UnapprovedBlock,
};
use crate::plan::drift::Drift;
use crate::plan::misplaced::Misplaced;
use crate::plan::refusals::Refusal;
use ipam_cilium::observed::{Observed, range_setting};
use ipam_core::model::{Hazard, NodeName, Origin};
use ipam_core::net::{Block, Family};

impl PlanDocument {
    /// The plan with the Git commit from which its files were read.
    pub fn of_revision(mut self, revision: Option<String>) -> PlanDocument {
        self.source.revision = revision;
        self.sealed()
    }

    /// The plan with the failure domain of each node that changes: the value of this label.
    pub fn with_failure_domains(mut self, label: &str, observed: &Observed) -> PlanDocument {
        for change in self.changes.iter_mut().filter(|one| one.is_of_node()) {
            let name = change.name.parse::<NodeName>();
            let node = name.ok().and_then(|name| observed.nodes.get(&name));
            change.failure_domain = node.and_then(|node| node.labels.get(label).cloned());
        }
        self
    }
}

fn texts(blocks: &[Block]) -> Vec<String> {
    blocks.iter().map(ToString::to_string).collect()
}

impl From<&Origin> for OriginDocument {
    fn from(origin: &Origin) -> OriginDocument {
        OriginDocument {
            file: origin.file.to_string(),
            line: origin.line,
            column: origin.column,
            snippet: None,
        }
    }
}

impl From<&Change> for ChangeDocument {
    fn from(change: &Change) -> ChangeDocument {
        match change {
            Change::AddressPool(change) => ChangeDocument::from(&**change),
            Change::Service(change) => ChangeDocument::from(change),
            Change::PodPool(change) => ChangeDocument::from(&**change),
            Change::Port(change) => ChangeDocument::from(&**change),
            Change::Node(change) => ChangeDocument::from(&**change),
        }
    }
}

impl From<&NodeChange> for ChangeDocument {
    fn from(change: &NodeChange) -> ChangeDocument {
        ChangeDocument {
            action: change.action.into(),
            kind: TargetKind::Node,
            name: change.node.to_string(),
            write_path: change.edit.write_path().to_string(),
            before: texts(&change.before),
            after: texts(&change.after),
            pool: change.pool.as_ref().map(ToString::to_string),
            failure_domain: None,
            reason: reason_text(change),
            hazard: change.hazard,
            edit: EditDocument::from(&change.edit),
            undo: change.undo.as_ref().map(EditDocument::from),
            guard: change.guard.clone(),
            origin: change.origin.as_ref().map(OriginDocument::from),
            needs_approval: change
                .needs_approval
                .iter()
                .map(UnapprovedBlockDocument::from)
                .collect(),
        }
    }
}

impl From<&UnapprovedBlock> for UnapprovedBlockDocument {
    fn from(unapproved: &UnapprovedBlock) -> UnapprovedBlockDocument {
        let UnapprovedBlock {
            block,
            field,
            reason,
            author,
        } = unapproved;
        let writer = author.clone();
        UnapprovedBlockDocument {
            block: block.to_string(),
            source: field.to_string(),
            writer: writer.map(|(manager, time)| WriterDocument { manager, time }),
            code: reason.code().to_owned(),
            reason: reason.to_string(),
        }
    }
}

impl From<&Edit> for EditDocument {
    fn from(edit: &Edit) -> EditDocument {
        match edit {
            Edit::NodeSpec { pod_cidrs } => EditDocument::NodeSpec(texts(pod_cidrs)),
            Edit::CiliumNode {
                object: CiliumNodeObject::Deleted(_),
                ..
            } => EditDocument::NoCiliumNode(()),
            Edit::CiliumNode {
                pod_cidrs,
                object: CiliumNodeObject::Filled,
            } => EditDocument::CiliumNodeBesideOperator(texts(pod_cidrs)),
            Edit::CiliumNode {
                pod_cidrs,
                object: _,
            } => EditDocument::CiliumNode(texts(pod_cidrs)),
            Edit::NodeConfig(config) => {
                let key = |family: Family| range_setting(family).to_owned();
                let set = config.ranges.iter();
                let set = set.map(|block| (key(block.family()), Some(block.to_string())));
                let removed = config.removed.iter().map(|family| (key(*family), None));
                EditDocument::NodeConfig(set.chain(removed).collect())
            }
            Edit::NodeAnnotations { values } => EditDocument::Annotations(
                values
                    .iter()
                    .map(|(key, block)| ((*key).to_owned(), block.map(|block| block.to_string())))
                    .collect(),
            ),
        }
    }
}

impl From<&Refusal> for RefusalDocument {
    fn from(refusal: &Refusal) -> RefusalDocument {
        let Refusal {
            rule,
            message,
            help,
            waiver,
        } = refusal;
        RefusalDocument {
            rule: rule.to_string(),
            message: message.clone(),
            help: help.clone(),
            waiver: waiver.map(|waiver| waiver.to_string()),
        }
    }
}

fn reason_text(change: &NodeChange) -> String {
    let pool = change.pool.as_ref().map(|pool| format!(" of pool {pool}"));
    let pool = pool.unwrap_or_default();
    let by = change.origin.as_ref().map(|origin| format!(" by {origin}"));
    let by = by.unwrap_or_default();
    let restart = match change.hazard {
        Hazard::None => "",
        Hazard::Destructive => "; pods on it lose their addresses",
        Hazard::Disruptive => "; takes effect after the agent restarts",
    };
    let why = match &change.reason {
        Reason::Pinned => format!("pinned{by}"),
        Reason::MovedByPin { from } => format!(
            "pinned{by}, and moves away from {from}: drain the node; its Node keeps the old block permanently"
        ),
        Reason::PinnedInPart => {
            format!("one family pinned{by}, the other the lowest free block{pool}")
        }
        Reason::LowestFree { passed_over } if passed_over.is_empty() => {
            format!("lowest free block{pool}")
        }
        Reason::LowestFree { passed_over } => {
            let better = passed_over.in_words(|pool| format!("{} {}", pool.pool, pool.why));
            format!("lowest free block{pool} ({better})")
        }
        Reason::HeldElsewhere { field } => {
            format!("held already, but only in {field}, which this Cilium does not read")
        }
        Reason::Undo if matches!(change.edit, Edit::NodeConfig(_)) => {
            "undoes an earlier apply: drain the node and restart its agent".to_owned()
        }
        Reason::Undo => "undoes an earlier apply".to_owned(),
    };
    let approval: String = change
        .needs_approval
        .iter()
        .map(|block| format!("; needs manual approval: {block}"))
        .collect();
    why + restart + &approval
}

impl From<&Blocked> for BlockedDocument {
    fn from(blocked: &Blocked) -> BlockedDocument {
        BlockedDocument {
            kind: blocked.target.kind(),
            name: blocked.target.name(),
            code: blocked.reason.code().to_owned(),
            reason: blocked.reason.to_string(),
            unblock: blocked.reason.unblock(),
            origin: blocked.origin.as_ref().map(OriginDocument::from),
        }
    }
}

impl From<&Misplaced> for MisplacedDocument {
    fn from(misplaced: &Misplaced) -> MisplacedDocument {
        let Misplaced {
            reason,
            pool,
            node,
            block,
            field,
            origin,
        } = misplaced;
        MisplacedDocument {
            kind: TargetKind::Node,
            name: node.to_string(),
            block: block.to_string(),
            field: field.to_string(),
            pool: pool.as_ref().map(ToString::to_string),
            code: reason.code().to_owned(),
            reason: reason.to_string(),
            help: reason.help().to_owned(),
            origin: origin.as_ref().map(OriginDocument::from),
        }
    }
}

fn ranges_text(ranges: &BTreeSet<IpNet>) -> String {
    let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    if ranges.is_empty() {
        "none".to_owned()
    } else {
        ranges.join(" ")
    }
}

impl From<&Drift> for DriftDocument {
    fn from(drift: &Drift) -> DriftDocument {
        match drift {
            Drift::Field(drift) => {
                let (manager, time) = drift.author.clone().unzip();
                DriftDocument {
                    kind: TargetKind::Node,
                    name: drift.node.to_string(),
                    field: drift.field.to_string(),
                    expected: drift.expected.to_string(),
                    seen: drift.seen.to_string(),
                    manager,
                    time,
                }
            }
            Drift::Pairs(drift) => DriftDocument {
                kind: TargetKind::Port,
                name: drift.port.to_string(),
                field: format!("allowed_address_pairs for node {}", drift.node),
                expected: ranges_text(&drift.expected),
                seen: ranges_text(&drift.seen),
                manager: None,
                time: None,
            },
        }
    }
}
