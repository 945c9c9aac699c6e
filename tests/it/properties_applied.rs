//! Whatever a plan shows as a change, an apply of it on the same world carries out; and so for the
//! plan that takes it back.
//!
//! The worlds have blocks in every field that shows one, two families, claims and quarantined blocks of
//! any node, and each write path of single nodes.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use proptest::prelude::*;

use super::generated::{cases, worlds};
use super::support::Folder;
use ipam_cilium::observed::Observed;
use ipam_cluster::{FileCluster, Opening};
use ipam_controller::apply::{Outcome, Stop};
use ipam_controller::{
    Job, Loaded, NoPorts, OnConflict, Sending, apply_until_settled, check_documents,
    observe_and_plan,
};
use ipam_core::model::NodeName;
use ipam_core::net::{Block, Family};
use ipam_plan::plan::{
    Change, NodeChange, Plan, PlanDocument, Staleness, node_changes, still_wanted,
};
use worlds::invariants::{Broken, of_changes, of_plan, read_by_agents, shared};
use worlds::{Profile, World, is_widest};

/// The directory of a world, and a folder with its cluster file.
pub(super) fn opened(world: &World) -> Result<(Loaded, Folder), TestCaseError> {
    let loaded = check_documents(world.documents(), Vec::new());
    prop_assume!(!loaded.has_errors());
    let folder = Folder::new(&[("cluster.json", &world.cluster_file())]);
    Ok((loaded, folder))
}

/// Pairs of nodes whose agents share addresses, with their blocks.
fn sharing(observed: &Observed) -> BTreeSet<String> {
    let read = read_by_agents(observed);
    let pairs = shared(&read, |one, two| one.overlaps(*two)).into_iter();
    pairs.map(|(one, two)| format!("{one:?} {two:?}")).collect()
}

fn index(node: &NodeName) -> usize {
    node.as_str()[1..].parse().unwrap()
}

/// An apply with no other beside it.
pub(super) struct Run {
    pub(super) observed: Observed,
    plan: Plan,
    pub(super) changes: Vec<Change>,
    pub(super) undo: PlanDocument,
    /// What was not applied, and why.
    left: Vec<String>,
}

/// Plans and applies what the files ask for, or what an undo plan takes back.
pub(super) fn apply(folder: &Folder, loaded: &Loaded, saved: Option<&PlanDocument>) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Without a lock: programs that other tests start at this moment would inherit it until they
    // run.
    let cluster = FileCluster::open(&folder.join("cluster.json"), Opening::Read).unwrap();
    let waivers = BTreeSet::new();
    let job = Job::saved(loaded, saved, &waivers);
    let (observed, plan) = runtime.block_on(observe_and_plan(&cluster, &job)).unwrap();
    let changes = match saved.map(|saved| still_wanted(saved, &plan, &observed)) {
        Some(Staleness::Current { changes, .. }) => changes,
        Some(Staleness::Stale(_)) => Vec::new(),
        None => plan.changes.clone(),
    };
    let of_nodes: Vec<&NodeChange> = node_changes(&changes).collect();
    let undo = PlanDocument::undoing(&of_nodes, "pools", &loaded.desired, &observed);
    let stop = Stop::default();
    let parallelism = NonZeroUsize::MIN;
    let on_conflict = OnConflict::Replan;
    let mut sending = Sending {
        batch: parallelism,
        limit: parallelism.into(),
        on_conflict,
        stop: &stop,
        on_event: &mut |_| {},
    };
    let sent = apply_until_settled(
        &cluster,
        &NoPorts,
        &job,
        observed.clone(),
        changes.clone(),
        &mut sending,
    );
    let (applied, failure) = runtime.block_on(sent);
    cluster.save_all().unwrap();
    let left = applied
        .outcomes
        .iter()
        .filter(|(_, outcome)| *outcome != Outcome::Applied);
    let left = left.map(|(change, outcome)| format!("{}: {outcome:?}", change.target()));
    let left = left.chain(failure.map(|error| error.to_string())).collect();
    Run {
        observed,
        plan,
        changes,
        undo,
        left,
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_a_plan_shows_is_applied_and_so_is_its_undo(world in worlds(Profile::Fields)) {
        let (loaded, folder) = opened(&world)?;
        let first = apply(&folder, &loaded, None);
        let broken = of_plan(&first.plan, &loaded.desired, &first.observed);
        prop_assert_eq!(world.that_count(broken), Vec::<Broken>::new());
        prop_assert_eq!(first.left, Vec::<String>::new());
        prop_assert_eq!(first.plan.changes, first.changes);
        // Writes end claims, so there may be more to give.
        let again = apply(&folder, &loaded, None);
        prop_assert_eq!(again.left, Vec::<String>::new());
        let undone = apply(&folder, &loaded, Some(&first.undo));
        let broken = of_changes(&undone.changes, &loaded.desired, &undone.observed);
        prop_assert_eq!(world.that_count(broken), Vec::<Broken>::new());
        prop_assert_eq!(undone.left, Vec::<String>::new());
        prop_assert_eq!(undone.plan.changes, undone.changes, "what an undo plan shows is what it does");
    }

    #[test]
    fn no_agent_comes_to_share_addresses_with_another(world in worlds(Profile::Fields)) {
        let (loaded, folder) = opened(&world)?;
        let first = apply(&folder, &loaded, None);
        for change in node_changes(&first.plan.changes) {
            for new in change.new_blocks() {
                let rival = first.observed.shown_blocks().find(|(other, block)| **other != change.node && block.overlaps(new) && !is_widest(*block));
                prop_assert_eq!(rival, None, "{}: {}", change.node, new);
            }
        }
        let second = apply(&folder, &loaded, None);
        let (before, after) = (sharing(&first.observed), sharing(&second.observed));
        prop_assert_eq!(after.difference(&before).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn what_nobody_has_to_approve_the_files_give(world in worlds(Profile::Fields)) {
        let (loaded, folder) = opened(&world)?;
        let first = apply(&folder, &loaded, None);
        for change in node_changes(&first.plan.changes).filter(|change| change.needs_approval.is_empty()) {
            let node = &first.observed.nodes[&change.node];
            let is_trusted = |block: &Block| node.spec.get(block.family()) == Some(block) || first.observed.set_range(node, block.family()) == Some(*block);
            for new in change.new_blocks().into_iter().filter(|block| !is_trusted(block)) {
                prop_assert!(world.gives(index(&change.node), new), "{}: {}", change.node, new);
            }
        }
        let is_green = PlanDocument::new(&first.plan, "pools").summary.matches_the_files();
        for node in first.observed.nodes.values().filter(|_| is_green) {
            for holding in first.observed.holds(node).iter() {
                let is_used = world.has_ipv6 || holding.block.family() == Family::Ipv4;
                prop_assert!(!is_used || world.gives(index(&node.name), holding.block), "{}: {}", node.name, holding.block);
            }
        }
    }
}
