//! Addresses that the plan chooses, priorities and reserved addresses of LoadBalancer pools, on
//! cluster files.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, Ran, cluster};

const OURS: &str = "app.kubernetes.io/managed-by";

fn service(name: &str, addresses: &[&str]) -> String {
    let ingress: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"),
        "resourceVersion": "5"}, "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": ingress}}})
    .to_string()
}

fn pool(name: &str, annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata:\n  name: {name}\n  annotations: {annotations}\nspec: {spec}\n"
    )
}

fn pin(service: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {{name: {service}}}\nspec: {{service: shop/{service}, {spec}}}\n"
    )
}

fn folder(version: &str, items: &[String], files: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster(version, KUBERNETES, items)),
        ("pools/a.yaml", &files.join("---\n")),
    ])
}

fn run(folder: &Folder, arguments: &[&str], code: i32) -> Ran {
    folder
        .run(&[arguments, &["--cluster-file", "cluster.json"]].concat())
        .expect(code)
}

/// What each Service will ask for, by name.
fn pins(plan: &Value) -> Vec<(String, Vec<String>)> {
    let changes = plan["changes"].as_array().unwrap().iter();
    let mut pins: Vec<(String, Vec<String>)> = changes
        .filter(|change| change["kind"] == "Service")
        .map(|change| {
            let after = change["after"].as_array().unwrap().iter();
            (
                change["name"].as_str().unwrap().to_owned(),
                after.map(|one| one.as_str().unwrap().to_owned()).collect(),
            )
        })
        .collect();
    pins.sort();
    pins
}

#[test]
fn the_plan_picks_the_lowest_free_address_of_the_best_pool() {
    let files = [
        pool(
            "cheap",
            "{cilium-ipam.io/priority: \"10\", cilium-ipam.io/reserved: \"20.0.10.0, 20.0.10.2-20.0.10.4\"}",
            "{blocks: [{cidr: 20.0.10.0/29}]}",
        ),
        pool("dear", "{}", "{blocks: [{cidr: 30.0.10.0/29}]}"),
        pin("first", "pool: \"*\""),
        pin("named", "pool: dear"),
        pin("holds", "pool: \"*\""),
        pin("second", "pool: \"*\""),
        pin("third", "pool: \"*\""),
    ];
    let items = [
        service("first", &[]),
        service("named", &[]),
        service("holds", &["30.0.10.5"]),
        service("second", &[]),
        service("third", &[]),
        service("other", &["20.0.10.5"]),
    ];
    let folder = folder("1.19.3", &items, &files);
    let plan = run(&folder, &["plan", "-o", "json"], 5).json();
    let expected = [
        ("shop/first", "20.0.10.1"),
        ("shop/holds", "30.0.10.5"),
        ("shop/named", "30.0.10.0"),
        ("shop/second", "20.0.10.6"),
        ("shop/third", "20.0.10.7"),
    ];
    let expected = expected.map(|(name, ip)| (name.to_owned(), vec![ip.to_owned()]));
    assert_eq!(pins(&plan), expected, "{plan:#}");
    // The blocks without the reserved addresses.
    let shown = run(&folder, &["plan"], 5).stdout;
    for line in [
        "- start: \"20.0.10.1\"\n",
        "- start: \"20.0.10.5\"\n",
        "stop: \"20.0.10.7\"\n",
        "cilium-ipam.io/reserved: 20.0.10.0, 20.0.10.2-20.0.10.4\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("20.0.10.0/29"), "{shown}");
    // The pools are new to this cluster, so they come one after the other.
    let waived = ["apply", "--auto-approve", "--waive", "lost-addresses=2"];
    run(&folder, &waived, 0);
    let again = run(&folder, &["plan", "-o", "json"], 0).json();
    assert_eq!(again["changes"], json!([]), "{again:#}");
}

#[test]
fn what_cannot_be_chosen_is_blocked_with_the_way_out() {
    let files = [
        pool("full", "{}", "{blocks: [{start: 20.0.10.1}]}"),
        pool(
            "off",
            "{}",
            "{blocks: [{cidr: 30.0.10.0/29}], disabled: true}",
        ),
        pin("waits", "pool: full"),
        pin("missing", "pool: none-such"),
        pin("disabled", "pool: \"off\""),
    ];
    let items = [
        service("waits", &[]),
        service("missing", &[]),
        service("disabled", &[]),
        service("other", &["20.0.10.1"]),
    ];
    let plan = run(
        &folder("1.19.3", &items, &files),
        &["plan", "-o", "json"],
        0,
    )
    .json();
    let blocked: Vec<(&str, &str)> = plan["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["code"].as_str().unwrap()))
        .collect();
    assert_eq!(
        blocked,
        [
            ("shop/disabled", "pool-gives-none"),
            ("shop/missing", "pool-gives-none"),
            ("shop/waits", "service-no-free-address")
        ],
        "{plan:#}"
    );
}

/// A machine's address in the middle of a pool: reserved, it is no fault any more.
#[test]
fn a_reserved_address_is_given_by_no_pool() {
    let machine = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"podCIDRs": ["10.20.0.0/24"]}, "status": {"addresses": [{"type": "InternalIP", "address": "20.0.10.3"}]}})
    .to_string();
    let there = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "blue", "uid": "u",
        "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:01Z", "labels": {OURS: "cilium-ipam"}},
        "spec": {"blocks": [{"start": "20.0.10.0", "stop": "20.0.10.2"}, {"start": "20.0.10.4", "stop": "20.0.10.7"}]}})
    .to_string();
    let blue = |annotations: &str| pool("blue", annotations, "{blocks: [{cidr: 20.0.10.0/29}]}");
    let items = [machine, there];
    let plan = |files: &[String], code: i32| {
        let folder = folder("1.19.3", &items, files);
        run(&folder, &["plan", "-o", "json"], code).json()
    };
    let whole = plan(&[blue("{}")], 2);
    assert!(
        whole["blocked"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("an address of node n"),
        "{whole:#}"
    );
    // Another pool may have what this one reserves.
    let other = pool("red", "{}", "{blocks: [{start: 20.0.10.1}]}");
    let left = plan(
        &[
            blue("{cilium-ipam.io/reserved: \"20.0.10.1,20.0.10.3\"}"),
            other,
        ],
        0,
    );
    assert_eq!(left["blocked"], json!([]), "{left:#}");
    let rules: Vec<&Value> = left["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| &finding["rule"])
        .collect();
    assert!(!rules.contains(&&json!("address-pool-in-use")), "{rules:?}");
}

#[test]
fn a_version_that_reads_only_cidrs_cannot_reserve() {
    let files = [pool(
        "blue",
        "{cilium-ipam.io/reserved: 20.0.10.3}",
        "{cidrs: [{cidr: 20.0.10.0/29}]}",
    )];
    let plan = run(&folder("1.14.0", &[], &files), &["plan", "-o", "json"], 0).json();
    assert_eq!(
        plan["blocked"][0]["code"], "pool-field-not-read",
        "{plan:#}"
    );
}

#[test]
fn faults_of_the_annotations_and_of_the_choice_are_named() {
    let blue = |annotations: &str| pool("blue", annotations, "{blocks: [{cidr: 20.0.10.0/29}]}");
    for (file, rule) in [
        (blue("{cilium-ipam.io/priority: high}"), "bad-priority"),
        (blue("{cilium-ipam.io/reserved: 20.0.10}"), "bad-range"),
        (
            blue("{cilium-ipam.io/reserved: 20.0.10.0/29}"),
            "no-addresses",
        ),
        (
            blue("{cilium-ipam.io/reserved: 20.0.11.0/29}"),
            "reserved-outside-pool",
        ),
        (
            blue("{cilium-ipam.io/prioriti: \"1\"}"),
            "unknown-pool-annotation",
        ),
        (pin("web", "pool: blue, ips: [20.0.10.1]"), "ips-and-pool"),
        (pin("web", "pool: \"Blue!\""), "bad-name"),
        (pin("web", ""), "missing-field"),
    ] {
        let folder = Folder::new(&[("pools/a.yaml", &file)]);
        let report = folder.run(&["validate", "-o", "json"]).json();
        let findings = report["findings"].as_array().unwrap();
        let rules: Vec<&Value> = findings.iter().map(|finding| &finding["rule"]).collect();
        assert_eq!(rules, [rule], "{report:#}");
    }
}

/// A Service of both families that prefers them.
fn dual(name: &str, policy: &str, requested: &str, addresses: &[&str]) -> String {
    let mut object: Value = serde_json::from_str(&service(name, addresses)).unwrap();
    object["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    object["spec"]["ipFamilyPolicy"] = policy.into();
    if !requested.is_empty() {
        object["metadata"]["annotations"] = json!({"lbipam.cilium.io/ips": requested});
    }
    object.to_string()
}

#[test]
fn a_service_that_prefers_two_families_gets_the_one_that_there_is() {
    let files = [
        pool("blue", "{}", "{blocks: [{cidr: 20.0.10.0/29}]}"),
        pin("prefers", "pool: blue"),
        pin("requires", "pool: \"*\""),
    ];
    let items = [
        dual("prefers", "PreferDualStack", "", &[]),
        dual("requires", "RequireDualStack", "", &[]),
    ];
    let folder = folder("1.19.3", &items, &files);
    let plan = run(&folder, &["plan", "-o", "json"], 0).json();
    let expected = ("shop/prefers".to_owned(), vec!["20.0.10.0".to_owned()]);
    assert_eq!(pins(&plan), [expected], "{plan:#}");
    let blocked = &plan["blocked"][0];
    assert_eq!(
        (&blocked["name"], &blocked["code"]),
        (&json!("shop/requires"), &json!("service-no-pool")),
        "{plan:#}"
    );
}

#[test]
fn all_addresses_of_a_family_that_a_service_holds_stay() {
    let files = [
        pool(
            "blue",
            "{}",
            "{blocks: [{cidr: 20.0.10.0/29}, {cidr: \"fd00::/125\"}]}",
        ),
        pin("web", "pool: blue"),
        pin("asks", "pool: blue"),
        pin("holds", "pool: blue"),
    ];
    let items = [
        dual(
            "web",
            "SingleStack",
            "20.0.10.5,20.0.10.2",
            &["20.0.10.2", "20.0.10.5"],
        ),
        dual(
            "asks",
            "PreferDualStack",
            "20.0.10.1,20.0.10.3",
            &["20.0.10.3"],
        ),
        dual("holds", "SingleStack", "", &["20.0.10.6", "20.0.10.4"]),
    ];
    let folder = folder("1.19.3", &items, &files);
    let plan = run(&folder, &["plan", "-o", "json"], 0).json();
    let expected = [
        ("shop/asks", vec!["20.0.10.1", "20.0.10.3", "fd00::"]),
        ("shop/holds", vec!["20.0.10.4", "20.0.10.6"]),
    ];
    let expected = expected.map(|(name, all)| {
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        (name.to_owned(), all)
    });
    assert_eq!(pins(&plan), expected, "{plan:#}");
}

/// The pool cannot be changed as a whole, and still gives what it gave.
#[test]
fn a_blocked_change_of_a_pool_keeps_what_the_files_reserve() {
    let machine = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"podCIDRs": ["10.20.0.0/24"]}, "status": {"addresses": [{"type": "InternalIP", "address": "20.0.11.3"}]}})
    .to_string();
    let there = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "blue", "uid": "u",
        "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:01Z", "labels": {OURS: "cilium-ipam"}},
        "spec": {"blocks": [{"cidr": "20.0.10.0/29"}]}})
    .to_string();
    let files = [
        pool(
            "blue",
            "{cilium-ipam.io/reserved: 20.0.10.0-20.0.10.2}",
            "{blocks: [{cidr: 20.0.10.0/30}, {start: 20.0.10.5, stop: 20.0.10.7}, {cidr: 20.0.11.0/29}]}",
        ),
        pin("first", "pool: blue"),
        pin("second", "pool: blue"),
        pin("there", "pool: blue"),
    ];
    let holds = dual("there", "SingleStack", "20.0.10.1", &["20.0.10.1"]);
    let items = [
        machine,
        there,
        service("first", &[]),
        service("second", &[]),
        holds,
    ];
    let folder = folder("1.19.3", &items, &files);
    let plan = run(&folder, &["plan", "-o", "json"], 2).json();
    assert_eq!(plan["blocked"][0]["code"], "pool-range-in-use", "{plan:#}");
    let expected = [("shop/first", "20.0.10.3"), ("shop/second", "20.0.10.5")];
    let expected = expected.map(|(name, ip)| (name.to_owned(), vec![ip.to_owned()]));
    assert_eq!(pins(&plan), expected, "{plan:#}");
}
