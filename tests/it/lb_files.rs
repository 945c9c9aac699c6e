//! LoadBalancer pools and pins planned against cluster files: what must be named, refused or left
//! alone.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, node, pool};
use ipam_cilium::observed::{ObservedKind, Reader};
use ipam_config::documents::{Documents, SourceFile, lower};
use ipam_core::model::Hazard;
use ipam_planner::plan::plan;

const OURS: &str = "app.kubernetes.io/managed-by";

fn seen(name: &str, created: &str, labels: &Value, spec: &Value) -> String {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": name, "uid": format!("uid-{name}"),
        "resourceVersion": "5", "creationTimestamp": format!("2026-01-01T00:00:{created}Z"), "labels": labels}, "spec": spec,
        "status": {"conditions": [{"type": "cilium.io/PoolConflict", "status": "False"}]}})
    .to_string()
}

fn ours(name: &str, cidr: &str) -> String {
    seen(
        name,
        "01",
        &json!({OURS: "cilium-ipam"}),
        &json!({"blocks": [{"cidr": cidr}]}),
    )
}

fn service(name: &str, annotations: &Value, address: &str) -> String {
    let ingress = if address.is_empty() {
        json!([])
    } else {
        json!([{"ip": address}])
    };
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"),
        "resourceVersion": "5", "annotations": annotations}, "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"],
        "ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": ingress}}})
    .to_string()
}

fn wanted(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

fn folder(items: &[String], files: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", KUBERNETES, items)),
        ("pools/a.yaml", &files.join("---\n")),
    ])
}

fn planned(folder: &Folder) -> Value {
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "-o",
            "json",
            "--fail-on",
            "never",
        ])
        .expect(0)
        .json()
}

fn refusals(plan: &Value) -> Vec<&str> {
    plan["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refusal| refusal["rule"].as_str().unwrap())
        .collect()
}

fn apply(folder: &Folder, more: &[&str], code: i32) -> String {
    folder
        .run(&[&["apply", "--cluster", "cluster.json"], more].concat())
        .expect(code)
        .stderr
}

#[test]
fn a_pool_under_another_name_takes_its_addresses_away_first() {
    let asks = json!({"lbipam.cilium.io/ips": "10.7.0.9"});
    let folder = folder(
        &[
            ours("blue", "10.7.0.0/24"),
            service("web", &asks, "10.7.0.9"),
        ],
        &[wanted("azure", "{blocks: [{cidr: 10.7.0.0/24}]}")],
    );
    let plan = planned(&folder);
    let names: Vec<&Value> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["name"])
        .collect();
    assert_eq!(names, ["blue", "azure"]);
    assert_eq!(refusals(&plan), ["last-address-pools", "lost-addresses"]);
    assert_eq!(
        plan["services"][0]["loses"][0]["address"], "10.7.0.9",
        "{plan:#}"
    );
}

#[test]
fn overlaps_that_nothing_decides_are_refused() {
    let foreign = seen(
        "foreign",
        "01",
        &json!({}),
        &json!({"blocks": [{"cidr": "10.8.0.0/24"}]}),
    );
    let folder = folder(
        &[ours("blue", "10.7.0.0/24"), foreign],
        &[wanted(
            "blue",
            "{blocks: [{cidr: 10.7.0.0/24}, {cidr: 10.8.0.0/25}]}",
        )],
    );
    assert_eq!(
        refusals(&planned(&folder)),
        ["overlap-order-undefined", "overlap-order-undefined"]
    );
    apply(
        &folder,
        &["--auto-approve", "--waive", "lost-addresses=99"],
        5,
    );
}

#[test]
fn addresses_that_something_else_has_are_not_given() {
    let holding = node("n", "a", &super::support::holds("10.20.3.0/24"));
    let claims = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cilium-ipam-claims", "namespace": "kube-system"}});
    for (range, what) in [
        ("10.20.3.128/25", "a pod CIDR of node n"),
        ("10.96.0.0/24", "the Service CIDR"),
    ] {
        let folder = folder(
            &[holding.clone(), claims.to_string()],
            &[wanted("blue", &format!("{{blocks: [{{cidr: {range}}}]}}"))],
        );
        let plan = planned(&folder);
        assert!(
            plan["blocked"][0]["reason"]
                .as_str()
                .unwrap()
                .contains(what),
            "{plan:#}"
        );
        assert_eq!(plan["changes"], json!([]));
    }
}

#[test]
fn nodes_get_no_block_over_a_pool_of_the_files() {
    let files = [
        pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        wanted("blue", "{blocks: [{cidr: 10.20.0.0/24}]}"),
    ];
    let plan = planned(&folder(&[node("n", "a", "")], &files));
    let of_node = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["kind"] == "Node")
        .unwrap();
    assert_eq!(of_node["after"], json!(["10.20.1.0/24"]));
}

#[test]
fn an_unknown_version_reads_nobody_knows_what() {
    let folder = folder(&[], &[wanted("blue", "{blocks: [{cidr: 10.7.0.0/24}]}")]);
    folder.write(
        "cluster.json",
        r#"{"apiVersion": "v1", "kind": "List", "items": []}"#,
    );
    assert!(
        planned(&folder)["blocked"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("version is unknown")
    );
}

#[test]
fn a_saved_plan_is_stale_when_another_service_would_lose() {
    let files = [wanted("blue", "{blocks: [{cidr: 10.7.0.0/25}]}")];
    let one = [
        ours("blue", "10.7.0.0/24"),
        service("web", &json!({}), "10.7.0.200"),
    ];
    let folder = folder(&one, &files);
    folder
        .run(&[
            "plan",
            "--cluster",
            "cluster.json",
            "--out",
            "plan.json",
            "--waive",
            "lost-addresses=2",
        ])
        .expect(0);
    let two = [one.as_slice(), &[service("shop", &json!({}), "10.7.0.201")]].concat();
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &two));
    let stale = apply(&folder, &["plan.json", "--trust-plan-file"], 4);
    assert!(
        stale.contains("Service/default/shop: would or may now lose 10.7.0.201"),
        "{stale}"
    );
    folder.write("cluster.json", cluster("1.19.3", KUBERNETES, &one));
    apply(&folder, &["plan.json", "--trust-plan-file"], 0);
    assert_eq!(planned(&folder)["changes"], json!([]));
}

#[test]
fn what_nobody_can_see_is_not_risked() {
    let file = |text: &str| SourceFile {
        path: "a.yaml".into(),
        text: text.into(),
    };
    let plan_of = |items: &[String], text: &str| {
        let mut reader = Reader::default();
        let list: Value = serde_json::from_str(&cluster("1.19.3", KUBERNETES, items)).unwrap();
        for item in list["items"].as_array().unwrap() {
            let kind = match item["kind"].as_str().unwrap() {
                "DaemonSet" => ObservedKind::CiliumDaemonSet,
                "ConfigMap" => ObservedKind::CiliumConfig,
                "CiliumLoadBalancerIPPool" => ObservedKind::LoadBalancerPool,
                _ => continue,
            };
            reader.object(kind, &item.to_string()).unwrap();
        }
        reader.hidden(ObservedKind::Service, "forbidden".to_owned());
        let (desired, findings) = lower(&Documents {
            files: vec![file(text)],
        });
        assert!(findings.is_empty(), "{findings:?}");
        plan(
            &desired,
            &reader.finish("2026-01-01T00:00:00Z".parse().unwrap()),
            Vec::new(),
        )
    };
    let narrow = wanted("blue", "{blocks: [{cidr: 10.7.0.0/25}]}");
    // The first pool of a cluster wakes the operator, which takes away what it did not give.
    for items in [vec![ours("blue", "10.7.0.0/24")], Vec::new()] {
        let plan = plan_of(&items, &narrow);
        assert_eq!(plan.changes[0].hazard(), Hazard::Destructive);
        assert!(
            plan.refusals
                .iter()
                .any(|refusal| refusal.rule.0 == "destructive-with-unreadable-kind"),
            "{:?}",
            plan.refusals
        );
    }
}

#[test]
fn labels_that_we_wrote_go_with_the_files_and_others_stay() {
    let mut pool: Value = serde_json::from_str(&ours("blue", "10.7.0.0/24")).unwrap();
    pool["metadata"]["labels"] = json!({OURS: "cilium-ipam", "team": "a", "theirs": "x"});
    pool["metadata"]["managedFields"] = json!([{"manager": "cilium-ipam", "operation": "Apply", "fieldsV1":
        {"f:metadata": {"f:labels": {"f:team": {}, format!("f:{OURS}"): {}}}, "f:spec": {"f:blocks": {}}}}]);
    let folder = folder(
        &[pool.to_string()],
        &[wanted("blue", "{blocks: [{cidr: 10.7.0.0/24}]}")],
    );
    let shown = folder
        .run(&["plan", "--cluster", "cluster.json"])
        .expect(0)
        .stdout;
    assert!(
        shown.contains("-    team: a") && !shown.contains("theirs"),
        "{shown}"
    );
    apply(&folder, &["--auto-approve"], 0);
    let list: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let labels = &list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["metadata"]["name"] == "blue")
        .unwrap()["metadata"]["labels"];
    assert_eq!(*labels, json!({OURS: "cilium-ipam", "theirs": "x"}));
}

#[test]
fn what_others_left_in_the_way_is_named_too() {
    // A Service has an address of a disabled pool for an unknown reason. It loses the address with
    // the pool.
    let spec = json!({"blocks": [{"cidr": "0.0.0.0/0"}]});
    let items = [
        seen("blue", "01", &json!({}), &spec),
        service("web", &json!({}), "20.0.0.5"),
    ];
    let plan = planned(&folder(
        &items,
        &[wanted("blue", "{blocks: [{cidr: 10.7.0.0/24}]}")],
    ));
    assert_eq!(
        plan["services"][0]["loses"][0]["address"], "20.0.0.5",
        "{plan:#}"
    );
}

/// kube-controller-manager gives the nodes their blocks; the files are about Services alone.
#[test]
fn files_about_services_alone_judge_no_node() {
    let items = [
        node(
            "a",
            "x",
            r#""podCIDR":"10.20.0.0/24","podCIDRs":["10.20.0.0/24"]"#,
        ),
        node("new", "x", ""),
    ];
    let blue = wanted("blue", "{blocks: [{cidr: 20.0.10.0/24}]}");
    let alone = planned(&folder(&items, std::slice::from_ref(&blue)));
    assert_eq!(alone["misplaced"], json!([]), "{alone:#}");
    assert_eq!(alone["blocked"], json!([]), "{alone:#}");
    let rules = |plan: &Value| -> Vec<String> {
        let findings = plan["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| finding["rule"].as_str().unwrap().to_owned())
            .collect()
    };
    assert!(
        rules(&alone).contains(&"nodes-left-to-others".to_owned()),
        "{alone:#}"
    );
    // With a pool of nodes, the others are judged.
    let other = pool(
        "a",
        "{cidrs: [10.30.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: y}}}",
    );
    let both = planned(&folder(&items, &[blue, other]));
    assert_eq!(both["misplaced"].as_array().unwrap().len(), 1, "{both:#}");
    assert_eq!(both["blocked"].as_array().unwrap().len(), 1, "{both:#}");
}

/// Only the operator's condition shows that it has seen the request.
#[test]
fn a_pinned_address_that_is_not_given_yet_is_pending() {
    let blue = ours("blue", "20.0.10.0/24");
    let pin = "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: web}\nspec: {service: default/web, ips: [20.0.10.5]}\n";
    let asks = json!({"lbipam.cilium.io/ips": "20.0.10.5"});
    let severity = |reason: Option<&str>| {
        let mut web: Value = serde_json::from_str(&service("web", &asks, "")).unwrap();
        if let Some(reason) = reason {
            web["status"]["conditions"] = json!([{"type": "cilium.io/IPAMRequestSatisfied",
                "status": "False", "reason": reason}]);
        }
        let files = [
            wanted("blue", "{blocks: [{cidr: 20.0.10.0/24}]}"),
            pin.to_owned(),
        ];
        let plan = planned(&folder(&[blue.clone(), web.to_string()], &files));
        let mut findings = plan["findings"].as_array().unwrap().iter();
        let finding = findings.find(|finding| finding["rule"] == "pinned-address-not-given");
        finding.unwrap()["severity"].as_str().unwrap().to_owned()
    };
    assert_eq!(severity(None), "info");
    assert_eq!(severity(Some("satisfied")), "info");
    assert_eq!(severity(Some("already_allocated")), "warning");
}
