//! `prove upgrades`: seeded clusters with LoadBalancer pools and Services, and real operators of two
//! versions on one etcd. Before the newer one starts, `upgrade` names what will move: nothing moves
//! unnamed, and nothing named stays.
//!
//! Clusters of one control plane differ in namespace, labels and ranges, so they do not meet.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use testbed::{
    CiliumInstallation, CiliumVersion, ControlPlane, Operator, Options, Program, Random, build,
    find, install_cilium,
};
use xtask::line::Line;
use xtask::tool::Tool;

const POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumloadbalancerippools";
/// More on one control plane make the operator slow to settle.
const CLUSTERS_PER_PLANE: usize = 20;
/// An operator that has changed nothing for so long is done.
const QUIET: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(90);
const SATISFIED: &str = "cilium.io/IPAMRequestSatisfied";
const OLDER: [&str; 2] = ["io.cilium/lb-ipam-ips", "io.cilium/lb-ipam-sharing-key"];
const NEWER: [&str; 2] = ["lbipam.cilium.io/ips", "lbipam.cilium.io/sharing-key"];

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Clusters for each pair of operators.
    #[arg(long, value_name = "N", default_value_t = 6)]
    clusters: usize,
}

/// Addresses of each Service, by namespace and name.
type Addresses = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct Counts {
    pairs: usize,
    clusters: usize,
    services: usize,
    lost: usize,
    gained: usize,
    may_move: usize,
    /// Of those that may move.
    moved_by_chance: usize,
    unnamed: usize,
    stayed: usize,
}

/// What `upgrade` names: Services by code.
struct Told(BTreeMap<String, BTreeSet<String>>);

pub fn run(tool: &Tool, seed: u64, arguments: &Arguments) -> Result<()> {
    eprintln!("prove upgrades: --seed {seed}");
    let mut random = Random::new(seed);
    let mut counts = Counts::default();
    let versions: Vec<CiliumVersion> = CiliumVersion::ALL.into_iter().filter(is_there).collect();
    for (index, &from) in versions.iter().enumerate() {
        for &to in &versions[index + 1..] {
            counts.pairs += 1;
            let mut left = arguments.clusters;
            while left > 0 {
                let clusters = left.min(CLUSTERS_PER_PLANE);
                round(tool, (from, to), clusters, &mut random, &mut counts)?;
                left -= clusters;
            }
        }
    }
    Line::new("upgrades")
        .with("pairs", counts.pairs)
        .with("clusters", counts.clusters)
        .with("services", counts.services)
        .with("lost", counts.lost)
        .with("gained", counts.gained)
        .with("may_move", counts.may_move)
        .with("moved_by_chance", counts.moved_by_chance)
        .required_least("named", counts.lost + counts.gained, 1)
        .required("unnamed", counts.unnamed, 0)
        .required("stayed", counts.stayed, 0)
        .conclude()
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
fn round(
    tool: &Tool,
    (from, to): (CiliumVersion, CiliumVersion),
    clusters: usize,
    random: &mut Random,
    counts: &mut Counts,
) -> Result<()> {
    let programs = build(&[
        Program::KubeApiserver,
        Program::Etcd,
        Program::CiliumOperator(from),
        Program::CiliumOperator(to),
    ])?;
    let plane = ControlPlane::start(&programs, Options::default())?;
    let flags = ["--ipam=kubernetes", "--enable-ipv6=false"];
    install_cilium(&plane, &installation(from))?;
    let old = Operator::start(&programs, &plane, from, &flags)?;
    for number in 0..clusters {
        Cluster { number }.create(&plane, random)?;
    }
    settle(&plane)?;
    for number in 0..clusters {
        Cluster { number }.edit(&plane, random)?;
    }
    let before = settle(&plane)?;
    let told = Told::ask(tool, &plane, to)?;
    drop(old);
    install_cilium(&plane, &installation(to))?;
    let _new = Operator::start(&programs, &plane, to, &flags)?;
    let after = settle_as(&plane, |now| told.has_happened(&before, now))?;
    counts.clusters += clusters;
    told.compare(&before, &after, counts);
    Ok(())
}

/// A seeded cluster.
struct Cluster {
    number: usize,
}

impl Cluster {
    fn namespace(&self) -> String {
        format!("c{}", self.number)
    }

    fn pool(&self, index: usize) -> String {
        format!("c{}-p{index}", self.number)
    }

    /// Up to three pools, and Services of them.
    fn create(&self, plane: &ControlPlane, random: &mut Random) -> Result<()> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace()}});
        plane.create("/api/v1/namespaces", &namespace)?;
        let pools = 1 + random.below(3);
        for index in 0..pools {
            plane.create(POOLS, &self.some_pool(index, random))?;
        }
        let path = format!("/api/v1/namespaces/{}/services", self.namespace());
        for index in 0..3 + random.below(5) {
            plane.create(&path, &self.some_service(index, pools, random))?;
        }
        Ok(())
    }

    fn some_pool(&self, index: usize, random: &mut Random) -> Value {
        let prefix = format!("60.{}.{index}", self.number);
        let cidr = format!("{prefix}.0/{}", [29, 30, 31][random.below(3)]);
        let ranges = match random.below(4) {
            0 | 1 => json!({"blocks": [{"cidr": cidr}]}),
            2 => {
                json!({"blocks": [{"start": format!("{prefix}.0"), "stop": format!("{prefix}.3")}]})
            }
            _ => json!({"cidrs": [{"cidr": cidr}]}),
        };
        let mut spec = ranges;
        spec["serviceSelector"] = json!({"matchLabels": {"pool": self.pool(index)}});
        match random.below(3) {
            0 => spec["allowFirstLastIPs"] = "Yes".into(),
            1 => spec["allowFirstLastIPs"] = "No".into(),
            _ => {}
        }
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
            "metadata": {"name": self.pool(index)}, "spec": spec})
    }

    /// A Service of one pool; it may share, and request an address by either annotation.
    fn some_service(&self, index: usize, pools: usize, random: &mut Random) -> Value {
        let pool = random.below(pools);
        let mut annotations = json!({});
        if random.below(3) == 0 {
            for key in [OLDER[1], NEWER[1]] {
                annotations[key] = "shared".into();
            }
        }
        let address =
            |random: &mut Random| format!("60.{}.{pool}.{}", self.number, random.below(4));
        match random.below(6) {
            0 => annotations[OLDER[0]] = address(random).into(),
            1 => annotations[NEWER[0]] = address(random).into(),
            2 => {
                annotations[OLDER[0]] = address(random).into();
                annotations[NEWER[0]] = address(random).into();
            }
            _ => {}
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{index}"),
            "labels": {"pool": self.pool(pool)}, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80 + index}]}})
    }

    /// Now and then, the first pool is disabled, or its first and last address are reserved.
    fn edit(&self, plane: &ControlPlane, random: &mut Random) -> Result<()> {
        let spec = match random.below(4) {
            0 => json!({"disabled": true}),
            1 => json!({"allowFirstLastIPs": "No"}),
            _ => return Ok(()),
        };
        let path = format!("{POOLS}/{}", self.pool(0));
        plane.patch(&path, &json!({"spec": spec}))?;
        Ok(())
    }
}

/// The Services' addresses; `None` while the operator has not told of each.
fn addresses(plane: &ControlPlane) -> Result<Option<Addresses>> {
    let mut found = Addresses::new();
    for service in plane.list("/api/v1/services")? {
        if service["spec"]["type"] != "LoadBalancer" {
            continue;
        }
        let conditions = service["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        if !conditions.any(|condition| condition["type"] == SATISFIED) {
            return Ok(None);
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = [
            &service["metadata"]["namespace"],
            &service["metadata"]["name"],
        ];
        let name: Vec<String> = name.into_iter().filter_map(text).collect();
        let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
        let ips = ingress
            .into_iter()
            .flatten()
            .filter_map(|one| text(&one["ip"]));
        found.insert(name.join("/"), ips.collect());
    }
    Ok(Some(found))
}

/// Waits until nothing changes any more.
fn settle(plane: &ControlPlane) -> Result<Addresses> {
    settle_as(plane, |_| true)
}

/// The same, and waits longer until `is_so`, but not forever.
fn settle_as(plane: &ControlPlane, is_so: impl Fn(&Addresses) -> bool) -> Result<Addresses> {
    let start = Instant::now();
    let mut last = (addresses(plane)?, Instant::now());
    loop {
        thread::sleep(Duration::from_millis(250));
        let now = addresses(plane)?;
        if now != last.0 {
            last = (now, Instant::now());
        }
        let is_late = start.elapsed() > LIMIT;
        if let Some(settled) = &last.0
            && last.1.elapsed() > QUIET
            && (is_late || is_so(settled))
        {
            return Ok(settled.clone());
        }
        ensure!(
            start.elapsed() < 2 * LIMIT,
            "the operator does not settle within {LIMIT:?}"
        );
    }
}

impl Told {
    fn ask(tool: &Tool, plane: &ControlPlane, to: CiliumVersion) -> Result<Self> {
        let mut command = tool.command();
        command.args([
            "upgrade",
            "--to",
            to.release(),
            "--no-pools",
            "-o",
            "json",
            "--full",
        ]);
        command.arg("--kubeconfig").arg(plane.kubeconfig());
        let output = command.output().context("the tool does not start")?;
        if !matches!(output.status.code(), Some(0 | 2)) {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        let told: Value = serde_json::from_slice(&output.stdout)?;
        let mut by_code: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let hops = told["hops"].as_array().into_iter().flatten();
        for change in hops.flat_map(|hop| hop["changes"].as_array().into_iter().flatten()) {
            let code = change["code"].as_str().unwrap_or_default();
            let objects = change["objects"].as_array().into_iter().flatten();
            let services = objects.filter(|object| object["kind"] == "Service");
            let names = services.filter_map(|object| object["name"].as_str());
            let named = by_code.entry(code.to_owned()).or_default();
            named.extend(names.map(str::to_owned));
        }
        Ok(Self(by_code))
    }

    fn names(&self, code: &str, service: &str) -> bool {
        self.0
            .get(code)
            .is_some_and(|names| names.contains(service))
    }

    fn is_lost(&self, service: &str) -> bool {
        self.names("upgrade-address-lost", service)
    }

    fn has_happened(&self, before: &Addresses, now: &Addresses) -> bool {
        let mut counts = Counts::default();
        self.judge(before, now, &mut counts);
        counts.stayed == 0
    }

    fn compare(&self, before: &Addresses, after: &Addresses, counts: &mut Counts) {
        for fault in self.judge(before, after, counts) {
            eprintln!("prove upgrades: {fault}");
        }
    }

    /// Counts, and names each disagreement. Services that wait for one address may change places,
    /// so gains are compared by cluster. An address that moves by chance may go to one of them.
    fn judge(&self, before: &Addresses, after: &Addresses, counts: &mut Counts) -> Vec<String> {
        let mut faults = Vec::new();
        let mut gains: BTreeMap<&str, Gains> = BTreeMap::new();
        for (service, had) in before {
            counts.services += 1;
            let has = after.get(service).cloned().unwrap_or_default();
            let loses = had.difference(&has).next().is_some();
            let is_named = self.is_lost(service);
            let may_move = self.names("upgrade-address-may-move", service);
            counts.lost += usize::from(loses && is_named);
            counts.may_move += usize::from(may_move);
            counts.moved_by_chance += usize::from(may_move && loses);
            if loses && !is_named && !may_move {
                counts.unnamed += 1;
                faults.push(format!("{service} had {had:?} and has {has:?}, unnamed"));
            }
            if is_named && !loses {
                counts.stayed += 1;
                faults.push(format!("{service} keeps {had:?}, which was named"));
            }
            let cluster = service.split('/').next().unwrap_or_default();
            let gains = gains.entry(cluster).or_default();
            gains.chances += usize::from(may_move && loses);
            if !is_named && !may_move && !loses {
                gains.real += usize::from(has.difference(had).next().is_some());
                gains.named += usize::from(self.names("upgrade-address-gained", service));
            }
        }
        for (cluster, gains) in gains {
            let Gains {
                real,
                named,
                chances,
            } = gains;
            counts.gained += real;
            counts.unnamed += real.saturating_sub(named + chances);
            counts.stayed += named.saturating_sub(real);
            if real < named || real > named + chances {
                faults.push(format!(
                    "{cluster}: {real} Services get an address, {named} were named"
                ));
            }
        }
        faults
    }
}

/// Services of one cluster that get an address.
#[derive(Default)]
struct Gains {
    real: usize,
    named: usize,
    /// Addresses that moved by chance.
    chances: usize,
}
