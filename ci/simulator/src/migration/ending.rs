//! What must hold when a migration is over and the cluster is calm.

use std::collections::BTreeMap;

use serde_json::Value;

use super::history::History;
use super::people::{Cordon, Wanted, team_taints};
use super::world::{Kind, State};
use ipam_cilium::observed::{CLAIMS_KEY, CLAIMS_NAME};
use ipam_controller::migration::{Ended, RESERVED_FOR};
use ipam_core::net::{Block, Range};
use ipam_migrate::migration::MIGRATION_ANNOTATION;

impl History<'_> {
    pub(super) fn check_end(&mut self) {
        let is_excused = self.is_excused();
        match &self.ended {
            Some(Ended::Done) => self.moves.done += 1,
            Some(Ended::Undone) => self.moves.undone += 1,
            Some(Ended::Stopped(why)) if !is_excused => {
                let why = format!("it stopped although nothing was in its way: {why}");
                self.world.lock().violated(why);
                return;
            }
            _ => self.moves.stopped += 1,
        }
        let ended = self.ended.clone();
        for name in self.movers() {
            let mut state = self.world.lock();
            if state.books.lost.contains(&name) {
                continue;
            }
            self.moves.moves += 1;
            state.check_node(&name, ended.as_ref());
        }
        if self.records() == 0 {
            self.world
                .lock()
                .violated("there are no records".to_owned());
        }
        if matches!(ended, Some(Ended::Done | Ended::Undone)) {
            self.world.lock().check_reservations();
        }
        let mut state = self.world.lock();
        state.check();
        self.moves.taken_by_operator = state.books.taken_by_operator;
    }
}

fn blocks(list: &Value) -> Vec<Block> {
    let texts = list.as_array().into_iter().flatten();
    let texts = texts.filter_map(Value::as_str);
    let mut blocks: Vec<Block> = texts.filter_map(|text| text.parse().ok()).collect();
    blocks.sort();
    blocks
}

impl State {
    fn check_node(&mut self, name: &str, ended: Option<&Ended>) {
        let record = self.record_of(name).unwrap_or_default();
        let is_done = record["phase"] == "done" && record["failure"].is_null();
        let goal = match (ended, record["direction"] == "back") {
            (Some(Ended::Done), true) => {
                return self.violated(format!("{name}: the migration is done, and it went back"));
            }
            (Some(Ended::Done), false) => blocks(&record["to"]),
            (Some(Ended::Undone), _) => blocks(&record["from"]),
            (_, true) => blocks(&record["from"]),
            (_, false) if record["phase"] == "pending" || record.is_null() => return,
            (_, false) => blocks(&record["to"]),
        };
        let was_never_moved = record.is_null() || record["phase"] == "pending";
        if matches!(ended, Some(Ended::Done | Ended::Undone)) && !is_done && !was_never_moved {
            return self.violated(format!("{name}: it is not done: {}", record["phase"]));
        }
        if !is_done {
            return;
        }
        let mut used = self
            .machines
            .get(name)
            .map(|one| one.in_use.clone())
            .unwrap_or_default();
        used.sort();
        if used != goal {
            self.violated(format!("{name}: its agent uses {used:?}, not {goal:?}"));
        }
        self.check_object(name);
        self.check_pods(name, &used);
    }

    /// The Node is as the person last left it.
    fn check_object(&mut self, name: &str) {
        let (Some(node), Some(wanted)) =
            (self.get(Kind::Node, name), self.wanted.get(name).cloned())
        else {
            return self.violated(format!("{name}: the Node is gone"));
        };
        let annotations = &node["metadata"]["annotations"];
        if !annotations[MIGRATION_ANNOTATION].is_null() {
            self.violated(format!("{name}: the mark stays"));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let map = |value: &Value| -> BTreeMap<String, String> {
            let fields = value.as_object().into_iter().flatten();
            let fields = fields.map(|(key, value)| (key.clone(), text(value)));
            fields.filter(|(key, _)| !key.contains("cilium")).collect()
        };
        let seen = Wanted {
            labels: map(&node["metadata"]["labels"]),
            annotations: map(annotations),
            taints: team_taints(&node["spec"]),
            cordon: match node["spec"]["unschedulable"] == true {
                true => Cordon::Yes,
                false => Cordon::No,
            },
        };
        if seen != wanted {
            self.violated(format!(
                "{name}: a person left {wanted:?}, and it is {seen:?}"
            ));
        }
    }

    fn check_pods(&mut self, name: &str, used: &[Block]) {
        for (key, pod) in self.all(Kind::Pod) {
            let Some(address) = pod["status"]["podIP"].as_str() else {
                continue;
            };
            let address = address.parse::<std::net::IpAddr>().ok();
            let range = address.map(|address| Range::from(ipam_core::net::Address::from(address)));
            let lies_in = |range: Range| used.iter().any(|block| block.range().overlaps(&range));
            if pod["spec"]["nodeName"] == name && range.is_some_and(|range| !lies_in(range)) {
                self.violated(format!("{name}: {key} has {address:?}, outside {used:?}"));
            }
        }
    }

    /// What stays in the claims is an ordinary quarantine.
    fn check_reservations(&mut self) {
        let Some(claims) = self.get(Kind::Claims, CLAIMS_NAME) else {
            return;
        };
        let text = claims["data"][CLAIMS_KEY].as_str().unwrap_or_default();
        let claims: Value = serde_json::from_str(text).unwrap_or_default();
        let now = self.now;
        for one in claims["quarantined"].as_array().into_iter().flatten() {
            let free_at = one["free_at"]
                .as_str()
                .and_then(|text| text.parse::<jiff::Timestamp>().ok());
            let left = free_at.map(|at| at.duration_since(now));
            if left.is_none_or(|left| left > RESERVED_FOR / 2) {
                self.violated(format!("a reservation stays: {one}"));
            }
        }
    }
}
