//! Which kinds lag behind the moment that plans need, and what a list of one such kind changes.

use super::super::cached_kind::{CachedKind, Object, WITH_BLOCKS};
use super::{CacheEffect, State};
use crate::{Moment, Seen};
use ipam_cilium::observed::ObservedKind;

/// A kind that must be listed, because its cached objects are too old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Lagging {
    pub(in super::super) kind: ObservedKind,
    pub(in super::super) namespace: String,
    /// The resourceVersion that the kind must reach.
    pub(in super::super) at: u64,
    pub(in super::super) seen: Seen,
}

impl Lagging {
    /// The moment of which to list the kind: the one that all kinds must reach. A list of a later
    /// moment could skip a time at which only this kind showed a block.
    pub(in super::super) fn moment(&self) -> Moment {
        match self.seen {
            Seen::All => Moment::Of(self.at.to_string()),
            Seen::NotServed | Seen::Hidden(_) => Moment::Latest,
        }
    }
}

impl State {
    pub(in super::super) fn must_reach(&self) -> u64 {
        self.must_reach
    }

    /// New lists are in place. Their claims were read first.
    pub(super) fn begin_to_follow(&mut self) {
        let listed_at = self
            .kinds
            .get(&ObservedKind::Claims)
            .map_or(0, |claims| claims.listed_at);
        self.must_reach = self.must_reach_since_relist.max(listed_at);
        for cached in self.kinds.values_mut() {
            if cached.seen == Seen::NotServed {
                cached.reached = listed_at;
            }
        }
    }

    /// Whether the kinds that show blocks are as new as the claims and as every list that was read
    /// beside the cache.
    ///
    /// Each watch reports its kind in order, and resourceVersions count up through all kinds
    /// (apimachinery `pkg/util/resourceversion` @ 1.36). So a kind that has reached the claims'
    /// resourceVersion misses nothing that happened before these claims were written.
    pub(in super::super) fn is_caught_up(&self) -> bool {
        WITH_BLOCKS
            .iter()
            .filter_map(|kind| self.kinds.get(kind))
            .all(|cached| !self.is_behind(cached))
    }

    fn is_behind(&self, cached: &CachedKind) -> bool {
        match cached.seen {
            Seen::All | Seen::NotServed => cached.reached < self.must_reach,
            Seen::Hidden(_) => false,
        }
    }

    /// Identifies the period in which kinds have lagged until now; `None` if no kind lags.
    pub(in super::super) fn lag(&self) -> Option<u64> {
        (!self.is_caught_up()).then_some(self.catch_ups)
    }

    /// How far a kind lags, if it does and can be read this far.
    pub(in super::super) fn lagging(&self, kind: ObservedKind, seen: &Seen) -> Option<Lagging> {
        let cached = self.kinds.get(&kind)?;
        (cached.seen == *seen && self.is_behind(cached)).then(|| Lagging {
            kind,
            namespace: cached.namespace.clone(),
            at: self.must_reach,
            seen: seen.clone(),
        })
    }

    /// A plan beside the cache reads a list of this resourceVersion. It may see claims and blocks
    /// that no watch has reported, and drop the claims that the blocks replace.
    pub(in super::super) fn read_uncached(&mut self, version: u64) -> CacheEffect {
        self.require(version);
        if self.is_caught_up() {
            CacheEffect::None
        } else {
            CacheEffect::Lagging
        }
    }

    fn require(&mut self, version: u64) {
        self.must_reach = self.must_reach.max(version);
        self.must_reach_since_relist = self.must_reach_since_relist.max(version);
    }

    /// Handles claims that another process wrote. Plans wait until the objects that show blocks are
    /// as new as these claims.
    pub(super) fn follow_foreign_claims(&mut self) -> CacheEffect {
        self.require(self.claims_seen());
        self.leave_rollback_to_leader();
        if self.is_caught_up() {
            CacheEffect::Changed
        } else {
            CacheEffect::Lagging
        }
    }

    /// Takes over the list of one lagging kind. Its watch must begin anew after it.
    pub(in super::super) fn take_list(
        &mut self,
        lagging: &Lagging,
        listed: CachedKind,
    ) -> CacheEffect {
        let was_caught_up = self.is_caught_up();
        let Some(cached) = self.kinds.get_mut(&lagging.kind) else {
            return CacheEffect::None;
        };
        if cached.seen != listed.seen {
            return self.request_relist();
        }
        let effect = match listed.seen {
            Seen::Hidden(_) => CacheEffect::None,
            Seen::NotServed => {
                cached.reached = cached.reached.max(lagging.at);
                CacheEffect::None
            }
            Seen::All if listed.listed_at < lagging.at || has_earlier(cached, &listed) => {
                return self.request_relist();
            }
            // The watch was faster.
            Seen::All if listed.listed_at <= cached.reached => CacheEffect::None,
            Seen::All => self.merge(lagging.kind, &listed),
        };
        self.after_progress(effect, was_caught_up)
    }

    fn merge(&mut self, kind: ObservedKind, listed: &CachedKind) -> CacheEffect {
        let Some(cached) = self.kinds.get_mut(&kind) else {
            return CacheEffect::None;
        };
        cached.reached = listed.listed_at;
        let known = cached.objects.clone();
        let gone = known
            .keys()
            .filter(|key| !listed.objects.contains_key(*key));
        let new = listed.objects.iter().filter(|(key, new)| {
            known
                .get(*key)
                .is_none_or(|known| known.version < new.version || known.uid != new.uid)
        });
        let mut effect = CacheEffect::None;
        for key in gone {
            self.remove(kind, key.clone(), listed.listed_at);
            effect = CacheEffect::Changed;
        }
        for (key, object) in new {
            if self.put(kind, key.clone(), object.clone()) != CacheEffect::None {
                effect = CacheEffect::Changed;
            }
        }
        // An object may have come and gone meanwhile.
        let before = self.pending_writes.len();
        let cached = self.kinds.get(&kind);
        self.pending_writes.retain(|(of, key), (pending, _)| {
            *of != kind || cached.is_none_or(|cached| !cached.satisfies(key, pending))
        });
        if self.pending_writes.len() < before {
            effect = CacheEffect::Changed;
        }
        effect
    }

    /// The effect of an event or a list, once its kind has made progress.
    pub(super) fn after_progress(
        &mut self,
        effect: CacheEffect,
        was_caught_up: bool,
    ) -> CacheEffect {
        let has_expired = self.expire_tombstones();
        let has_caught_up = !was_caught_up && self.is_caught_up();
        if has_caught_up {
            self.catch_ups += 1;
        }
        match effect {
            CacheEffect::None if has_expired || has_caught_up => CacheEffect::Changed,
            effect => effect,
        }
    }
}

/// Whether the list has an earlier version of an object: the server went back in time.
fn has_earlier(cached: &CachedKind, listed: &CachedKind) -> bool {
    cached.reached <= listed.listed_at
        && listed.objects.iter().any(|(key, new): (&String, &Object)| {
            cached
                .objects
                .get(key)
                .is_some_and(|known| known.uid == new.uid && known.version > new.version)
        })
}
