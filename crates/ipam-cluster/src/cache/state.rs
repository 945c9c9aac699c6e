//! What a cache knows of the cluster.
//!
//! Pure: it knows the order of events and answers; the cache sets `now`. `events` applies what the server
//! reports and follows our own writes, `catch_up` knows which kinds lag, and `departures` which
//! blocks of deleted nodes are not recorded.

mod catch_up;
mod departures;
mod events;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::cached_kind::{CachedKind, PendingWrite, claims_version};
use super::rollback::{self, Rollback, WritesSeen};
use crate::{Seen, Trouble};
use ipam_cilium::observed::ObservedKind;
use ipam_core::claims::Departure;
use ipam_core::model::NodeName;
use ipam_core::net::Block;

/// What an event or an answer requires of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheEffect {
    /// No change that plans depend on.
    None,
    /// Something has changed that plans depend on.
    Changed,
    /// A kind that shows blocks is older than foreign claims or than a list beside the cache.
    Lagging,
    /// Every kind must be listed again.
    Resync,
}

/// Whether the quarantine after a rollback counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The quarantine counts: the claims keep the blocks that the cluster forgot.
    Yes,
    /// All kinds must be read again before the quarantine counts.
    NotYet,
}

/// What a process uses its cache for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The process makes plans from the cache.
    Leader,
    /// The process only remembers what the cluster showed, to notice a restore.
    #[default]
    Standby,
}

#[derive(Debug, Default)]
pub(super) struct State {
    role: Role,
    pub(super) kinds: BTreeMap<ObservedKind, CachedKind>,
    /// Blocks that disappeared from an object, with the resourceVersion at which they did.
    tombstones: Vec<(Block, u64)>,
    /// Blocks of deleted nodes that are not recorded.
    departed: BTreeMap<Block, Departure>,
    /// The present time, by the clock of the cluster.
    pub(super) now: Timestamp,
    /// How many cached objects show each block.
    shown: BTreeMap<Block, usize>,
    /// Our writes that the cache does not show yet, by object, each with the number of its answer.
    pending_writes: BTreeMap<(ObservedKind, String), (PendingWrite, u64)>,
    /// Blocks that the pending writes give to nodes.
    given: BTreeMap<String, Vec<Block>>,
    /// Blocks in claims that we sent, as long as the cached claims may be older.
    reserved: BTreeSet<(Block, NodeName)>,
    /// The cluster went back in time, and the forgotten blocks are not quarantined yet.
    rollback: Option<Rollback>,
    /// Number of writes of this process that were answered.
    answers: u64,
    /// Number of requested re-lists. The cache serves no plan until all of them are done.
    relists_requested: u64,
    relists_done: u64,
    /// resourceVersion of the claims that this process wrote last.
    claims_written: u64,
    /// A write of the claims is under way. Only its answer tells whose a newer version is.
    is_writing_claims: bool,
    /// Every kind that shows blocks must reach this resourceVersion before a plan: that of the
    /// newest foreign claims, or of the newest list that was read beside the cache.
    must_reach: u64,
    /// Like `must_reach`, but since the last re-list began: a re-list includes earlier changes.
    must_reach_since_relist: u64,
    /// How often the kinds caught up.
    catch_ups: u64,
    /// Comparisons with the server that failed since the last one that did not.
    failed_comparisons: u32,
    /// What does not work at the moment, by resource; the empty key means all of them.
    trouble: BTreeMap<&'static str, Trouble>,
}

/// The moment at which a re-list began.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelistEpoch {
    answers: u64,
    relists_requested: u64,
    must_reach: u64,
}

impl State {
    /// A new leader lists everything first: what it cached before may be old.
    pub(super) fn set_role(&mut self, role: Role) -> CacheEffect {
        match (std::mem::replace(&mut self.role, role), role) {
            (Role::Standby, Role::Leader) => self.request_relist(),
            (Role::Leader, _) | (_, Role::Standby) => CacheEffect::None,
        }
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    pub(super) fn begin_relist(&mut self) -> RelistEpoch {
        self.must_reach_since_relist = 0;
        RelistEpoch {
            answers: self.answers,
            relists_requested: self.relists_requested,
            must_reach: self.must_reach,
        }
    }

    /// Takes over the lists of a re-list. Writes answered after its epoch may be newer than the
    /// lists, so they stay pending.
    pub(super) fn replace(
        &mut self,
        kinds: BTreeMap<ObservedKind, CachedKind>,
        epoch: RelistEpoch,
    ) -> CacheEffect {
        self.notice_rollback(&kinds, epoch);
        let before = std::mem::replace(&mut self.kinds, kinds);
        self.begin_to_follow();
        self.tombstones.clear();
        self.count_shown();
        self.note_departed_between(&before);
        self.trouble.clear();
        self.relists_done = epoch.relists_requested;
        let pending: Vec<_> = std::mem::take(&mut self.pending_writes)
            .into_iter()
            .filter(|(_, (_, at))| *at > epoch.answers)
            .collect();
        for ((kind, key), (pending, answer)) in pending {
            self.add_pending_write(kind, key, pending, answer);
        }
        let is_pending = |name: &String| {
            self.pending_writes
                .keys()
                .any(|(kind, pending)| kind.shows_pod_cidrs() && pending == name)
        };
        self.given.retain(|name, _| is_pending(name));
        if !self.has_pending_claims() {
            self.claims_written = self.claims_seen();
            self.claims_caught_up();
        }
        self.leave_rollback_to_leader();
        match self.are_claims_from_the_past() {
            true => self.request_relist(),
            false => CacheEffect::Changed,
        }
    }

    /// The cached claims are at least as new as ours, unless one is being written.
    fn claims_caught_up(&mut self) {
        if !self.is_writing_claims {
            self.reserved.clear();
        }
    }

    /// Compares new lists with what was known: they may be older.
    fn notice_rollback(&mut self, listed: &BTreeMap<ObservedKind, CachedKind>, epoch: RelistEpoch) {
        let written = self.given.iter().flat_map(|(name, blocks)| {
            let name: Option<NodeName> = name.parse().ok();
            blocks
                .iter()
                .filter_map(move |block| Some((*block, name.clone()?)))
        });
        let unseen: Vec<_> = self.reserved.iter().cloned().chain(written).collect();
        let answered = self
            .pending_writes
            .iter()
            .filter(|(_, (_, at))| *at <= epoch.answers);
        let writes = answered.map(|(object, (pending, _))| (object, pending));
        // Lists beside the cache show an earlier restore, as answers of writes do.
        let is_older = listed
            .get(&ObservedKind::Claims)
            .is_some_and(|claims| claims.seen == Seen::All && claims.listed_at < epoch.must_reach);
        let writes = if is_older {
            WritesSeen::Undone
        } else {
            WritesSeen::of(writes, listed)
        };
        let Some(mut rollback) = rollback::between(&self.kinds, listed, &unseen, writes) else {
            return;
        };
        // Blocks forgotten in an earlier rollback are not quarantined yet.
        for (block, node) in self
            .rollback
            .take()
            .into_iter()
            .flat_map(|earlier| earlier.forgotten)
        {
            rollback::note(&mut rollback.forgotten, block, node);
        }
        self.rollback = Some(rollback);
    }

    /// The unsettled rollback, with the forgotten blocks that no object shows by now.
    pub(super) fn rollback(&self) -> Option<Rollback> {
        let mut rollback = self.rollback.clone()?;
        rollback::leave_out_shown(&self.kinds, &mut rollback.forgotten);
        Some(rollback)
    }

    /// From which to which resourceVersion the cluster went back; `None` once the rollback is
    /// settled.
    pub(super) fn rollback_at(&self) -> Option<(u64, u64)> {
        self.rollback
            .as_ref()
            .map(|rollback| (rollback.from, rollback.to))
    }

    /// A standby forgets a rollback once the leader has quarantined all of it.
    fn leave_rollback_to_leader(&mut self) {
        let rollback = self.rollback().filter(|_| self.role == Role::Standby);
        if rollback
            .is_some_and(|rollback| rollback::is_quarantined(&self.kinds, &rollback.forgotten))
        {
            self.rollback = None;
        }
    }

    /// The forgotten blocks are quarantined. The cluster may have gone back once more since: then the
    /// rollback stays.
    pub(super) fn settle_rollback(&mut self, settled: &Rollback) -> Settled {
        if self.are_claims_from_the_past() {
            return Settled::NotYet;
        }
        if self.rollback_at() == Some((settled.from, settled.to)) {
            self.rollback = None;
        }
        Settled::Yes
    }

    /// The newest resourceVersion that was listed, reported or written.
    pub(super) fn newest(&self) -> u64 {
        self.kinds
            .values()
            .map(|cached| cached.reached)
            .max()
            .unwrap_or_default()
            .max(self.claims_written)
            .max(self.must_reach)
    }

    /// Whether everything was listed at least once.
    pub(super) fn is_read(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Whether plans may be made: nothing is unread, pending, older than the claims or forgotten.
    pub(super) fn is_complete(&self) -> bool {
        self.is_read()
            && self.pending_writes.is_empty()
            && self.relists_done == self.relists_requested
            && self.is_caught_up()
            && self.rollback.is_none()
    }

    fn request_relist(&mut self) -> CacheEffect {
        self.relists_requested += 1;
        CacheEffect::Resync
    }

    /// What does not work at the moment.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        Trouble::all(self.trouble.values())
    }

    /// Records that something does not work; without a kind, everything.
    pub(super) fn has_trouble(&mut self, kind: Option<ObservedKind>, why: Trouble) {
        self.trouble
            .insert(kind.map_or("", ObservedKind::resource), why);
    }

    /// A comparison with the server failed. Returns how many did in a row.
    pub(super) fn comparison_failed(&mut self) -> u32 {
        self.failed_comparisons += 1;
        self.failed_comparisons
    }

    /// Records a successful comparison with the server. Returns whether that ends a trouble.
    pub(super) fn server_answers(&mut self) -> bool {
        self.failed_comparisons = 0;
        self.trouble.remove("").is_some()
    }

    /// The server answers the watch of a kind.
    pub(super) fn watch_answers(&mut self, kind: ObservedKind) {
        self.trouble.remove(kind.resource());
    }

    /// Whether the last comparison with the server failed.
    pub(super) fn is_server_silent(&self) -> bool {
        self.failed_comparisons > 0
    }

    /// What of a kind could be read, its namespace, and the resourceVersion to watch it from; `None` if
    /// the kind is not cached.
    pub(super) fn position(&self, kind: ObservedKind) -> Option<(Seen, String, u64)> {
        let cached = self.kinds.get(&kind)?;
        Some((
            cached.seen.clone(),
            cached.namespace.clone(),
            cached.reached,
        ))
    }

    /// Blocks that disappeared from one object and may show in another one that is not reported
    /// yet.
    pub(super) fn tombstones(&self) -> BTreeSet<Block> {
        let tombstones = self.tombstones.iter().map(|(block, _)| *block);
        tombstones
            .filter(|block| !self.shown.contains_key(block))
            .collect()
    }

    /// Counts the blocks that all objects show.
    fn count_shown(&mut self) {
        self.shown.clear();
        let objects = self
            .kinds
            .values()
            .flat_map(|cached| cached.objects.values());
        for block in objects.flat_map(|object| &object.blocks) {
            *self.shown.entry(*block).or_default() += 1;
        }
    }

    /// Counts the blocks of an object that replaces another one.
    fn recount_shown(&mut self, before: &[Block], after: &[Block]) {
        for block in after {
            *self.shown.entry(*block).or_default() += 1;
        }
        for block in before {
            if let Entry::Occupied(mut count) = self.shown.entry(*block) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    fn claims_seen(&self) -> u64 {
        claims_version(&self.kinds)
    }

    /// The newest resourceVersion of the claims that was listed, reported or written.
    pub(super) fn claims_known(&self) -> u64 {
        self.claims_seen().max(self.claims_written)
    }
}

#[cfg(test)]
mod tests;
