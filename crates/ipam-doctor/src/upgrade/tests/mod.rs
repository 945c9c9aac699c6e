//! Scenarios: objects and a pair of versions, and the entries that are expected.

mod addresses;
mod announcements;
mod files;
mod healthy;
mod manifests;
mod nodes;
mod objects;
mod patches;
mod property;
mod unjudged;

use serde_json::Value;

use super::{Files, Upgrade, upgrade};
use ipam_cilium::observed::{Evidence, Observed, ObservedKind, Reader};
use ipam_core::model::CiliumVersion;

/// Objects, a pair of versions, and the entries: hop, code, object and effect.
struct Case {
    name: &'static str,
    versions: [&'static str; 2],
    objects: Vec<Value>,
    expected: &'static [&'static str],
}

fn v(text: &str) -> CiliumVersion {
    text.parse().unwrap()
}

fn kind(object: &Value) -> ObservedKind {
    use ObservedKind as K;
    match object["kind"].as_str().unwrap() {
        "ConfigMap" => K::CiliumConfig,
        "Node" => K::Node,
        "CiliumNode" => K::CiliumNode,
        "CiliumNodeConfig" => K::CiliumNodeConfig,
        "Service" => K::Service,
        "CiliumLoadBalancerIPPool" => K::LoadBalancerPool,
        "CiliumBGPPeeringPolicy" => K::BgpPeeringPolicy,
        "CiliumBGPClusterConfig" => K::BgpClusterConfig,
        "CiliumBGPPeerConfig" => K::BgpPeerConfig,
        "CiliumBGPAdvertisement" => K::BgpAdvertisement,
        "CiliumL2AnnouncementPolicy" => K::L2AnnouncementPolicy,
        other => panic!("{other}"),
    }
}

fn observe(version: &str, objects: &[Value]) -> Observed {
    let mut reader = Reader::default();
    // Cilium's namespace comes first, as in a real observation.
    for object in objects {
        reader.object(kind(object), &object.to_string()).unwrap();
    }
    let mut observed = reader.finish(jiff::Timestamp::UNIX_EPOCH);
    observed.cilium.version = Some((v(version), Evidence::ImageTag));
    observed
}

/// Each effect as a line.
fn lines(upgrade: &Upgrade) -> Vec<String> {
    let mut lines = Vec::new();
    for hop in &upgrade.hops {
        for change in &hop.changes {
            let code = change.code.as_str().strip_prefix("upgrade-").unwrap();
            for (subject, effect) in &change.effects {
                let name = subject
                    .name
                    .strip_prefix("default/")
                    .unwrap_or(&subject.name);
                lines.push(format!("{} {code} {name}: {effect}", hop.to));
            }
        }
    }
    lines
}

fn told([from, to]: [&str; 2], objects: &[Value]) -> Vec<String> {
    lines(&upgrade(Files::default(), &observe(from, objects), v(to)).unwrap())
}

/// Fails with all differences at once.
fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        let told = told(case.versions, &case.objects);
        if told != case.expected {
            wrong.push(format!(
                "{} {:?}\n  told     {told:#?}\n  expected {:#?}",
                case.name, case.versions, case.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
