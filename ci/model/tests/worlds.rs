//! Small worlds in which no block is ever given twice; the large ones are for the program `model`.

use model::{Bounds, Moves, Progress, check};

fn assert_holds(bounds: Bounds) {
    let report = check(&bounds, None).unwrap();
    if let Some(violation) = report.violation {
        panic!("{bounds}\n{violation}");
    }
}

const CALM: Bounds = Bounds {
    disturbances: 1,
    ..Bounds::SMALL
};

#[test]
fn guarded_writes() {
    assert_holds(CALM);
}

#[test]
fn guarded_writes_that_move_nodes() {
    assert_holds(Bounds {
        moves: Moves::Planned,
        ..CALM
    });
}

#[test]
fn claims_in_several_batches() {
    assert_holds(Bounds { batch: 1, ..CALM });
}

#[test]
fn a_single_applier_serves_all_nodes_from_wherever_it_begins() {
    assert_holds(Bounds {
        progress: Progress::Checked,
        ..CALM
    });
}

#[test]
fn creations_by_name() {
    assert_holds(Bounds {
        appliers: 1,
        disturbances: 1,
        ..Bounds::SMALL_CREATION
    });
}

#[test]
fn bounds_that_are_too_wide_are_refused() {
    assert!(
        check(
            &Bounds {
                nodes: 9,
                ..Bounds::SMALL
            },
            None
        )
        .is_err()
    );
}
