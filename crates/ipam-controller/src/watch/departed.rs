//! Keeps the record of blocks of deleted nodes while the controller runs.
//!
//! It must never delay the blocks of new nodes.

use std::time::Duration;

use tokio::time::Instant;

use super::Worker;
use crate::{Loaded, departures};
use ipam_cilium::observed::Observed;
use ipam_cluster::{Follow, Snapshot, Trouble, TroubleKind, Write};
use ipam_core::claims::DepartedPart;
use ipam_desired::Activity;

/// How long the record of deleted nodes is written before the changes of other nodes have their turn.
const RECORD_FOR: Duration = Duration::from_secs(5);

impl<C: Follow> Worker<'_, C> {
    /// The writes that record the blocks of deleted nodes. Blocks that need no record wait no longer.
    pub(super) fn departed(
        &self,
        loaded: &Loaded,
        observed: &Observed,
    ) -> Vec<(DepartedPart, Write)> {
        let desired = &loaded.desired;
        let waiting = &observed.departed.departed.waiting;
        if waiting.is_empty() || desired.policy.activity == Activity::Paused {
            return Vec::new();
        }
        self.cache.retain_departed(|block, departure| {
            departures::must_be_recorded(desired, observed, block, departure)
        });
        departures::writes(desired, observed)
    }

    /// Writes the record of deleted nodes. The plan treated their blocks as quarantined, so new nodes
    /// do not wait for the record. Returns the pause before failed parts are written again.
    pub(super) async fn record_departed(
        &mut self,
        snapshot: &Snapshot<'_, C>,
        writes: &[(DepartedPart, Write)],
    ) -> Option<Duration> {
        if writes.is_empty() {
            self.unrecorded = None;
            return None;
        }
        let now = Instant::now();
        let pause = self.record_not_before.saturating_duration_since(now);
        if !pause.is_zero() {
            return Some(pause);
        }
        let recorded = tokio::time::timeout(RECORD_FOR, departures::record(snapshot, writes));
        self.unrecorded = match recorded.await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Trouble::from(&error)),
            Err(_) => Some(Trouble::new(
                TroubleKind::Unreachable,
                "the blocks of deleted nodes cannot be recorded in time",
            )),
        };
        if self.unrecorded.is_none() {
            self.record_retry.reset();
            return None;
        }
        let pause = self.record_retry.pause();
        self.record_not_before = Instant::now() + pause;
        Some(pause)
    }
}
