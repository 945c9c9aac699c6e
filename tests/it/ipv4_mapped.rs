//! IPv4-mapped addresses (`::ffff:10.20.0.1`): wherever one occurs, no node gets the IPv4 block
//! that it embeds.

use serde_json::{Value, json};

use super::support::{Folder, TextAssertions, address_pool, node, pin, policy, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn balancer(spec: &Value) -> String {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "lb"}, "spec": spec})
        .to_string()
}

fn planned(files: &[String], items: &[String]) -> Value {
    let items = [items, &[node("n", "a", "")]].concat();
    let folder = Folder::with_cluster(&items, &[("pools/a.yaml", &files.join("---\n"))]);
    folder.json("plan --cluster cluster.json -o json")
}

/// The block that node `n` gets.
fn given(plan: &Value) -> &str {
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .clone()
        .find(|change| change["name"] == "n")
        .and_then(|change| change["after"][0].as_str())
        .unwrap()
}

fn findings<'p>(plan: &'p Value, rule: &str) -> Vec<&'p Value> {
    plan["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == rule)
        .collect()
}

#[test]
fn what_the_files_keep_free_is_kept_free_with_a_warning() {
    for written in [
        policy("{excluded: [\"::ffff:10.20.0.0-::ffff:10.20.0.255\"]}"),
        policy("{excluded: [\"10.20.0.9-::ffff:10.20.0.11\"]}"),
        policy("{excluded: [\"::ffff:10.20.0.0/120\"]}"),
        policy("{excluded: [\"::FFFF:a14:0\"]}"),
        pin("absent", "::ffff:10.20.0.0/120"),
    ] {
        let plan = planned(&[pool("a", POOL), written.clone()], &[]);
        assert_eq!(given(&plan), "10.20.1.0/24", "{written}");
        let warned = findings(&plan, "mapped-ipv4");
        assert_eq!(warned.len(), 1, "{written}");
        assert_eq!(
            (&warned[0]["severity"], &warned[0]["origin"]["line"]),
            (&"warning".into(), &9.into()),
            "{written}"
        );
    }
    for reserved in [
        "::ffff:10.20.0.1",
        "::ffff:10.20.0.0/120",
        "::ffff:10.20.0.0-::ffff:10.20.0.255",
    ] {
        let written = format!(
            "{{cidrs: [\"::ffff:10.20.0.0/112\"], blockSize: 24, reserved: [\"{reserved}\"]}}"
        );
        let plan = planned(&[pool("a", &written)], &[]);
        assert_eq!(given(&plan), "10.20.1.0/24", "{reserved}");
        assert_eq!(findings(&plan, "mapped-ipv4").len(), 2, "{reserved}");
    }
}

#[test]
fn what_the_cluster_has_is_kept_free() {
    let machine = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "uid": "u", "resourceVersion": "1"},
        "spec": {"podCIDRs": ["10.20.7.0/24"]}, "status": {"addresses": [{"type": "InternalIP", "address": "::ffff:10.20.0.1"}]}});
    let annotated = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "uid": "u", "resourceVersion": "1",
        "annotations": {"network.cilium.io/ipv4-pod-cidr": "::ffff:10.20.0.0/120"}}, "spec": {}});
    let cilium_node = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode", "metadata": {"name": "gone"},
        "spec": {"ipam": {"podCIDRs": ["::ffff:10.20.0.0/120"]}}});
    let services = json!({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["::ffff:10.20.0.0/120"]}});
    let balancers = [
        json!({"blocks": [{"start": "::ffff:10.20.0.9", "stop": "::ffff:10.20.0.11"}]}),
        json!({"blocks": [{"start": "10.20.0.9", "stop": "::ffff:10.20.0.11"}]}),
        json!({"blocks": [{"start": "::ffff:10.20.0.9"}]}),
        json!({"blocks": [{"cidr": "::ffff:10.20.0.0/124"}]}),
        json!({"cidrs": [{"cidr": "::ffff:10.20.0.0/124"}]}),
    ];
    let others = [machine, annotated, cilium_node, services].map(|object| object.to_string());
    for item in others.into_iter().chain(balancers.iter().map(balancer)) {
        let plan = planned(&[pool("a", POOL)], std::slice::from_ref(&item));
        assert_eq!(given(&plan), "10.20.1.0/24", "{item}");
        let is_balancer = item.contains("CiliumLoadBalancerIPPool");
        assert_eq!(
            findings(&plan, "mapped-ipv4").len(),
            usize::from(is_balancer),
            "{item}"
        );
    }
}

/// LB-IPAM takes a mapped range for IPv6, so such a pool is neither created nor taken for the IPv4
/// pool of the files.
#[test]
fn address_pools_of_the_files_are_written_in_ipv4() {
    let manifest = |block: &str| address_pool("lb", &format!("{{blocks: [{block}]}}"));
    for block in [
        "{start: \"::ffff:20.0.10.1\", stop: \"::ffff:20.0.10.9\"}",
        "{start: 20.0.10.1, stop: \"::ffff:20.0.10.9\"}",
        "{start: \"::ffff:20.0.10.1\"}",
        "{cidr: \"::ffff:20.0.10.0/120\"}",
        "{cidr: \"::ffff:20.0.10.1/120\"}",
        "{cidr: \"::ffff:20.0.10.0/90\"}",
    ] {
        let folder = Folder::new(&[("pools/lb.yaml", &manifest(block))]);
        let report = folder.expect("validate -o json", 3).json();
        let rules: Vec<&Value> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| &found["rule"])
            .collect();
        assert_eq!(rules, ["mapped-ipv4"], "{block}");
    }
    let mut written: Value = serde_json::from_str(&balancer(
        &json!({"blocks": [{"cidr": "::ffff:20.0.10.0/120"}]}),
    ))
    .unwrap();
    written["metadata"] = json!({"name": "lb", "uid": "u", "resourceVersion": "1",
        "labels": {"app.kubernetes.io/managed-by": "cilium-ipam"}});
    let plan = planned(
        &[pool("a", POOL), manifest("{cidr: 20.0.10.0/24}")],
        &[written.to_string()],
    );
    let change = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["name"] == "lb")
        .unwrap();
    assert_eq!(change["action"], "update", "{plan:#}");
}

#[test]
fn a_pinned_address_and_one_that_is_asked_about_are_ipv4() {
    let pinned = "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: p}\nspec: {service: shop/web, ips: [\"::ffff:20.0.10.9\",\n  20.0.10.9]}\n";
    let folder = Folder::with_cluster(
        &[node("n", "a", &super::support::holds("10.20.0.0/24"))],
        &[("pools/a.yaml", &pool("a", POOL)), ("twice/p.yaml", pinned)],
    );
    let report = folder.expect("validate twice -o json", 3).json();
    assert_eq!(
        report["findings"][0]["rule"], "address-pinned-twice",
        "{report:#}"
    );
    let asked = folder
        .expect("explain ::ffff:10.20.0.7 --cluster cluster.json", 0)
        .stdout;
    asked.assert_has("Node/n");
}
