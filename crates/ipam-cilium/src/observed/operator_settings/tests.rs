//! Every row of `recorded.json`, which `tests/it/operator_settings.rs` records with real operators.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::setting_key::arguments_of;
use super::*;
use ipam_core::model::CiliumVersion;

const STARTS: &str = "starts";

#[derive(Deserialize)]
struct Row {
    settings: BTreeMap<String, String>,
    arguments: Vec<String>,
    /// By release: what the operator logs, or that it starts.
    operators: BTreeMap<String, String>,
}

fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("recorded.json")).unwrap()
}

/// What an operator of this release makes of a row.
fn read_row(row: &Row, release: CiliumVersion) -> OperatorSettings {
    let arguments = arguments_of(&row.arguments);
    let written = |key: &str| Written {
        config: row.settings.get(key).map(String::as_str),
        argument: arguments.get(key).map(String::as_str),
    };
    let pool = |family| WrittenPool {
        family,
        switch: written(switch_key(family)),
        ranges: written(ranges_key(family)),
        mask: written(mask_key(family)),
    };
    read(&Family::BOTH.map(pool), release)
}

#[test]
fn settings_are_read_as_the_operators_did() {
    let mut differences = Vec::new();
    let mut compared = 0;
    for row in rows() {
        for (release, recorded) in &row.operators {
            let read = read_row(&row, release.parse().unwrap());
            let words: Vec<&str> = read
                .rejections
                .iter()
                .map(|one| one.words.as_str())
                .collect();
            // Texts of `cilium-config` are checked in any order.
            let agrees = match recorded.as_str() {
                STARTS => words.is_empty(),
                logged => words.iter().any(|words| logged.contains(words)),
            };
            compared += 1;
            if !agrees {
                let Row {
                    settings,
                    arguments,
                    ..
                } = &row;
                differences.push(format!(
                    "{release} with {settings:?} {arguments:?}: {recorded}, not {words:?}"
                ));
            }
        }
    }
    assert!(compared > 600, "{compared}");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn ranges_without_blocks_are_seen() {
    for (ranges, mask, release, expected) in [
        ("10.42.0.0/16", "24", "1.15.19", vec![false]),
        ("10.42.0.0/16", "16", "1.15.19", vec![false]),
        ("10.42.0.0/16", "15", "1.20.2", vec![true]),
        ("10.42.0.0/16", "-1", "1.20.2", vec![true]),
        ("10.42.0.0/16", "", "1.19.3", vec![true]),
        (
            "10.42.0.0/16 10.43.0.0/25",
            "24",
            "1.20.2",
            vec![false, true],
        ),
        // It counts the length of the IPv6 text.
        ("::ffff:10.42.0.0/112", "24", "1.19.3", vec![true]),
        // Octal.
        ("10.42.0.0/22", "025", "1.19.3", vec![true]),
    ] {
        let written = |text| Written {
            config: Some(text),
            argument: None,
        };
        let pool = WrittenPool {
            family: Family::Ipv4,
            switch: written("true"),
            ranges: written(ranges),
            mask: written(mask),
        };
        let read = read(&[pool], release.parse().unwrap());
        let (_, pool) = &read.pools[0];
        let empty = pool
            .ranges
            .iter()
            .map(|range| range.is_without_blocks(pool.mask));
        assert_eq!(empty.collect::<Vec<_>>(), expected, "{ranges} {mask}");
    }
}

#[test]
fn a_variable_in_the_arguments_hides_the_family() {
    let pool = WrittenPool {
        family: Family::Ipv4,
        switch: Written::default(),
        ranges: Written::default(),
        mask: Written {
            config: None,
            argument: Some("$(MASK)"),
        },
    };
    let read = read(&[pool], CiliumVersion::minor(20));
    assert!(read.rejections.is_empty() && read.pools.is_empty());
}
