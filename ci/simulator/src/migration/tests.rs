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
