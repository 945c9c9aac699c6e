//! The programs of a history that migrate or apply: they start, are killed, and end.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::client::{Client, Sender};
use super::history::History;
use super::migrator::{AfterFailure, Check, Migrating, SimHost, migrate as migrating};
use crate::applier::{Applier, Speed, UndoFiles};
use ipam_controller::migration::{Ended, MigrationError};
use ipam_core::model::NodeName;

/// Steps that a person waits after a stop before the next attempt.
const WAIT: usize = 300;

/// A program that migrates.
pub(super) struct Program<'h> {
    future: Migrating<'h>,
    is_stopping: Arc<AtomicBool>,
    number: u64,
}

impl History<'_> {
    pub(super) fn kill(&mut self) {
        if self.programs.is_empty() {
            return;
        }
        let killed = self.rng.usize(..self.programs.len());
        let program = self.programs.swap_remove(killed);
        self.moves.kills += 1;
        self.world
            .lock()
            .note(|| format!("migrator {} is killed", program.number));
    }

    pub(super) fn stop(&mut self) {
        if let Some(program) = self.programs.first() {
            program.is_stopping.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn start_applier(&mut self) {
        self.next += 1;
        let one = NonZeroUsize::MIN;
        let speed = Speed {
            batch: one,
            parallelism: one,
        };
        let client = Client::new(&self.world, Sender::Applier(self.next), self.rule);
        let loaded = &self.chosen.directory.loaded;
        self.appliers
            .push(Applier::start(client, loaded, speed, UndoFiles::default()));
    }

    pub(super) fn start(&mut self) {
        self.next += 1;
        let number = self.next;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let check = match self.rng.u32(..4) {
            0 => Check::Shaky,
            _ => Check::None,
        };
        let host = SimHost {
            world: self.world.clone(),
            is_stopping: is_stopping.clone(),
            check,
        };
        let client = Client::new(&self.world, Sender::Migrator(number), self.rule);
        let order = self.order.clone();
        self.world
            .lock()
            .note(|| format!("migrator {number} starts: {order:?}"));
        self.order.kubelets.clear();
        self.order.failures = AfterFailure::Stop;
        self.programs.push(Program {
            future: migrating(client, host, self.chosen, order),
            is_stopping,
            number,
        });
    }

    pub(super) fn poll_one(&mut self) {
        let count = self.programs.len() + self.appliers.len();
        if count == 0 {
            return;
        }
        let index = self.rng.usize(..count);
        match index.checked_sub(self.programs.len()) {
            Some(applier) => {
                if self.appliers[applier].step().is_ready() {
                    self.appliers.swap_remove(applier);
                }
            }
            None => {
                let mut context = Context::from_waker(Waker::noop());
                let future = self.programs[index].future.as_mut();
                if let Poll::Ready(outcome) = future.poll(&mut context) {
                    let number = self.programs.swap_remove(index).number;
                    self.ended(number, outcome);
                }
            }
        }
    }

    fn ended(&mut self, number: u64, outcome: Result<Ended, MigrationError>) {
        self.world
            .lock()
            .note(|| format!("migrator {number} ends: {outcome:?}"));
        match outcome {
            Ok(Ended::Asked(nodes)) => {
                self.order.kubelets = nodes
                    .into_iter()
                    .map(|(node, _)| node)
                    .collect::<Vec<NodeName>>();
            }
            Ok(ended @ Ended::Stopped(_)) => {
                self.order.failures = AfterFailure::TryAgain;
                self.stopped(ended);
            }
            Ok(ended) => self.ended = Some(ended),
            Err(MigrationError::Schedule(why)) => {
                self.world.lock().violated(format!("the schedule: {why}"));
            }
            Err(error @ MigrationError::Record { .. }) => {
                self.world.lock().violated(error.to_string());
            }
            Err(error @ MigrationError::Reserve(_)) => {
                self.stopped(Ended::Stopped(error.to_string()));
            }
            Err(_) => {}
        }
    }

    /// A person waits before the next attempt, and gives up only in a calm cluster.
    fn stopped(&mut self, ended: Ended) {
        if self.is_calm() {
            self.attempts += 1;
        }
        self.waits_until = self.moves.steps + WAIT;
        self.ended = Some(ended);
    }
}
