//! The effects that `upgrade` predicts, and whether they happened. Knows no rule of LB-IPAM: it
//! compares addresses.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use testbed::{CiliumVersion, ControlPlane};
use xtask::tool::Tool;

use super::clusters::{Cluster, prefix_of};

/// Addresses of each Service, by namespace and name.
pub type Addresses = BTreeMap<String, BTreeSet<String>>;

const LOST: &str = "upgrade-address-lost";
const MAY_MOVE: &str = "upgrade-address-may-move";
const GAINED: &str = "upgrade-address-gained";
/// Text in the effect of a gain that depends on chance.
const BY_CHANCE: &str = "may get ";
/// Makes the operator of the release panic, so that nothing else happens.
const FATAL: &str = "upgrade-bad-release";
const CODES: [&str; 4] = [LOST, MAY_MOVE, GAINED, FATAL];

/// Effects on each Service, by code.
pub struct Told(BTreeMap<&'static str, BTreeMap<String, String>>);

/// The result of the comparison of all Services.
#[derive(Default)]
pub struct Judged {
    pub services: usize,
    pub lost: usize,
    pub gained: usize,
    pub may_move: usize,
    /// Number of Services in `may_move` that moved.
    pub moved_by_chance: usize,
    pub may_gain: usize,
    /// Number of Services in `may_gain` that gained an address.
    pub gained_by_chance: usize,
    pub unnamed: usize,
    pub stayed: usize,
    pub faults: Vec<Fault>,
}

/// A disagreement.
pub struct Fault {
    pub namespace: String,
    pub text: String,
}

/// Services of one pool that got an address, or did not, otherwise than named.
#[derive(Default)]
struct Places<'s> {
    /// Service and address, unnamed.
    unnamed: Vec<(&'s str, String)>,
    /// Named as getting one, and without one.
    missing: Vec<&'s str>,
    /// Service, address, and what was named instead.
    elsewhere: Vec<(&'s str, String, &'s str)>,
    /// Services that might move, and have another address now.
    moved: usize,
}

impl Told {
    pub fn ask(tool: &Tool, plane: &ControlPlane, to: CiliumVersion) -> Result<Self> {
        let mut command = tool.command();
        let release = to.release();
        command.args([
            "upgrade",
            "--to",
            release,
            "--no-pools",
            "-o",
            "json",
            "--show-all",
        ]);
        command.arg("--kubeconfig").arg(plane.kubeconfig());
        let output = command.output().context("the tool does not start")?;
        if !matches!(output.status.code(), Some(0 | 2)) {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self::of(&serde_json::from_slice(&output.stdout)?))
    }

    fn of(document: &Value) -> Self {
        let mut by_code: BTreeMap<&'static str, BTreeMap<String, String>> = BTreeMap::new();
        let hops = document["hops"].as_array().into_iter().flatten();
        for change in hops.flat_map(|hop| hop["changes"].as_array().into_iter().flatten()) {
            let Some(code) = CODES.into_iter().find(|code| change["code"] == *code) else {
                continue;
            };
            let objects = change["objects"].as_array().into_iter().flatten();
            for object in objects.filter(|object| object["kind"] == "Service") {
                let text = |key: &str| object[key].as_str().unwrap_or_default();
                let named = by_code.entry(code).or_default();
                let effect = named.entry(text("name").to_owned()).or_default();
                effect.push_str(text("effect"));
                effect.push_str("; ");
            }
        }
        Self(by_code)
    }

    fn effect(&self, code: &str, service: &str) -> Option<&str> {
        let effect = self.0.get(code)?.get(service)?;
        Some(effect.as_str())
    }

    /// All predicted effects on a Service.
    pub fn effects(&self, service: &str) -> String {
        let of = |code| Some(format!("{code}: {}", self.effect(code, service)?));
        let all = CODES.into_iter().filter_map(of);
        all.collect::<Vec<_>>().join(" ")
    }

    /// Services at which the operator of the release panics.
    pub fn fatal(&self) -> impl Iterator<Item = &str> {
        let named = self.0.get(FATAL).into_iter().flatten();
        named.map(|(service, _)| service.as_str())
    }

    /// The predicted address gain of the Service.
    fn gain(&self, service: &str) -> Option<&str> {
        let lost = self.effect(LOST, service);
        let lost = lost.filter(|effect| effect.contains("gets ") || effect.contains(BY_CHANCE));
        self.effect(GAINED, service).or(lost)
    }

    pub fn has_happened(&self, clusters: &[Cluster], before: &Addresses, now: &Addresses) -> bool {
        self.judge(clusters, before, now).stayed == 0
    }

    /// Compares Service by Service. Services of one pool that wait may get each other's addresses,
    /// and any of them may get an address whose move depends on chance.
    pub fn judge(&self, clusters: &[Cluster], before: &Addresses, after: &Addresses) -> Judged {
        let mut judged = Judged::default();
        let mut pools: BTreeMap<String, Places<'_>> = BTreeMap::new();
        let freed = self.freed(before, after);
        for (service, had) in before {
            judged.services += 1;
            let has = after.get(service).cloned().unwrap_or_default();
            self.losses(service, had, &has, &mut judged);
            let pool = pool_of(clusters, service).unwrap_or_default();
            let places = pools.entry(pool).or_default();
            self.gains(service, had, &has, places, &mut judged);
        }
        pools
            .into_values()
            .for_each(|places| places.judge(&freed, &mut judged));
        judged
    }

    fn losses(
        &self,
        service: &str,
        had: &BTreeSet<String>,
        has: &BTreeSet<String>,
        judged: &mut Judged,
    ) {
        let lost: BTreeSet<&String> = had.difference(has).collect();
        let is_named = self.effect(LOST, service).is_some();
        let may_move = self.effect(MAY_MOVE, service).is_some();
        judged.lost += usize::from(!lost.is_empty() && is_named);
        judged.may_move += usize::from(may_move);
        judged.moved_by_chance += usize::from(may_move && !lost.is_empty());
        if !lost.is_empty() && !is_named && !may_move {
            judged.unnamed += 1;
            judged.fault(service, format!("had {had:?} and has {has:?}, unnamed"));
        }
        if is_named && lost.is_empty() && !had.is_empty() {
            judged.stayed += 1;
            judged.fault(service, format!("keeps {had:?}, which was named"));
        }
    }

    /// Addresses that Services lost which might move.
    fn freed(&self, before: &Addresses, after: &Addresses) -> BTreeSet<String> {
        let none = BTreeSet::new();
        let moving = before
            .iter()
            .filter(|(service, _)| self.effect(MAY_MOVE, service).is_some());
        let lost =
            moving.flat_map(|(service, had)| had.difference(after.get(service).unwrap_or(&none)));
        lost.cloned().collect()
    }

    fn gains<'s>(
        &'s self,
        service: &'s str,
        had: &BTreeSet<String>,
        has: &BTreeSet<String>,
        places: &mut Places<'s>,
        judged: &mut Judged,
    ) {
        let new: Vec<&String> = has.difference(had).collect();
        if self.effect(MAY_MOVE, service).is_some() {
            places.moved += usize::from(!new.is_empty() && !had.is_empty());
        }
        if self
            .gain(service)
            .is_some_and(|named| named.contains(BY_CHANCE))
        {
            judged.may_gain += 1;
            judged.gained_by_chance += usize::from(!new.is_empty());
        }
        match (self.gain(service), new.first()) {
            (None, None) => {}
            (None, Some(_)) if self.effect(MAY_MOVE, service).is_some() && !had.is_empty() => {}
            (None, Some(address)) => places.unnamed.push((service, (*address).clone())),
            // It may lose what it gets.
            (Some(_), None) if self.effect(MAY_MOVE, service).is_some() => {}
            (Some(named), None) if named.contains(BY_CHANCE) => {}
            (Some(_), None) => places.missing.push(service),
            (Some(named), Some(address)) if covers(named, address) => judged.gained += 1,
            (Some(named), Some(address)) => {
                places.elsewhere.push((service, (*address).clone(), named));
            }
        }
    }
}

/// Whether a named gain is this address: the text names it, or its pool.
fn covers(named: &str, address: &str) -> bool {
    let words = named.split([' ', ',', ';']).filter(|word| !word.is_empty());
    let fits = |word: &str| {
        let of_pool = prefix_of(word).is_some_and(|prefix| address.starts_with(&prefix));
        word == address || of_pool
    };
    named.contains("earlier hop") || words.into_iter().any(fits)
}

fn pool_of(clusters: &[Cluster], service: &str) -> Option<String> {
    let (namespace, name) = service.split_once('/')?;
    let cluster = clusters
        .iter()
        .find(|cluster| cluster.namespace() == namespace)?;
    cluster.pool_of(name)
}

impl Places<'_> {
    fn judge(self, freed: &BTreeSet<String>, judged: &mut Judged) {
        let Places {
            unnamed,
            missing,
            elsewhere,
            moved,
        } = self;
        for (service, address, named) in elsewhere {
            if freed.contains(&address) {
                judged.gained += 1;
            } else {
                judged.unnamed += 1;
                judged.fault(service, format!("has {address}, and was named: {named}"));
            }
        }
        let mut missing = missing.into_iter();
        let mut shared = BTreeSet::new();
        for (service, address) in unnamed {
            // In the place of another one, or with one that is, or with an address that moved by
            // chance.
            let is_allowed = freed.contains(&address) || shared.contains(&address);
            if is_allowed || missing.next().is_some() {
                judged.gained += 1;
                shared.insert(address);
            } else {
                judged.unnamed += 1;
                judged.fault(service, format!("gets {address}, unnamed"));
            }
        }
        for service in missing.skip(moved) {
            judged.stayed += 1;
            judged.fault(service, "gets no address, which was named".to_owned());
        }
    }
}

impl Judged {
    fn fault(&mut self, service: &str, text: String) {
        let namespace = service.split('/').next().unwrap_or_default();
        self.faults.push(Fault {
            namespace: namespace.to_owned(),
            text: format!("{service} {text}"),
        });
    }
}
