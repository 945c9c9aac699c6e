//! One migration from its beginning to its end, with everything that happens beside it.

use std::ops::Range;

use fastrand::Rng;

use super::figures::Moves;
use super::migrator::{Order, Wanted};
use super::programs::Program;
use super::sabotage::BrokenRule;
use super::setup::{Chosen, MigrationSetups};
use super::world::{Kind, World};
use crate::applier::Applier;
use crate::history::{Failure, Log};
use ipam_controller::migration::Ended;

/// Steps after which a history that has not ended is wrong.
const MOST_STEPS: usize = 120_000;

/// Attempts in a calm cluster after which a migration that stops is over.
const MOST_ATTEMPTS: u32 = 3;

/// Steps of a calm cluster after the end, so that garbage is collected and agents have published.
const SETTLING: usize = 1_500;

/// Runs the migration of a seed.
///
/// # Errors
/// It went wrong.
pub fn migrate(
    seed: u64,
    setups: &MigrationSetups,
    rule: BrokenRule,
    log: Log,
) -> Result<Moves, Failure> {
    let mut history = History::new(seed, setups, rule, log);
    let outcome = history.run();
    let state = history.world.lock();
    match (outcome, state.books.violations.is_empty()) {
        (Ok(()), true) => Ok(history.moves),
        (outcome, _) => {
            let mut what = state.books.violations.clone();
            what.extend(outcome.err());
            Err(Failure {
                seed,
                step: history.moves.steps,
                what,
                log: state.log(),
            })
        }
    }
}

/// The first of these seeds that shows a broken rule.
#[must_use]
pub fn first_failed_migration(
    rule: BrokenRule,
    setups: &MigrationSetups,
    mut seeds: Range<u64>,
) -> Option<Failure> {
    seeds.find_map(|seed| migrate(seed, setups, rule, Log::None).err())
}

/// What a history contains.
#[derive(Clone, Copy)]
struct Weather {
    /// Steps in which things go wrong.
    unrest: usize,
    kills: bool,
    edits: bool,
    breaks: bool,
    rivals: bool,
    two_programs: bool,
    joins: bool,
}

pub(super) struct History<'h> {
    pub(super) rng: Rng,
    pub(super) chosen: Chosen<'h>,
    pub(super) world: World,
    pub(super) rule: BrokenRule,
    weather: Weather,
    pub(super) programs: Vec<Program<'h>>,
    pub(super) appliers: Vec<Applier<'h>>,
    pub(super) order: Order,
    /// Whether the person changes their mind, and from which step on.
    turns_at: Option<usize>,
    /// Attempts in a calm cluster that stopped.
    pub(super) attempts: u32,
    /// The step before which the person does not try again.
    pub(super) waits_until: usize,
    joined: usize,
    pub(super) moves: Moves,
    /// How the last program ended.
    pub(super) ended: Option<Ended>,
    pub(super) next: u64,
}

impl<'h> History<'h> {
    fn new(seed: u64, setups: &'h MigrationSetups, rule: BrokenRule, log: Log) -> History<'h> {
        let mut rng = Rng::with_seed(seed);
        let chosen = setups.choose(&mut rng);
        let log = match log {
            Log::Kept => Some(Vec::new()),
            Log::None => None,
        };
        let world = World::new(rng.u64(..), chosen.ipam(), log);
        world.lock().advance(1_000_000);
        chosen.fill(&mut world.lock());
        world
            .lock()
            .note(|| format!("{:?} {:?}", chosen.way, chosen.families));
        let weather = Weather {
            unrest: rng.usize(200..6_000),
            kills: rng.u32(..4) > 0,
            edits: rng.bool(),
            breaks: rng.u32(..8) == 0,
            rivals: rng.u32(..5) == 0,
            two_programs: rng.u32(..4) == 0,
            joins: rng.bool(),
        };
        let turns_at = rng.bool().then(|| rng.usize(100..9_000));
        History {
            rng,
            chosen,
            world,
            rule,
            weather,
            programs: Vec::new(),
            appliers: Vec::new(),
            order: Order::default(),
            turns_at,
            attempts: 0,
            waits_until: 0,
            joined: 0,
            moves: Moves::default(),
            ended: None,
            next: 0,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        while !self.is_over() {
            self.step();
            if !self.world.lock().books.violations.is_empty() {
                return Err("a rule is broken".to_owned());
            }
            if self.moves.steps > MOST_STEPS {
                return Err(format!("it does not end: {:?}", self.ended));
            }
        }
        while !self.appliers.is_empty() {
            self.poll_one();
            self.cluster_works();
        }
        (0..SETTLING).for_each(|_| self.cluster_works());
        self.check_end();
        Ok(())
    }

    /// whether the request is fulfilled, or cannot be.
    fn is_over(&self) -> bool {
        let has_ended = self.is_satisfied() || self.attempts > MOST_ATTEMPTS;
        self.is_calm() && has_ended && self.programs.is_empty()
    }

    /// Whether nothing else goes wrong, and the person has decided.
    pub(super) fn is_calm(&self) -> bool {
        self.moves.steps > self.weather.unrest.max(self.turns_at.unwrap_or(0))
    }

    fn step(&mut self) {
        self.moves.steps += 1;
        if self.turns_at == Some(self.moves.steps) {
            self.world
                .lock()
                .note(|| "the person wants all nodes back".to_owned());
            self.order.direction = Wanted::Back;
            self.programs.clear();
            self.ended = None;
            self.waits_until = 0;
        }
        let is_unquiet = self.moves.steps <= self.weather.unrest;
        if self.programs.is_empty() && self.wants_more() && self.rng.u32(..20) == 0 {
            self.start();
        }
        match self.rng.u32(..100) {
            0..2 if is_unquiet => self.goes_wrong(),
            0..40 => self.cluster_works(),
            _ => self.poll_one(),
        }
        let mut state = self.world.lock();
        state.check();
        let passed = state.rng.i64(10..120);
        state.advance(passed);
    }

    fn wants_more(&self) -> bool {
        !self.is_satisfied() && self.moves.steps > self.waits_until
    }

    fn is_satisfied(&self) -> bool {
        matches!(
            (&self.ended, self.order.direction),
            (Some(Ended::Done), Wanted::Moved) | (Some(Ended::Undone), _)
        )
    }

    fn cluster_works(&mut self) {
        let mut state = self.world.lock();
        match self.rng.u32(..5) {
            0..3 => {
                let names: Vec<String> = state.machines.keys().cloned().collect();
                let name = &names[self.rng.usize(..names.len())];
                state.machine_works(name);
            }
            3 => state.controllers_work(),
            _ => state.operator_works(),
        }
        let passed = state.rng.i64(10..120);
        state.advance(passed);
    }

    fn goes_wrong(&mut self) {
        let weather = self.weather;
        match self.rng.u32(..10) {
            0..3 if weather.kills => self.kill(),
            3 if weather.kills => self.stop(),
            4..6 if weather.edits => self.world.lock().person_edits(),
            6 if weather.breaks && self.rng.u32(..10) == 0 => self.world.lock().breaks(),
            6 => self.world.lock().kubelet_restarts(),
            7 if weather.rivals => self.world.lock().rival_writes(),
            7 if weather.two_programs && self.programs.len() == 1 => self.start(),
            8 if weather.joins => self.one_joins_or_leaves(),
            9 if weather.joins && self.appliers.len() < 2 => self.start_applier(),
            _ => {}
        }
    }

    fn one_joins_or_leaves(&mut self) {
        let mut state = self.world.lock();
        if self.rng.u32(..3) == 0 {
            state.leaves();
        } else if self.joined < 4 {
            let rack = if self.rng.bool() { "a" } else { "b" };
            state.joins(&format!("j{}", self.joined), rack);
            self.joined += 1;
        }
    }

    /// Nodes that the migration moves: all that were there at its beginning.
    pub(super) fn movers(&self) -> Vec<String> {
        self.world.lock().wanted.keys().cloned().collect()
    }

    pub(super) fn is_excused(&self) -> bool {
        let state = self.world.lock();
        !state.books.lost.is_empty() || !state.books.given_by_rivals.is_empty()
    }

    pub(super) fn records(&self) -> usize {
        self.world.lock().all(Kind::Record).len()
    }
}
