//! Each rule of the protocol is needed: without it the model finds a block that is given twice.

use model::{Mutation, check, mutations};

/// A test for each mutation, and the list of them.
macro_rules! caught {
    ($($test:ident: $mutation:ident,)+) => {
        const TRIED: &[Mutation] = &[$(Mutation::$mutation),+];
        $(
            #[test]
            fn $test() {
                assert_caught(Mutation::$mutation);
            }
        )+
    };
}

caught! {
    blocks_are_claimed: NoClaims,
    claims_are_replaced_by_compare_and_swap: BlindReplacement,
    a_lost_swap_sends_nothing: WritesAfterLostSwap,
    a_block_is_claimed_before_it_is_written: WritesBeforeSwap,
    a_found_claim_is_finished_after_a_swap: FoundClaimFinishedWithoutSwap,
    a_found_claim_is_renewed: FoundClaimNotRenewed,
    a_found_claim_is_kept_until_it_is_dead: FoundClaimsDropped,
    claims_in_force_are_taken: ClaimsInForceIgnored,
    another_block_on_the_node_proves_nothing: DroppedAsAnotherBlockIsShown,
    a_write_without_an_answer_keeps_its_claim: DroppedUnanswered,
    claims_are_dropped_by_compare_and_swap: BlindClose,
    a_write_depends_on_the_uid: NoUid,
    a_write_depends_on_the_resource_version: NoResourceVersion,
    the_old_value_is_no_guard: GuardedByOldValue,
    nodes_are_listed_after_the_claims: NodesBeforeClaims,
    nodes_are_listed_afresh: NodesFromCache,
    a_created_object_keeps_its_claim: CreationDroppedWhenShown,
    a_creation_that_succeeded_keeps_its_claim: CreationDroppedWhenApplied,
    another_block_on_the_created_object_proves_nothing: CreationDroppedAsAnotherBlockIsShown,
    a_version_that_moved_stops_no_creation: CreationDroppedAsVersionMoved,
    what_is_created_has_an_owner: CreationWithoutOwner,
}

fn assert_caught(mutation: Mutation) {
    let bounds = mutation.bounds();
    let report = check(&bounds, Some(mutation)).unwrap();
    match &report.violation {
        Some(violation) => assert!(violation.contains("share a block"), "{violation}"),
        None => panic!("{mutation:?} does no harm within {bounds}: {report:?}"),
    }
}

#[test]
fn no_mutation_is_forgotten() {
    assert!(mutations().all(|mutation| TRIED.contains(&mutation)));
}
