//! The page of metrics, made from the tables that define them.

use std::fmt::Write as _;

use super::generated::NOTE;
use crate::support::repository;

/// The metrics of one program.
pub struct Program {
    pub prefix: &'static str,
    /// Where they are defined.
    file: &'static str,
    /// The labels of those that have any. The registry tells them only with samples.
    labels: &'static [(&'static str, &'static str)],
}

pub const PROGRAMS: [Program; 2] = [
    Program {
        prefix: "cilium_ipam_",
        file: "crates/ipam-controller/src/telemetry/metrics.rs",
        labels: &[
            ("capacity", "`kind`, `name`, `family`, `state`"),
            ("capacity_unknown", "`kind`, `name`"),
            ("pool_nodes", "`pool`"),
            ("pool_exhausted", "`pool`"),
            ("blocked", "`kind`"),
            ("misplaced_nodes", "`reason`"),
            ("waiting", "`hazard`"),
            ("findings", "`rule`, `severity`"),
            ("writes_total", "`kind`, `outcome`"),
            ("source_revision", "`revision`"),
            ("build_info", "`version`"),
        ],
    },
    Program {
        prefix: "neutron_node_",
        file: "plugins/neutron-node/src/telemetry/mod.rs",
        labels: &[
            ("ports", "`network`, `state`"),
            ("warm_pool_wanted", "`network`"),
            ("garbage_candidates", "`network`"),
            ("lost_ports", "`network`"),
            ("failing", "`network`"),
            ("syncs_total", "`network`, `outcome`"),
            ("last_sync_timestamp_seconds", "`network`"),
            ("openstack_request_seconds", "`service`, `method`, `status`"),
            ("build_info", "`version`"),
        ],
    },
];

const HEAD: &str = "# Metrics

`watch --listen 127.0.0.1:9464` and the operator answer `/metrics` in the format of OpenMetrics. Alert
rules and a Grafana dashboard are in the chart: `monitoring` in its values, and `ci/chart/files`.

`capacity --listen 127.0.0.1:9464`, and the chart with `mode: observe`, only read: there, `capacity`,
`capacity_unknown`, `nodes`, `nodes_without_block`, `errors` and `trouble` tell something.
";

const TABLE: &str = "
| metric | type | labels | meaning |
|---|---|---|---|
";

const NOTES: &str = "
`misplaced_nodes` always has every reason, and `findings` always has `duplicate-block`. `conflicts` are
lost races, `errors` problems with the API server. `source_revision` has the applied commit of
`watch --revision`. `rollbacks` rises after [a restore of etcd](../how-to/restore-etcd.md).

## neutron-node

[The daemon](../how-to/openstack/daemon.md) of each node answers `/metrics` with `--listen`. `network` is
the name in the CNI configuration, or the path of a file that cannot be read.
";

/// The metrics as they are registered: name, kind, and meaning.
pub fn registered(program: &Program) -> Vec<(String, &'static str, String)> {
    let source = std::fs::read_to_string(repository().join(program.file)).unwrap();
    let (_, table) = source.split_once("http_server::metrics! {").unwrap();
    let (_, table) = table.split_once("\":\n").unwrap();
    let (table, _) = table.split_once(";\n}").unwrap();
    let mut found = Vec::new();
    for metric in table.split(";\n") {
        let (name, rest) = metric.trim().split_once(": ").unwrap();
        let (kind, rest) = rest.split_once('=').unwrap();
        let meaning = rest.split('"').nth(1).unwrap();
        let (kind, suffix) = match kind {
            kind if kind.contains("Counter") => ("counter", "_total"),
            kind if kind.contains("Histogram") => ("histogram", "_seconds"),
            _ => ("gauge", ""),
        };
        found.push((format!("{name}{suffix}"), kind, meaning.to_owned()));
    }
    found.push((
        "build_info".to_owned(),
        "info",
        "The running version".to_owned(),
    ));
    found
}

fn rows(program: &Program) -> String {
    let mut rows = TABLE.to_owned();
    for (name, kind, help) in registered(program) {
        let labels = program
            .labels
            .iter()
            .find(|(labelled, _)| *labelled == name)
            .map_or("", |(_, labels)| labels);
        let prefix = program.prefix;
        writeln!(rows, "| `{prefix}{name}` | {kind} | {labels} | {help} |").unwrap();
    }
    rows
}

/// Fails unless the page has each metric of this text, with its meaning. Without samples, a registry
/// shows only the metrics without labels.
#[track_caller]
pub fn has_all(page: &str, text: &str) {
    let shown: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
        .collect();
    assert!(shown.len() >= 8, "{text}");
    for line in shown {
        let (name, help) = line.split_once(' ').unwrap();
        let help = help.trim_end_matches('.');
        let is_there = |row: &str| row.starts_with(&format!("| `{name}")) && row.contains(help);
        assert!(page.lines().any(is_there), "{line}\n{page}");
    }
}

pub fn page() -> String {
    let [ours, node] = PROGRAMS.each_ref().map(rows);
    let page = format!("{NOTE}\n\n{HEAD}{ours}{NOTES}{node}");
    has_all(&page, &ipam_controller::Telemetry::default().text());
    page
}
