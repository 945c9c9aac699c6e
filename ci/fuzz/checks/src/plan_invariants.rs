//! Invariants of every plan, for any input.

use std::collections::BTreeSet;

use crate::safe_text::{assert_harmless, assert_harmless_but_colours};
use cilium_ipam::render::{Detail, PageLimit, human, markdown, sanitized_json};
use ipam_cilium::observed::{ANNOTATION_KEYS, Observed, Reading};
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Range};
use ipam_desired::{Desired, Pool, PoolState};
use ipam_planner::plan::{
    AddressPoolChange, Change, Edit, NodeChange, Plan, PlanDocument, PoolAction, Reason, Staleness,
    Target, node_changes, pool_use, still_wanted,
};

/// The longest comment that the large Git hosts accept, in characters.
const LONGEST_COMMENT: usize = 65_535;

/// All of it, for a plan that was made from files.
pub(crate) fn assert_plan(plan: &Plan, desired: &Desired, observed: &Observed) {
    let is_node = |target: &Target| matches!(target, Target::Node(_));
    let blocked = plan
        .blocked
        .iter()
        .filter(|blocked| is_node(&blocked.target))
        .count();
    let unchanged = plan
        .unchanged
        .iter()
        .filter(|target| is_node(target))
        .count();
    let told = node_changes(&plan.changes).count() + blocked + unchanged;
    assert_eq!(told, observed.nodes.len(), "each node is reported once");
    assert_changes(&plan.changes, desired, observed);
    assert_load_balancing(plan, desired, observed);
    for change in node_changes(&plan.changes) {
        assert_from_its_pool(change, desired, observed);
    }
    assert_pins_kept(plan, desired, observed);
    let document = assert_document(plan);
    assert_eq!(document.summary.moved, 0, "nothing moves by itself");
    match still_wanted(&document, plan, observed) {
        Staleness::Current {
            changes,
            further,
            done,
            gone,
            blocked,
        } => {
            let told = (changes.len(), further, done, gone, blocked.len());
            let all = (plan.changes.len(), 0, 0, 0, 0);
            assert_eq!(told, all, "a plan wants itself");
        }
        Staleness::Stale(why) => panic!("a plan is stale at once: {why:?}"),
    }
    for used in pool_use(desired, observed) {
        assert!(
            used.used + used.reserved + used.free == used.total,
            "{used:?}"
        );
    }
}

/// One change for each node, in its own fields, with nothing of anybody else's.
pub(crate) fn assert_changes(changes: &[Change], desired: &Desired, observed: &Observed) {
    let targets: BTreeSet<Target> = changes.iter().map(Change::target).collect();
    assert_eq!(targets.len(), changes.len(), "one change for each object");
    let foreign = foreign(desired, observed);
    let claims = observed.live_claims(desired.policy.quarantine);
    let mut given: Vec<(&NodeName, Block)> = Vec::new();
    for change in node_changes(changes) {
        assert_families(change);
        assert_pins_respected(change, desired, observed);
        for block in new_blocks(change, observed) {
            let of_others = observed
                .shown_blocks()
                .chain(claims.held().map(|(block, node)| (node, block)));
            let all = of_others
                .chain(given.iter().copied())
                .filter(|(node, _)| **node != change.node);
            for (node, other) in all {
                assert!(
                    !block.overlaps(other),
                    "{} gets {block}, and {node} has {other}",
                    change.node
                );
            }
            for range in &foreign {
                assert!(
                    !block.range().overlaps(range),
                    "{} gets {block}, and {range} is in use",
                    change.node
                );
            }
            given.push((&change.node, block));
        }
    }
}

/// Only our objects are changed or deleted, every wanted pool is reported, and no Service loses an
/// address that it does not have.
fn assert_load_balancing(plan: &Plan, desired: &Desired, observed: &Observed) {
    for change in &plan.changes {
        let Change::AddressPool(pool) = change else {
            continue;
        };
        let AddressPoolChange {
            action,
            name,
            before,
            after,
            guard,
            ..
        } = &**pool;
        let seen = observed.address_pools.get(name.as_str());
        assert_eq!(before.is_some(), seen.is_some(), "{change:?}");
        let is_ours = seen.is_some_and(ipam_cilium::observed::SeenAddressPool::is_ours);
        match action {
            PoolAction::Create => assert!(
                seen.is_none() && desired.address_pools.contains_key(name),
                "{change:?}"
            ),
            PoolAction::Adopt => assert!(
                !is_ours && desired.address_pools.contains_key(name),
                "{change:?}"
            ),
            PoolAction::Update => assert!(is_ours && guard.is_known(), "{change:?}"),
            PoolAction::Delete => assert!(
                is_ours && !desired.address_pools.contains_key(name),
                "{change:?}"
            ),
        }
        assert_eq!(after.is_none(), *action == PoolAction::Delete, "{change:?}");
    }
    let told = |name: &str| {
        let of =
            |target: &Target| matches!(target, Target::AddressPool(pool) if pool.as_str() == name);
        let blocked = plan.blocked.iter().any(|blocked| of(&blocked.target));
        blocked
            || plan.unchanged.iter().any(of)
            || plan.changes.iter().any(|change| of(&change.target()))
    };
    assert!(
        desired.address_pools.keys().all(|name| told(name.as_str())),
        "each pool is told of"
    );
    for (service, lost) in plan.effects.lost() {
        assert!(
            observed.services[service]
                .served()
                .any(|one| one == lost.address),
            "{service} has no {lost:?}"
        );
    }
}

/// What a change writes that its agent does not take from the node already.
fn new_blocks(change: &NodeChange, observed: &Observed) -> Vec<Block> {
    let node = observed
        .nodes
        .get(&change.node)
        .expect("a change is of a node that was seen");
    assert_eq!(
        (&change.guard.uid, &change.guard.resource_version),
        (&node.uid, &node.resource_version)
    );
    let held = observed.holds(node);
    let is_read = |block: &Block| {
        held.iter()
            .any(|held| held.block == *block && held.reading == Reading::Read)
    };
    change
        .edit
        .blocks()
        .into_iter()
        .filter(|block| !is_read(block))
        .collect()
}

fn assert_families(change: &NodeChange) {
    match &change.edit {
        Edit::NodeSpec { pod_cidrs } | Edit::CiliumNode { pod_cidrs, .. } => {
            let families: BTreeSet<_> = pod_cidrs.iter().map(|block| block.family()).collect();
            assert!(
                !pod_cidrs.is_empty() && families.len() == pod_cidrs.len(),
                "{change:?}"
            );
        }
        Edit::NodeConfig(config) => assert!(!config.ranges.is_empty(), "{change:?}"),
        Edit::NodeAnnotations { values } => {
            for (key, block) in values {
                assert!(ANNOTATION_KEYS.contains(key), "{change:?}");
                let family = if key.contains("ipv4") { "IPv4" } else { "IPv6" };
                assert!(
                    block.is_none_or(|block| block.family().to_string() == family),
                    "{change:?}"
                );
            }
        }
    }
}

/// Addresses that no node may get.
fn foreign(desired: &Desired, observed: &Observed) -> Vec<Range> {
    let machines = observed
        .nodes
        .values()
        .flat_map(|node| node.addresses.iter().map(|address| Range::from(*address)));
    let balancers = observed.load_balancer_ranges().map(|(_, range)| range);
    let unattributed = observed.unattributed.iter().chain(&observed.tombstones);
    let unattributed = unattributed.map(|block| block.range());
    let others = observed
        .service_ranges
        .iter()
        .chain(&desired.policy.excluded)
        .copied();
    let wanted = desired
        .address_pools
        .values()
        .flat_map(|pool| pool.ranges.iter().map(|range| range.range));
    wanted
        .chain(machines)
        .chain(balancers)
        .chain(unattributed)
        .chain(others)
        .collect()
}

/// A pool gives blocks of its size, to nodes that it selects, and no reserved ones.
fn assert_from_its_pool(change: &NodeChange, desired: &Desired, observed: &Observed) {
    if !matches!(change.reason, Reason::LowestFree { .. }) {
        return;
    }
    let name = change
        .pool
        .as_ref()
        .expect("the lowest block of a pool has a pool");
    let pool = desired.pools.get(name).expect("a pool that is declared");
    let node = &observed.nodes[&change.node];
    let holds_already =
        |block: &Block| observed.holds(node).iter().any(|held| held.block == *block);
    let new: Vec<Block> = change
        .after
        .iter()
        .copied()
        .filter(|block| !holds_already(block))
        .collect();
    let is_fine = |block: &Block| {
        pool.contains(*block) && pool.block_size.get(block.family()) == Some(&block.size())
    };
    assert!(
        pool.state == PoolState::Active && new.iter().all(is_fine),
        "{change:?} of {pool:?}"
    );
    assert!(
        pool.selector.matches(&node.labels) || observed.holds(node).iter().next().is_some(),
        "{change:?}"
    );
    let reserved = |pool: &Pool, block: &Block| {
        pool.reserved
            .iter()
            .any(|range| range.overlaps(&block.range()))
    };
    let any_reserves = |block: &Block| desired.pools.values().any(|pool| reserved(pool, block));
    assert!(!new.iter().any(any_reserves), "{change:?} is reserved");
}

/// A pinned node gets its block, has it, or waits.
fn assert_pins_kept(plan: &Plan, desired: &Desired, observed: &Observed) {
    for pin in desired.pins.values() {
        let Some(node) = observed.nodes.get(&pin.node) else {
            continue;
        };
        let waits = plan
            .blocked
            .iter()
            .any(|blocked| blocked.target == Target::Node(pin.node.clone()));
        let change = node_changes(&plan.changes).find(|change| change.node == pin.node);
        for block in pin.blocks.iter() {
            let has = observed.holds(node).iter().any(|held| held.block == *block);
            let gets = change.is_some_and(|change| change.after.contains(block));
            assert!(waits || has || gets, "{pin:?} is forgotten");
        }
    }
}

/// No other node gets a pinned block, unless it holds it already.
fn assert_pins_respected(change: &NodeChange, desired: &Desired, observed: &Observed) {
    let held = observed.holds(&observed.nodes[&change.node]);
    let is_new = |block: &&Block| !held.iter().any(|held| held.block == **block);
    for pin in desired.pins.values().filter(|pin| pin.node != change.node) {
        for block in change.after.iter().filter(is_new) {
            let clash = pin.blocks.iter().any(|pinned| pinned.overlaps(*block));
            assert!(!clash, "{change:?} gets {block} of {pin:?}");
        }
    }
}

/// Its document says the same after it was saved, and every form of it is harmless.
pub(crate) fn assert_document(plan: &Plan) -> PlanDocument {
    let document = PlanDocument::new(plan, "pools");
    let json = serde_json::to_string_pretty(&document).expect("a plan is JSON");
    let read = PlanDocument::parse(&json).expect("a saved plan is readable");
    assert!(read == document, "a plan is another one after it was saved");
    let harmless = sanitized_json(&json);
    assert_harmless("the JSON", &harmless);
    assert!(
        PlanDocument::parse(&harmless).is_ok_and(|read| read == document),
        "harmless JSON says something else"
    );
    assert_printable(&document);
    for detail in [Detail::Short, Detail::Full] {
        assert!(
            markdown(&document, detail, PageLimit::COMMENT).len() <= LONGEST_COMMENT,
            "the comment is too long"
        );
    }
    document
}

/// What people see of it is harmless.
pub(crate) fn assert_printable(document: &PlanDocument) {
    for detail in [Detail::Short, Detail::Full] {
        assert_harmless(
            "the Markdown",
            &markdown(document, detail, PageLimit::COMMENT),
        );
        assert_harmless_but_colours("the plan", &human(document, detail));
    }
}
