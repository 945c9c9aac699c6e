//! Scenarios: objects and a pair of versions, and the entries that are expected. `cases` has tables
//! of them.

mod files;
mod healthy;
mod manifests;
mod objects;
mod property;
mod unjudged;

use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Files, Upgrade, upgrade};
use ipam_cilium::observed::{Evidence, Observed, ObservedKind, Reader};
use ipam_core::model::CiliumVersion;

/// A file of `cases`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Objects with anchors, for aliases in the cases.
    #[serde(rename = "common")]
    _common: IgnoredAny,
    cases: Vec<Case>,
}

/// Objects, a pair of versions, and the entries: hop, code, object and effect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    versions: [String; 2],
    objects: Vec<Value>,
    expected: Vec<String>,
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

/// Number of the objects that were understood.
fn understood(observed: &Observed) -> usize {
    let announcing = &observed.announcing;
    usize::from(observed.cilium.settings.is_some())
        + observed.nodes.len()
        + observed.cilium_nodes.len()
        + observed.node_configs.len()
        + observed.services.len()
        + observed.address_pools.len()
        + announcing.policies.len()
        + announcing.cluster_configs.len()
        + announcing.peer_configs.len()
        + announcing.advertisements.len()
        + announcing.l2_policies.len()
}

/// The fault of a case, if it has one.
fn fault(case: &Case) -> Option<String> {
    let [from, to] = &case.versions;
    let observed = observe(from, &case.objects);
    let (read, all) = (understood(&observed), case.objects.len());
    if read != all || !observed.findings.is_empty() {
        let findings = observed.findings.iter().map(|finding| &finding.message);
        let findings: Vec<&String> = findings.collect();
        return Some(format!("read {read} of {all} objects {findings:#?}"));
    }
    let told = told([from, to], &case.objects);
    (told != case.expected).then(|| {
        let expected = &case.expected;
        format!("from {from} to {to}\n  told     {told:#?}\n  expected {expected:#?}")
    })
}

/// Fails with all differences at once.
#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/upgrade/tests/cases");
    let mut wrong = Vec::new();
    let mut files = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let file: File = serde_yaml::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!file.cases.is_empty(), "{} has no case", path.display());
        for case in &file.cases {
            let fault = fault(case).map(|fault| format!("{}: {fault}", case.name));
            wrong.extend(fault);
        }
        files += 1;
    }
    assert!(files > 0, "{} is empty", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
