//! A scenario: what happens to a few pools and Services, as one line of `scenarios.txt`.
//!
//! Knows nothing of operators. Each scenario has a /24 and a label of its own, so that many of them
//! run on one control plane without meeting.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::lb::{POOLS, SERVICES, address_pool};

const SCENARIOS: &str = "tests/it/transitions/scenarios.txt";
const RESTART: &str = "restart";
const IPS: &str = "lbipam.cilium.io/ips";

/// One thing that people or programs do.
#[derive(Clone, Debug)]
pub enum Action {
    /// Creates the pool, or replaces its spec.
    Pool {
        name: String,
        spec: Value,
    },
    DeletePool(String),
    /// Creates the Service, or replaces what the line says of it.
    Service {
        name: String,
        object: Value,
    },
    DeleteService(String),
}

/// What happens at once.
pub type Wave = Vec<Action>;

#[derive(Debug)]
pub struct Scenario {
    /// The heading above its line.
    pub group: String,
    pub title: String,
    /// Versions, such as `1.20`, whose operator panics.
    pub fatal: Vec<String>,
    /// First in the names of its objects, with `-` after it.
    pub id: String,
    /// Waves between restarts of the operator; the last restart is that of all scenarios.
    pub parts: Vec<Vec<Wave>>,
}

/// The id in the name of an object.
pub fn id_of(name: &str) -> &str {
    name.split_once('-').map_or(name, |(id, _)| id)
}

/// All of `scenarios.txt`, in its order.
pub fn scenarios() -> Vec<Scenario> {
    let text =
        std::fs::read_to_string(super::super::support::repository().join(SCENARIOS)).unwrap();
    let mut group = "";
    let mut scenarios = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(heading) => group = heading.trim_end_matches('.'),
            None => scenarios.push(scenario(scenarios.len(), group, line)),
        }
    }
    scenarios
}

fn waves_of(line: &str) -> impl Iterator<Item = &str> {
    line.split('|').map(str::trim)
}

fn scenario(index: usize, group: &str, line: &str) -> Scenario {
    let words = || waves_of(line).next().unwrap_or_default().split_whitespace();
    let fatal = words()
        .filter_map(|word| word.strip_prefix('!'))
        .map(str::to_owned);
    let title: Vec<&str> = words().filter(|word| !word.starts_with('!')).collect();
    let title = title.join(" ");
    let space = Space {
        id: format!("s{index:03}"),
        prefix: format!("10.{}.{}.", 100 + index / 200, index % 200),
    };
    let mut parts = vec![Vec::new()];
    for wave in waves_of(line).skip(1) {
        if wave == RESTART {
            parts.push(Vec::new());
        } else {
            let actions = wave.split(';').flat_map(|text| space.actions(text));
            parts.last_mut().unwrap().push(actions.collect());
        }
    }
    Scenario {
        group: group.to_owned(),
        title,
        fatal: fatal.collect(),
        id: space.id,
        parts,
    }
}

/// Whether a Service of the wave may take an address that another one of it requests: the operator
/// may see them in any order.
pub fn races(wave: &Wave) -> bool {
    let requests = |action: &Action| match action {
        Action::Service { object, .. } => Some(!object["metadata"]["annotations"][IPS].is_null()),
        _ => None,
    };
    let requests: Vec<bool> = wave.iter().filter_map(requests).collect();
    requests.contains(&true) && requests.contains(&false)
}

impl Scenario {
    pub fn is_fatal_on(&self, version: testbed::CiliumVersion) -> bool {
        self.fatal
            .iter()
            .any(|minor| version.release().starts_with(&format!("{minor}.")))
    }
}

/// The names and addresses of one scenario.
struct Space {
    id: String,
    prefix: String,
}

impl Space {
    fn actions(&self, text: &str) -> Vec<Action> {
        let text = text.replace('@', &self.prefix);
        let words: Vec<&str> = text.split_whitespace().collect();
        let (settings, names): (Vec<&str>, Vec<&str>) =
            words[1..].iter().partition(|word| word.contains('='));
        let settings: BTreeMap<&str, &str> = settings
            .into_iter()
            .filter_map(|setting| setting.split_once('='))
            .collect();
        match (words[0], names.as_slice()) {
            ("pool", [name, ranges @ ..]) => vec![Action::Pool {
                name: self.name(name),
                spec: self.pool(ranges, &settings),
            }],
            ("service", names) => names
                .iter()
                .map(|name| Action::Service {
                    name: self.name(name),
                    object: self.service(name, &settings),
                })
                .collect(),
            ("delete", ["pool", name]) => vec![Action::DeletePool(self.name(name))],
            ("delete", ["service", names @ ..]) => names
                .iter()
                .map(|name| Action::DeleteService(self.name(name)))
                .collect(),
            _ => panic!("scenarios.txt: `{text}`"),
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.id)
    }

    fn pool(&self, ranges: &[&str], settings: &BTreeMap<&str, &str>) -> Value {
        let blocks: Vec<Value> = ranges.iter().map(|range| block(range)).collect();
        let mut labels = json!({"scenario": self.id, "color": null});
        let mut spec = json!({"blocks": blocks, "disabled": false, "allowFirstLastIPs": null});
        for (key, value) in settings {
            match *key {
                "color" => labels["color"] = json!(value),
                "first-last" => spec["allowFirstLastIPs"] = json!(value),
                "disabled" => spec["disabled"] = json!(*value == "yes"),
                _ => panic!("scenarios.txt: pool {key}={value}"),
            }
        }
        spec["serviceSelector"] = json!({"matchLabels": labels});
        spec
    }

    /// Both annotations say the same, so that a scenario means the same in all versions.
    fn service(&self, name: &str, settings: &BTreeMap<&str, &str>) -> Value {
        let mut labels = json!({"scenario": self.id, "color": null});
        let mut port = json!({"port": 80, "protocol": "TCP"});
        let mut policy = "Cluster";
        let mut annotations = json!({});
        for (newer, older) in [("ips", "ips"), ("sharing-key", "sharing-key")] {
            annotations[format!("lbipam.cilium.io/{newer}")] = Value::Null;
            annotations[format!("io.cilium/lb-ipam-{older}")] = Value::Null;
        }
        let mut annotate = |kind: &str, value: &str| {
            annotations[format!("lbipam.cilium.io/{kind}")] = json!(value);
            annotations[format!("io.cilium/lb-ipam-{kind}")] = json!(value);
        };
        for (key, value) in settings {
            match *key {
                "color" => labels["color"] = json!(value),
                "ip" => annotate("ips", value),
                "key" => annotate("sharing-key", &self.name(value)),
                "port" => port["port"] = json!(value.parse::<u16>().unwrap()),
                "protocol" => port["protocol"] = json!(value),
                "policy" => policy = value,
                _ => panic!("scenarios.txt: service {key}={value}"),
            }
        }
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.name(name), "labels": labels, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": [port], "externalTrafficPolicy": policy}})
    }
}

fn block(range: &str) -> Value {
    match range.split_once('-') {
        Some((start, stop)) => json!({"start": start, "stop": stop}),
        None if range.contains('/') => json!({"cidr": range}),
        None => json!({"start": range}),
    }
}

/// The object as a server keeps it: without what a merge patch removes.
pub fn without_nulls(object: &Value) -> Value {
    match object {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        other => other.clone(),
    }
}

impl Action {
    /// Does it.
    pub fn send(&self, plane: &testbed::ControlPlane) {
        let send = |path: &str, name: &str, object: &Value| {
            let created = plane.client().try_create(path, &without_nulls(object));
            match created.unwrap() {
                (200..=299, _) => {}
                (409, _) => drop(plane.patch(&format!("{path}/{name}"), object).unwrap()),
                (status, answer) => panic!("{name}: {status} {answer}"),
            }
        };
        match self {
            Action::Pool { name, spec } => send(POOLS, name, &address_pool(name, spec)),
            Action::Service { name, object } => send(SERVICES, name, object),
            Action::DeletePool(name) => {
                plane.delete(&format!("{POOLS}/{name}")).unwrap();
            }
            Action::DeleteService(name) => {
                plane.delete(&format!("{SERVICES}/{name}")).unwrap();
            }
        }
    }
}
