//! One wave: drives a limited number of its nodes at a time, inside the maintenance windows.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::assign::{Assigning, Observations};
use super::drive::{Driven, Driver};
use super::run::Migration;
use super::{Host, MigrationError, MigrationEvent};
use ipam_cluster::Workloads;
use ipam_core::model::NodeName;
use ipam_desired::WindowState;
use ipam_migrate::migration::{Direction, NodeRecord, Request};

/// Interval at which a closed window is checked again.
const WINDOW_POLL: Duration = Duration::from_secs(20);
/// Number of polls of a closed window between two renewals of reservations: one hour.
const POLLS_BETWEEN_RENEWALS: u32 = 180;

impl<C: Workloads, H: Host> Migration<'_, C, H> {
    /// Drives nodes, at most as many at a time as the Policy allows. After a failure, no other node
    /// starts, unless the nodes move back.
    pub(super) async fn drive_all(
        &mut self,
        wave: usize,
        nodes: &[NodeName],
        direction: Direction,
    ) -> Result<WaveOutcome, MigrationError> {
        let due = self.due(nodes);
        self.announce(wave, due.len(), direction);
        let (turn, observations) = (tokio::sync::Mutex::new(()), Observations::new());
        let rules = self.main.record.rules;
        let driver = Driver {
            cluster: self.cluster,
            host: self.host,
            rules: &rules,
            assigning: Assigning {
                desired: self.desired,
                turn: &turn,
                observations: &observations,
            },
        };
        let limit = self.max_unavailable();
        let mut waiting = due.into_iter().peekable();
        let mut in_flight = FuturesUnordered::new();
        let mut outcome = Collected::default();
        loop {
            while in_flight.len() < limit.get()
                && waiting.peek().is_some()
                && outcome.lets_begin(direction)
            {
                match self.may_begin(direction, in_flight.len()).await {
                    Ok(Begin::Now) => {}
                    Ok(Begin::Later) => break,
                    Ok(Begin::Never) => outcome.is_stopped = Interrupted::Yes,
                    Err(error) => outcome.error = Some(error),
                }
                if !outcome.lets_begin(direction) {
                    break;
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
            outcome.note(&name, &stored.record, driven);
            self.nodes.insert(name, stored);
        }
        outcome.end()
    }

    /// The nodes that are not done.
    fn due(&self, nodes: &[NodeName]) -> Vec<NodeName> {
        let due = nodes.iter();
        let due = due.filter(|name| !self.nodes[*name].record.is_done());
        due.cloned().collect()
    }

    fn announce(&self, wave: usize, nodes: usize, direction: Direction) {
        let waves = self.main.record.waves();
        self.host.report(&MigrationEvent::Wave {
            number: wave + 1,
            of: waves.len(),
            domain: waves.get(wave).and_then(|wave| wave.domain.as_deref()),
            nodes,
            direction,
        });
    }

    /// Whether another node may begin. Without nodes in flight, it waits for a window.
    async fn may_begin(
        &self,
        direction: Direction,
        in_flight: usize,
    ) -> Result<Begin, MigrationError> {
        let is_open = matches!(self.window(), WindowState::Open { .. });
        if direction == Direction::Back || is_open {
            return Ok(Begin::Now);
        }
        // Nodes that have begun go on meanwhile.
        if in_flight > 0 {
            return Ok(Begin::Later);
        }
        Ok(match self.wait_for_window().await? {
            Interrupted::No => Begin::Now,
            Interrupted::Yes => Begin::Never,
        })
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

/// When another node may begin.
enum Begin {
    Now,
    /// When one in flight has ended.
    Later,
    /// No further node begins, because the program was asked to stop.
    Never,
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
    error: Option<MigrationError>,
}

impl Collected {
    /// Whether another node may begin. Nodes that go back do so whatever became of others.
    fn lets_begin(&self, direction: Direction) -> bool {
        let Collected {
            failures,
            asked,
            is_stopped,
            error,
        } = self;
        let is_clean = failures.is_empty() && asked.is_empty() && *is_stopped == Interrupted::No;
        error.is_none() && (direction == Direction::Back || is_clean)
    }

    fn note(
        &mut self,
        name: &NodeName,
        record: &NodeRecord,
        driven: Result<Driven, MigrationError>,
    ) {
        match driven {
            Ok(Driven::Done) => {}
            Ok(Driven::Failed) => {
                let why = record.failure.as_deref().unwrap_or_default();
                self.failures
                    .push(format!("node {name}, {}: {why}", record.phase));
            }
            Ok(Driven::Asked(request)) => self.asked.push((name.clone(), request)),
            Ok(Driven::Stopped) => self.is_stopped = Interrupted::Yes,
            Err(error) => self.error = Some(error),
        }
    }

    fn end(self) -> Result<WaveOutcome, MigrationError> {
        let Collected {
            failures,
            asked,
            is_stopped,
            error,
        } = self;
        if let Some(error) = error {
            return Err(error);
        }
        Ok(match (failures.is_empty(), is_stopped, asked.is_empty()) {
            (false, ..) => WaveOutcome::Failed(failures.join("; ")),
            (true, Interrupted::Yes, _) => WaveOutcome::Stopped,
            (true, Interrupted::No, false) => WaveOutcome::Asked(asked),
            (true, Interrupted::No, true) => WaveOutcome::Done,
        })
    }
}
