//! Cases on files: each folder below `cases/GROUP` has a cluster and pools, and `expect` with
//! commands and what each must show. Knows no case by its name.
//!
//! - `cluster.yaml` has the objects of the case. They are added to the group's `cluster.yaml`; an
//!   object of the same kind and name replaces that of the group.
//! - `pools.yaml` has the documents; without it, those of the group count.
//! - `pools` has further files of the directory.
//! - `expect` has commands and expectations, a line each. `#` begins a comment.
//!
//! ```text
//! $ plan -o json                      runs on cluster.json; fails unless the exit code is 0 or `exit`
//! $ apply --auto-approve              adjacent commands share the expectations that follow
//! exit 8                              the exit code
//! /blocked/0/name = "n1"              the value at this place of the JSON output
//! /findings/[rule=host-bits]/help ~ 24    a text in it; `[field=value]` is the first such element,
//!                                     where `~1` is a slash
//! /findings !~ host-bits              no such text
//! /blocked/0/reason ^ k3s             a text that begins with this
//! /changes/length = 1                 the number of elements
//! /changes/0/cause = null             no such field; what is before the last slash must exist
//! stdout ~ No changes                 a text of stdout, stderr, or both (`output`)
//! cluster unchanged                   cluster.json is as it was before the command
//! DIR/a.yaml ~ # Disabled             a text of a file
//! DIR/a.yaml:/[metadata.name=a]/spec/disabled = true     a value in its documents
//! DIR/b.yaml is missing
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::{Folder, Ran, args, documents, repository};

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
    outlook_of_load_balancers: "lb-outlook";
    imports_of_nodes: "import";
    load_balancers: "load-balancers";
    pools_of_pods: "pod-pools";
    misplaced_blocks: "misplaced";
    nodes_that_cannot_move: "node-config";
    upgrades: "upgrade";
    claims_and_quarantines: "claims", "claims-dual-stack";
    where_cilium_runs: "cilium-identity";
    settings_of_the_operator: "operator-settings";
    slots_of_the_operator: "operator-slots", "operator-slots-other-nodes";
    other_allocators: "allocators";
    clusters_of_distributions: "distributions";
    causes_that_are_computed: "causes";
    announcements_of_blocks_and_services: "announcements";
    other_cni_plugins: "cni-chaining";
    conversions_to_multi_pool: "multi-pool-conversion";
    ignore_files: "ignore-files";
    capacities: "capacity";
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
    let is_command = |line: &&str| line.starts_with("$ ");
    let steps = lines.chunk_by(|line, next| is_command(line) || !is_command(next));
    let mut failures = Vec::new();
    for step in steps {
        let (commands, expected) = step.split_at(step.partition_point(is_command));
        assert!(!commands.is_empty(), "a command comes first");
        let commands = commands.iter().map(|line| &line[2..]);
        let failed = commands.filter_map(|command| failure(&folder, command, expected));
        failures.extend(failed.map(|failed| format!("{}: {failed}", case.display())));
    }
    failures
}

/// The expectations that do not hold after a command, with its output.
fn failure(folder: &Folder, command: &str, expected: &[&str]) -> Option<String> {
    let before = folder.read("cluster.json");
    let cluster = match command.starts_with("validate") {
        true => "",
        false => "--cluster-file cluster.json",
    };
    let ran = folder.run(&args(&format!("{command} {cluster}")));
    let lines = expected.iter().copied();
    let mut broken: Vec<&str> = lines
        .filter(|line| !holds(line, folder, &ran, &before))
        .collect();
    if ran.code != 0 && !expected.iter().any(|line| line.starts_with("exit ")) {
        broken.push("exit 0");
    }
    let report = || format!("$ {command}\n{}\n{}", broken.join("\n"), ran.all());
    (!broken.is_empty()).then(report)
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
    let folder = Folder::new(&[
        ("cluster.json", &format!("{list}\n")),
        (
            "pools/pools.yaml",
            &pools.expect("pools of the case or of its group"),
        ),
    ]);
    for file in files(&case.join("pools")) {
        let name = file.strip_prefix(case).unwrap().to_str().unwrap();
        folder.write(name, std::fs::read(&file).unwrap());
    }
    folder
}

/// The files below a folder that may not exist.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The documents of a file that may not exist.
fn objects(path: &Path) -> Vec<Value> {
    match path.exists() {
        true => documents(path),
        false => Vec::new(),
    }
}

fn identity(object: &Value) -> [&Value; 3] {
    let metadata = &object["metadata"];
    [&object["kind"], &metadata["namespace"], &metadata["name"]]
}

/// Whether a line of `expect` holds after a command.
pub fn holds(line: &str, folder: &Folder, ran: &Ran, before: &str) -> bool {
    if let Some(code) = line.strip_prefix("exit ") {
        return code.parse() == Ok(ran.code);
    }
    if line == "cluster unchanged" {
        return folder.read("cluster.json") == before;
    }
    let path = line.strip_suffix(" is missing");
    if let Some(path) = path.filter(|path| !path.contains(' ')) {
        return !folder.join(path).exists();
    }
    let (place, operator, expected) = parts(line).unwrap_or_else(|| panic!("what is `{line}`?"));
    let Some(found) = found(place, folder, ran) else {
        return false;
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

/// The value at a place after a command. `None` if stdout is not JSON, the file is missing, or the
/// path breaks before its last step.
fn found(place: &str, folder: &Folder, ran: &Ran) -> Option<Value> {
    match place {
        "output" => Some(json!(ran.all())),
        "stdout" => Some(json!(ran.stdout)),
        "stderr" => Some(json!(ran.stderr)),
        place if place.starts_with('/') => at(serde_json::from_str(&ran.stdout).ok()?, place),
        place => match place.split_once(':') {
            Some((file, place)) => at(json!(objects(&folder.join(file))), place),
            None => Some(json!(std::fs::read_to_string(folder.join(place)).ok()?)),
        },
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

/// The value at a place: null if only the last step is missing, `None` if an earlier one is.
fn at(mut found: Value, place: &str) -> Option<Value> {
    for step in place.split('/').filter(|step| !step.is_empty()) {
        if found.is_null() {
            return None;
        }
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
    Some(found)
}
