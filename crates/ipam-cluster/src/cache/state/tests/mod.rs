//! Every order of events, and what the state makes of it.

mod departures;
mod foreign_claims;
mod restores;

use serde_json::{Value, json};
use std::sync::Arc;

use super::*;
use crate::{ObjectEvent, Operation, Target, Write, WriteError, Written};
use ipam_cilium::observed::{CLAIMS_NAME, OWN_NAMESPACE, ObjectVersion};

fn object(name: &str, at: u64, block: Option<&str>) -> Value {
    let blocks: Vec<&str> = block.into_iter().collect();
    let metadata =
        json!({"name": name, "uid": format!("{name}-uid"), "resourceVersion": at.to_string()});
    json!({"metadata": metadata, "spec": {"podCIDRs": blocks, "ipam": {"podCIDRs": blocks}}})
}

fn claims(at: u64) -> Value {
    let metadata =
        json!({"namespace": OWN_NAMESPACE, "name": CLAIMS_NAME, "resourceVersion": at.to_string()});
    json!({"metadata": metadata})
}

/// Node `n` with a block, read at 10, and no CiliumNodes.
fn state() -> State {
    let kinds = [
        ObservedKind::Claims,
        ObservedKind::CiliumNode,
        ObservedKind::Node,
    ];
    let mut cached: BTreeMap<ObservedKind, CachedKind> =
        kinds.map(|kind| (kind, CachedKind::of(""))).into();
    for one in cached.values_mut() {
        one.begin("10");
    }
    cached
        .get_mut(&ObservedKind::Node)
        .unwrap()
        .put(ObservedKind::Node, &object("n", 5, Some("10.0.0.0/24")));
    cached
        .get_mut(&ObservedKind::Claims)
        .unwrap()
        .put(ObservedKind::Claims, &claims(9));
    let mut state = State::default();
    let epoch = state.begin_relist();
    state.replace(cached, epoch);
    state
}

fn tombstones(state: &State) -> Vec<String> {
    state.tombstones().iter().map(ToString::to_string).collect()
}

#[test]
fn a_block_that_vanishes_lingers_until_it_is_known_where_it_went() {
    let mut state = state();
    assert_eq!(
        state.on_event(
            ObservedKind::Node,
            ObjectEvent::Deleted(&object("n", 12, Some("10.0.0.0/24")))
        ),
        CacheEffect::Changed
    );
    assert_eq!(
        state.on_event(
            ObservedKind::Node,
            ObjectEvent::Changed(&object("n", 13, None))
        ),
        CacheEffect::Changed
    );
    assert_eq!(tombstones(&state), ["10.0.0.0/24"]);
    // The agent had started before the Node was deleted, which arrives only now.
    state.on_event(
        ObservedKind::CiliumNode,
        ObjectEvent::Changed(&object("n", 11, Some("10.0.0.0/24"))),
    );
    assert_eq!(tombstones(&state), [""; 0], "an object shows it");
    state.on_event(
        ObservedKind::CiliumNode,
        ObjectEvent::Deleted(&object("n", 14, Some("10.0.0.0/24"))),
    );
    assert_eq!(
        tombstones(&state),
        ["10.0.0.0/24"],
        "and then none does, but the Node may"
    );
    assert_eq!(
        state.on_event(ObservedKind::Node, ObjectEvent::Bookmark("20")),
        CacheEffect::Changed
    );
    assert_eq!(tombstones(&state), [""; 0]);
}

#[test]
fn what_says_nothing_new_wakes_nobody() {
    let mut state = state();
    let heartbeat = object("n", 11, Some("10.0.0.0/24"));
    assert_eq!(
        state.on_event(ObservedKind::Node, ObjectEvent::Changed(&heartbeat)),
        CacheEffect::None
    );
    let cached = &state.kinds[&ObservedKind::Node];
    assert!(
        cached
            .objects
            .values()
            .any(|object| object.json.contains(r#""resourceVersion":"11""#)),
        "but its version counts"
    );
    assert_eq!(state.position(ObservedKind::Node).unwrap().2, 11);
    assert!(state.is_complete());
}

#[test]
fn a_notice_of_an_earlier_time_demands_that_all_is_read_anew() {
    for object_event in [
        ObjectEvent::Changed(&object("n", 6, None)),
        ObjectEvent::Deleted(&object("n", 6, None)),
        ObjectEvent::Bookmark("9"),
    ] {
        let mut state = state();
        assert_eq!(
            state.on_event(ObservedKind::Node, object_event),
            CacheEffect::Resync,
            "{object_event:?}"
        );
        assert!(!state.is_complete() && tombstones(&state).is_empty());
    }
}

#[test]
fn a_lost_swap_of_the_claims_demands_that_all_is_read_anew() {
    let mut state = state();
    state.writing(&write(Target::Claims));
    let lost = Err(WriteError::Superseded("changed".to_owned()));
    assert_eq!(
        state.written(&write(Target::Claims), &lost),
        CacheEffect::Resync,
        "although no event came"
    );
    assert!(!state.is_complete());
}

fn forgotten(state: &State) -> Vec<String> {
    let rollback = state.rollback().unwrap();
    rollback
        .forgotten
        .iter()
        .map(|(block, node)| format!("{block} {node}"))
        .collect()
}

/// All is read as it was at an earlier moment, when there were no nodes.
fn go_back(state: &mut State, at: &str) {
    let epoch = state.begin_relist();
    state.replace(lists_without(&[ObservedKind::Node], at), epoch);
}

/// The lists of the first state as of a moment, in which these kinds have no objects.
fn lists_without(empty: &[ObservedKind], at: &str) -> BTreeMap<ObservedKind, CachedKind> {
    let mut lists = state().kinds;
    lists.values_mut().for_each(|cached| cached.begin(at));
    for kind in empty {
        lists.get_mut(kind).unwrap().objects = Arc::default();
    }
    lists
}

#[test]
fn one_that_stands_by_remembers_and_reads_anew_only_when_its_term_begins() {
    let mut state = state();
    assert!(!state.is_leader());
    go_back(&mut state, "7");
    state.set_role(Role::Leader);
    assert!(
        state.is_leader() && !state.is_complete(),
        "what was read before may be old"
    );
    assert_eq!(forgotten(&state), ["10.0.0.0/24 n"]);
    let rollback = state.rollback().unwrap();
    assert_eq!(state.settle_rollback(&rollback), Settled::Yes);
    let (kinds, epoch) = (state.kinds.clone(), state.begin_relist());
    state.replace(kinds, epoch);
    assert!(state.is_complete());
    state.set_role(Role::Standby);
    assert!(!state.is_leader());
}

#[test]
fn one_that_stands_by_leaves_a_rollback_to_another_that_quarantined_all_of_it() {
    let quarantined = |block: &str| {
        let mut claims = claims(20);
        let record = format!(
            r#"{{"format_version":"1.0","quarantined":[{{"block":"{block}","node":"n","free_at":"2026-01-02T03:04:05Z"}}]}}"#
        );
        claims["data"][ipam_cilium::observed::CLAIMS_KEY] = json!(record);
        claims
    };
    for (block, is_left, planned_from) in [
        ("10.0.0.0/24", true, false),
        ("10.0.9.0/24", false, false),
        ("10.0.0.0/24", false, true),
    ] {
        let mut state = state();
        go_back(&mut state, "7");
        if planned_from {
            state.set_role(Role::Leader);
        }
        state.on_event(
            ObservedKind::Claims,
            ObjectEvent::Changed(&quarantined(block)),
        );
        assert_eq!(
            state.rollback().is_none(),
            is_left,
            "{block} {planned_from}"
        );
    }
}

#[test]
fn what_a_cluster_forgot_must_be_quarantined_first() {
    let mut state = state();
    let target = Target::Node("m".parse().unwrap());
    let patch = json!({"spec": {"podCIDRs": ["10.0.1.0/24"]}});
    state.written(
        &Write {
            target,
            operation: Operation::Patch(patch),
        },
        &answered(12),
    );
    go_back(&mut state, "7");
    assert!(!state.is_complete());
    assert_eq!(forgotten(&state), ["10.0.0.0/24 n", "10.0.1.0/24 m"]);
    let rollback = state.rollback().unwrap();
    assert_eq!(state.settle_rollback(&rollback), Settled::Yes);
    assert!(state.is_complete());
}

fn write(target: Target) -> Write {
    Write {
        target,
        operation: Operation::Patch(json!({})),
    }
}

fn answered(at: u64) -> Result<Written, WriteError> {
    Ok(Written {
        version: ObjectVersion {
            uid: "u".to_owned(),
            resource_version: at.to_string(),
        },
    })
}

#[test]
fn what_we_wrote_must_show_first() {
    let mut state = state();
    let target = Target::Node("n".parse().unwrap());
    state.written(&write(target.clone()), &answered(12));
    assert!(!state.is_complete());
    state.on_event(
        ObservedKind::Node,
        ObjectEvent::Changed(&object("n", 11, None)),
    );
    assert!(!state.is_complete());
    assert_eq!(
        state.on_event(
            ObservedKind::Node,
            ObjectEvent::Changed(&object("n", 12, None))
        ),
        CacheEffect::Changed
    );
    assert!(state.is_complete());
    state.written(&write(target), &answered(12));
    assert!(state.is_complete(), "the event came before the answer");
}

#[test]
fn what_was_answered_while_all_was_read_is_still_owed() {
    let mut state = state();
    let again = self::state().kinds;
    let epoch = state.begin_relist();
    let target = Target::Node("n".parse().unwrap());
    state.written(&write(target), &answered(12));
    state.replace(again.clone(), epoch);
    assert!(!state.is_complete(), "the list may be older than the write");
    let epoch = state.begin_relist();
    let mut later = again;
    later
        .get_mut(&ObservedKind::Node)
        .unwrap()
        .put(ObservedKind::Node, &object("n", 12, Some("10.0.0.0/24")));
    state.replace(later, epoch);
    assert!(
        state.is_complete(),
        "a list that began after the answer has it"
    );
}

#[test]
fn what_we_deleted_must_be_gone_or_going_or_another_one() {
    let target = Target::Node("n".parse().unwrap());
    let delete = |uid: &str| Write {
        target: target.clone(),
        operation: Operation::Delete(ObjectVersion {
            uid: uid.to_owned(),
            resource_version: "5".to_owned(),
        }),
    };
    let mut state = state();
    state.written(&delete("n-uid"), &answered(0));
    assert!(!state.is_complete());
    let mut deleting = object("n", 12, None);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    state.on_event(ObservedKind::Node, ObjectEvent::Changed(&deleting));
    assert!(state.is_complete());
    state.written(&delete("an-earlier-uid"), &answered(0));
    assert!(state.is_complete());
}

#[test]
fn claims_that_change_while_ours_are_written_are_judged_by_the_answer() {
    let behind = |state: &State| !state.is_complete() && state.pending_writes.is_empty();
    let mut state = state();
    state.writing(&write(Target::Claims));
    assert_eq!(
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12))),
        CacheEffect::None,
        "ours, perhaps"
    );
    assert_eq!(
        state.written(&write(Target::Claims), &answered(12)),
        CacheEffect::None
    );
    assert!(state.is_complete());
    assert_eq!(
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(13))),
        CacheEffect::Lagging
    );
    assert!(behind(&state));
    let lost = || Err(WriteError::Superseded("changed".to_owned()));
    let refused = || Err(WriteError::Refused("no".to_owned()));
    for (answer, effect) in [
        (answered(11), CacheEffect::Lagging),
        (refused(), CacheEffect::Lagging),
        (lost(), CacheEffect::Resync),
    ] {
        let mut state = self::state();
        state.writing(&write(Target::Claims));
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
        assert_eq!(
            state.written(&write(Target::Claims), &answer),
            effect,
            "{answer:?}"
        );
        assert!(!state.is_complete());
    }
}

/// What happened, in order: the moment, the kind, the object's name, and its block from then
/// on; `None` when it is gone.
type Happening = (u64, ObservedKind, usize, Option<u8>);

/// A block is in the world from the moment on at which an object shows it, until none does.
fn shown_all_the_time(happenings: &[Happening], block: u8, from: u64, to: u64) -> bool {
    (from..=to).all(|moment| {
        let mut objects: BTreeMap<(ObservedKind, usize), Option<u8>> = BTreeMap::new();
        for (at, kind, name, shows) in happenings.iter().filter(|(at, ..)| *at <= moment) {
            let _ = at;
            objects.insert((*kind, *name), *shows);
        }
        objects.values().any(|shows| *shows == Some(block))
    })
}

#[test]
fn whatever_was_shown_all_the_time_is_shown_or_lingers_in_every_order_of_notices() {
    let kinds = [ObservedKind::Node, ObservedKind::CiliumNode];
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let happenings: Vec<Happening> = (11..31)
            .map(|at| {
                (
                    at,
                    kinds[rng.usize(..2)],
                    rng.usize(..2),
                    rng.bool().then(|| rng.u8(..2)),
                )
            })
            .collect();
        let mut cached: BTreeMap<ObservedKind, CachedKind> =
            kinds.map(|kind| (kind, CachedKind::of(""))).into();
        cached.values_mut().for_each(|cached| cached.begin("10"));
        let mut state = State::default();
        let epoch = state.begin_relist();
        state.replace(cached, epoch);
        let mut reached = [10_u64; 2];
        while reached.iter().any(|at| *at < 30) {
            let index = rng.usize(..2);
            reached[index] = (reached[index] + 1).min(30);
            let of_kind =
                |(at, kind, ..): &&Happening| *at == reached[index] && *kind == kinds[index];
            if let Some((at, kind, name, shows)) = happenings.iter().find(of_kind) {
                let block = shows.map(|number| format!("10.0.{number}.0/24"));
                let object = object(&name.to_string(), *at, block.as_deref());
                let gone = shows.is_none() && rng.bool();
                state.on_event(
                    *kind,
                    if gone {
                        ObjectEvent::Deleted(&object)
                    } else {
                        ObjectEvent::Changed(&object)
                    },
                );
            } else if rng.bool() {
                state.on_event(
                    kinds[index],
                    ObjectEvent::Bookmark(&reached[index].to_string()),
                );
            }
            let shown = state
                .kinds
                .values()
                .flat_map(|cached| cached.objects.values())
                .flat_map(|one| &one.blocks);
            let known: BTreeSet<Block> = shown.copied().chain(state.tombstones()).collect();
            for number in 0..2 {
                let block: Block = format!("10.0.{number}.0/24").parse().unwrap();
                let (from, to) = (reached[0].min(reached[1]), reached[0].max(reached[1]));
                let is_free = !known.contains(&block);
                assert!(
                    !(is_free && shown_all_the_time(&happenings, number, from, to)),
                    "seed {seed}: {block} is called free; reached {reached:?} of {happenings:?}"
                );
            }
        }
    }
}
