//! Edits of LoadBalancer pools on the real operator: no Service loses an address, or gets one, that
//! was not named before. Edits of the files, planned and applied; and edits by others, of pools
//! that overlap as no files of ours may.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{CiliumVersion, Operator, Random, wait_until};
use tokio::runtime::Runtime;

use super::lb::{POOLS, SERVICES, address_pool, operator, server, service};
use super::server::Server;
use super::support::api_server;
use ipam_cilium::lbipam::{AddressPool, Certainty, Evaluated, OperatorState, evaluate};
use ipam_cilium::observed::Observed;
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Extent, observe};
use ipam_config::source::Location;
use ipam_controller::apply::{Event, Stop};
use ipam_controller::{
    BATCH, Job, NoPorts, OnConflict, Sending, apply_until_settled, load, observe_and_plan,
};
use ipam_core::model::{ServiceName, Waiver};
use ipam_plan::plan::{LossTime, Plan};

const EDITS: u64 = 200;
const EDITS_BY_OTHERS: u64 = 60;
/// Another one is tried with `LB_EDITS_SEED=8 cargo test --test it -- lb_edits`.
const SEED: u64 = 7;
/// Few, small and overlapping, so that edits hit what is in use.
const RANGES: [&str; 8] = [
    "10.7.0.0/29",
    "10.7.0.8/29",
    "10.7.0.0/28",
    "10.7.0.4/30",
    "10.7.1.0/28",
    "10.7.1.0/29",
    "10.7.1.4-10.7.1.9",
    "10.7.2.0/30",
];
const COLORS: [&str; 3] = ["red", "green", "blue"];

fn random() -> Random {
    let seed = std::env::var("LB_EDITS_SEED")
        .ok()
        .map_or(SEED, |seed| seed.parse().unwrap());
    println!("LB_EDITS_SEED={seed}");
    Random::new(seed)
}

fn some_blocks(random: &mut Random) -> Value {
    let chosen: BTreeSet<usize> = (0..=random.below(2))
        .map(|_| random.below(RANGES.len()))
        .collect();
    chosen
        .into_iter()
        .map(|index| block(RANGES[index]))
        .collect()
}

fn some_colors(random: &mut Random) -> Value {
    let colors: BTreeSet<&str> = (0..=random.below(2))
        .map(|_| COLORS[random.below(COLORS.len())])
        .collect();
    json!({"matchExpressions": [{"key": "color", "operator": "In", "values": colors}]})
}

fn block(text: &str) -> Value {
    match text.split_once('-') {
        Some((start, stop)) => json!({"start": start, "stop": stop}),
        None => json!({"cidr": text}),
    }
}

struct Bench {
    server: Server,
    _operator: Operator,
    runtime: Runtime,
    /// One connection for all edits: each new one costs a TLS handshake.
    cluster: LiveCluster,
    marks: usize,
}

impl Bench {
    fn start() -> Bench {
        let server = server(CiliumVersion::V1_19);
        let operator = operator(&server, CiliumVersion::V1_19);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let connection = api_server(server.plane.kubeconfig(), Duration::from_secs(30));
        let cluster = runtime.block_on(LiveCluster::connect(connection)).unwrap();
        Bench {
            server,
            _operator: operator,
            runtime,
            cluster,
            marks: 0,
        }
    }

    fn observe(&self) -> Observed {
        self.runtime
            .block_on(observe(&self.cluster, Extent::Plan))
            .unwrap()
    }

    /// Twelve Services of three colors, some of which ask for an address.
    fn services(&self) {
        for index in 0..12 {
            let color = COLORS[index % COLORS.len()];
            let annotations = if index % 4 == 3 {
                json!({"lbipam.cilium.io/ips": format!("10.7.0.{index}")})
            } else {
                json!({})
            };
            let mut service = service(&format!("s{index}"), &json!({"color": color}));
            service["metadata"]["annotations"] = annotations;
            self.server.plane.create(SERVICES, &service).unwrap();
        }
    }

    /// Plans from the files and applies with all waivers; `None` if that is refused finally.
    fn apply_files(&self) -> Option<Plan> {
        self.runtime.block_on(async {
            let loaded = load(&Location::from(self.server.folder.join("pools").as_path()));
            assert!(!loaded.has_errors(), "{:?}", loaded.findings);
            let waivers = [Waiver::LostAddresses(u32::MAX), Waiver::LastAddressPools].into();
            let job = Job::saved(&loaded, None, &waivers);
            let cluster = &self.cluster;
            let (observed, plan) = observe_and_plan(cluster, &job).await.unwrap();
            if !job.refusals(&plan.changes, &observed).await.is_empty() {
                return None;
            }
            let (stop, mut on_event) = (Stop::default(), |_: Event<'_>| {});
            let mut sending = Sending {
                batch: BATCH,
                limit: NonZeroUsize::MIN.into(),
                on_conflict: OnConflict::Replan,
                stop: &stop,
                on_event: &mut on_event,
            };
            let sent = apply_until_settled(
                cluster,
                &NoPorts,
                &job,
                observed,
                plan.changes.clone(),
                &mut sending,
            );
            let (applied, failure) = sent.await;
            assert!(
                failure.is_none() && applied.remaining().count() == 0,
                "{failure:?} {applied:?}"
            );
            Some(plan)
        })
    }

    fn pool(&self, name: &str, spec: &Value) {
        self.server
            .plane
            .create(POOLS, &address_pool(name, spec))
            .unwrap();
    }

    /// Waits until the operator has seen everything so far: events come in order, and a pool that
    /// selects nothing changes nothing.
    fn catch_up(&mut self) {
        self.marks += 1;
        let name = format!("mark-{}", self.marks);
        let nothing = json!({"matchExpressions": [{"key": "none", "operator": "Exists"}, {"key": "none", "operator": "DoesNotExist"}]});
        let cidr = format!("172.16.{}.{}/32", self.marks / 256, self.marks % 256);
        self.pool(
            &name,
            &json!({"blocks": [{"cidr": cidr}], "serviceSelector": nothing}),
        );
        let path = format!("{POOLS}/{name}");
        let counted = wait_until("the operator to catch up", testbed::PATIENCE, || {
            let pool = self.server.plane.get(&path)?;
            let conditions = pool["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            Ok(conditions
                .iter()
                .any(|condition| condition["type"] == "cilium.io/IPsTotal")
                .then_some(()))
        });
        counted.unwrap();
        self.server.plane.delete(&path).unwrap();
    }
}

fn ingress(observed: &Observed) -> BTreeMap<ServiceName, BTreeSet<IpAddr>> {
    observed
        .services
        .values()
        .map(|service| {
            (
                service.name.clone(),
                service.ingress.iter().copied().collect(),
            )
        })
        .collect()
}

/// The pools that an edit is about, without those that only mark time.
fn pools(observed: &Observed) -> Vec<AddressPool> {
    let mut pools = observed.address_pools_as_read(&observed.lb_rules());
    pools.retain(|pool| !pool.name.starts_with("mark-"));
    pools
}

/// The request for an edit of this pool.
enum Edit {
    Create(Value),
    Change(Value),
    Delete,
}

fn edit(random: &mut Random, exists: bool) -> Edit {
    if !exists {
        return Edit::Create(
            json!({"blocks": some_blocks(random), "serviceSelector": some_colors(random)}),
        );
    }
    match random.below(12) {
        0 => Edit::Delete,
        1 | 2 => Edit::Change(json!({"disabled": random.below(2) == 0})),
        3..=5 => Edit::Change(json!({"serviceSelector": some_colors(random)})),
        6 => Edit::Change(
            json!({"allowFirstLastIPs": if random.below(2) == 0 { "Yes" } else { "No" }}),
        ),
        _ => Edit::Change(json!({"blocks": some_blocks(random)})),
    }
}

/// The pools after an edit, as a server would show them.
fn edited(
    before: &Observed,
    name: &str,
    edit: &Edit,
    objects: &BTreeMap<String, Value>,
) -> Vec<AddressPool> {
    let spec = match edit {
        Edit::Delete => None,
        Edit::Create(spec) => Some(spec.clone()),
        Edit::Change(change) => {
            let mut spec = objects[name].clone();
            spec.as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            Some(spec)
        }
    };
    let mut after: Vec<AddressPool> = pools(before)
        .into_iter()
        .filter(|pool| pool.name != name)
        .collect();
    if let Some(spec) = spec {
        let object = json!({"metadata": {"name": name}, "spec": spec}).to_string();
        let mut reader = ipam_cilium::observed::Reader::default();
        reader
            .object(
                ipam_cilium::observed::ObservedKind::LoadBalancerPool,
                &object,
            )
            .unwrap();
        let read = reader.finish("2026-01-01T00:00:00Z".parse().unwrap());
        let known = pools(before).into_iter().find(|pool| pool.name == name);
        let seen = read.address_pools[name].as_read(&before.lb_rules());
        let (created, marking) =
            known.map_or((None, seen.marking), |pool| (pool.created, pool.marking));
        after.push(AddressPool {
            created,
            marking,
            ..seen
        });
    }
    after.sort_by(|a, b| a.name.cmp(&b.name));
    after
}

/// Addresses of Services, over all edits.
#[derive(Debug, Default)]
struct Figures {
    lost: usize,
    /// Named as lost for sure, and there afterwards.
    certain_kept: usize,
    /// Named as contested, and kept.
    contested_kept: usize,
}

/// The edit and its outcome, a line for each pool and Service.
fn told(
    before: &[AddressPool],
    after: &[AddressPool],
    old: &BTreeMap<ServiceName, BTreeSet<IpAddr>>,
    new: &BTreeMap<ServiceName, BTreeSet<IpAddr>>,
) -> String {
    let mut text = String::new();
    for (when, pools) in [("before", before), ("after", after)] {
        for AddressPool {
            name,
            created,
            ranges,
            selector,
            first_last,
            state,
            marking,
        } in pools
        {
            let ranges: Vec<String> = ranges.iter().map(|range| range.range.to_string()).collect();
            let selector = selector
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            let created = created.as_deref().unwrap_or("new");
            text.push_str(&format!(
                "{when} {name} {created} {} {selector} {first_last:?} {state:?} {marking:?}\n",
                ranges.join(" ")
            ));
        }
    }
    for (service, had) in old {
        text.push_str(&format!("{service}: {had:?} -> {:?}\n", new[service]));
    }
    text
}

#[test]
fn edits_by_others_take_no_address_that_was_not_named() {
    let mut bench = Bench::start();
    let mut random = random();
    bench.services();
    // One that stays, so that the operator never falls asleep.
    bench.pool(
        "stays",
        &json!({"blocks": [{"cidr": "10.7.9.0/30"}], "serviceSelector": {"matchLabels": {"color": "none"}}}),
    );
    let mut specs: BTreeMap<String, Value> = BTreeMap::new();
    let mut figures = Figures::default();
    for round in 0..EDITS_BY_OTHERS {
        let name = format!("p{}", random.below(4));
        bench.catch_up();
        let before = bench.observe();
        let edit = edit(&mut random, specs.contains_key(&name));
        let after = edited(&before, &name, &edit, &specs);
        let rules = before.lb_rules();
        let known = pools(&before);
        let Evaluated { outcomes, .. } = evaluate(
            &after,
            before.services.values(),
            &rules,
            OperatorState::Running(&known),
        );
        let path = format!("{POOLS}/{name}");
        match &edit {
            Edit::Create(spec) => {
                bench.pool(&name, spec);
                specs.insert(name.clone(), spec.clone());
            }
            Edit::Change(change) => {
                bench
                    .server
                    .plane
                    .patch(&path, &json!({"spec": change}))
                    .unwrap();
                let spec = specs.get_mut(&name).unwrap().as_object_mut().unwrap();
                spec.extend(change.as_object().unwrap().clone());
            }
            Edit::Delete => {
                bench.server.plane.delete(&path).unwrap();
                specs.remove(&name);
            }
        }
        bench.catch_up();
        let (old, new) = (ingress(&before), ingress(&bench.observe()));
        for (service, had) in &old {
            let lost: BTreeSet<IpAddr> = had.difference(&new[service]).copied().collect();
            let outlook = &outcomes[service];
            let certain: BTreeSet<IpAddr> =
                outlook.loses.iter().map(|(address, _)| *address).collect();
            let contested: BTreeSet<IpAddr> = outlook
                .contested
                .iter()
                .map(|(address, _)| *address)
                .collect();
            let named: BTreeSet<IpAddr> = certain.union(&contested).copied().collect();
            let world = || told(&known, &after, &old, &new);
            assert!(
                lost.is_subset(&named),
                "edit {round}: {service} lost {lost:?}, named {named:?}\n{}",
                world()
            );
            figures.lost += lost.len();
            figures.certain_kept += certain.difference(&lost).count();
            figures.contested_kept += contested.difference(&lost).count();
        }
    }
    println!("edits_by_others={EDITS_BY_OTHERS} {figures:?} lost_unnamed=0");
    assert!(figures.lost > 15, "the edits hit something: {figures:?}");
    // An address that is surely lost may be given again by luck; what is named must be worth
    // reading all the same.
    assert!(figures.certain_kept * 5 < figures.lost, "{figures:?}");
    assert!(figures.contested_kept < 2 * figures.lost, "{figures:?}");
}

/// The pools of the files.
type Specs = BTreeMap<String, Value>;

/// Changes one or two of the pools, until the files are valid.
fn edit_files(bench: &Bench, random: &mut Random, specs: &Specs) -> Specs {
    loop {
        let mut edited = specs.clone();
        for _ in 0..=random.below(2) {
            let name = format!("p{}", random.below(4));
            match edit(random, edited.contains_key(&name)) {
                Edit::Create(spec) => drop(edited.insert(name, spec)),
                Edit::Delete => drop(edited.remove(&name)),
                Edit::Change(change) => {
                    edited
                        .get_mut(&name)
                        .unwrap()
                        .as_object_mut()
                        .unwrap()
                        .extend(change.as_object().unwrap().clone());
                }
            }
        }
        let documents: Vec<String> = edited
            .iter()
            .map(|(name, spec)| address_pool(name, spec).to_string())
            .collect();
        bench
            .server
            .folder
            .write("pools/pools.yaml", documents.join("\n---\n") + "\n");
        if edited != *specs
            && !load(&Location::from(bench.server.folder.join("pools").as_path())).has_errors()
        {
            return edited;
        }
    }
}

#[test]
fn edits_of_the_files_change_no_address_that_the_plan_did_not_name() {
    let mut bench = Bench::start();
    let mut random = random();
    bench.services();
    bench.server.folder.write(
        "pools/always.yaml",
        super::support::pool("nodes", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
    );
    // Pools of others, over a part of what the files have.
    for (name, cidr, color) in [
        ("stays", "10.7.9.0/30", "none"),
        ("theirs", "10.7.0.4/30", "red"),
    ] {
        let spec = json!({"blocks": [{"cidr": cidr}], "serviceSelector": {"matchLabels": {"color": color}}});
        bench.pool(name, &spec);
    }
    // So that no Service gets an address later that was due before.
    let is_told = || {
        Ok(bench
            .observe()
            .services
            .values()
            .all(|service| service.reason.is_some())
            .then_some(()))
    };
    wait_until("every Service to be looked at", testbed::PATIENCE, is_told).unwrap();
    let (mut specs, mut figures, mut refused, mut planned) =
        (Specs::new(), Figures::default(), 0, 0);
    while planned < EDITS {
        bench.catch_up();
        let before = bench.observe();
        let edited = edit_files(&bench, &mut random, &specs);
        let Some(plan) = bench.apply_files() else {
            refused += 1;
            continue;
        };
        (specs, planned) = (edited, planned + 1);
        bench.catch_up();
        let after = bench.observe();
        let (old, new) = (ingress(&before), ingress(&after));
        let world = || told(&pools(&before), &pools(&after), &old, &new);
        let effects: BTreeMap<&ServiceName, _> = plan
            .effects
            .services
            .iter()
            .map(|effect| (&effect.service, effect))
            .collect();
        for (service, had) in &old {
            let lost: BTreeSet<IpAddr> = had.difference(&new[service]).copied().collect();
            let losses = effects
                .get(service)
                .map(|effect| effect.loses.as_slice())
                .unwrap_or_default();
            let of = |certainty: Certainty| -> BTreeSet<IpAddr> {
                let now = losses
                    .iter()
                    .filter(|lost| lost.when == LossTime::Now && lost.certainty == certainty);
                now.filter_map(|lost| lost.address.ip()).collect()
            };
            let (certain, contested) = (of(Certainty::Certain), of(Certainty::LeftToChance));
            let named: BTreeSet<IpAddr> = certain.union(&contested).copied().collect();
            assert!(
                lost.is_subset(&named),
                "edit {planned}: {service} lost {lost:?}, named {named:?}\n{}",
                world()
            );
            let is_changed = *had != new[service];
            assert!(
                !is_changed || effects.contains_key(service),
                "edit {planned}: {service} is not named\n{}",
                world()
            );
            figures.lost += lost.len();
            figures.certain_kept += certain.difference(&lost).count();
            figures.contested_kept += contested.difference(&lost).count();
        }
    }
    println!("edits={EDITS} refused={refused} {figures:?} changed_unnamed=0");
    assert!(figures.lost > 50, "the edits hit something: {figures:?}");
    assert!(figures.certain_kept * 5 < figures.lost, "{figures:?}");
}
