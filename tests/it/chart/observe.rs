//! The chart with `mode: observe`: metrics of a cluster to which nothing of ours writes.

use serde_json::json;
use testbed::CiliumInstallation;

use super::Installed;
use crate::operator::{GROUP, until};
use crate::running::http_get;
use crate::server::node;
use crate::support::TextAssertions;

const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

#[test]
fn it_counts_and_only_reads() {
    let config = [
        ("cluster-pool-ipv4-cidr", "10.20.0.0/22"),
        ("cluster-pool-ipv4-mask-size", "24"),
    ];
    let cilium = CiliumInstallation {
        version: "1.19.3".to_owned(),
        ipam: "cluster-pool".to_owned(),
        config: config
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..CiliumInstallation::default()
    };
    let installed = Installed::without_our_kinds(&cilium, "--set mode=observe");
    let plane = &installed.server.plane;
    let deployment = "/apis/apps/v1/namespaces/kube-system/deployments/cilium-ipam";
    let deployment = plane.get(deployment).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(
        pod["containers"][0]["args"],
        json!([
            "capacity",
            "--listen=0.0.0.0:9464",
            "--cilium-namespace=kube-system",
            "--output=json"
        ])
    );
    assert!(plane.list(&format!("{GROUP}/ippools")).is_err());

    let observer = installed.run("capacity --listen 127.0.0.1:0 --cilium-namespace kube-system");
    let address = observer.address();
    let has = |line: &str| {
        let (_, metrics) = http_get(&address, "/metrics");
        metrics.lines().any(|one| one == line)
    };
    let free = |free: u8| {
        format!(
            "cilium_ipam_capacity{{kind=\"cluster-pool\",name=\"\",family=\"IPv4\",state=\"free\"}} {free}.0"
        )
    };
    until("it has counted", || has(&free(4)));
    assert_eq!(http_get(&address, "/readyz").0, 200);
    for (index, block) in [json!(["10.20.0.0/24"]), json!([])].iter().enumerate() {
        let name = format!("n{index}");
        installed.server.nodes([node(&name, json!({}))]);
        let object = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": name},
            "spec": {"ipam": {"podCIDRs": block}}});
        plane.create(CILIUM_NODES, &object).unwrap();
    }
    until("a block is used", || has(&free(3)));
    until("a node waits", || {
        has("cilium_ipam_nodes_without_block 1.0")
    });
    assert!(has("cilium_ipam_nodes 2.0"));
    plane.delete(&format!("{CILIUM_NODES}/n0")).unwrap();
    until("the block is free again", || has(&free(4)));
    assert_eq!(observer.end(), 0);

    let reads = ["get", "list", "watch"];
    for request in installed.requests() {
        assert!(reads.contains(&request.verb.as_str()), "{request:?}");
    }
    for right in installed.rights() {
        assert!(reads.contains(&right.verb.as_str()), "{right:?}");
    }
    installed.every_right_is_used_and_none_is_missing();
    let told = installed.make("cilium-ipam-upgrade", "--set mode=operate");
    told.assert_has("REVISION: 2");
    until("our kinds are served", || {
        plane.list(&format!("{GROUP}/ipampolicies")).is_ok()
    });
}
