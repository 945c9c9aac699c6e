//! A few migrations; `prove simulate` runs more.

use super::*;
use crate::history::Log;

#[test]
fn a_few_migrations_and_equal_seeds_give_equal_ones() {
    let setups = MigrationSetups::new();
    let run = |seed| migrate(seed, &setups, BrokenRule::None, Log::None);
    let all: Vec<_> = (0..24).map(run).collect();
    let failures: Vec<_> = all.iter().filter(|outcome| outcome.is_err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert_eq!(all[..3], (0..3).map(run).collect::<Vec<_>>()[..]);
    assert!(all.iter().flatten().any(|moves| moves.kills > 0));
}

/// One program renewed the reservations while another one ended the migration.
#[test]
fn no_reservation_outlives_a_migration_that_another_one_ended() {
    let setups = MigrationSetups::new();
    for seed in [1604, 1974] {
        let outcome = migrate(seed, &setups, BrokenRule::None, Log::None);
        assert!(outcome.is_ok(), "{outcome:#?}");
    }
}
