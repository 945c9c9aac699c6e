//! Objects of another address manager, and what their import yields. `cases` has a folder for each
//! manager.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::import::foreign::{
    ForeignPool, ForeignPools, Remark, calico, legacy_config, metallb, node_ipam_controller,
};

/// A file of `cases`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Values with anchors, for aliases in the cases.
    #[serde(default, rename = "common")]
    _common: Option<IgnoredAny>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    objects: Vec<Value>,
    /// Configuration of MetalLB before 0.13. Its objects follow the others.
    #[serde(default)]
    config: Value,
    /// Texts that are part of a remark.
    #[serde(default)]
    texts: Vec<String>,
    /// Texts that are part of nothing.
    #[serde(default)]
    without: Vec<String>,
    /// What [`told`] returns.
    expected: Map<String, Value>,
}

fn joined<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(" ")
}

fn names(remarks: &[Remark]) -> impl Iterator<Item = String> {
    remarks.iter().map(|remark| remark.name.to_string())
}

/// The line with the names of its remarks in parentheses.
fn remarked(line: String, remarks: &[Remark]) -> String {
    match remarks {
        [] => line,
        remarks => format!("{line} ({})", joined(names(remarks))),
    }
}

/// Name, CIDRs, block sizes, selector, priority, state, and what is reserved.
fn pool(pool: &ForeignPool) -> String {
    let sizes = pool.block_size.iter();
    let sizes = joined(sizes.map(|size| format!("/{}", size.prefix_len())));
    let reserved = match pool.reserved.is_empty() {
        true => String::new(),
        false => format!(" reserves {}", joined(&pool.reserved)),
    };
    let (name, cidrs) = (&pool.name, joined(&pool.cidrs));
    let (selector, priority, state) = (&pool.selector, pool.priority, pool.state);
    let line = format!("{name} [{cidrs}] {sizes} {selector} {priority} {state}{reserved}");
    remarked(line, &pool.remarks)
}

/// An object of these fields, without empty lists.
fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    let fields = fields.into_iter().filter(|(_, value)| *value != json!([]));
    fields
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// All of an import. Remarks are at their pool, pin or announcement.
fn told(found: &ForeignPools) -> Map<String, Value> {
    let ForeignPools {
        pools,
        pins,
        address_pools,
        service_pins,
        announcements,
        remarks,
    } = found;
    let pins = pins.iter().map(|pin| {
        let line = format!("{} {} {}", pin.node, pin.pool, joined(pin.blocks.iter()));
        remarked(line, &pin.remarks)
    });
    let address_pools = address_pools.iter().map(|pool| {
        fields([
            ("name", pool.name.as_str().into()),
            ("spec", json!(pool.manifest)["spec"].take()),
            ("remarks", names(&pool.remarks).collect()),
        ])
    });
    let service_pins = service_pins.iter().map(|pin| {
        let line = format!("{} {}", pin.service, joined(&pin.addresses));
        remarked(line, &pin.remarks)
    });
    let announcements = announcements.iter().map(|one| {
        fields([
            ("object", one.object.clone()),
            ("remarks", names(&one.remarks).collect()),
        ])
    });
    fields([
        ("pools", pools.iter().map(pool).collect()),
        ("pins", pins.collect()),
        ("addressPools", address_pools.collect()),
        ("servicePins", service_pins.collect()),
        ("announcements", announcements.collect()),
        ("remarks", names(remarks).collect()),
    ])
}

/// The differences from what is expected.
fn faults(case: &Case, found: &ForeignPools) -> Vec<String> {
    let mut faults = Vec::new();
    let all = told(found);
    let parts: BTreeSet<&String> = all.keys().chain(case.expected.keys()).collect();
    for part in parts {
        let [told, expected] = [&all, &case.expected].map(|parts| json!(parts.get(part)));
        if told != expected {
            faults.push(format!("{part} {told:#}\n  expected {expected:#}"));
        }
    }
    let remarks: Vec<String> = found.all_remarks().map(ToString::to_string).collect();
    for text in &case.texts {
        if !remarks.iter().any(|remark| remark.contains(text)) {
            faults.push(format!("no remark has `{text}`: {remarks:#?}"));
        }
    }
    let all = format!("{found:?}");
    let unwanted = case.without.iter().filter(|text| all.contains(*text));
    faults.extend(unwanted.map(|text| format!("has `{text}`: {found:#?}")));
    faults
}

/// Imports each case of a manager's folder. Fails with the differences of all cases at once.
fn check(manager: &str, import: fn(&[Value]) -> ForeignPools) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/import/foreign/tests/cases");
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in folder.join(manager).read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = serde_yaml::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!file.cases.is_empty(), "{} has no case", path.display());
        for case in &file.cases {
            let objects = [case.objects.clone(), legacy_config(&case.config)].concat();
            let faults = faults(case, &import(&objects));
            wrong.extend(faults.iter().map(|fault| format!("{}: {fault}", case.name)));
        }
        files += 1;
    }
    assert!(files > 0, "{manager} has no file");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cases_of_calico() {
    check("calico", calico);
}

#[test]
fn cases_of_metallb() {
    check("metallb", metallb);
}

#[test]
fn cases_of_node_ipam_controller() {
    check("node-ipam", node_ipam_controller);
}
