//! One life of two processes that follow a cluster: one leads, the other remembers. Notices come
//! late, streams end, the API server goes and comes, its store goes back in time, machines run on
//! with what they have. No block may be given to two of them, and when all is calm, every node must
//! have a block soon.

use std::num::NonZeroUsize;
use std::ops::{Add, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use jiff::SignedDuration;
use tokio::time::{Instant, sleep};

use crate::history::{Failure, Log};
use crate::replica::{Replica, Role, Told};
use crate::sabotage::{Sabotage, Saboteur};
use crate::setup::{Setup, Setups, node};
use ipam_cluster::sim::{Disturbance, Faults, Pace, Revision, Saved, Serving, SimWorld};

/// Steps in which things go wrong; each takes a second or so.
const STEPS: usize = 150;

/// Machines that boot in the course of a life.
const NODES: usize = 14;

/// How long a node may wait once all is calm and all machines are back.
const BOUND: Duration = Duration::from_secs(60);

/// Longer than any notice is under way, and than the longest pause of one that had trouble.
const QUIET: Duration = Duration::from_secs(60);

/// How long it may take until what the store forgot is quarantined, or until one that was killed
/// has read all again.
const SETTLING: Duration = Duration::from_secs(90);

/// What happens to nodes. Nobody else gives blocks here, and agents keep their CiliumNodes.
const DISTURBANCES: [Disturbance; 7] = [
    Disturbance::Heartbeat,
    Disturbance::Heartbeat,
    Disturbance::Deletion,
    Disturbance::Registration,
    Disturbance::AgentStart,
    Disturbance::Collection,
    Disturbance::LateLanding,
];

/// Counts of lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// Lives.
    pub lives: usize,
    /// Notices that streams told.
    pub events: u64,
    /// Blocks that were given.
    pub given: usize,
    /// Restores of the store.
    pub restores: usize,
    /// Restores that were noticed, by each process that settled one.
    pub noticed: usize,
    /// The longest that a node waited once all was calm.
    pub longest: Duration,
}

impl Add for Lives {
    type Output = Lives;

    fn add(self, other: Lives) -> Lives {
        Lives {
            lives: self.lives + other.lives,
            events: self.events + other.events,
            given: self.given + other.given,
            restores: self.restores + other.restores,
            noticed: self.noticed + other.noticed,
            longest: self.longest.max(other.longest),
        }
    }
}

struct Life<'l> {
    rng: Rng,
    setup: &'l Setup,
    world: SimWorld,
    sabotage: Sabotage,
    replicas: [Replica; 2],
    leader: usize,
    told: Arc<Told>,
    saved: Vec<Saved>,
    joined: usize,
    faults: Faults,
    restores: usize,
    /// What the store forgot last is quarantined by then; neither may lose its memory before.
    settled_at: Instant,
    /// The one that leads alone knows what it did last before the store went back; it must go on
    /// leading until then.
    leads_until: Instant,
    /// The one that leads may not have heard before of all that the other did.
    known_at: Instant,
    /// The other does not know all before.
    remembered_at: Instant,
    /// Where a stopped one goes on.
    goes_on_at: Instant,
    step: usize,
}

/// Runs the life of a seed.
///
/// # Errors
/// It went wrong.
///
/// # Panics
/// Without a runtime.
pub fn live(seed: u64, setups: &Setups, sabotage: Sabotage, log: Log) -> Result<Lives, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime without threads");
    // What the product draws for its pauses.
    fastrand::seed(seed);
    let mut rng = Rng::with_seed(seed);
    runtime.block_on(async {
        let setup = setups.choose_for_life(&mut rng);
        let faults = sabotage.provoked_by(faults(&mut rng));
        let world = SimWorld::new(rng.u64(..), faults, setup.objects());
        if log == Log::Kept {
            world.keep_log();
        }
        let mut life = Life::new(rng, setup, world.clone(), sabotage, faults);
        let outcome = life.run().await;
        outcome.map_err(|what| Failure {
            seed,
            step: life.step,
            what,
            log: world.log(),
        })
    })
}

/// The first of these seeds that shows a broken rule.
#[must_use]
pub fn first_failed_life(
    sabotage: Sabotage,
    setups: &Setups,
    mut seeds: Range<u64>,
) -> Option<Failure> {
    seeds.find_map(|seed| live(seed, setups, sabotage, Log::None).err())
}

fn faults(rng: &mut Rng) -> Faults {
    let mut often = |most: u32| if rng.bool() { rng.u32(..most) } else { 0 };
    Faults {
        lost_answer: often(100),
        lost_request: often(100),
        late_landing: often(100),
        conflict: often(100),
        failed_list: often(10),
        late_collection: often(1000),
        late_notice: often(200),
        forgotten_moment: often(20),
        ..Faults::default()
    }
}

impl<'l> Life<'l> {
    fn new(
        mut rng: Rng,
        setup: &'l Setup,
        world: SimWorld,
        sabotage: Sabotage,
        faults: Faults,
    ) -> Life<'l> {
        let told = Arc::<Told>::default();
        let replicas = [(); 2].map(|()| start(&mut rng, setup, &world, sabotage, &told));
        replicas[0].take(Role::Leads);
        let saved = vec![world.save()];
        let now = Instant::now();
        Life {
            rng,
            setup,
            world,
            sabotage,
            replicas,
            leader: 0,
            told,
            saved,
            joined: 0,
            faults,
            restores: 0,
            settled_at: now,
            leads_until: now,
            known_at: now,
            remembered_at: now + SETTLING,
            goes_on_at: now,
            step: 0,
        }
    }

    async fn run(&mut self) -> Result<Lives, Vec<String>> {
        while self.step < STEPS {
            let pause = Duration::from_millis(self.rng.u64(10..2_000));
            self.pass(pause).await?;
            self.happen().await?;
            self.step += 1;
        }
        let longest = self.calm().await?;
        Ok(Lives {
            lives: 1,
            events: self.world.events(),
            given: self.told.written.load(Ordering::Relaxed),
            restores: self.restores,
            noticed: self.told.rolled_back.load(Ordering::Relaxed),
            longest,
        })
    }

    /// Lets time pass, by all clocks.
    async fn pass(&mut self, time: Duration) -> Result<(), Vec<String>> {
        sleep(time).await;
        self.world
            .advance(SignedDuration::try_from(time).unwrap_or(SignedDuration::ZERO));
        if Instant::now() >= self.goes_on_at {
            self.replicas.iter().for_each(Replica::go_on);
        }
        let violations = self.world.violations();
        if violations.is_empty() {
            Ok(())
        } else {
            Err(violations)
        }
    }

    async fn happen(&mut self) -> Result<(), Vec<String>> {
        match self.rng.u32(..100) {
            0..15 => self.join(),
            15..20 => self.saved.push(self.world.save()),
            20..24 => self.restore().await?,
            24..28 => self.change_leader(),
            28..31 => self.stop_one(),
            31..33 => self.kill_one(),
            33..36 => self.outage(None).await?,
            36..50 => drop(self.world.report_back()),
            50..53 => drop(self.world.bury()),
            _ => self
                .world
                .disturb(DISTURBANCES[self.rng.usize(..DISTURBANCES.len())]),
        }
        Ok(())
    }

    fn join(&mut self) {
        if self.joined < NODES {
            self.world.join(node(self.joined, &mut self.rng));
            self.joined += 1;
        }
    }

    /// The API server goes away for a while, and may come back on a restored store.
    async fn outage(&mut self, restored: Option<(usize, Revision)>) -> Result<(), Vec<String>> {
        self.world.serve(Serving::Down);
        let away = if self.rng.bool() { 500 } else { 20_000 };
        let away = Duration::from_millis(self.rng.u64(..away));
        self.pass(away).await?;
        if let Some((index, revision)) = restored {
            self.world.restore(&self.saved[index], revision);
        }
        self.world.serve(Serving::Up);
        Ok(())
    }

    /// The store goes back in time: at a quiet moment, or at any, where the one that leads must
    /// live to tell what it did last.
    async fn restore(&mut self) -> Result<(), Vec<String>> {
        if Instant::now() < self.remembered_at || self.replicas.iter().any(Replica::is_stopped) {
            return Ok(());
        }
        if self.rng.bool() || Instant::now() < self.known_at {
            self.world.calm_down();
            self.pass(QUIET).await?;
        } else {
            self.leads_until = Instant::now() + SETTLING;
        }
        self.restores += 1;
        let index = self.rng.usize(..self.saved.len());
        // Those of a history that is given up are never restored: their numbers say nothing.
        self.saved.truncate(index + 1);
        let revision = if self.rng.bool() {
            Revision::AsSaved
        } else {
            Revision::Bumped
        };
        if self.rng.u32(..3) > 0 {
            self.outage(Some((index, revision))).await?;
        } else {
            self.world.restore(&self.saved[index], revision);
            let unnoticed = Duration::from_millis(self.rng.u64(..40_000));
            self.pass(unnoticed).await?;
            self.outage(None).await?;
        }
        self.world.set_faults(self.faults);
        self.settled_at = Instant::now() + SETTLING;
        // New machines are faster than those that come back.
        (0..self.rng.u32(..3)).for_each(|_| self.join());
        Ok(())
    }

    fn may_lose_memory(&self) -> bool {
        Instant::now() >= self.settled_at && Instant::now() >= self.remembered_at
    }

    /// The other one leads. The old one does not know yet where it is stopped.
    fn change_leader(&mut self) {
        if Instant::now() >= self.leads_until {
            self.replicas[self.leader].take(Role::StandsBy);
            self.leader = 1 - self.leader;
            self.replicas[self.leader].take(Role::Leads);
            self.known_at = Instant::now() + QUIET;
        }
    }

    fn stop_one(&mut self) {
        if self.may_lose_memory() {
            let stopped = self.rng.usize(..self.replicas.len());
            self.replicas[stopped].stop();
            let time = Duration::from_millis(self.rng.u64(..40_000));
            self.goes_on_at = Instant::now() + time;
            self.remembered_at = self.goes_on_at + QUIET;
            if self.rng.bool() {
                self.change_leader();
            }
        }
    }

    fn kill_one(&mut self) {
        if self.may_lose_memory() && !self.replicas.iter().any(Replica::is_stopped) {
            let killed = self.rng.usize(..self.replicas.len());
            self.replicas[killed] = start(
                &mut self.rng,
                self.setup,
                &self.world,
                self.sabotage,
                &self.told,
            );
            if killed == self.leader {
                self.leader = 1 - killed;
                self.replicas[self.leader].take(Role::Leads);
                self.known_at = Instant::now() + QUIET;
            }
            self.remembered_at = Instant::now() + SETTLING;
        }
    }

    /// Nothing goes wrong any more. How long nodes wait then.
    async fn calm(&mut self) -> Result<Duration, Vec<String>> {
        self.world.calm_down();
        self.replicas.iter().for_each(Replica::go_on);
        while self.world.report_back() || self.world.bury() {}
        self.world.join(node(NODES, &mut self.rng));
        let began = Instant::now();
        loop {
            self.pass(Duration::from_millis(100)).await?;
            let unserved = self.world.unserved();
            if unserved.is_empty() {
                return Ok(began.elapsed());
            }
            if began.elapsed() >= BOUND {
                return Err(vec![format!(
                    "{} have no block {} s after all is calm",
                    unserved.join(" "),
                    BOUND.as_secs()
                )]);
            }
        }
    }
}

fn start(
    rng: &mut Rng,
    setup: &Setup,
    world: &SimWorld,
    sabotage: Sabotage,
    told: &Arc<Told>,
) -> Replica {
    let directory = &setup.directories[0];
    let client = world.client(directory.pins.clone(), Pace::Time);
    let client = Saboteur {
        client,
        world: world.clone(),
        sabotage,
    };
    let parallelism = NonZeroUsize::new(rng.usize(1..=3)).unwrap_or(NonZeroUsize::MIN);
    Replica::start(client, directory.loaded.clone(), parallelism, told.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_lives_and_equal_seeds_give_equal_ones() {
        let setups = Setups::new();
        let live_all = || {
            (0..12)
                .map(|seed| live(seed, &setups, Sabotage::None, Log::None))
                .collect::<Vec<_>>()
        };
        let (first, second) = (live_all(), live_all());
        assert_eq!(first, second);
        let failures: Vec<_> = first.iter().filter(|outcome| outcome.is_err()).collect();
        assert!(failures.is_empty(), "{failures:#?}");
        let all = first
            .into_iter()
            .flatten()
            .fold(Lives::default(), Lives::add);
        assert!(
            all.restores > 5 && all.noticed > 5 && all.given > 100,
            "{all:?}"
        );
    }

    #[test]
    fn broken_rules_are_noticed() {
        let setups = Setups::new();
        // Early bookmarks need more lives than a build without optimisations has time for; `prove
        // simulate` tries them all.
        for sabotage in Sabotage::OF_LIVES
            .into_iter()
            .filter(|sabotage| *sabotage != Sabotage::EarlyBookmarks)
        {
            assert!(
                first_failed_life(sabotage, &setups, 0..60).is_some(),
                "{sabotage:?}"
            );
        }
    }
}
