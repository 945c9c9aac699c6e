//! Objects of Cilium in the files whose API version or fields the next release does not have.

use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::kubernetes;
use super::{observe, v};
use crate::upgrade::{Files, upgrade};
use ipam_core::model::Origin;
use ipam_desired::CiliumManifest;

fn manifest(kind: &str, version: &str, spec: Value) -> CiliumManifest {
    CiliumManifest {
        kind: kind.to_owned(),
        name: "edge".to_owned(),
        version: version.to_owned(),
        origin: Origin {
            file: Arc::from("pools/bgp.yaml"),
            line: 7,
            column: 1,
            bytes: (0, 0),
        },
        object: json!({"spec": spec}),
    }
}

/// Each entry with the line of the files, without the prefix of the code.
fn told([from, to]: [&str; 2], manifest: CiliumManifest) -> Vec<String> {
    let files = Files {
        desired: None,
        manifests: &[manifest],
    };
    let upgrade = upgrade(files, &observe(from, &[kubernetes()]), v(to)).unwrap();
    let mut told = Vec::new();
    for (hop, change) in upgrade
        .hops
        .iter()
        .flat_map(|hop| hop.changes.iter().map(move |change| (hop, change)))
    {
        let code = change.code.as_str().strip_prefix("upgrade-").unwrap();
        for file in &change.files {
            told.push(format!("{} {code} {}: {}", hop.to, file.origin, file.edit));
        }
    }
    told
}

#[test]
fn a_version_that_is_gone_or_deprecated_names_the_file_and_what_to_write() {
    let none = json!({});
    let told =
        |kind: &str, version: &str, versions| told(versions, manifest(kind, version, none.clone()));
    let config = "CiliumNodeConfig";
    assert_eq!(
        told(config, "v2alpha1", ["1.19.3", "1.20.1"]),
        ["1.20.1 manifest-version pools/bgp.yaml:7: write `apiVersion: cilium.io/v2`"]
    );
    assert_eq!(
        told(config, "v2alpha1", ["1.19.3", "1.20"]),
        ["1.20 patch-to-avoid pools/bgp.yaml:7: write `apiVersion: cilium.io/v2`"]
    );
    assert_eq!(
        told(config, "v2alpha1", ["1.15.19", "1.16.6"]),
        [
            "1.16.6 manifest-deprecated pools/bgp.yaml:7: after the hop, write `apiVersion: cilium.io/v2`"
        ]
    );
    let policy = "CiliumBGPPeeringPolicy";
    assert_eq!(
        told(policy, "v2alpha1", ["1.17.15", "1.19.3"]),
        [
            "1.18 manifest-deprecated pools/bgp.yaml:7: write CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement instead",
            "1.19.3 manifest-version pools/bgp.yaml:7: write CiliumBGPClusterConfig, CiliumBGPPeerConfig and CiliumBGPAdvertisement instead",
        ]
    );
    let pool = "CiliumLoadBalancerIPPool";
    assert_eq!(
        told(pool, "v2alpha1", ["1.17.15", "1.20.2"]),
        ["1.19 manifest-deprecated pools/bgp.yaml:7: write `apiVersion: cilium.io/v2`"]
    );
    for (kind, version, versions) in [
        (pool, "v2", ["1.17.15", "1.20.2"]),
        (config, "v2", ["1.15.19", "1.20.1"]),
        (policy, "v2alpha1", ["1.15.19", "1.17.15"]),
        ("CiliumNetworkPolicy", "v2", ["1.15.19", "1.20.2"]),
    ] {
        assert_eq!(
            told(kind, version, versions),
            Vec::<String>::new(),
            "{kind}"
        );
    }
}

#[test]
fn fields_that_a_version_does_not_have() {
    let community = json!({"advertisements": [{}, {"attributes": {"community": {}}}]});
    let advertisement = manifest("CiliumBGPAdvertisement", "v2alpha1", community);
    assert_eq!(
        told(["1.15.19", "1.16.6"], advertisement),
        [
            "1.16.6 manifest-field pools/bgp.yaml:7: with the hop, rename `community` to `communities`"
        ]
    );
    let port = json!({"transport": {"localPort": 1790}});
    let peer = manifest("CiliumBGPPeerConfig", "v2alpha1", port);
    assert_eq!(
        told(["1.17.15", "1.18.8"], peer),
        [
            "1.18.8 manifest-deprecated pools/bgp.yaml:7: after the hop, write `apiVersion: cilium.io/v2`, and remove `transport.localPort`"
        ]
    );
}
