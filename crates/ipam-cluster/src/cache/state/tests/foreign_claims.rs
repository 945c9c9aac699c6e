//! Claims of another process: plans wait until every kind that shows blocks is as new.

use super::*;

fn reach(state: &mut State, kind: ObservedKind, at: &str) -> CacheEffect {
    state.on_event(kind, ObjectEvent::Bookmark(at))
}

#[test]
fn claims_of_another_process_hold_plans_up_until_all_kinds_are_as_new() {
    let mut state = state();
    state.set_role(Role::Leader);
    let (kinds, epoch) = (state.kinds.clone(), state.begin_relist());
    state.replace(kinds, epoch);
    assert!(state.is_complete());
    let event = |at| claims(at);
    assert_eq!(
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&event(12))),
        CacheEffect::Lagging
    );
    assert!(!state.is_complete(), "Nodes may be older than these claims");
    assert_eq!(
        reach(&mut state, ObservedKind::Node, "12"),
        CacheEffect::None
    );
    assert!(!state.is_complete(), "CiliumNodes may be older");
    assert_eq!(
        reach(&mut state, ObservedKind::CiliumNode, "11"),
        CacheEffect::None
    );
    assert!(!state.is_complete(), "they still may be older");
    assert_eq!(
        reach(&mut state, ObservedKind::CiliumNode, "12"),
        CacheEffect::Changed
    );
    assert!(state.is_complete());
    assert_eq!(
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&event(13))),
        CacheEffect::Lagging
    );
    reach(&mut state, ObservedKind::Node, "14");
    reach(&mut state, ObservedKind::CiliumNode, "14");
    assert_eq!(
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&event(14))),
        CacheEffect::Changed,
        "the others are as new already"
    );
    assert!(state.is_complete());
}

#[test]
fn a_list_shows_the_moment_of_the_last_foreign_claims() {
    let mut state = state();
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
    let shown = State::must_reach;
    assert_eq!(shown(&state), 12);
    state.writing(&write(Target::Claims));
    state.written(&write(Target::Claims), &answered(14));
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(14)));
    assert_eq!(shown(&state), 12, "our own claims are known");
}

fn listed(state: &State, kind: ObservedKind, at: u64, objects: &[Value]) -> CachedKind {
    let mut listed = CachedKind::of("");
    listed.seen = state.kinds[&kind].seen.clone();
    listed.begin(&at.to_string());
    objects
        .iter()
        .for_each(|object| drop(listed.put(kind, object)));
    listed
}

#[test]
fn a_kind_that_is_not_served_is_looked_for_after_foreign_claims() {
    for is_served in [false, true] {
        let mut state = state();
        state.kinds.get_mut(&ObservedKind::CiliumNode).unwrap().seen = Seen::NotServed;
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
        reach(&mut state, ObservedKind::Node, "12");
        assert!(!state.is_complete(), "it may be served by now");
        let asked = state.lagging(ObservedKind::CiliumNode, &Seen::NotServed);
        let asked = asked.unwrap();
        assert_eq!(asked.moment(), crate::Moment::Latest);
        let answer = if is_served {
            CachedKind::of("")
        } else {
            listed(&state, ObservedKind::CiliumNode, 0, &[])
        };
        let expected = if is_served {
            CacheEffect::Resync
        } else {
            CacheEffect::Changed
        };
        assert_eq!(state.take_list(&asked, answer), expected);
        assert_eq!(state.is_complete(), !is_served);
    }
}

#[test]
fn foreign_claims_that_a_plan_read_beside_the_cache_count_although_ours_are_newer() {
    // Another apply has claimed a block, written it to Node `m` at 12, and dropped the claim.
    let mut state = state();
    state.read_uncached(13);
    for answer in [13, 14] {
        state.writing(&write(Target::Claims));
        state.written(&write(Target::Claims), &answered(answer));
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(answer)));
        assert!(!state.is_complete(), "Node `m` is not reported yet");
    }
    reach(&mut state, ObservedKind::CiliumNode, "13");
    assert!(!state.is_complete());
    state.on_event(
        ObservedKind::Node,
        ObjectEvent::Changed(&object("m", 12, Some("10.0.1.0/24"))),
    );
    assert!(!state.is_complete());
    reach(&mut state, ObservedKind::Node, "13");
    assert!(state.is_complete());
}

#[test]
fn a_relist_has_what_was_read_beside_the_cache_before_it_but_not_what_was_read_meanwhile() {
    let mut state = state();
    state.read_uncached(12);
    let mut later = self::state().kinds;
    later.values_mut().for_each(|cached| cached.begin("12"));
    let epoch = state.begin_relist();
    state.replace(later.clone(), epoch);
    assert!(state.is_complete());
    let epoch = state.begin_relist();
    state.read_uncached(13);
    state.replace(later, epoch);
    assert!(!state.is_complete() && state.rollback().is_none());
    go_back(&mut state, "12");
    assert!(state.rollback().is_some(), "a list at 13 was read before");
    assert_eq!(state.must_reach(), 12, "no plan waits for what is gone");
}

#[test]
fn a_deletion_of_an_earlier_object_shows_no_write_to_its_successor() {
    let mut state = state();
    let target = Target::Node("n".parse().unwrap());
    state.written(&write(target), &answered(103));
    state.on_event(
        ObservedKind::Node,
        ObjectEvent::Deleted(&object("n", 100, Some("10.0.0.0/24"))),
    );
    reach(&mut state, ObservedKind::CiliumNode, "103");
    assert!(!state.is_complete(), "the block is not reported yet");
    state.on_event(
        ObservedKind::Node,
        ObjectEvent::Changed(&object("n", 101, None)),
    );
    assert!(!state.is_complete());
    state.on_event(
        ObservedKind::Node,
        ObjectEvent::Changed(&object("n", 103, Some("10.0.1.0/24"))),
    );
    assert!(state.is_complete());
    let target = Target::Node("n".parse().unwrap());
    state.written(&write(target), &answered(105));
    state.on_event(
        ObservedKind::Node,
        ObjectEvent::Deleted(&object("n", 106, Some("10.0.1.0/24"))),
    );
    assert!(state.is_complete(), "the written object itself is gone");
}

#[test]
fn a_list_of_one_lagging_kind_does_what_its_events_would_do() {
    let mut state = state();
    for (node, at) in [("m", 12), ("p", 13)] {
        let target = Target::Node(node.parse().unwrap());
        state.written(&write(target), &answered(at));
    }
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(15)));
    let asked = state.lagging(ObservedKind::Node, &Seen::All).unwrap();
    assert_eq!(asked.moment(), crate::Moment::Of("15".to_owned()));
    let m = object("m", 12, Some("10.0.1.0/24"));
    let list = listed(&state, ObservedKind::Node, 15, std::slice::from_ref(&m));
    assert_eq!(state.take_list(&asked, list), CacheEffect::Changed);
    assert_eq!(state.position(ObservedKind::Node).unwrap().2, 15);
    assert!(state.pending_writes.is_empty(), "`p` came and went");
    let nodes = &state.kinds[&ObservedKind::Node].objects;
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["m"]);
    assert_eq!(tombstones(&state), ["10.0.0.0/24"], "`n` is gone");
    assert!(!state.is_complete());
    reach(&mut state, ObservedKind::CiliumNode, "15");
    assert!(state.is_complete() && tombstones(&state).is_empty());
}

#[test]
fn a_list_of_one_lagging_kind_takes_nothing_back() {
    let behind = || {
        let mut state = state();
        state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(15)));
        let asked = state.lagging(ObservedKind::Node, &Seen::All).unwrap();
        (state, asked)
    };
    let (mut state, asked) = behind();
    reach(&mut state, ObservedKind::Node, "16");
    let list = listed(&state, ObservedKind::Node, 15, &[]);
    assert_eq!(state.take_list(&asked, list), CacheEffect::None);
    assert_eq!(state.position(ObservedKind::Node).unwrap().2, 16);
    assert_eq!(state.kinds[&ObservedKind::Node].objects.len(), 1);
    for (at, node) in [(14, object("n", 5, None)), (15, object("n", 4, None))] {
        let (mut state, asked) = behind();
        let list = listed(&state, ObservedKind::Node, at, &[node]);
        assert_eq!(state.take_list(&asked, list), CacheEffect::Resync, "{at}");
    }
}
