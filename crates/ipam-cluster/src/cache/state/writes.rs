//! Our own writes: a cache serves no plan until it shows each of them.

use super::super::cached_kind::{PendingWrite, number, object_of};
use super::super::rollback;
use super::{CacheEffect, State};
use crate::{Operation, Seen, Target, Write, WriteError, Written};
use ipam_cilium::observed::{ObjectVersion, ObservedKind};
use ipam_core::net::Block;

impl State {
    /// A write is about to be sent.
    pub(in super::super) fn writing(&mut self, write: &Write) {
        if let (Target::Claims, Operation::Patch(content) | Operation::Create(content)) =
            (&write.target, &write.operation)
        {
            self.is_writing_claims = true;
            self.reserved.extend(rollback::held_by_claims(content));
        }
    }

    /// A write was answered.
    pub(in super::super) fn written(
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
