//! The lines of the files to change before a hop.

use std::sync::Arc;

use serde_json::json;

use super::objects::{kubernetes, node, pool};
use super::{lines, observe, v};
use crate::upgrade::{Files, upgrade};
use ipam_core::model::{Origin, WritePath, WritePathChoice};
use ipam_desired::{Desired, WantedAddressPool};

fn origin(line: u32) -> Origin {
    Origin {
        file: Arc::from("pools/lb.yaml"),
        line,
        column: 1,
        bytes: (0, 0),
    }
}

fn of(desired: &Desired) -> Files<'_> {
    Files {
        desired: Some(desired),
        manifests: &[],
    }
}

/// The files with one pool, as the cluster has it.
fn declared(observed: &ipam_cilium::observed::Observed) -> Desired {
    let mut desired = Desired::default();
    for (line, (name, seen)) in (1..).zip(&observed.address_pools) {
        let wanted = WantedAddressPool {
            name: name.parse().unwrap(),
            origin: origin(line * 10),
            manifest: seen.manifest.clone(),
            ranges: Vec::new(),
        };
        desired.address_pools.insert(wanted.name.clone(), wanted);
    }
    desired
}

#[test]
fn lines_of_pools() {
    let observed = observe(
        "1.15.19",
        &[
            kubernetes(),
            pool(
                "a",
                "a",
                &json!({"cidrs": [{"cidr": "20.0.0.0/24"}], "allowFirstLastIPs": "No"}),
            ),
            pool("b", "b", &json!({"blocks": [{"cidr": "20.0.1.0/24"}]})),
        ],
    );
    let upgrade = upgrade(of(&declared(&observed)), &observed, v("1.16.19")).unwrap();
    let edits: Vec<String> = upgrade.hops[0]
        .changes
        .iter()
        .flat_map(|change| &change.files)
        .map(|file| format!("{}: {}", file.origin, file.edit))
        .collect();
    let expected = [
        "pools/lb.yaml:10: rename `cidrs` to `blocks`",
        "pools/lb.yaml:20: add `allowFirstLastIPs: \"No\"` to `spec`",
    ];
    assert_eq!(edits, expected);
}

#[test]
fn a_forced_write_path() {
    let mut desired = Desired::default();
    desired.policy.write_path = WritePathChoice::Forced(WritePath::NodeAnnotation);
    desired.policy.origin = Some(origin(3));
    let told = |from: &str, to: &str| {
        let objects = [kubernetes(), node("n1", Some("10.1.0.0/24"))];
        lines(&upgrade(of(&desired), &observe(from, &objects), v(to)).unwrap())
    };
    let blocked =
        "write-path writePath: `node-annotation` is blocked: agents do not read annotations";
    assert_eq!(told("1.11.9", "1.13.18"), [format!("1.12 {blocked}")]);
    assert_eq!(told("1.13.18", "1.20.2"), Vec::<String>::new());
}
