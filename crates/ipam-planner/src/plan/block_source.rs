//! Where a block comes from: its pool, the place in the files, and the reason. Must never know how a
//! block is written.

use super::change::Reason;
use ipam_cilium::observed::{Holding, Reading};
use ipam_core::alloc::{Assigned, Supply};
use ipam_core::model::{Origin, PerFamily, PoolName};
use ipam_desired::Desired;

/// The pool, the place in the files, and the reason of a block.
pub(super) struct Source {
    pub(super) pool: Option<PoolName>,
    pub(super) origin: Option<Origin>,
    pub(super) reason: Reason,
}

impl Source {
    /// The source of a free block that a pool gives.
    pub(super) fn of_assigned(desired: &Desired, supply: &Supply, assigned: &Assigned) -> Source {
        let pool = supply.pool(assigned.pool).name().clone();
        let reason = Reason::LowestFree {
            passed_over: assigned.passed_over.clone(),
        };
        Source {
            origin: desired.pools.get(&pool).map(|pool| pool.origin.clone()),
            pool: Some(pool),
            reason,
        }
    }

    /// The source of blocks that the node holds already. The pool is that of the block which no
    /// agent reads.
    pub(super) fn of_held(desired: &Desired, supply: &Supply, held: &PerFamily<Holding>) -> Source {
        let unread = held
            .iter()
            .find(|holding| holding.reading == Reading::NotRead);
        let pool = unread
            .and_then(|holding| supply.pool_of(holding.block))
            .map(|id| supply.pool(id).name().clone());
        let origin = pool
            .as_ref()
            .and_then(|pool| desired.pools.get(pool))
            .map(|pool| pool.origin.clone());
        let reason = unread.map_or(Reason::Pinned, |holding| Reason::HeldElsewhere {
            field: holding.field,
        });
        Source {
            pool,
            origin,
            reason,
        }
    }
}
