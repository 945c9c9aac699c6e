//! What an event of a watch does to a cache, and our own writes, each of which a cache shows
//! before it serves a plan. Events of one kind come in order; the kinds know nothing of each
//! other's progress.

use std::sync::Arc;

use serde_json::Value;

use super::super::cached_kind::{CachedKind, Object, WITH_BLOCKS, key, version};
use super::{CacheEffect, State};
use crate::cache::cached_kind::{PendingWrite, number, object_of};
use crate::cache::rollback;
use crate::{ObjectEvent, Operation, Seen, Target, Write, WriteError, Written};
use ipam_cilium::observed::{ObjectVersion, ObservedKind, is_read};
use ipam_core::net::Block;

impl State {
    pub(in super::super) fn on_event(
        &mut self,
        kind: ObservedKind,
        object_event: ObjectEvent<'_>,
    ) -> CacheEffect {
        self.watch_answers(kind);
        let was_caught_up = self.is_caught_up();
        let Some(cached) = self.kinds.get_mut(&kind) else {
            return CacheEffect::None;
        };
        let at = match object_event {
            ObjectEvent::Bookmark(version) => version.parse().unwrap_or(0),
            ObjectEvent::Changed(object) | ObjectEvent::Deleted(object) => version(object),
        };
        if at < cached.reached {
            // A watch reports nothing from before it began: the server went back in time.
            return self.request_relist();
        }
        let effect = match object_event {
            ObjectEvent::Bookmark(_) => {
                cached.reached = at;
                CacheEffect::None
            }
            ObjectEvent::Changed(object) => self.changed(kind, object),
            ObjectEvent::Deleted(object) => self.deleted(kind, object),
        };
        self.after_progress(effect, was_caught_up)
    }

    fn changed(&mut self, kind: ObservedKind, object: &Value) -> CacheEffect {
        let (key, at) = (key(object), version(object));
        let Some(cached) = self.kinds.get_mut(&kind) else {
            return CacheEffect::None;
        };
        cached.reached = cached.reached.max(at);
        if cached
            .objects
            .get(&key)
            .is_some_and(|known| known.version > at)
        {
            return CacheEffect::None;
        }
        match is_read(kind, object) {
            true => self.put(kind, key, Object::new(kind, object)),
            false => self.remove_known(kind, key, at),
        }
    }

    /// Removes an object that no plan reads, in case an earlier version was read.
    fn remove_known(&mut self, kind: ObservedKind, key: String, at: u64) -> CacheEffect {
        let is_known = |cached: &CachedKind| cached.objects.contains_key(&key);
        if !self.kinds.get(&kind).is_some_and(is_known) {
            return CacheEffect::None;
        }
        self.remove(kind, key, at);
        CacheEffect::Changed
    }

    /// Takes over a newer version of an object.
    pub(super) fn put(&mut self, kind: ObservedKind, key: String, new: Object) -> CacheEffect {
        let at = new.version;
        let Some(cached) = self.kinds.get_mut(&kind) else {
            return CacheEffect::None;
        };
        let pending = self.pending_writes.get(&(kind, key.clone()));
        let is_satisfied = pending.is_some_and(|(pending, _)| new.satisfies(pending));
        if is_satisfied {
            self.pending_writes.remove(&(kind, key.clone()));
            self.given.remove(&key);
        }
        let name = key.clone();
        let old = Arc::make_mut(&mut cached.objects).insert(key, new.clone());
        let is_same = old.as_ref().is_some_and(|old| old.meaning == new.meaning);
        if matches!(kind, ObservedKind::Departed(_)) {
            self.record_changed(&new);
        }
        let is_another = old.as_ref().is_some_and(|old| old.uid != new.uid);
        let before = old.map(|old| old.blocks).unwrap_or_default();
        self.recount_shown(&before, &new.blocks);
        if is_another {
            self.note_departed(kind, &name, &before);
        }
        let lost = before.into_iter();
        self.tombstones.extend(
            lost.filter(|block| !new.blocks.contains(block))
                .map(|block| (block, at)),
        );
        match kind {
            ObservedKind::Claims => self.claims_changed(at, is_satisfied, is_same),
            // Cilium's settings are in the namespace of its DaemonSet.
            ObservedKind::CiliumDaemonSet if !is_same => self.request_relist(),
            _ if is_same && !is_satisfied => CacheEffect::None,
            _ => CacheEffect::Changed,
        }
    }

    fn claims_changed(&mut self, at: u64, is_satisfied: bool, is_same: bool) -> CacheEffect {
        if at >= self.claims_written {
            self.claims_caught_up();
        }
        if !self.is_writing_claims && at > self.claims_written {
            return self.follow_foreign_claims();
        }
        if is_same && !is_satisfied {
            CacheEffect::None
        } else {
            CacheEffect::Changed
        }
    }

    fn deleted(&mut self, kind: ObservedKind, object: &Value) -> CacheEffect {
        let (key, at) = (key(object), version(object));
        let Some(cached) = self.kinds.get_mut(&kind) else {
            return CacheEffect::None;
        };
        cached.reached = cached.reached.max(at);
        if kind == ObservedKind::Claims {
            // The next list is compared with these claims, so they stay cached until then.
            return self.request_relist();
        }
        if !is_read(kind, object) {
            return self.remove_known(kind, key, at);
        }
        self.remove(kind, key, at);
        match kind {
            ObservedKind::CiliumDaemonSet => self.request_relist(),
            _ => CacheEffect::Changed,
        }
    }

    /// Removes an object that was gone at this resourceVersion.
    pub(super) fn remove(&mut self, kind: ObservedKind, key: String, at: u64) {
        let Some(cached) = self.kinds.get_mut(&kind) else {
            return;
        };
        let old = Arc::make_mut(&mut cached.objects).remove(&key);
        // A write may be to an object of the same name that was created since.
        let object = (kind, key);
        let is_shown = self
            .pending_writes
            .get(&object)
            .is_some_and(|(pending, _)| cached.satisfies(&object.1, pending));
        if is_shown {
            self.pending_writes.remove(&object);
        }
        let lost = old.map(|old| old.blocks).unwrap_or_default();
        self.recount_shown(&lost, &[]);
        self.note_departed(kind, &object.1, &lost);
        self.tombstones
            .extend(lost.into_iter().map(|block| (block, at)));
    }

    /// Drops the tombstones of blocks that can show in no unreported object any more. Returns
    /// whether it dropped any.
    pub(super) fn expire_tombstones(&mut self) -> bool {
        let reached = WITH_BLOCKS.iter().filter_map(|kind| self.kinds.get(kind));
        let reached = reached
            .filter(|cached| cached.seen == Seen::All)
            .map(|cached| cached.reached)
            .min()
            .unwrap_or(0);
        let before = self.tombstones.len();
        self.tombstones.retain(|(_, at)| *at > reached);
        self.tombstones.len() < before
    }
}

impl State {
    /// A write is about to be sent.
    pub(in crate::cache) fn writing(&mut self, write: &Write) {
        if let (Target::Claims, Operation::Patch(content) | Operation::Create(content)) =
            (&write.target, &write.operation)
        {
            self.is_writing_claims = true;
            self.reserved.extend(rollback::held_by_claims(content));
        }
    }

    /// Records the answer to a write.
    pub(in crate::cache) fn written(
        &mut self,
        write: &Write,
        answer: &Result<Written, WriteError>,
    ) -> CacheEffect {
        self.answers += 1;
        if let (Ok(Written { version }), Some((kind, key))) = (answer, object_of(&write.target)) {
            self.await_event_of(kind, key, &write.operation, version);
        }
        if write.target != Target::Claims {
            return CacheEffect::None;
        }
        self.is_writing_claims = false;
        match answer {
            // Only another look tells which claims there are now.
            Err(WriteError::Superseded(_) | WriteError::Unknown(_)) => {
                return self.request_relist();
            }
            Ok(Written { version }) => {
                self.claims_written = self.claims_written.max(number(version));
                if self.are_claims_from_the_past() {
                    return self.request_relist();
                }
                // The watch may have been faster than the answer.
                if self.claims_seen() >= self.claims_written {
                    self.claims_caught_up();
                }
            }
            Err(WriteError::Refused(_) | WriteError::Forbidden(_) | WriteError::Busy(_)) => {}
        }
        if self.claims_seen() > self.claims_written {
            self.follow_foreign_claims()
        } else {
            CacheEffect::None
        }
    }

    /// Whether claims that we wrote do not show, although the cache has reached a later moment: the server
    /// went back in time before it wrote them, or they are gone.
    pub(super) fn are_claims_from_the_past(&self) -> bool {
        let claims = self.kinds.get(&ObservedKind::Claims);
        let has_reached = claims.is_some_and(|claims| claims.reached >= self.claims_written);
        self.has_pending_claims() && self.claims_seen() == 0 && has_reached
    }

    pub(super) fn has_pending_claims(&self) -> bool {
        let mut pending = self.pending_writes.keys();
        pending.any(|(kind, _)| *kind == ObservedKind::Claims)
    }

    fn await_event_of(
        &mut self,
        kind: ObservedKind,
        key: String,
        operation: &Operation,
        version: &ObjectVersion,
    ) {
        let pending = match operation {
            Operation::Delete(deleted) => PendingWrite::Deletion(deleted.uid.clone()),
            Operation::Patch(_) | Operation::Apply(_) | Operation::Create(_) => {
                PendingWrite::Version(number(version))
            }
        };
        self.add_pending_write(kind, key.clone(), pending, self.answers);
        let given = blocks_given(kind, operation);
        if !given.is_empty() && self.pending_writes.contains_key(&(kind, key.clone())) {
            self.given.insert(key, given);
        }
    }

    pub(super) fn add_pending_write(
        &mut self,
        kind: ObservedKind,
        key: String,
        pending: PendingWrite,
        answer: u64,
    ) {
        let Some(cached) = self
            .kinds
            .get(&kind)
            .filter(|cached| cached.seen == Seen::All)
        else {
            return;
        };
        // Claims that are deleted stay cached until a re-list. So claims that do not show are not
        // reported yet, or are gone, or the server wrote them after it had gone back in time.
        let are_claims_unseen = kind == ObservedKind::Claims && !cached.objects.contains_key(&key);
        if are_claims_unseen || !cached.satisfies(&key, &pending) {
            self.pending_writes.insert((kind, key), (pending, answer));
        }
    }
}

fn blocks_given(kind: ObservedKind, operation: &Operation) -> Vec<Block> {
    match operation {
        Operation::Patch(content) | Operation::Create(content) if kind.shows_pod_cidrs() => {
            rollback::blocks_written(content)
        }
        _ => Vec::new(),
    }
}
