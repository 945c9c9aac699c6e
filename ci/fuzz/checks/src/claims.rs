//! The claims as they are kept in a ConfigMap.

use crate::{fixtures, plan_invariants};
use ipam_cilium::observed::{Observed, StoredClaims};
use ipam_core::claims::Claims;
use ipam_core::model::NodeName;
use ipam_core::net::Block;
use ipam_plan::plan::{claim_changes, plan};
use worlds::invariants::shared;

/// The bytes are the text of the claims.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let claims = match Claims::from_json(text) {
        Ok(claims) => claims,
        Err(error) => {
            let _ = error.to_string();
            return;
        }
    };
    let written = claims.to_json();
    assert_eq!(
        Claims::from_json(&written).expect("what was written is read"),
        claims
    );
    assert_eq!(claims.is_empty(), written == Claims::default().to_json());
    fixtures::clusters()
        .iter()
        .for_each(|observed| assert_respected(observed, &claims));
}

/// No node gets a block that is claimed for another, and every planned block can be claimed.
fn assert_respected(observed: &Observed, claims: &Claims) {
    let desired = &fixtures::directory().desired;
    let kept = StoredClaims {
        claims: claims.clone(),
        version: observed.claims.version.clone(),
    };
    let observed = Observed {
        claims: kept,
        ..observed.clone()
    };
    let in_force = observed.live_claims(desired.policy.quarantine);
    let again = Observed {
        claims: StoredClaims {
            claims: in_force.clone(),
            version: None,
        },
        ..observed.clone()
    };
    assert_eq!(
        again.live_claims(desired.policy.quarantine),
        in_force,
        "live claims stay live"
    );
    if !is_consistent(&in_force) {
        // We never write this; the only promise is that it does not panic.
        plan(desired, &observed, Vec::new());
        return;
    }
    let planned = plan(desired, &observed, Vec::new());
    plan_invariants::assert_plan(&planned, desired, &observed);
    let (_, conflicts) = claim_changes(
        &in_force,
        &planned.changes,
        observed.at,
        desired.policy.quarantine,
    );
    assert!(
        conflicts.is_empty(),
        "planned, and cannot be claimed: {conflicts:?}"
    );
}

/// Blocks of different nodes do not overlap.
fn is_consistent(claims: &Claims) -> bool {
    let held = claims.held().map(|(block, node)| (node, block));
    let held: Vec<(&NodeName, Block)> = held.collect();
    shared(&held, |one, two| one.overlaps(*two)).is_empty()
}
