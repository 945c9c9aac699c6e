//! Blocks that Cilium's operator removes from running nodes at its next start, because several
//! CiliumNodes use the same slots. Must never know the files: no write of a plan shares a slot.

use std::collections::BTreeSet;

use ipam_cilium::observed::operator_settings::mask_key;
use ipam_cilium::observed::{DuplicateHandling, Losers, Observed, Removal, RemovalCause};
use ipam_cilium::releases::NEWEST;
use ipam_core::model::{
    CiliumVersion, Finding, NodeName, ObjectRef, Rule, Severity, grouped_digits,
};
use ipam_core::net::{Block, Family};
use ipam_desired::Desired;

const RULE: Rule = Rule("operator-will-remove-block");

/// Limit of the slots that the evidence lists.
const LISTED: usize = 10;

/// One finding for each family and cause.
pub(super) fn removed_at_operator_start(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let removals = next_removals(observed);
    let finding = |(release, removal): &(_, _)| finding(*release, removal);
    let unknown = observed.unknown_mask_of_removals().map(unknown_mask);
    removals.iter().map(finding).chain(unknown).collect()
}

/// What the next start removes, each with the release of the operator. An operator of an unknown
/// release may be one that removes blocks.
fn next_removals(observed: &Observed) -> Vec<(Option<CiliumVersion>, Removal)> {
    let mut all: Vec<(Option<CiliumVersion>, Removal)> = Vec::new();
    // Of several operators, that of the latest release tells a cause.
    for release in observed.operator_releases().into_iter().rev() {
        let mut removals = observed.removed_at_operator_start(release.unwrap_or(NEWEST));
        let is_told =
            |of: &Removal, told: &Removal| (of.family, &of.cause) == (told.family, &told.cause);
        removals.retain(|removal| all.iter().all(|(_, told)| !is_told(removal, told)));
        all.extend(removals.into_iter().map(|removal| (release, removal)));
    }
    all
}

/// Blocks in one slot, under operators that set an error and remove nothing. Equal blocks have a
/// finding of their own.
pub fn refused_at_operator_start(observed: &Observed) -> Vec<Finding> {
    if !observed.operators_only_report() {
        return Vec::new();
    }
    let removals = observed.removed_at_operator_start(NEWEST);
    let of_slots = removals
        .iter()
        .filter(|removal| matches!(removal.cause, RemovalCause::SameSlot(_)));
    of_slots.map(refusal).collect()
}

fn refusal(removal: &Removal) -> Finding {
    let message = format!(
        "at its next start, Cilium's operator does not accept the {} pod CIDRs of {}: {}",
        removal.family,
        losers(removal),
        why(removal)
    );
    let finding = Finding::new(Severity::Warning, Rule("operator-will-refuse"), message);
    let finding = finding.seen(evidence(removal)).causes(
        "the operator sets an error in their CiliumNodes; from 1.17.15, 1.18.9, 1.19.3 and 1.20.0 on, it removes these pod CIDRs",
    );
    about_candidates(finding.help(fix(removal)), removal)
}

fn about_candidates(finding: Finding, removal: &Removal) -> Finding {
    finding.about_all(removal.candidates.keys().map(ObjectRef::node))
}

/// Number of nodes that lose blocks at the next start, at most.
pub fn nodes_losing_blocks(observed: &Observed) -> usize {
    let removals = next_removals(observed);
    let most = removals.iter().map(|(_, removal)| removal.losers.most());
    most.sum()
}

/// Message and fix of each finding of this rule.
pub fn sentences(findings: &[Finding]) -> Vec<String> {
    let removals = findings.iter().filter(|finding| finding.rule == RULE);
    removals
        .map(|finding| format!("{}; {}", finding.message, finding.help))
        .collect()
}

fn unknown_mask(family: Family) -> Finding {
    let key = mask_key(family);
    let message = format!(
        "{key} of Cilium's operator is no number, so it is unknown whether its next start removes pod CIDRs of nodes"
    );
    let finding = Finding::new(Severity::Warning, RULE, message);
    finding.help(format!(
        "write {key} as a number into cilium-config or the arguments of the operator"
    ))
}

fn finding(release: Option<CiliumVersion>, removal: &Removal) -> Finding {
    let removes = match release.map(DuplicateHandling::of) {
        Some(DuplicateHandling::Removes | DuplicateHandling::Reports) => "removes",
        Some(DuplicateHandling::DependsOnPatch) => "may remove, depending on its patch release,",
        None => "may remove, depending on its release,",
    };
    let release = release
        .map(|release| format!(" {release}"))
        .unwrap_or_default();
    let family = removal.family;
    let message = format!(
        "at its next start, Cilium's operator{release} {removes} the {family} pod CIDRs of {}: {}",
        losers(removal),
        why(removal)
    );
    let finding = Finding::new(Severity::Error, RULE, message)
        .seen(evidence(removal))
        .causes(
            "the Pods of these nodes still use addresses that the operator assigns to other nodes",
        )
        .help(fix(removal));
    about_candidates(finding, removal)
}

/// `2 of 3 nodes`.
pub fn losers(removal: &Removal) -> String {
    let candidates = removal.candidates.len();
    let nodes = match candidates {
        1 => "node",
        _ => "nodes",
    };
    let of = grouped_digits(candidates);
    match removal.losers {
        Losers::Exactly(count) if count == candidates => format!("{of} {nodes}"),
        Losers::Exactly(count) => format!("{} of {of} {nodes}", grouped_digits(count)),
        Losers::AtMost(count) => format!("up to {} of {of} {nodes}", grouped_digits(count)),
    }
}

/// Why the operator removes the blocks: a clause.
pub fn why(removal: &Removal) -> String {
    match &removal.cause {
        RemovalCause::SameBlock => {
            "their CiliumNodes show the same or overlapping blocks, and it accepts only the first that it reads".to_owned()
        }
        RemovalCause::SameSlot(mask) => format!(
            "their blocks share /{mask} slots ({} is {mask}), and it accepts only the first that it reads",
            mask_key(removal.family)
        ),
        RemovalCause::OwnBlocks => "a CiliumNode shows several blocks in one slot".to_owned(),
        RemovalCause::TakenFirst(takers) => format!(
            "{} without an {} block, and the operator gives it the first free one before it has read all CiliumNodes",
            are(takers),
            removal.family
        ),
    }
}

/// `node a is` or `2 nodes are`.
fn are(takers: &BTreeSet<NodeName>) -> String {
    match takers.iter().next() {
        Some(only) if takers.len() == 1 => format!("node `{only}` is"),
        _ => format!("{} nodes are", grouped_digits(takers.len())),
    }
}

/// What to do before the operator starts.
pub fn fix(removal: &Removal) -> String {
    let family = removal.family;
    match &removal.cause {
        RemovalCause::SameSlot(mask) => {
            let blocks = removal.candidates.values().flatten();
            let longest = blocks.map(|block| block.prefix_len()).max();
            format!(
                "do not restart or upgrade the operator yet: set {} to {} (Cilium does not support another mask on a live cluster), or drain all nodes but one of each slot and give them blocks in slots of their own",
                mask_key(family),
                longest.unwrap_or(*mask)
            )
        }
        RemovalCause::SameBlock => "do not restart or upgrade the operator yet: drain all of these nodes but one, delete their CiliumNodes, and create them with a block in a slot that no other node uses".to_owned(),
        RemovalCause::OwnBlocks => "do not restart or upgrade the operator yet: leave one block of the family in the CiliumNode, the one that its Pods use".to_owned(),
        RemovalCause::TakenFirst(takers) => {
            let takers: Vec<String> = takers.iter().take(LISTED).map(ToString::to_string).collect();
            format!(
                "do not restart or upgrade the operator yet: write an {family} block in a free slot into CiliumNode {}",
                takers.join(", ")
            )
        }
    }
}

/// The first slots, with the nodes in each.
fn evidence(removal: &Removal) -> Vec<String> {
    let shown = |(slot, nodes): (&Block, &BTreeSet<NodeName>)| {
        let node = |name: &NodeName| {
            let blocks = removal.candidates.get(name);
            let blocks = blocks
                .into_iter()
                .flatten()
                .map(|block| format!(" {block}"));
            format!("`{name}`{}", blocks.collect::<String>())
        };
        let nodes: Vec<String> = nodes.iter().take(LISTED).map(node).collect();
        format!("slot {slot}: {}", nodes.join(", "))
    };
    let mut lines: Vec<String> = removal.places.iter().take(LISTED).map(shown).collect();
    if let Some(more) = removal.places.len().checked_sub(LISTED + 1) {
        lines.push(format!("and {} more slots", grouped_digits(more + 1)));
    }
    lines
}
