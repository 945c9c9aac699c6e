//! Cases on files: each folder below `cases/GROUP` has a cluster and pools, and `expect` with
//! commands and what each must show. Knows no case by its name.
//!
//! - `cluster.yaml` has the objects of the case. They are added to the group's `cluster.yaml`; an
//!   object of the same kind and name replaces that of the group.
//! - `pools.yaml` has the documents; without it, those of the group count.
//! - `expect` has commands and expectations, a line each. `#` begins a comment.
//!
//! ```text
//! $ plan -o json                      runs on cluster.json; fails unless the exit code is 0 or `exit`
//! exit 8                              or `exit any`
//! /blocked/0/name = "n1"              the value at this place of the JSON output
//! /findings/[rule=host-bits]/help ~ 24    a text in it; `[field=value]` is the first such element,
//!                                     where `~1` is a slash
//! /findings !~ host-bits              no such text
//! /blocked/0/reason ^ k3s             a text that begins with this
//! /changes/length = 1                 the number of elements
//! stdout ~ No changes                 a text of stdout, stderr, both (`output`), or of cluster.json
//!                                     after the command
//! cluster unchanged                   cluster.json is as it was before the command
//! DIR/a.yaml ~ # Disabled             a text of a file
//! DIR/a.yaml:/[metadata.name=a]/spec/disabled = true     a value in its documents
//! DIR/b.yaml is missing
//! stdout is empty
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{Folder, Ran, args, repository};

const CASES: &str = "tests/it/cases";

/// A test for the groups of each line, and one that no group is forgotten.
macro_rules! groups {
    ($($test:ident: $($group:literal),+;)+) => {
        $(
            #[test]
            fn $test() {
                $(run_group($group);)+
            }
        )+

        #[test]
        fn every_group_runs() {
            let groups = BTreeSet::from([$($($group.to_owned()),+),+]);
            let entries = std::fs::read_dir(repository().join(CASES)).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert_eq!(names.collect::<BTreeSet<String>>(), groups);
        }
    };
}

groups! {
    blocked_changes: "blocked";
    addresses_in_use: "in-use";
    cluster_files_that_are_refused: "refused-clusters";
    blocks_that_no_agent_reads: "unread-blocks";
    explanations_of_services: "explain-services";
    hostnames_of_services: "hostnames";
    imports_of_nodes: "import";
    load_balancers: "load-balancers";
    pools_of_pods: "pod-pools";
    misplaced_blocks: "misplaced";
    nodes_that_cannot_move: "node-config";
    upgrades: "upgrade";
    claims_and_quarantines: "claims", "claims-dual-stack";
    where_cilium_runs: "cilium-identity";
    slots_of_the_operator: "operator-slots";
    other_allocators: "allocators";
}

/// Runs every case of a group, and fails with all that is not as expected.
fn run_group(group: &str) {
    let group = repository().join(CASES).join(group);
    let entries = std::fs::read_dir(&group).unwrap();
    let mut cases: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.is_dir());
    cases.sort();
    assert!(!cases.is_empty(), "no case in {}", group.display());
    let failures: Vec<String> = cases
        .iter()
        .flat_map(|case| failures(&group, case))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn failures(group: &Path, case: &Path) -> Vec<String> {
    let folder = folder(group, case);
    let expect = std::fs::read_to_string(case.join("expect")).unwrap();
    let lines = expect.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let mut failures = Vec::new();
    for step in lines.chunk_by(|_, next| !next.starts_with("$ ")) {
        let command = step[0].strip_prefix("$ ").expect("a command comes first");
        let before = folder.read("cluster.json");
        let cluster = match command.starts_with("validate") {
            true => "",
            false => "--cluster-file cluster.json",
        };
        let ran = folder.run(&args(&format!("{command} {cluster}")));
        let broken = step[1..]
            .iter()
            .filter(|line| !holds(line, &folder, &ran, &before));
        let mut broken: Vec<&str> = broken.copied().collect();
        if ran.code != 0 && !step.iter().any(|line| line.starts_with("exit ")) {
            broken.push("exit 0");
        }
        if !broken.is_empty() {
            let (name, broken) = (case.display(), broken.join("\n"));
            failures.push(format!("{name}: $ {command}\n{broken}\n{}", ran.all()));
        }
    }
    failures
}

/// A folder with `pools` and `cluster.json` of the case.
fn folder(group: &Path, case: &Path) -> Folder {
    let mut items = objects(&group.join("cluster.yaml"));
    for object in objects(&case.join("cluster.yaml")) {
        let is_same = |one: &&mut Value| identity(one) == identity(&object);
        match items.iter_mut().find(is_same) {
            Some(replaced) => *replaced = object,
            None => items.push(object),
        }
    }
    let pools = [case, group].map(|folder| folder.join("pools.yaml"));
    let pools = pools
        .iter()
        .find_map(|path| std::fs::read_to_string(path).ok());
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Folder::new(&[
        ("cluster.json", &format!("{list}\n")),
        (
            "pools/pools.yaml",
            &pools.expect("pools of the case or of its group"),
        ),
    ])
}

fn objects(path: &Path) -> Vec<Value> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Vec::new();
    };
    // A node may be called `n`, which is a boolean in YAML 1.1.
    let options = serde_yaml::options! { strict_booleans: true };
    serde_yaml::from_multiple_with_options(&text, options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn identity(object: &Value) -> [&Value; 3] {
    let metadata = &object["metadata"];
    [&object["kind"], &metadata["namespace"], &metadata["name"]]
}

/// Whether a line of `expect` holds after a command.
fn holds(line: &str, folder: &Folder, ran: &Ran, before: &str) -> bool {
    if let Some(code) = line.strip_prefix("exit ") {
        return code == "any" || code.parse() == Ok(ran.code);
    }
    if line == "cluster unchanged" {
        return folder.read("cluster.json") == before;
    }
    if line == "stdout is empty" {
        return ran.stdout.is_empty();
    }
    if let Some(path) = line.strip_suffix(" is missing") {
        return !folder.join(path).exists();
    }
    let (place, operator, expected) = parts(line).unwrap_or_else(|| panic!("what is `{line}`?"));
    let found = match place {
        "output" => json!(format!("{}{}", ran.stdout, ran.stderr)),
        "stdout" => json!(ran.stdout),
        "stderr" => json!(ran.stderr),
        "cluster" => json!(folder.read("cluster.json")),
        place if place.starts_with('/') => at(
            &serde_json::from_str(&ran.stdout).unwrap_or_default(),
            place,
        ),
        place => match place.split_once(':') {
            Some((file, place)) => at(&json!(objects(&folder.join(file))), place),
            None => json!(std::fs::read_to_string(folder.join(place)).ok()),
        },
    };
    let text = found
        .as_str()
        .map_or_else(|| found.to_string(), str::to_owned);
    match operator {
        "=" => serde_json::from_str(expected).is_ok_and(|expected: Value| found == expected),
        "~" => text.contains(expected),
        "^" => text.starts_with(expected),
        // What is not there has no text either, and proves nothing.
        _ => !found.is_null() && !text.contains(expected),
    }
}

/// Place, operator and expected text.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (place, rest) = line.split_once(' ')?;
    let (operator, expected) = rest.split_once(' ')?;
    ["=", "~", "!~", "^"]
        .contains(&operator)
        .then_some((place, operator, expected))
}

/// The value at a place; null if there is none.
fn at(value: &Value, place: &str) -> Value {
    let mut found = value.clone();
    for step in place.split('/').filter(|step| !step.is_empty()) {
        let selected = step
            .strip_prefix('[')
            .and_then(|step| step.strip_suffix(']'));
        found = match (selected, &found) {
            (Some(selected), Value::Array(items)) => {
                let (field, wanted) = selected.split_once('=').expect("[field=value]");
                let wanted = wanted.replace("~1", "/");
                let field = format!("/{}", field.replace('.', "/"));
                let is_it = |item: &&Value| item.pointer(&field).is_some_and(|is| *is == wanted);
                items.iter().find(is_it).cloned().unwrap_or_default()
            }
            (_, Value::Array(items)) if step == "length" => json!(items.len()),
            _ => found
                .pointer(&format!("/{step}"))
                .cloned()
                .unwrap_or_default(),
        };
    }
    found
}
