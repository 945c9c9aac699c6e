//! Records with which settings of ipam `cluster-pool` the real operators start, and what they log else.
//! A unit test of ipam-cilium holds its rules against the record.
//!
//! `INSTA_UPDATE=always cargo test --test it operator_settings -- --ignored` writes the record anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use testbed::{
    CiliumVersion, ControlPlane, Operator, Options, Program, Programs, build, find, or_skip,
};

use super::support::{Folder, repository};

const RECORD: &str = "crates/ipam-cilium/src/observed/operator_settings/recorded.json";
const STARTED: &str = "Starting ClusterPool IP allocator";
const STARTS: &str = "starts";
const PLANE: [Program; 2] = [Program::KubeApiserver, Program::Etcd];

/// Settings of the operator, and what each release does with them.
#[derive(Deserialize, Serialize)]
struct Row {
    settings: BTreeMap<String, String>,
    arguments: Vec<String>,
    operators: BTreeMap<String, String>,
}

fn record() -> PathBuf {
    repository().join(RECORD)
}

/// Compares the record of a release with its operator, or writes it.
fn check(version: CiliumVersion, programs: &Programs) {
    let plane = ControlPlane::start(programs, Options::default()).unwrap();
    let mut rows: Vec<Row> = serde_json::from_str(&fs::read_to_string(record()).unwrap()).unwrap();
    let mut differences = Vec::new();
    for row in &mut rows {
        let settings = mounted(&row.settings);
        let log = Operator::log_of_start(
            programs,
            &plane,
            version,
            settings.path(),
            &row.arguments,
            STARTED,
        );
        let seen = outcome(&log.unwrap());
        let recorded = row
            .operators
            .insert(version.release().to_owned(), seen.clone());
        if recorded.as_ref() != Some(&seen) {
            differences.push(format!("{:?} {:?}: {seen}", row.settings, row.arguments));
        }
    }
    if std::env::var("INSTA_UPDATE").as_deref() == Ok("always") {
        let lines: Vec<String> = rows
            .iter()
            .map(|row| format!("  {}", serde_json::to_string(row).unwrap()))
            .collect();
        fs::write(record(), format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
        return;
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A folder with a file for each setting, as Kubernetes mounts a ConfigMap.
fn mounted(settings: &BTreeMap<String, String>) -> Folder {
    let common = [
        ("ipam", "cluster-pool"),
        ("cluster-name", "default"),
        ("cluster-id", "0"),
    ];
    let settings = settings
        .iter()
        .map(|(key, text)| (key.as_str(), text.as_str()));
    let files: Vec<(&str, &str)> = common.into_iter().chain(settings).collect();
    Folder::new(&files)
}

/// That the operator starts, or the last error of its log, without what only one release says.
fn outcome(log: &str) -> String {
    if log.contains(STARTED) {
        return STARTS.to_owned();
    }
    let fatal = log
        .lines()
        .filter(|line| line.contains("level=fatal") || line.contains("Start hook failed"));
    let error = fatal.filter_map(|line| quoted(line, "error=")).next();
    let error = error.or_else(|| {
        log.lines()
            .find_map(|line| line.strip_prefix("Error: ").map(str::to_owned))
    });
    // A fault of the object graph is in the message.
    let error = error.or_else(|| {
        let message = quoted(
            log.lines().find(|line| line.contains("level=fatal"))?,
            "msg=",
        )?;
        let (_, error) = message.rsplit_once("* ")?;
        Some(error.split(".\nHint").next()?.to_owned())
    });
    let error = error.unwrap_or_else(|| panic!("no error in {log}"));
    error.replace("unable to init ClusterPool allocator: ", "")
}

/// The text of a field, whose quotes are as in JSON.
fn quoted(line: &str, field: &str) -> Option<String> {
    let (_, rest) = line.split_once(field)?;
    match rest.starts_with('"') {
        true => serde_json::Deserializer::from_str(rest)
            .into_iter()
            .next()?
            .ok(),
        false => rest.split(' ').next().map(str::to_owned),
    }
}

#[test]
#[ignore = "slow: starts each operator for each row; cargo xtask test --agent runs it"]
fn the_record_is_what_the_operators_do() {
    for version in CiliumVersion::ALL {
        if !CiliumVersion::ON_DEMAND.contains(&version) {
            let operator = Program::CiliumOperator(version);
            check(
                version,
                &build(&[PLANE.as_slice(), &[operator]].concat()).unwrap(),
            );
        }
    }
}

#[test]
#[ignore = "slow: starts each operator for each row; cargo xtask test --agent runs it"]
fn the_record_is_what_the_operators_between_do() {
    for version in CiliumVersion::ON_DEMAND {
        let operator = Program::CiliumOperator(version);
        check(version, &or_skip!(find(&[operator], &PLANE)));
    }
}
