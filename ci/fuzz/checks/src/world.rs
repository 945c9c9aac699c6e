//! A generated world: its directory, its cluster, and the plan of both.

use crate::plan_invariants::assert_document;
use ipam_plan::plan::plan;
use worlds::invariants::{assert_none, of_plan};
use worlds::{Profile, World};

/// Generates a world of each profile from the bytes, and plans it.
pub fn check(data: &[u8]) {
    for profile in Profile::ALL {
        let world = World::generate(profile, data);
        let Some(desired) = world.desired() else {
            continue;
        };
        let observed = world.observed();
        let planned = plan(&desired, &observed, Vec::new());
        assert_none(&world.that_count(of_plan(&planned, &desired, &observed)));
        assert_document(&planned);
    }
}
