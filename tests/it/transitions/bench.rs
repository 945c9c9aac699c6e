//! Runs all scenarios at once on one control plane with one real operator, and tells each step
//! before it happens.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use testbed::{CiliumVersion, Operator, Programs, wait_until};
use tokio::runtime::Runtime;

use super::super::lb::{POOLS, SERVICES, address_pool, service};
use super::scenario::{Scenario, Wave};
use super::told::{Telling, Verdict, at_restart, compare, of_wave, parts, summary};
use ipam_cilium::observed::Observed;
use ipam_cluster::live::{Connection, LiveCluster};
use ipam_cluster::{Extent, observe};
use testbed::{ControlPlane, Options, install_cilium};

/// Connections that send the actions of a wave.
const SENDERS: usize = 8;
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

pub struct Bench {
    plane: ControlPlane,
    programs: Programs,
    version: CiliumVersion,
    operator: Option<Operator>,
    runtime: Runtime,
    cluster: LiveCluster,
    marks: usize,
}

impl Bench {
    pub fn start(programs: Programs, version: CiliumVersion) -> Bench {
        let plane = ControlPlane::start(&programs, Options::default()).unwrap();
        let installation = super::super::server::kubernetes(version.release(), None);
        install_cilium(&plane, &installation).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let connection = Connection {
            kubeconfig: Some(plane.kubeconfig().to_owned()),
            context: None,
            patience: Duration::from_secs(30),
        };
        let cluster = runtime.block_on(LiveCluster::connect(connection)).unwrap();
        let mut bench = Bench {
            plane,
            programs,
            version,
            operator: None,
            runtime,
            cluster,
            marks: 0,
        };
        bench.restart();
        // So that the operator never falls asleep.
        let spec = json!({"blocks": [{"cidr": "10.99.0.0/30"}],
            "serviceSelector": {"matchLabels": {"mark": "yes"}}});
        let pool = address_pool("mark", &spec);
        bench.plane.create(POOLS, &pool).unwrap();
        bench
    }

    fn restart(&mut self) {
        self.operator = None;
        let qps = match self.version {
            CiliumVersion::V1_15 | CiliumVersion::V1_16 => "--k8s-client-qps=2000",
            _ => "--operator-k8s-client-qps=2000",
        };
        let burst = qps.replace("qps", "burst");
        let flags = ["--ipam=kubernetes", "--enable-ipv6=false", qps, &burst];
        let operator = Operator::start(&self.programs, &self.plane, self.version, &flags).unwrap();
        self.operator = Some(operator);
    }

    fn observe(&self) -> Observed {
        self.runtime
            .block_on(observe(&self.cluster, Extent::Plan))
            .unwrap()
    }

    /// Waits until the operator has seen everything so far: it takes pools and Services in order.
    /// Its own writes come back to it, so this is done until nothing changes.
    fn settle(&mut self) {
        let mut last = Vec::new();
        loop {
            self.mark();
            let now = self.versions();
            if now == last && self.has_looked_at_all() {
                return;
            }
            last = now;
        }
    }

    fn mark(&mut self) {
        self.marks += 1;
        let name = format!("mark-{}", self.marks);
        let (pool, own) = (format!("{POOLS}/{name}"), format!("{SERVICES}/{name}"));
        let cidr = format!("10.99.{}.0/30", 1 + self.marks % 250);
        let spec = json!({"blocks": [{"cidr": cidr}],
            "serviceSelector": {"matchLabels": {"mark": name}}});
        self.plane
            .create(SERVICES, &service(&name, &json!({"mark": name})))
            .unwrap();
        let is_seen = |path: &str| {
            let conditions = self.plane.get(path)?["status"]["conditions"].clone();
            let any = |kinds: &[&str]| {
                conditions
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|condition| kinds.iter().any(|kind| condition["type"] == *kind))
            };
            Ok(any(&["cilium.io/IPsTotal", "cilium.io/IPAMRequestSatisfied"]).then_some(()))
        };
        wait_until("the mark's Service", testbed::PATIENCE, || is_seen(&own)).unwrap();
        self.plane
            .create(POOLS, &address_pool(&name, &spec))
            .unwrap();
        wait_until("the mark's pool", testbed::PATIENCE, || is_seen(&pool)).unwrap();
        self.plane.delete(&own).unwrap();
        self.plane.delete(&pool).unwrap();
    }

    /// Whether every Service has the operator's condition: it retries a write that failed.
    fn has_looked_at_all(&self) -> bool {
        let services = self.plane.list(SERVICES).unwrap();
        let is_ours = |service: &&Value| service["spec"]["type"] == "LoadBalancer";
        services.iter().filter(is_ours).all(|service| {
            let conditions = service["status"]["conditions"].as_array();
            conditions.is_some_and(|conditions| !conditions.is_empty())
        })
    }

    /// The resourceVersion of every pool and Service of the scenarios.
    fn versions(&self) -> Vec<(String, String)> {
        let of = |object: &Value| {
            let text = |key: &str| object["metadata"][key].as_str().unwrap().to_owned();
            (text("name"), text("resourceVersion"))
        };
        let mut objects = self.plane.list(POOLS).unwrap();
        objects.extend(self.plane.list(SERVICES).unwrap());
        let objects = objects.iter().map(of);
        objects
            .filter(|(name, _)| !name.starts_with("mark"))
            .collect()
    }

    /// Runs all scenarios; the steps of each by its id.
    pub fn run(&mut self, scenarios: &[Scenario]) -> BTreeMap<String, Vec<Step>> {
        let mut steps = BTreeMap::new();
        let most = scenarios.iter().map(|s| s.parts.len()).max().unwrap_or(0);
        for part in 0..most {
            let waves = scenarios.iter().filter_map(|s| s.parts.get(part));
            for wave in 0..waves.map(Vec::len).max().unwrap_or(0) {
                self.wave(scenarios, part, wave, &mut steps);
            }
            let restart = |bench: &mut Bench| bench.restart();
            let tell = |_: &Scenario, before: &Observed| Some(at_restart(before));
            self.step("restart", scenarios, tell, restart, &mut steps);
        }
        steps
    }

    fn wave(
        &mut self,
        scenarios: &[Scenario],
        part: usize,
        wave: usize,
        steps: &mut BTreeMap<String, Vec<Step>>,
    ) {
        let of =
            |scenario: &Scenario| -> Option<Wave> { scenario.parts.get(part)?.get(wave).cloned() };
        let tell = |scenario: &Scenario, before: &Observed| Some(of_wave(before, &of(scenario)?));
        let act = |bench: &mut Bench| {
            bench.start_of_a_second();
            let all: Vec<Wave> = scenarios.iter().filter_map(of).collect();
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
        scenarios: &[Scenario],
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
