//! One wave: drives its nodes, so many at a time, inside of the maintenance windows.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::assign::Assigning;
use super::drive::{Driven, Driver};
use super::run::Migration;
use super::{Host, MigrationError, MigrationEvent};
use ipam_cluster::Workloads;
use ipam_core::model::NodeName;
use ipam_desired::WindowState;
use ipam_planner::migration::{Direction, NodeRecord, Request};

/// How often a closed window is looked at again.
const WINDOW_POLL: Duration = Duration::from_secs(20);
/// An hour.
const POLLS_BETWEEN_RENEWALS: u32 = 180;

impl<C: Workloads, H: Host> Migration<'_, C, H> {
    /// Drives nodes, at most so many at a time as the Policy allows. After a failure, no other node
    /// begins, unless they go back.
    pub(super) async fn drive_all(
        &mut self,
        wave: usize,
        nodes: &[NodeName],
        direction: Direction,
    ) -> Result<WaveOutcome, MigrationError> {
        let due: Vec<NodeName> = nodes
            .iter()
            .filter(|name| !self.nodes[*name].record.is_done())
            .cloned()
            .collect();
        let waves = self.main.record.waves();
        self.host.report(&MigrationEvent::Wave {
            number: wave + 1,
            of: waves.len(),
            domain: waves.get(wave).and_then(|wave| wave.domain.as_deref()),
            nodes: due.len(),
            direction,
        });
        let turn = tokio::sync::Mutex::new(());
        let driver = Driver {
            cluster: self.cluster,
            host: self.host,
            rules: &self.rules,
            assigning: Assigning {
                desired: self.desired,
                turn: &turn,
            },
        };
        let limit = self.max_unavailable();
        let mut waiting = due.into_iter();
        let mut in_flight = FuturesUnordered::new();
        let mut outcome = Collected::default();
        let mut error = None;
        loop {
            while in_flight.len() < limit.get()
                && error.is_none()
                && (direction == Direction::Back || outcome.is_clean())
            {
                if waiting.as_slice().is_empty() {
                    break;
                }
                let is_closed = matches!(self.window(), WindowState::Closed { .. });
                if direction == Direction::Forward && is_closed {
                    // Nodes that have begun go on meanwhile.
                    if !in_flight.is_empty() {
                        break;
                    }
                    match self.wait_for_window().await {
                        Ok(Interrupted::No) => {}
                        Ok(Interrupted::Yes) => {
                            outcome.is_stopped = Interrupted::Yes;
                            break;
                        }
                        Err(failed) => {
                            error = Some(failed);
                            break;
                        }
                    }
                }
                let Some(name) = waiting.next() else { break };
                let mut stored = self.nodes[&name].clone();
                let driver = &driver;
                in_flight.push(async move {
                    let driven = driver.drive(&mut stored).await;
                    (name, stored, driven)
                });
            }
            let Some((name, stored, driven)) = in_flight.next().await else {
                break;
            };
            match driven {
                Ok(driven) => outcome.note(&name, &stored.record, driven),
                Err(failed) => error = Some(failed),
            }
            self.nodes.insert(name, stored);
        }
        match error {
            Some(error) => Err(error),
            None => Ok(outcome.into()),
        }
    }

    fn window(&self) -> WindowState {
        self.desired.policy.migration.state_at(self.cluster.now())
    }

    /// Waits until a maintenance window is open.
    async fn wait_for_window(&self) -> Result<Interrupted, MigrationError> {
        let mut polls = 0_u32;
        loop {
            if self.host.is_stopping() {
                return Ok(Interrupted::Yes);
            }
            let WindowState::Closed { opens } = self.window() else {
                return Ok(Interrupted::No);
            };
            if polls == 0 {
                self.host.report(&MigrationEvent::WindowClosed { opens });
            }
            if polls.is_multiple_of(POLLS_BETWEEN_RENEWALS) {
                self.renew().await?;
            }
            polls = polls.wrapping_add(1);
            self.host.sleep(WINDOW_POLL).await;
        }
    }

    fn max_unavailable(&self) -> NonZeroUsize {
        let written = self.main.record.schedule.max_unavailable;
        NonZeroUsize::new(written).unwrap_or(NonZeroUsize::MIN)
    }
}

/// How a wave ended.
pub(super) enum WaveOutcome {
    Done,
    Failed(String),
    Asked(Vec<(NodeName, Request)>),
    Stopped,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Interrupted {
    Yes,
    #[default]
    No,
}

#[derive(Default)]
struct Collected {
    failures: Vec<String>,
    asked: Vec<(NodeName, Request)>,
    is_stopped: Interrupted,
}

impl Collected {
    fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.asked.is_empty() && self.is_stopped == Interrupted::No
    }

    fn note(&mut self, name: &NodeName, record: &NodeRecord, driven: Driven) {
        match driven {
            Driven::Done => {}
            Driven::Failed => {
                let why = record.failure.as_deref().unwrap_or_default();
                self.failures
                    .push(format!("node {name}, {}: {why}", record.phase));
            }
            Driven::Asked(request) => self.asked.push((name.clone(), request)),
            Driven::Stopped => self.is_stopped = Interrupted::Yes,
        }
    }
}

impl From<Collected> for WaveOutcome {
    fn from(collected: Collected) -> WaveOutcome {
        let Collected {
            failures,
            asked,
            is_stopped,
        } = collected;
        match (failures.is_empty(), is_stopped, asked.is_empty()) {
            (false, ..) => WaveOutcome::Failed(failures.join("; ")),
            (true, Interrupted::Yes, _) => WaveOutcome::Stopped,
            (true, Interrupted::No, false) => WaveOutcome::Asked(asked),
            (true, Interrupted::No, true) => WaveOutcome::Done,
        }
    }
}
