//! The parts of the files that a migration reads, as they were when a user approved it, and the
//! differences of other files. It must never decide whether a difference is approved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::sync::Arc;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::document::ScheduleDocument;
use super::record::NodeRecord;
use ipam_core::alloc::WhenFull;
use ipam_core::model::{NodeName, Origin, PoolName};
use ipam_desired::{
    AddressPairs, Desired, MaintenanceWindow, MigrationPolicy, Pin, Pool, PoolState, time_zone,
};
use ipam_plan::plan::sha256_hex;

/// The origin of what the record of a migration says.
const RECORD: &str = "the record of the migration";

/// The parts of the files that a user approved with a migration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovedFiles {
    /// SHA-256 over the rest.
    pub digest: String,
    /// `migration.windows` of the Policy.
    pub windows: Vec<WindowDocument>,
    /// `migration.maxUnavailable` of the Policy.
    pub max_unavailable: usize,
    pub quarantine_seconds: i64,
    pub excluded: Vec<String>,
    /// Whether the Policy keeps allowed address pairs: `ignored` or `pod-cidrs`.
    pub address_pairs: AddressPairs,
    /// The pools of the new blocks.
    pub pools: BTreeMap<String, PoolDocument>,
    /// The pins of the nodes that move.
    pub pins: BTreeMap<String, String>,
    /// Nodes that move, and that are protected.
    pub protected: BTreeSet<NodeName>,
}

/// What a record keeps of a [`MaintenanceWindow`]: text, without its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowDocument {
    pub schedule: String,
    pub duration: String,
    pub time_zone: String,
}

/// What a record keeps of a [`Pool`]: its meaning as text, without its name and places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolDocument {
    pub cidrs: Vec<String>,
    pub block_size: Vec<String>,
    pub node_selector: String,
    pub priority: i32,
    pub reserved: Vec<String>,
    #[serde(default)]
    pub retiring: Vec<String>,
    /// `active` or `disabled`.
    pub state: PoolState,
    #[serde(default)]
    pub when_full: WhenFull,
}

fn texts<T: ToString>(values: impl IntoIterator<Item = T>) -> Vec<String> {
    values.into_iter().map(|value| value.to_string()).collect()
}

impl From<&MaintenanceWindow> for WindowDocument {
    fn from(window: &MaintenanceWindow) -> WindowDocument {
        WindowDocument {
            schedule: window.schedule.to_string(),
            duration: format!("{:#}", window.duration),
            time_zone: window.time_zone.iana_name().unwrap_or("UTC").to_owned(),
        }
    }
}

impl Display for WindowDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WindowDocument {
            schedule,
            duration,
            time_zone,
        } = self;
        write!(f, "`{schedule}` for {duration} ({time_zone})")
    }
}

impl WindowDocument {
    fn window(&self) -> Option<MaintenanceWindow> {
        Some(MaintenanceWindow {
            schedule: self.schedule.parse().ok()?,
            duration: self.duration.parse::<SignedDuration>().ok()?,
            time_zone: time_zone(&self.time_zone).ok()?,
            origin: Origin::whole_file(&Arc::from(RECORD)),
        })
    }
}

impl From<&Pool> for PoolDocument {
    fn from(pool: &Pool) -> PoolDocument {
        let Pool {
            name: _,
            origin: _,
            ranges,
            block_size,
            selector,
            priority,
            reserved,
            retiring,
            state,
            when_full,
        } = pool;
        PoolDocument {
            cidrs: texts(ranges.iter().map(|range| range.block)),
            block_size: texts(block_size.iter()),
            node_selector: selector.to_string(),
            priority: *priority,
            reserved: texts(reserved),
            retiring: texts(retiring.iter().map(|range| range.block)),
            state: *state,
            when_full: *when_full,
        }
    }
}

fn pin_text(pin: &Pin) -> String {
    let blocks = texts(pin.blocks.iter());
    format!("{} of pool {}", blocks.join(", "), pin.pool)
}

impl ApprovedFiles {
    /// The parts of the files that a schedule depends on.
    pub fn new(desired: &Desired, schedule: &ScheduleDocument) -> ApprovedFiles {
        let policy = &desired.policy;
        let pools: BTreeSet<&PoolName> = schedule.moves.iter().map(|one| &one.pool).collect();
        let nodes: BTreeSet<&NodeName> = schedule.moves.iter().map(|one| &one.node).collect();
        let is_meant = |node: &&NodeName| nodes.contains(*node);
        let mut files = ApprovedFiles {
            digest: String::new(),
            windows: policy.migration.windows.iter().map(Into::into).collect(),
            max_unavailable: policy.migration.max_unavailable.get(),
            quarantine_seconds: policy.quarantine.as_secs(),
            excluded: texts(&policy.excluded),
            address_pairs: policy.address_pairs,
            pools: (desired.pools.iter())
                .filter(|(name, _)| pools.contains(*name))
                .map(|(name, pool)| (name.to_string(), pool.into()))
                .collect(),
            pins: (desired.pins.iter())
                .filter(|(node, _)| is_meant(node))
                .map(|(node, pin)| (node.to_string(), pin_text(pin)))
                .collect(),
            protected: (policy.protected.nodes.iter())
                .filter(is_meant)
                .cloned()
                .collect(),
        };
        files.digest = sha256_hex(&serde_json::json!(files).to_string());
        files
    }

    /// What differs in other files, one line for each field.
    pub fn differences(&self, now: &ApprovedFiles) -> Vec<String> {
        // Every field is named, so that a new one cannot be forgotten here.
        let ApprovedFiles {
            digest,
            windows,
            max_unavailable,
            quarantine_seconds,
            excluded,
            address_pairs,
            pools,
            pins,
            protected,
        } = self;
        if *digest == now.digest {
            return Vec::new();
        }
        let mut lines = Lines(Vec::new());
        let policy = "the Policy";
        lines.list(policy, "migration.windows", windows, &now.windows);
        let most = (max_unavailable, &now.max_unavailable);
        lines.value(policy, "migration.maxUnavailable", most.0, most.1);
        let rest = [*quarantine_seconds, now.quarantine_seconds].map(SignedDuration::from_secs);
        let [then, new] = rest.map(|rest| format!("{rest:#}"));
        lines.value(policy, "quarantine", &then, &new);
        lines.list(policy, "excluded", excluded, &now.excluded);
        let pairs = (address_pairs, &now.address_pairs);
        lines.value(policy, "addressPairs", pairs.0, pairs.1);
        for (name, pool) in pools {
            let place = format!("pool {name}");
            match now.pools.get(name) {
                Some(now) => pool.differences(&place, now, &mut lines),
                None => lines.0.push(format!("{place}: not in the files now")),
            }
        }
        let added = now.pools.keys().filter(|name| !pools.contains_key(*name));
        lines.0.extend(
            added.map(|name| format!("pool {name}: not in the files when it was approved")),
        );
        for node in pins.keys().chain(now.pins.keys()).collect::<BTreeSet<_>>() {
            let of = |pins: &BTreeMap<String, String>| {
                pins.get(node).map_or("none", String::as_str).to_owned()
            };
            lines.value(
                &format!("node {node}"),
                "its pin",
                &of(pins),
                &of(&now.pins),
            );
        }
        for node in protected.symmetric_difference(&now.protected) {
            let words = match now.protected.contains(node) {
                true => "protected now, and not when it was approved",
                false => "not protected now, and protected when it was approved",
            };
            lines.0.push(format!("node {node}: {words}"));
        }
        lines.0
    }

    /// The windows and the number of nodes at a time. `None` if this program does not understand
    /// them.
    pub fn policy(&self) -> Option<MigrationPolicy> {
        let windows: Option<Vec<MaintenanceWindow>> =
            self.windows.iter().map(WindowDocument::window).collect();
        Some(MigrationPolicy {
            windows: windows?,
            max_unavailable: NonZeroUsize::new(self.max_unavailable)?,
        })
    }
}

/// Nodes that these files cannot move to their recorded blocks: the pool is gone, or it does not
/// contain the block any more.
pub fn unreachable<'r>(
    desired: &Desired,
    nodes: impl Iterator<Item = &'r NodeRecord>,
) -> Vec<String> {
    let pending = nodes.filter(|one| !one.is_done() && one.method.renumbers());
    let lines = pending.filter_map(|one| {
        let NodeRecord { node, pool, to, .. } = one;
        let Some(known) = desired.pools.get(pool) else {
            let is_subnet = desired.neutron_pools.contains_key(pool);
            return (!is_subnet).then(|| format!("node {node}: pool {pool} is not in the files"));
        };
        let outside = to.iter().find(|block| !known.contains(**block))?;
        Some(format!(
            "node {node}: {outside} is not in pool {pool} any more"
        ))
    });
    lines.collect()
}

/// Lines that describe differences between approved and current files.
struct Lines(Vec<String>);

impl Lines {
    fn value<T: PartialEq + Display>(&mut self, place: &str, field: &str, then: &T, now: &T) {
        if then != now {
            let line = format!("{place}: {field}: {now} now, {then} when it was approved");
            self.0.push(line);
        }
    }

    fn list<T: PartialEq + Display>(&mut self, place: &str, field: &str, then: &[T], now: &[T]) {
        let text = |values: &[T]| match values.is_empty() {
            true => "none".to_owned(),
            false => texts(values).join(", "),
        };
        self.value(place, field, &text(then), &text(now));
    }
}

impl PoolDocument {
    fn differences(&self, place: &str, now: &PoolDocument, lines: &mut Lines) {
        let PoolDocument {
            cidrs,
            block_size,
            node_selector,
            priority,
            reserved,
            retiring,
            state,
            when_full,
        } = self;
        lines.list(place, "cidrs", cidrs, &now.cidrs);
        lines.list(place, "blockSize", block_size, &now.block_size);
        lines.value(place, "nodeSelector", node_selector, &now.node_selector);
        lines.value(place, "priority", priority, &now.priority);
        lines.list(place, "reserved", reserved, &now.reserved);
        lines.list(place, "retiring", retiring, &now.retiring);
        lines.value(place, "state", state, &now.state);
        lines.value(place, "whenFull", when_full, &now.when_full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::stored_record;

    fn window(schedule: &str) -> MaintenanceWindow {
        WindowDocument {
            schedule: schedule.to_owned(),
            duration: "4h".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
        }
        .window()
        .unwrap()
    }

    #[test]
    fn windows_of_the_record_are_those_of_the_files() {
        let mut desired = Desired::default();
        desired.policy.migration.windows = vec![window("0 22 * * 6"), window("0 1 * * *")];
        desired.policy.migration.windows[1].time_zone = jiff::tz::TimeZone::UTC;
        let files = ApprovedFiles::new(&desired, &stored_record(2).schedule);
        let read = files.policy().unwrap();
        let now = "2026-11-25T12:00Z".parse().unwrap();
        assert_eq!(read.state_at(now), desired.policy.migration.state_at(now));
        let texts: Vec<WindowDocument> = read.windows.iter().map(Into::into).collect();
        assert_eq!(texts, files.windows);
    }

    #[test]
    fn what_differs_is_told_by_field() {
        let schedule = stored_record(2).schedule;
        let approved = ApprovedFiles::new(&Desired::default(), &schedule);
        assert!(approved.differences(&approved.clone()).is_empty());
        let mut desired = Desired::default();
        desired.policy.migration.windows = vec![window("0 22 * * 6")];
        desired.policy.migration.max_unavailable = NonZeroUsize::new(5).unwrap();
        let node = schedule.moves[0].node.clone();
        desired.policy.protected.nodes.insert(node);
        let now = ApprovedFiles::new(&desired, &schedule);
        let expected = [
            "the Policy: migration.windows: `0 22 * * 6` for 4h (Europe/Berlin) now, none when it was approved",
            "the Policy: migration.maxUnavailable: 5 now, 1 when it was approved",
            "node worker-00000.eu-central-1.compute.example.com: protected now, and not when it was approved",
        ];
        assert_eq!(approved.differences(&now), expected);
    }

    #[test]
    fn pools_and_pins_are_compared_by_field() {
        let pool = |cidr: &str| PoolDocument {
            cidrs: vec![cidr.to_owned()],
            block_size: vec!["/24".to_owned()],
            node_selector: "rack=a".to_owned(),
            priority: 0,
            reserved: Vec::new(),
            retiring: Vec::new(),
            state: PoolState::Active,
            when_full: WhenFull::NextPool,
        };
        let mut approved = ApprovedFiles::new(&Desired::default(), &stored_record(1).schedule);
        approved.pools = [("a".to_owned(), pool("10.1.0.0/16"))].into();
        let mut now = approved.clone();
        now.digest = "another".to_owned();
        now.pools = [("a".to_owned(), pool("10.2.0.0/16"))].into();
        now.pins = [("n1".to_owned(), "10.2.0.0/24 of pool a".to_owned())].into();
        let expected = [
            "pool a: cidrs: 10.2.0.0/16 now, 10.1.0.0/16 when it was approved",
            "node n1: its pin: 10.2.0.0/24 of pool a now, none when it was approved",
        ];
        assert_eq!(approved.differences(&now), expected);
        now.pools.clear();
        now.pins.clear();
        assert_eq!(approved.differences(&now), ["pool a: not in the files now"]);
    }
}
