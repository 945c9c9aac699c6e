//! Runs all scenarios at once on one control plane with one real operator, and tells each step
//! before it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use testbed::{CiliumVersion, Error, Marks, Operator, Programs};
use tokio::runtime::Runtime;

use super::scenario::{Scenario, Wave};
use super::told::{Telling, Verdict, at_restart, compare, of_wave, parts, summary};
use crate::support::api_server;
use ipam_cilium::observed::Observed;
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Extent, observe};
use ipam_core::model::ServiceName;
use testbed::{ControlPlane, Options, install_cilium};

/// Connections that send the actions of a wave.
const SENDERS: usize = 8;
/// How often an operator that panics is started again, before nothing more is expected of it.
const STARTS: usize = 2;
/// An operator that has panicked still leads for a while.
const QUICK_ELECTION: [&str; 3] = [
    "--leader-election-lease-duration=2s",
    "--leader-election-renew-deadline=1s",
    "--leader-election-retry-period=200ms",
];
/// How long after an action the operator may still do what was told.
const LATEST: Duration = Duration::from_secs(60);

/// One step of one scenario, after it happened.
pub struct Step {
    /// A restart, or which wave.
    pub what: String,
    /// What was foretold, in a few words.
    pub told: &'static str,
    pub verdict: Verdict,
    pub differences: String,
}

/// Whether the operator survives the scenarios.
#[derive(Clone, Copy)]
pub enum Health {
    Lives,
    /// It panics, now and then or at each start.
    Panics,
}

pub struct Bench {
    plane: ControlPlane,
    programs: Programs,
    version: CiliumVersion,
    health: Health,
    operator: Option<Operator>,
    runtime: Runtime,
    cluster: LiveCluster,
    marks: Marks,
    /// Services whose sharing key changed while they held an address. Until the next start, the
    /// operator finds the address by the old key (`AddServiceViewIPForSharingKey` @ 1.15 to 1.20).
    rekeyed: BTreeSet<ServiceName>,
}

/// Services that keep an address and have another sharing key.
fn rekeyed<'o>(
    before: &'o Observed,
    after: &'o Observed,
) -> impl Iterator<Item = ServiceName> + 'o {
    let rules = after.lb_rules();
    after.services.values().filter_map(move |now| {
        let then = before.services.get(&now.name)?;
        let keeps = now.ingress.iter().any(|ip| then.ingress.contains(ip));
        let is_one = keeps && now.sharing_key(&rules) != then.sharing_key(&rules);
        is_one.then(|| now.name.clone())
    })
}

impl Bench {
    pub fn start(programs: Programs, version: CiliumVersion, health: Health) -> Bench {
        let plane = ControlPlane::start(&programs, Options::default()).unwrap();
        let installation = super::super::server::kubernetes(version.release(), None);
        install_cilium(&plane, &installation).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let connection = api_server(plane.kubeconfig(), Duration::from_secs(30));
        let cluster = runtime.block_on(LiveCluster::connect(connection)).unwrap();
        let mut bench = Bench {
            plane,
            programs,
            version,
            health,
            operator: None,
            runtime,
            cluster,
            marks: Marks::default(),
            rekeyed: BTreeSet::new(),
        };
        bench.restart();
        bench.marks.keep_awake(&bench.plane).unwrap();
        bench
    }

    /// Fails if the operator ends at once.
    fn try_restart(&mut self) -> testbed::Result<()> {
        self.operator = None;
        let flags = ["--ipam=kubernetes", "--enable-ipv6=false"];
        let election = match self.health {
            Health::Lives => [].as_slice(),
            Health::Panics => QUICK_ELECTION.as_slice(),
        };
        let flags = [flags.as_slice(), &self.version.unlimited(), election].concat();
        let operator = Operator::start(&self.programs, &self.plane, self.version, &flags)?;
        self.operator = Some(operator);
        Ok(())
    }

    fn restart(&mut self) {
        match (self.try_restart(), self.health) {
            (Ok(()), _) | (Err(Error::Ended { .. }), Health::Panics) => {}
            (Err(other), _) => panic!("{other}"),
        }
    }

    fn observe(&self) -> Observed {
        self.runtime
            .block_on(observe(&self.cluster, Extent::Plan))
            .unwrap()
    }

    /// Waits until the operator has seen everything. If it panics, it starts again, as in a cluster.
    fn settle(&mut self) {
        for _ in 0..=STARTS {
            let Some(operator) = &mut self.operator else {
                self.restart();
                continue;
            };
            match (self.marks.settle(&self.plane, operator), self.health) {
                (Ok(()), _) => return,
                (Err(Error::Ended { .. }), Health::Panics) => self.restart(),
                (Err(other), _) => panic!("{other}"),
            }
        }
    }

    /// Runs all scenarios; the steps of each by its id.
    pub fn run(&mut self, scenarios: &[&Scenario]) -> BTreeMap<String, Vec<Step>> {
        let mut steps = BTreeMap::new();
        let most = scenarios.iter().map(|s| s.parts.len()).max().unwrap_or(0);
        for part in 0..most {
            let waves = scenarios.iter().filter_map(|s| s.parts.get(part));
            for wave in 0..waves.map(Vec::len).max().unwrap_or(0) {
                self.wave(scenarios, part, wave, &mut steps);
            }
            let restart = |bench: &mut Bench| {
                bench.rekeyed.clear();
                bench.restart();
            };
            let tell = |_: &Scenario, before: &Observed| Some(at_restart(before));
            self.step("restart", scenarios, tell, restart, &mut steps);
        }
        steps
    }

    fn wave(
        &mut self,
        scenarios: &[&Scenario],
        part: usize,
        wave: usize,
        steps: &mut BTreeMap<String, Vec<Step>>,
    ) {
        let of =
            |scenario: &Scenario| -> Option<Wave> { scenario.parts.get(part)?.get(wave).cloned() };
        let tell = |scenario: &Scenario, before: &Observed| Some(of_wave(before, &of(scenario)?));
        let act = |bench: &mut Bench| {
            bench.start_of_a_second();
            let all: Vec<Wave> = scenarios.iter().filter_map(|one| of(one)).collect();
            // Side by side, so that pools of one wave are made in one second.
            let share = all.len().div_ceil(SENDERS).max(1);
            std::thread::scope(|scope| {
                for waves in all.chunks(share) {
                    let plane = &bench.plane;
                    scope.spawn(move || waves.iter().flatten().for_each(|a| a.send(plane)));
                }
            });
        };
        let what = format!("wave {part}.{wave}");
        self.step(&what, scenarios, tell, act, steps);
    }

    /// `creationTimestamp` counts whole seconds.
    fn start_of_a_second(&self) {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        std::thread::sleep(Duration::from_nanos(u64::from(
            1_000_000_000 - since.subsec_nanos(),
        )));
    }

    /// Tells of every scenario, acts, waits, and compares.
    fn step(
        &mut self,
        what: &str,
        scenarios: &[&Scenario],
        tell: impl Fn(&Scenario, &Observed) -> Option<Telling>,
        act: impl FnOnce(&mut Bench),
        steps: &mut BTreeMap<String, Vec<Step>>,
    ) {
        let started = std::time::Instant::now();
        let mut before = parts(self.observe(), scenarios);
        let mut tellings = Vec::new();
        for scenario in scenarios {
            let before = before.remove(&scenario.id).unwrap();
            if let Some(telling) = tell(scenario, &before) {
                tellings.push((&scenario.id, before, telling));
            }
        }
        let told = started.elapsed();
        act(self);
        self.settle();
        let mut after = parts(self.observe(), scenarios);
        // On a busy machine the operator pauses for longer than the quiet time.
        let acted = std::time::Instant::now();
        let old_keys = self.rekeyed.clone();
        let compare = |telling: &Telling, before: &Observed, after: &Observed| {
            compare(telling, before, after, &old_keys)
        };
        let is_wrong = |after: &BTreeMap<String, Observed>| {
            tellings.iter().any(|(id, before, telling)| {
                matches!(compare(telling, before, &after[*id]).0, Verdict::Wrong)
            })
        };
        while is_wrong(&after) && acted.elapsed() < LATEST {
            self.settle();
            after = parts(self.observe(), scenarios);
        }
        for (id, before, telling) in tellings {
            let (verdict, differences) = compare(&telling, &before, &after[id]);
            self.rekeyed.extend(rekeyed(&before, &after[id]));
            steps.entry(id.clone()).or_default().push(Step {
                what: what.to_owned(),
                told: summary(&telling, &before),
                verdict,
                differences,
            });
        }
        let (told, all) = (told.as_secs_f64(), started.elapsed().as_secs_f64());
        println!(
            "{} {what}: told in {told:.1} s, all {all:.1} s",
            self.version.release()
        );
    }
}
