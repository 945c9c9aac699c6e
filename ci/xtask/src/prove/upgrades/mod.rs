//! `prove upgrades`: seeded clusters with LoadBalancer pools and Services, and real operators of two
//! versions on one etcd. Before the newer one starts, `upgrade` names what will move: nothing moves
//! unnamed, and nothing named stays.

mod clusters;
mod told;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::Value;
use testbed::{
    CiliumInstallation, CiliumVersion, ControlPlane, Marks, Operator, Options, Program, Random,
    build, find, install_cilium,
};
use xtask::line::Line;
use xtask::parallel;
use xtask::tool::Tool;

use clusters::Cluster;
use told::{Addresses, Judged, Told};

/// More on one control plane make the operator slow to settle.
const CLUSTERS_PER_PLANE: usize = 20;
/// How long what was named may take.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Clusters for each pair of operators.
    #[arg(long, value_name = "N", default_value_t = 6)]
    clusters: usize,
    /// Only this pair, such as `1.15.19:1.16.6`, with the clusters that it has in a whole run.
    #[arg(long, value_name = "FROM:TO")]
    only: Option<String>,
    /// Control planes at once: operators wait most of the time.
    #[arg(long, value_name = "N", default_value = "3")]
    jobs: NonZeroUsize,
}

type Pair = (CiliumVersion, CiliumVersion);

#[derive(Default)]
struct Counts {
    pairs: usize,
    clusters: usize,
    judged: Judged,
}

pub fn run(tool: &Tool, seed: u64, arguments: &Arguments) -> Result<()> {
    eprintln!("prove upgrades: --seed {seed}");
    let mut random = Random::new(seed);
    let mut rounds: Vec<(Pair, Vec<Cluster>)> = Vec::new();
    let mut counts = Counts::default();
    for pair in pairs() {
        let is_wanted = arguments
            .only
            .as_deref()
            .is_none_or(|only| only == name(pair));
        counts.pairs += usize::from(is_wanted);
        let mut left = arguments.clusters;
        while left > 0 {
            let clusters = Cluster::some(left.min(CLUSTERS_PER_PLANE), &mut random);
            left -= clusters.len();
            if is_wanted {
                rounds.push((pair, clusters));
            }
        }
    }
    let counts = Mutex::new(counts);
    parallel::for_each(&rounds, arguments.jobs.get(), |(pair, clusters)| {
        let judged = round(tool, *pair, clusters)?;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.clusters += clusters.len();
        counts.judged.add(judged);
        anyhow::Ok(())
    })?;
    let counts = counts.into_inner();
    counts.unwrap_or_else(PoisonError::into_inner).conclude()
}

fn pairs() -> Vec<Pair> {
    let versions: Vec<CiliumVersion> = CiliumVersion::ALL.into_iter().filter(is_there).collect();
    let newer = |(index, &from): (usize, &CiliumVersion)| {
        let newer = versions[index + 1..].iter();
        newer.map(|&to| (from, to)).collect::<Vec<Pair>>()
    };
    versions.iter().enumerate().flat_map(newer).collect()
}

fn name((from, to): Pair) -> String {
    format!("{}:{}", from.release(), to.release())
}

/// Operators that are built on demand take part if they are built.
fn is_there(version: &CiliumVersion) -> bool {
    if !CiliumVersion::ON_DEMAND.contains(version) {
        return true;
    }
    match find(&[Program::CiliumOperator(*version)], &[]) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("prove upgrades: left out: {why}");
            false
        }
    }
}

fn installation(version: CiliumVersion) -> CiliumInstallation {
    CiliumInstallation {
        version: version.release().to_owned(),
        ..CiliumInstallation::default()
    }
}

/// One control plane: the older operator settles, the tool tells, the newer operator settles.
fn round(tool: &Tool, pair: Pair, clusters: &[Cluster]) -> Result<Judged> {
    let (from, to) = pair;
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::CiliumOperator(from),
        Program::CiliumOperator(to),
    ])?;
    let plane = ControlPlane::start(&programs, Options::default())?;
    let start = |version: CiliumVersion| {
        install_cilium(&plane, &installation(version))?;
        let flags = ["--ipam=kubernetes", "--enable-ipv6=false"];
        let all = [flags.as_slice(), &version.unlimited()].concat();
        Operator::start(&programs, &plane, version, &all)
    };
    let mut old = start(from)?;
    let mut marks = Marks::default();
    clusters
        .iter()
        .try_for_each(|cluster| cluster.create(&plane))?;
    marks.settle(&plane, &mut old)?;
    clusters
        .iter()
        .try_for_each(|cluster| cluster.edit(&plane))?;
    marks.settle(&plane, &mut old)?;
    let told = loop {
        let told = Told::ask(tool, &plane, to)?;
        if told.fatal().next().is_none() {
            break told;
        }
        for service in told.fatal() {
            delete(&plane, service)?;
        }
        marks.settle(&plane, &mut old)?;
    };
    let before = addresses(&plane)?;
    drop(old);
    let mut new = start(to)?;
    let after = settle_as(&plane, (&mut marks, &mut new), |now| {
        told.has_happened(clusters, &before, now)
    })?;
    let judged = told.judge(clusters, &before, &after);
    show(pair, clusters, &told, &judged, (&before, &after));
    Ok(judged)
}

/// Each cluster with a fault: its objects, and what was named and happened.
fn show(
    pair: Pair,
    clusters: &[Cluster],
    told: &Told,
    judged: &Judged,
    (before, after): (&Addresses, &Addresses),
) {
    for fault in &judged.faults {
        eprintln!("prove upgrades: {}: {}", name(pair), fault.text);
    }
    let faulty: BTreeSet<&str> = judged
        .faults
        .iter()
        .map(|fault| fault.namespace.as_str())
        .collect();
    for cluster in clusters {
        let namespace = cluster.namespace();
        if !faulty.contains(namespace.as_str()) {
            continue;
        }
        eprintln!("  {namespace}: {}", cluster.shown());
        let start = format!("{namespace}/");
        for (service, had) in before.iter().filter(|(name, _)| name.starts_with(&start)) {
            let (has, effects) = (after.get(service), told.effects(service));
            eprintln!("  {service}: had {had:?}, has {has:?}; {effects}");
        }
    }
}

fn delete(plane: &ControlPlane, service: &str) -> Result<()> {
    let (namespace, name) = service.split_once('/').unwrap_or(("default", service));
    plane.delete(&format!("/api/v1/namespaces/{namespace}/services/{name}"))?;
    Ok(())
}

fn addresses(plane: &ControlPlane) -> Result<Addresses> {
    let mut found = Addresses::new();
    for service in plane.list("/api/v1/services")? {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &service["metadata"];
        let name = [&metadata["namespace"], &metadata["name"]];
        let name: Vec<String> = name.into_iter().filter_map(text).collect();
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
        let ips = ingress.into_iter().flatten();
        if service["spec"]["type"] == "LoadBalancer" && name[0] != "default" {
            let ips = ips.filter_map(|one| text(&one["ip"]));
            found.insert(name.join("/"), ips.collect());
        }
    }
    Ok(found)
}

/// Settles, and again until it is so, but not forever.
fn settle_as(
    plane: &ControlPlane,
    (marks, operator): (&mut Marks, &mut Operator),
    is_so: impl Fn(&Addresses) -> bool,
) -> Result<Addresses> {
    let start = Instant::now();
    loop {
        marks.settle(plane, operator)?;
        let now = addresses(plane)?;
        if is_so(&now) || start.elapsed() > LIMIT {
            return Ok(now);
        }
    }
}

impl Judged {
    fn add(&mut self, other: Judged) {
        let Judged {
            services,
            lost,
            gained,
            may_move,
            moved_by_chance,
            may_gain,
            gained_by_chance,
            unnamed,
            stayed,
            faults,
        } = other;
        self.services += services;
        self.lost += lost;
        self.gained += gained;
        self.may_move += may_move;
        self.moved_by_chance += moved_by_chance;
        self.may_gain += may_gain;
        self.gained_by_chance += gained_by_chance;
        self.unnamed += unnamed;
        self.stayed += stayed;
        self.faults.extend(faults);
    }
}

impl Counts {
    fn conclude(self) -> Result<()> {
        let judged = self.judged;
        Line::new("upgrades")
            .with("pairs", self.pairs)
            .with("clusters", self.clusters)
            .with("services", judged.services)
            .with("lost", judged.lost)
            .with("gained", judged.gained)
            .with("may_move", judged.may_move)
            .with("moved_by_chance", judged.moved_by_chance)
            .with("may_gain", judged.may_gain)
            .with("gained_by_chance", judged.gained_by_chance)
            .required_least("named", judged.lost + judged.gained, 1)
            .required("unnamed", judged.unnamed, 0)
            .required("stayed", judged.stayed, 0)
            .conclude()
    }
}
