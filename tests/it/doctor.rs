//! `doctor` on the incident that it was made for, and on the routes of routers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::doctor_cluster::{
    Base, healthy, object, rules, severities, told, with_pool, with_times,
};
use super::support::{Folder, TextAssertions, holds, node, pin, policy, pool, repository};

fn incident(arguments: &[&str]) -> Value {
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let folder = Folder::new(&[]);
    let words = [
        &[
            "doctor",
            "-o",
            "json",
            "--fail-on",
            "never",
            "--cluster",
            file.to_str().unwrap(),
        ],
        arguments,
    ]
    .concat();
    folder.run(&words).expect(0).json()
}

/// Who announces whose block.
const INCIDENT: [(&str, &str, &str); 4] = [
    ("master1", "10.5.112.0/24", "node01"),
    ("master2", "10.5.114.0/24", "master3"),
    ("master3", "10.5.113.0/24", "master1"),
    ("node01", "10.5.115.0/24", "master2"),
];

#[test]
fn the_incident_names_whose_pods_are_lost_with_which_node() {
    let report = incident(&[]);
    let told = told(&report, "bgp-announces-foreign-block");
    assert_eq!(told.len(), 4);
    for ((announcer, block, victim), (message, consequence)) in INCIDENT.iter().zip(&told) {
        assert_eq!(
            *message,
            format!(
                "node `{announcer}` announces {block}, in which the Pods of node `{victim}` live"
            )
        );
        let lost = format!("when `{announcer}` goes down, the Pods of node `{victim}` are lost");
        consequence.assert_has(&lost);
    }
    assert_eq!(
        report["summary"],
        json!({"error": 4, "warning": 0, "info": 0})
    );
    let folder = Folder::new(&[]);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let human = folder
        .run(&["doctor", "--cluster", file.to_str().unwrap()])
        .expect(2);
    let readme = std::fs::read_to_string(repository().join("docs/src/how-to/doctor.md")).unwrap();
    let picture = readme
        .split("```text\n")
        .find(|block| block.starts_with("error[bgp-announces-foreign-block]"))
        .unwrap();
    assert!(
        human.stdout.contains(picture.split("```").next().unwrap()),
        "{}",
        human.stdout
    );
    insta::assert_snapshot!(human.stdout);
    let sarif = folder
        .run(&["doctor", "--cluster", file.to_str().unwrap(), "-o", "sarif"])
        .expect(2)
        .json();
    assert_eq!(sarif["runs"][0]["results"][0]["occurrenceCount"], 4);
    let junit = folder
        .run(&["doctor", "--cluster", file.to_str().unwrap(), "-o", "junit"])
        .expect(2)
        .stdout;
    junit.assert_has("failures=\"1\"");
    junit.assert_has("Node/master1 and 3 more");
}

#[test]
fn the_same_table_under_other_ciliums() {
    // From 1.12 on the speaker takes the CiliumNode's block in cluster-pool: what differs is
    // harmless.
    let later = incident(&["--cilium-version", "1.12.19"]);
    assert_eq!(rules(&later), ["node-spec-not-used".to_owned()].into());
    assert_eq!(
        later["summary"],
        json!({"error": 0, "warning": 0, "info": 1})
    );
    // In ipam kubernetes it takes the Node's, and the agents go back to it when they start again.
    let kubernetes = incident(&["--ipam", "kubernetes"]);
    assert_eq!(
        rules(&kubernetes),
        ["bgp-announces-foreign-block", "block-changes-at-restart"]
            .map(str::to_owned)
            .into()
    );
    // 1.19 has no such speaker: nothing is announced, and the restart is what is left.
    let newest = incident(&["--ipam", "kubernetes", "--cilium-version", "1.19.3"]);
    assert_eq!(
        rules(&newest),
        ["block-changes-at-restart".to_owned()].into()
    );
    for ((node, block, victim), (message, consequence)) in INCIDENT
        .iter()
        .zip(told(&newest, "block-changes-at-restart"))
    {
        assert!(
            message.starts_with(&format!("the Pods of node `{node}` live in "))
                && message.contains(block),
            "{message}"
        );
        assert!(
            consequence.ends_with(&format!(
                "{block} is then held twice: the Pods of node `{victim}` live there"
            )),
            "{consequence}"
        );
    }
}

/// Rules that `doctor --rib` adds, for routes that real routers exchanged.
fn by_route_dump(routes: &[(&str, &str)], arguments: &[&str]) -> testbed::Result<Value> {
    let json = testbed::exchange(routes)?;
    let folder = Folder::new(&[]);
    folder.write("rib.json", json);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let words = [
        "doctor",
        "-o",
        "json",
        "--fail-on",
        "never",
        "--rib",
        "rib.json",
        "--cluster",
        file.to_str().unwrap(),
    ];
    Ok(folder.run(&[&words, arguments].concat()).expect(0).json())
}

#[test]
fn what_real_routers_hold_in_the_incident() {
    let addresses = [
        ("master1", "192.0.2.11"),
        ("master2", "192.0.2.12"),
        ("master3", "192.0.2.13"),
        ("node01", "192.0.2.21"),
    ];
    let address = |name: &str| addresses.iter().find(|(node, _)| *node == name).unwrap().1;
    let announced: Vec<(&str, &str)> = INCIDENT
        .iter()
        .map(|(node, block, _)| (*block, address(node)))
        .collect();
    let report = testbed::or_skip!(by_route_dump(&announced, &[]));
    let wrong = told(&report, "route-from-wrong-node");
    let told: BTreeSet<&str> = wrong.iter().map(|(message, _)| message.as_str()).collect();
    let expected: Vec<String> = INCIDENT
        .iter()
        .map(|(announcer, block, victim)| {
            format!("routers hold {block} from node `{announcer}`, but the Pods of node `{victim}` live there")
        })
        .collect();
    assert_eq!(told, expected.iter().map(String::as_str).collect());
    assert_eq!(
        rules(&report),
        ["bgp-announces-foreign-block", "route-from-wrong-node"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn what_real_routers_hold_besides() {
    // As it should be, but that one is missing, one is left over, and one is a part of another.
    let mut routes: Vec<(&str, &str)> = vec![
        ("10.5.113.0/24", "192.0.2.11"),
        ("10.5.115.0/24", "192.0.2.12"),
        ("10.5.114.0/24", "192.0.2.13"),
    ];
    routes.extend([
        ("10.5.118.0/24", "192.0.2.99"),
        ("10.5.113.128/25", "192.0.2.12"),
    ]);
    let report = testbed::or_skip!(by_route_dump(&routes, &["--cilium-version", "1.12.19"]));
    let expected = [
        "node-spec-not-used",
        "route-missing",
        "route-stale",
        "route-too-specific",
    ];
    assert_eq!(rules(&report), expected.map(str::to_owned).into());
    assert!(
        told(&report, "route-missing")[0]
            .0
            .contains("10.5.112.0/24, in which the Pods of node `node01` live")
    );
    assert!(
        told(&report, "route-too-specific")[0]
            .1
            .contains("do not reach `master1`")
    );
}

#[test]
fn a_file_of_another_product_is_no_rib() {
    let folder = Folder::new(&[
        ("rib.json", r#"{"routing-instances": []}"#),
        ("rib.txt", "BGP table version is 3"),
    ]);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    for (name, told) in [
        ("rib.json", "rib.json is not the JSON of FRR"),
        ("rib.txt", "vtysh -c 'show bgp ipv4 unicast json'"),
        ("none", "cannot be read"),
    ] {
        let ran = folder
            .run(&["doctor", "--rib", name, "--cluster", file.to_str().unwrap()])
            .expect(1);
        ran.stderr.assert_has(told);
    }
}

#[test]
fn the_incident_of_an_unknown_version_is_not_called_harmless() {
    let file =
        std::fs::read_to_string(repository().join("examples/wrong-block/cluster.yaml")).unwrap();
    let folder = Folder::new(&[(
        "cluster.yaml",
        &file.replace("cilium/cilium:v1.11.9", "mirror/cilium@sha256:00"),
    )]);
    let report = folder
        .expect("doctor -o json --cluster cluster.yaml", 2)
        .json();
    assert_eq!(
        rules(&report),
        ["announced-block-not-known", "unknown-version"]
            .map(str::to_owned)
            .into()
    );
    let settled = folder.expect(
        "doctor -o json --cluster cluster.yaml --cilium-version 1.11.9",
        2,
    );
    assert!(rules(&settled.json()).contains("bgp-announces-foreign-block"));
}

/// A report with RIB files of this text.
fn with_ribs(objects: &[Value], ribs: &[&str]) -> Value {
    let folder = Folder::new(&[]);
    folder.write(
        "cluster.json",
        json!({"apiVersion": "v1", "kind": "List", "items": with_times(objects)}).to_string(),
    );
    let mut words = vec![
        "doctor".to_owned(),
        "-o".into(),
        "json".into(),
        "--fail-on".into(),
        "never".into(),
        "--cluster".into(),
        "cluster.json".into(),
    ];
    for (index, text) in ribs.iter().enumerate() {
        folder.write(&format!("rib{index}.json"), text);
        words.extend(["--rib".to_owned(), format!("rib{index}.json")]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    folder.run(&words).expect(0).json()
}

fn frr(routes: &[(&str, &str)]) -> String {
    let path = |hop: &str| json!([{"valid": true, "bestpath": true, "nexthops": [{"ip": hop}]}]);
    let routes: serde_json::Map<String, Value> = routes
        .iter()
        .map(|(prefix, hop)| ((*prefix).to_owned(), path(hop)))
        .collect();
    json!({"vrfId": 0, "routes": routes}).to_string()
}

#[test]
fn routes_of_several_routers_count_together() {
    let objects = healthy(Base::Kubernetes);
    let default = ("0.0.0.0/0", "192.0.2.254");
    let first = frr(&[
        default,
        ("10.20.1.0/24", "192.0.2.1"),
        ("10.20.2.0/24", "192.0.2.2"),
    ]);
    let second = frr(&[("10.20.3.0/24", "192.0.2.3"), ("10.30.0.0/28", "192.0.2.3")]);
    let empty = r#"{"vrfId": 0, "routes": {}}"#;
    assert_eq!(
        with_ribs(&objects, &[&first, &second, empty])["findings"],
        json!([])
    );
    let aggregate = with_ribs(
        &objects,
        &[&first, &frr(&[("10.20.0.0/16", "192.0.2.254")])],
    );
    assert_eq!(severities(&aggregate, "route-missing"), ["info"]);
    assert_eq!(
        severities(&with_ribs(&objects, &[empty]), "route-missing"),
        ["error", "error", "error"]
    );
    let far = with_ribs(&objects, &[&first, &frr(&[("10.20.3.0/24", "172.31.0.1")])]);
    assert_eq!(severities(&far, "route-of-unknown-origin"), ["info"]);
    assert_eq!(rules(&far).len(), 1, "{far:#}");
    // The owner of a next hop that is not a node is unknown.
    let spine = with_ribs(
        &objects,
        &[&first, &second, &frr(&[("10.20.1.128/25", "172.31.0.1")])],
    );
    assert_eq!(severities(&spine, "route-too-specific"), ["warning"]);
}

#[test]
fn files_with_errors_do_not_hide_the_cluster() {
    let folder = Folder::new(&[("pools/a.yaml", "kind: IPPool\n")]);
    let file = repository().join("examples/wrong-block/cluster.yaml");
    let words = ["doctor", "-o", "json", "--cluster", file.to_str().unwrap()];
    let report = folder.run(&words).expect(2).json();
    assert!(
        rules(&report).contains("bgp-announces-foreign-block") && rules(&report).len() > 1,
        "{report:#}"
    );
    let alone = folder
        .run(&[&words[..], &["--no-pools"]].concat())
        .expect(2)
        .json();
    assert_eq!(
        rules(&alone),
        ["bgp-announces-foreign-block".to_owned()].into()
    );
}

/// The old block has the size of an earlier pool, and is half of the present one.
#[test]
fn a_node_that_was_moved_is_not_to_be_drained() {
    let mut objects = healthy(Base::Kubernetes);
    for (index, block) in [
        (1, "10.20.8.0/26"),
        (2, "10.20.8.64/26"),
        (3, "10.20.8.128/26"),
    ] {
        let name = format!("n{index}");
        object(&mut objects, "CiliumNode", &name)["spec"]["ipam"]["podCIDRs"] = json!([block]);
        object(&mut objects, "Node", &name)["spec"] = match index {
            1 => json!({"podCIDR": "10.20.9.0/24", "podCIDRs": ["10.20.9.0/24"]}),
            _ => json!({"podCIDR": block, "podCIDRs": [block]}),
        };
    }
    let spec = "{cidrs: [10.20.8.0/23], blockSize: 26}";
    let advice = |objects: &[Value]| {
        let report = with_pool(objects, spec);
        let findings = report["findings"].as_array().unwrap().clone();
        let mut of_rule = findings
            .into_iter()
            .filter(|finding| finding["rule"] == "one-node-fills-pool");
        of_rule.next().map(|finding| finding["fix"].to_string())
    };
    // Its agent has not restarted: the Node's block is that of its Pods at the next start.
    object(&mut objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.9.0/24"]);
    assert!(advice(&objects).unwrap().contains("drain"));
    object(&mut objects, "CiliumNode", "n1")["spec"]["ipam"]["podCIDRs"] = json!(["10.20.8.0/26"]);
    object(&mut objects, "Node", "n1")["metadata"]["labels"] =
        json!({"kubernetes.io/hostname": "n1"});
    objects.push(
        json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNodeConfig",
        "metadata": {"name": "n1", "namespace": "kube-system"},
        "spec": {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "n1"}},
            "defaults": {"ipv4-range": "10.20.8.0/26"}}}),
    );
    let told = advice(&objects).unwrap();
    told.assert_has("re-create its Node object");
    told.assert_lacks("drain");
}

/// A `CiliumNodeConfig` moved the node within its pool of four blocks. Its Node shows the old block
/// for ever.
#[test]
fn a_node_that_was_moved_does_not_fill_its_pool() {
    let mut n1: Value = serde_json::from_str(&node("n1", "a", &holds("10.20.1.0/24"))).unwrap();
    n1["metadata"]["labels"]["kubernetes.io/hostname"] = json!("n1");
    let folder = Folder::with_cluster(
        &[n1.to_string()],
        &[(
            "pools/a.yaml",
            &[
                policy("{writePath: node-config, limits: {disruptive: {percent: 100}}}"),
                pool("a", "{cidrs: [10.20.0.0/22], blockSize: 24}"),
                pin("n1", "10.20.0.0/24"),
            ]
            .join("---\n"),
        )],
    );
    let words = ["apply", "--cluster", "cluster.json", "--auto-approve"];
    folder.run(&words).expect(0);
    let examine = || {
        let words = ["doctor", "--cluster", "cluster.json", "-o", "json"];
        let ran = folder.run(&[&words[..], &["--fail-on", "never"]].concat());
        ran.expect(0).json()
    };
    let fills_pool = |report: &Value| {
        let findings = report["findings"].as_array().unwrap();
        findings
            .iter()
            .any(|finding| finding["rule"] == "one-node-fills-pool")
    };
    let report = examine();
    assert!(!fills_pool(&report), "{report:#}");
    // A wide setting is still reported.
    let list = folder.read("cluster.json");
    folder.write("cluster.json", list.replace("10.20.0.0/24", "10.20.2.0/23"));
    let report = examine();
    assert!(fills_pool(&report), "{report:#}");
}
