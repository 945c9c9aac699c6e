//! Blocks of deleted nodes: what proves that a node is gone, and what ends the wait for the record.

use super::*;
use ipam_cilium::observed::DEPARTED_KEY;
use ipam_core::claims::DepartedPart;
use jiff::Timestamp;

const PART: ObservedKind = ObservedKind::Departed(DepartedPart::First);

fn waiting(state: &State) -> Vec<String> {
    let departed = state.departed();
    let texts = departed
        .iter()
        .map(|(block, departure)| format!("{block} {}", departure.node));
    texts.collect()
}

fn record(at: u64, lines: &str) -> Value {
    let metadata = json!({"namespace": OWN_NAMESPACE, "name": DepartedPart::First.as_str(), "uid": "q",
        "resourceVersion": at.to_string()});
    let text = format!("cilium-ipam-quarantine 1 dropped 0\n{lines}");
    json!({"metadata": metadata, "data": {DEPARTED_KEY: text}})
}

/// Node `n` with 10.0.0.0/24, and the record at 10 with these lines.
fn with_record(lines: &str) -> State {
    let mut state = state();
    let mut cached = CachedKind::of("");
    cached.begin("10");
    cached.put(PART, &record(9, lines));
    state.kinds.insert(PART, cached);
    state
}

/// The node is gone at second 5.
fn node_gone(state: &mut State, at: u64) {
    state.now = Timestamp::from_second(5).unwrap();
    let node = object("n", at, Some("10.0.0.0/24"));
    state.on_event(ObservedKind::Node, ObjectEvent::Deleted(&node));
}

#[test]
fn a_block_waits_once_no_object_shows_it() {
    let mut state = state();
    let agent = object("n", 11, Some("10.0.0.0/24"));
    state.on_event(ObservedKind::CiliumNode, ObjectEvent::Changed(&agent));
    node_gone(&mut state, 12);
    assert_eq!(waiting(&state), [""; 0], "its CiliumNode shows it");
    let gone = object("n", 13, Some("10.0.0.0/24"));
    state.on_event(ObservedKind::CiliumNode, ObjectEvent::Deleted(&gone));
    assert_eq!(waiting(&state), ["10.0.0.0/24 n"]);
    let other = object("m", 14, Some("10.0.0.0/24"));
    state.on_event(ObservedKind::Node, ObjectEvent::Changed(&other));
    assert_eq!(waiting(&state), [""; 0], "another node shows it");
    assert_eq!(state.retain_departed(|_, _| false), CacheEffect::Changed);
    assert_eq!(state.retain_departed(|_, _| false), CacheEffect::None);
}

#[test]
fn a_node_that_only_loses_its_block_is_not_deleted() {
    let mut state = state();
    let without = object("n", 12, None);
    state.on_event(ObservedKind::Node, ObjectEvent::Changed(&without));
    assert_eq!(waiting(&state), [""; 0]);
}

#[test]
fn a_node_of_another_uid_is_another_node() {
    let mut state = state();
    let mut other = object("n", 12, None);
    other["metadata"]["uid"] = json!("another");
    state.on_event(ObservedKind::Node, ObjectEvent::Changed(&other));
    assert_eq!(waiting(&state), ["10.0.0.0/24 n"]);
}

#[test]
fn complete_lists_show_which_nodes_are_gone() {
    let lists = |seen: Seen| {
        let mut kinds = state().kinds;
        for cached in kinds.values_mut() {
            cached.begin("20");
        }
        let nodes = kinds.get_mut(&ObservedKind::Node).unwrap();
        nodes.objects = Arc::default();
        nodes.seen = seen;
        kinds
    };
    for (seen, expected) in [
        (Seen::All, vec!["10.0.0.0/24 n"]),
        (Seen::Hidden("no".to_owned()), vec![]),
        (Seen::NotServed, vec![]),
    ] {
        let mut state = state();
        let epoch = state.begin_relist();
        state.replace(lists(seen), epoch);
        assert_eq!(waiting(&state), expected);
    }
}

#[test]
fn the_record_ends_the_wait() {
    let mut state = with_record("");
    node_gone(&mut state, 12);
    for (at, line) in [
        (13, "10.0.0.0/24 m 5\n"),
        (14, "10.0.1.0/24 n 5\n"),
        (15, ""),
    ] {
        state.on_event(PART, ObjectEvent::Changed(&record(at, line)));
        assert_eq!(waiting(&state), ["10.0.0.0/24 n"], "{line}");
    }
    let recorded = record(16, "10.0.0.0/24 n 5\n");
    assert_eq!(
        state.on_event(PART, ObjectEvent::Changed(&recorded)),
        CacheEffect::Changed
    );
    assert_eq!(waiting(&state), [""; 0]);
}

#[test]
fn an_earlier_departure_does_not_end_the_wait() {
    let mut state = with_record("10.0.0.0/24 n 4\n");
    node_gone(&mut state, 12);
    let other = record(13, "10.0.0.0/24 n 4\n10.0.4.0/24 m 6\n");
    state.on_event(PART, ObjectEvent::Changed(&other));
    assert_eq!(waiting(&state), ["10.0.0.0/24 n"]);
    let again = record(14, "10.0.0.0/24 n 7\n10.0.4.0/24 m 6\n");
    state.on_event(PART, ObjectEvent::Changed(&again));
    assert_eq!(waiting(&state), [""; 0]);
}

#[test]
fn blocks_that_a_restore_took_out_of_the_record_wait_again() {
    let mut state = with_record("10.0.4.0/24 m 5\n10.0.8.0/24 m 6\n");
    let mut kinds = with_record("10.0.8.0/24 m 6\n").kinds;
    for cached in kinds.values_mut() {
        cached.begin("8");
    }
    let epoch = state.begin_relist();
    state.replace(kinds, epoch);
    assert_eq!(waiting(&state), ["10.0.4.0/24 m"]);
}

#[test]
fn a_record_that_cannot_be_read_ends_no_wait() {
    let mut state = with_record("");
    node_gone(&mut state, 12);
    let broken = record(13, "10.0.0.0/24 n 5\nbroken\n");
    state.on_event(PART, ObjectEvent::Changed(&broken));
    assert_eq!(waiting(&state), ["10.0.0.0/24 n"]);
}
