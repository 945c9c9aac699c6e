//! A server that goes back in time, and claims that are gone: the cache keeps their blocks in mind.

use super::*;

#[test]
fn what_we_claimed_is_remembered_before_it_is_heard_of() {
    let record = r#"{"format_version":"1.0","claims":[{"block":"10.0.2.0/24","node":"p","uid":"u","resource_version":"7"}]}"#;
    let claim = || Write {
        target: Target::Claims,
        operation: Operation::Patch(json!({"data": {(ipam_cilium::observed::CLAIMS_KEY): record}})),
    };
    let unknown = || Err(WriteError::Unknown("no answer".to_owned()));
    for answer in [answered(12), unknown()] {
        let mut state = state();
        state.writing(&claim());
        state.written(&claim(), &answer);
        go_back(&mut state, "7");
        assert_eq!(
            forgotten(&state),
            ["10.0.0.0/24 n", "10.0.2.0/24 p"],
            "{answer:?}"
        );
    }
    let mut state = state();
    state.writing(&claim());
    state.written(&claim(), &answered(12));
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(13)));
    go_back(&mut state, "7");
    assert_eq!(forgotten(&state), ["10.0.0.0/24 n"], "it was settled since");
}

#[test]
fn a_claim_that_another_one_replaced_is_not_remembered() {
    let write_of = |node: &str| {
        let claim =
            json!({"block": "10.0.2.0/24", "node": node, "uid": "u", "resource_version": "7"});
        let record = json!({"format_version": "1.0", "claims": [claim]}).to_string();
        let content = json!({"data": {(ipam_cilium::observed::CLAIMS_KEY): record}});
        Write {
            target: Target::Claims,
            operation: Operation::Patch(content),
        }
    };
    let mut state = state();
    // The watch is faster than the answer.
    state.writing(&write_of("first"));
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&claims(12)));
    state.written(&write_of("first"), &answered(12));
    state.writing(&write_of("second"));
    state.written(&write_of("second"), &answered(13));
    go_back(&mut state, "7");
    assert_eq!(forgotten(&state), ["10.0.0.0/24 n", "10.0.2.0/24 second"]);
}

#[test]
fn a_write_that_lists_do_not_have_tells_that_the_cluster_went_back() {
    let node = || Target::Node("n".parse().unwrap());
    for (target, listed) in [
        (node(), "11"),
        (Target::Claims, "11"),
        (node(), "1000"),
        (Target::Claims, "1000"),
    ] {
        let mut state = state();
        state.set_role(Role::Leader);
        let mut lists = self::state().kinds;
        lists.values_mut().for_each(|cached| cached.begin(listed));
        if target == Target::Claims {
            // There were no claims before.
            for kinds in [&mut state.kinds, &mut lists] {
                kinds.get_mut(&ObservedKind::Claims).unwrap().objects = Arc::default();
            }
        }
        state.written(&write(target.clone()), &answered(12));
        let epoch = state.begin_relist();
        state.replace(lists, epoch);
        assert!(state.rollback().is_some(), "{target:?} {listed}");
    }
}

#[test]
fn a_quarantine_of_a_server_that_went_back_once_more_settles_nothing() {
    let mut state = state();
    state.set_role(Role::Leader);
    let lists = |at: &str| lists_without(&[ObservedKind::Node, ObservedKind::Claims], at);
    let epoch = state.begin_relist();
    state.replace(lists("1000"), epoch);
    assert_eq!(forgotten(&state), ["10.0.0.0/24 n"]);
    // Before the quarantine is written, the server goes back to an earlier resourceVersion.
    let quarantined = r#"{"format_version":"1.0","quarantined":[{"block":"10.0.0.0/24","node":"n","free_at":"2026-01-02T03:04:05Z"}]}"#;
    let quarantine = Write {
        target: Target::Claims,
        operation: Operation::Create(
            json!({"data": {(ipam_cilium::observed::CLAIMS_KEY): quarantined}}),
        ),
    };
    state.writing(&quarantine);
    assert_eq!(
        state.written(&quarantine, &answered(4)),
        CacheEffect::Resync
    );
    let rollback = state.rollback().unwrap();
    assert_eq!(state.settle_rollback(&rollback), Settled::NotYet);
    assert!(!state.is_complete());
    for at in ["1000", "5"] {
        let epoch = state.begin_relist();
        state.replace(lists(at), epoch);
        assert_eq!(forgotten(&state), ["10.0.0.0/24 n"], "{at}");
    }
}

#[test]
fn claims_that_are_gone_when_a_relist_ends_are_looked_for_once_more() {
    let mut state = state();
    state.set_role(Role::Leader);
    let without_claims = |at: &str| lists_without(&[ObservedKind::Claims], at);
    state.kinds = without_claims("11");
    let epoch = state.begin_relist();
    let create = Write {
        target: Target::Claims,
        operation: Operation::Create(json!({})),
    };
    state.writing(&create);
    assert_eq!(state.written(&create, &answered(12)), CacheEffect::None);
    // A person deletes them before they are listed.
    assert_eq!(
        state.replace(without_claims("14"), epoch),
        CacheEffect::Resync
    );
    let epoch = state.begin_relist();
    assert_eq!(
        state.replace(without_claims("15"), epoch),
        CacheEffect::Changed
    );
    assert!(state.rollback().is_some());
}

#[test]
fn claims_that_are_deleted_are_kept_in_mind() {
    let mut state = state();
    let mut full = claims(11);
    full["data"][ipam_cilium::observed::CLAIMS_KEY] = json!(
        r#"{"format_version":"1.0","quarantined":[{"block":"10.0.2.0/24","node":"p","free_at":"2026-01-02T03:04:05Z"}]}"#
    );
    state.on_event(ObservedKind::Claims, ObjectEvent::Changed(&full));
    assert_eq!(
        state.on_event(ObservedKind::Claims, ObjectEvent::Deleted(&claims(12))),
        CacheEffect::Resync
    );
    let epoch = state.begin_relist();
    state.replace(lists_without(&[ObservedKind::Claims], "13"), epoch);
    assert_eq!(forgotten(&state), ["10.0.2.0/24 p"]);
}
