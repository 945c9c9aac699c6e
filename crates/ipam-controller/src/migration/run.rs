//! The waves of a migration, its gates, its maintenance windows, and its way back.

use super::drive::look;
use super::reserve::{blocks_of, decided_on, reserve};
use super::store::{Stored, Stores, put_migration, put_parts, remove_stale};
use super::wave::WaveOutcome;
use super::{Host, MigrationError, MigrationEvent, NodeStates, RESERVED_FOR, observed};
use ipam_cilium::observed::Observed;
use ipam_cluster::Workloads;
use ipam_core::model::NodeName;
use ipam_desired::Desired;
use ipam_migrate::migration::{Direction, MigrationRecord, NodeRecord, Phase, Request, State};

/// How a migration ended, or paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All nodes of the migration are moved.
    Done,
    /// All nodes of the migration have their old blocks again.
    Undone,
    /// A gate failed. The wave is back, and why.
    Stopped(String),
    /// The user must do something for these nodes first.
    Asked(Vec<(NodeName, Request)>),
    /// The program was asked to stop.
    Interrupted,
}

/// A migration that this program carries out.
pub struct Migration<'m, C, H> {
    pub(super) cluster: &'m C,
    pub(super) host: &'m H,
    pub(super) desired: &'m Desired,
    pub(super) main: Stored<MigrationRecord>,
    pub(super) nodes: NodeStates,
}

impl<'m, C: Workloads, H: Host> Migration<'m, C, H> {
    /// Begins a migration: reserves its blocks and stores its records. The schedule was decided on
    /// `observed`.
    ///
    /// # Errors
    /// Fails if an earlier record names a node that is not done, or if the blocks cannot be
    /// reserved or the records cannot be stored.
    pub async fn begin(
        cluster: &'m C,
        host: &'m H,
        desired: &'m Desired,
        record: MigrationRecord,
        observed: &Observed,
        earlier: &Stores,
    ) -> Result<Migration<'m, C, H>, MigrationError> {
        if let Some(why) = earlier.unfinished() {
            return Err(MigrationError::Schedule(why));
        }
        let nodes = record.nodes(cluster.now());
        let claims = decided_on(observed, desired);
        reserve(cluster, &blocks_of(nodes.values()), RESERVED_FOR, &claims).await?;
        put_parts(cluster, &record).await?;
        let id = record.id.clone();
        let main = match &earlier.migration {
            Some(stored) => put_migration(cluster, stored, record).await?,
            None => put_migration(cluster, &Stored::new(record.clone()), record).await?,
        };
        remove_stale(cluster, earlier, &id).await?;
        let nodes = nodes.into_iter();
        let nodes = nodes
            .map(|(name, record)| (name, Stored::new(record)))
            .collect();
        Ok(Migration {
            cluster,
            host,
            desired,
            main,
            nodes,
        })
    }

    /// Continues a stored migration.
    pub fn resume(
        cluster: &'m C,
        host: &'m H,
        desired: &'m Desired,
        main: Stored<MigrationRecord>,
        mut nodes: NodeStates,
    ) -> Migration<'m, C, H> {
        for (name, record) in main.record.nodes(cluster.now()) {
            nodes.entry(name).or_insert_with(|| Stored::new(record));
        }
        Migration {
            cluster,
            host,
            desired,
            main,
            nodes,
        }
    }

    /// Lets the stopped migration try again: the wave that went back begins anew, and failed nodes
    /// try the step that failed.
    ///
    /// # Errors
    /// Fails if a record cannot be stored.
    pub async fn try_again(&mut self) -> Result<(), MigrationError> {
        let is_going_back = |stored: &Stored<NodeRecord>| {
            stored.record.direction == Direction::Back && !stored.record.is_done()
        };
        if self.main.record.state == State::Stopped {
            if self.nodes.values().any(is_going_back) {
                let note = self.main.record.note.clone();
                self.set_state(State::TurningBack, note).await?;
            } else {
                self.begin_wave_anew().await?;
            }
        }
        self.retry_all().await
    }

    /// Every node under way gets the whole time of its step again, and a failed one tries it again.
    async fn retry_all(&mut self) -> Result<(), MigrationError> {
        let now = self.cluster.now();
        let is_under_way = |stored: &Stored<NodeRecord>| {
            stored.record.phase != Phase::Pending && !stored.record.is_done()
        };
        let due: Vec<NodeName> = self
            .nodes
            .iter()
            .filter(|(_, stored)| is_under_way(stored) || stored.record.failure.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            let retried = self.nodes[&name].record.retried(now);
            self.put(&name, retried).await?;
        }
        Ok(())
    }

    /// Nodes that went back move again.
    async fn begin_wave_anew(&mut self) -> Result<(), MigrationError> {
        let now = self.cluster.now();
        for (name, record) in self.main.record.nodes(now) {
            let Some(stored) = self.nodes.get(&name) else {
                continue;
            };
            if stored.record.direction == Direction::Back && stored.record.is_done() {
                let uid = stored.record.uid.clone();
                self.put(&name, NodeRecord { uid, ..record }).await?;
            }
        }
        self.set_state(State::Running, None).await
    }

    /// Records that people restarted the kubelets of these nodes.
    ///
    /// # Errors
    /// Fails if a record cannot be stored.
    pub async fn kubelets_restarted(&mut self, nodes: &[NodeName]) -> Result<(), MigrationError> {
        for name in nodes {
            if let Some(stored) = self.nodes.get(name) {
                let seen = look(self.cluster, name).await?;
                let record = stored.record.kubelet_restarted(&seen, self.cluster.now());
                self.put(name, record).await?;
            }
        }
        Ok(())
    }

    /// Sends all nodes back. Reserves their old blocks again, because other nodes may have got them
    /// since the migration ended.
    ///
    /// # Errors
    /// Fails if another node has one of the old blocks, or the record cannot be stored.
    pub async fn turn_back(&mut self) -> Result<(), MigrationError> {
        let snapshot = observed(self.cluster).await?;
        let all: Vec<NodeName> = self.nodes.keys().cloned().collect();
        let taken = self.old_blocks_taken(&snapshot, &all);
        if let Some(why) = taken.into_values().next() {
            return Err(MigrationError::Reserve(why));
        }
        let claims = decided_on(&snapshot, self.desired);
        reserve(self.cluster, &self.blocks(), RESERVED_FOR, &claims).await?;
        let turned = self.begin_undo().await;
        self.unless_ended(turned).await
    }

    async fn begin_undo(&mut self) -> Result<(), MigrationError> {
        self.retry_all().await?;
        self.set_state(State::Undoing, None).await
    }

    /// The record of the migration.
    pub fn record(&self) -> &MigrationRecord {
        &self.main.record
    }

    /// Carries out the migration until it ends or stops.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, denies a step, or another program took over.
    pub async fn run(&mut self) -> Result<Ended, MigrationError> {
        let ended = self.run_states().await;
        self.unless_ended(ended).await
    }

    async fn run_states(&mut self) -> Result<Ended, MigrationError> {
        loop {
            let ended = match self.main.record.state {
                State::Running => self.forward().await?,
                State::TurningBack => self.wave_back().await?,
                State::Undoing => self.all_back().await?,
                State::Stopped => Some(Ended::Stopped(self.why_stopped())),
                State::Done => Some(Ended::Done),
                State::Undone => Some(Ended::Undone),
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    /// Moves the next wave. `None`: the state has changed.
    async fn forward(&mut self) -> Result<Option<Ended>, MigrationError> {
        let wave = self.main.record.wave;
        if wave >= self.main.record.waves().len() {
            let is_moved = |stored: &Stored<NodeRecord>| {
                stored.record.is_done() && stored.record.direction == Direction::Forward
            };
            if !self.nodes.values().all(is_moved) {
                let why = "the waves are over, and not all nodes are moved".to_owned();
                return Err(MigrationError::Schedule(why));
            }
            self.end_reservations(Direction::Forward).await?;
            self.set_state(State::Done, None).await?;
            return Ok(None);
        }
        self.renew().await?;
        let snapshot = observed(self.cluster).await?;
        if let Some(why) = self.unsafe_now(&snapshot) {
            self.set_state(State::Stopped, Some(why)).await?;
            return Ok(None);
        }
        let nodes = self.wave_nodes(wave)?;
        let outcome = self.drive_all(wave, &nodes, Direction::Forward).await?;
        match outcome {
            WaveOutcome::Done => {
                let snapshot = observed(self.cluster).await?;
                match self.unsafe_now(&snapshot) {
                    Some(why) => self.gate_failed(wave, why).await?,
                    None => self.next_wave(wave).await?,
                }
                Ok(None)
            }
            WaveOutcome::Failed(why) => {
                self.gate_failed(wave, why).await?;
                Ok(None)
            }
            WaveOutcome::Asked(asked) => Ok(Some(Ended::Asked(asked))),
            WaveOutcome::Stopped => Ok(Some(Ended::Interrupted)),
        }
    }

    async fn gate_failed(&mut self, wave: usize, why: String) -> Result<(), MigrationError> {
        self.host.report(&MigrationEvent::GateFailed {
            number: wave + 1,
            why: &why,
        });
        self.set_state(State::TurningBack, Some(why)).await
    }

    async fn next_wave(&mut self, wave: usize) -> Result<(), MigrationError> {
        let mut record = self.main.record.clone();
        record.wave = wave + 1;
        self.store(record).await
    }

    /// Moves the nodes of the failed wave back.
    async fn wave_back(&mut self) -> Result<Option<Ended>, MigrationError> {
        let wave = self.main.record.wave;
        match self.back(wave).await? {
            Some(ended) => Ok(Some(ended)),
            None => {
                let record = MigrationRecord {
                    state: State::Stopped,
                    not_back: self.failed_nodes(),
                    ..self.main.record.clone()
                };
                self.store(record).await?;
                Ok(None)
            }
        }
    }

    /// Sends all waves back, the last one first.
    async fn all_back(&mut self) -> Result<Option<Ended>, MigrationError> {
        for wave in (0..self.main.record.waves().len()).rev() {
            if let Some(ended) = self.back(wave).await? {
                return Ok(Some(ended));
            }
        }
        if let Some(why) = self.failures().first() {
            return Ok(Some(Ended::Stopped(why.clone())));
        }
        self.end_reservations(Direction::Back).await?;
        self.set_state(State::Undone, None).await?;
        Ok(None)
    }

    /// Sends a wave back. `None`: every node of it is where it was, or cannot go on.
    async fn back(&mut self, wave: usize) -> Result<Option<Ended>, MigrationError> {
        let nodes = self.wave_nodes(wave)?;
        // The old blocks must be free: nothing is deleted for a block that the node cannot get
        // back.
        let taken = self.old_blocks_taken(&observed(self.cluster).await?, &nodes);
        let mut turned = Vec::new();
        for name in nodes {
            let record = self.nodes[&name].record.clone();
            if record.phase == Phase::Pending && record.direction == Direction::Forward {
                continue;
            }
            if let (Some(why), false) = (
                taken.get(&name),
                record.is_done() && record.direction == Direction::Back,
            ) {
                let failure = Some(why.clone());
                self.put(&name, NodeRecord { failure, ..record }).await?;
                continue;
            }
            if record.direction == Direction::Forward {
                let seen = look(self.cluster, &name).await?;
                let back = record.turned_back(&seen, self.cluster.now());
                self.put(&name, back).await?;
            }
            turned.push(name);
        }
        if turned.iter().all(|name| self.nodes[name].record.is_done()) {
            return Ok(None);
        }
        self.renew().await?;
        match self.drive_all(wave, &turned, Direction::Back).await? {
            WaveOutcome::Done | WaveOutcome::Failed(_) => Ok(None),
            WaveOutcome::Asked(asked) => Ok(Some(Ended::Asked(asked))),
            WaveOutcome::Stopped => Ok(Some(Ended::Interrupted)),
        }
    }

    fn wave_nodes(&self, wave: usize) -> Result<Vec<NodeName>, MigrationError> {
        let wave = self.main.record.waves().get(wave);
        let names = wave.map_or(&[][..], |wave| &wave.nodes);
        match names.iter().find(|name| !self.nodes.contains_key(*name)) {
            Some(name) => {
                let why = format!("node `{name}` of a wave does not move");
                Err(MigrationError::Schedule(why))
            }
            None => Ok(names.to_vec()),
        }
    }
}
