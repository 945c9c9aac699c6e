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
        variable: None,
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
            ..Written::default()
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
fn a_variable_hides_the_family() {
    let read_mask = |mask| {
        let pool = WrittenPool {
            family: Family::Ipv4,
            switch: Written::default(),
            ranges: Written::default(),
            mask,
        };
        read(&[pool], CiliumVersion::minor(20))
    };
    let in_argument = Written {
        argument: Some("$(MASK)"),
        ..Written::default()
    };
    let of_environment = Written {
        variable: Some("abc"),
        ..Written::default()
    };
    for mask in [in_argument, of_environment] {
        let read = read_mask(mask);
        assert!(read.rejections.is_empty() && read.pools.is_empty());
    }
    let overridden = Written {
        argument: Some("24"),
        ..of_environment
    };
    assert_eq!(
        read_mask(overridden).rejections[0].fault,
        SettingFault::NoRange
    );
}

#[test]
fn a_variable_is_split_as_a_file() {
    let written = |text| Written {
        variable: Some(text),
        ..Written::default()
    };
    for (ranges, release, expected) in [
        ("10.1.0.0/16 10.2.0.0/16", "1.15.19", 2),
        ("10.1.0.0/16 10.2.0.0/16", "1.20.2", 2),
        ("10.1.0.0/16,10.2.0.0/16", "1.20.2", 2),
    ] {
        let pool = WrittenPool {
            family: Family::Ipv4,
            switch: Written::default(),
            ranges: written(ranges),
            mask: written("24"),
        };
        let release = release.parse().unwrap();
        let sound = pool
            .ranges(release)
            .iter()
            .filter(|one| one.is_ok())
            .count();
        assert_eq!(
            (sound, pool.mask(release)),
            (expected, Some(24)),
            "{ranges}"
        );
    }
}
