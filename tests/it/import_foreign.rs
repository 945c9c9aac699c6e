//! `import --from calico` and `--from metallb`: nodes and Services keep their addresses.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{Folder, TextAssertions, args, holds, node};

const CALICO: [&str; 7] = [
    "import",
    "--from",
    "calico",
    "--objects",
    "foreign.yaml",
    "--cluster-file",
    "cluster.json",
];

/// As `kubectl get -o yaml` prints it.
const POOLS: &str = r#"apiVersion: v1
kind: List
items:
- apiVersion: crd.projectcalico.org/v1
  kind: IPPool
  metadata:
    name: rack-a
    resourceVersion: "1023"
  spec:
    allowedUses:
    - Workload
    - Tunnel
    blockSize: 26
    cidr: 10.1.0.0/16
    ipipMode: Never
    natOutgoing: true
    nodeSelector: rack in {'a', "a2"}
    vxlanMode: CrossSubnet
- apiVersion: crd.projectcalico.org/v1
  kind: IPPool
  metadata:
    name: rack-b
  spec:
    blockSize: 26
    cidr: 10.2.0.0/16
    nodeSelector: rack == 'b'
- apiVersion: crd.projectcalico.org/v1
  kind: IPPool
  metadata:
    name: special
  spec:
    blockSize: 26
    cidr: 10.3.0.0/16
    nodeSelector: rack contains 'special' || role == 'x'
"#;

fn affinity(node: &str, cidr: &str) -> String {
    let name = format!("{node}-{}", cidr.replace(['.', '/'], "-"));
    format!(
        "- apiVersion: crd.projectcalico.org/v1\n  kind: BlockAffinity\n  metadata:\n    name: {name}\n  spec:\n    cidr: {cidr}\n    deleted: \"false\"\n    node: {node}\n    state: confirmed\n    type: host\n"
    )
}

fn calico_folder(affinities: &[(&str, &str)], nodes: &[String]) -> Folder {
    let objects: String = affinities
        .iter()
        .map(|(node, cidr)| affinity(node, cidr))
        .collect();
    Folder::with_cluster(nodes, &[("foreign.yaml", &format!("{POOLS}{objects}"))])
}

#[track_caller]
fn changes_nothing(folder: &Folder) {
    let plan = folder.plan();
    for part in ["changes", "misplaced", "blocked", "services"] {
        assert_eq!(plan[part], json!([]), "{part}: {plan:#}");
    }
    assert_eq!(plan["summary"]["errors"], 0, "{plan:#}");
}

fn documents(folder: &Folder, file: &str) -> Vec<Value> {
    serde_yaml::from_multiple(&folder.read(&format!("pools/{file}"))).unwrap()
}

#[test]
fn nodes_that_hold_their_blocks_of_calico_keep_them() {
    let blocks = [
        ("n1", "a", "10.1.0.0/26"),
        ("n2", "a2", "10.1.0.64/26"),
        ("n3", "b", "10.2.7.0/26"),
        // Its labels would give it a block of `rack-a`.
        ("n4", "a", "10.2.8.0/26"),
        ("n5", "special-1", "10.3.0.0/26"),
    ];
    let nodes: Vec<String> = blocks
        .iter()
        .map(|(name, rack, block)| node(name, rack, &holds(block)))
        .collect();
    let affinities: Vec<(&str, &str)> = blocks
        .iter()
        .map(|(name, _, block)| (*name, *block))
        .collect();
    let folder = calico_folder(&affinities, &nodes);
    let ran = folder.run(&CALICO).expect(0);
    ran.stdout.assert_has("No changes. 5 nodes match the files");
    // Inferences are in the files only.
    ran.stderr.assert_has("left out: IPPool special");
    ran.stderr.assert_lacks("Node n1");
    changes_nothing(&folder);
    folder.expect("validate --strict", 0);
    let pools = documents(&folder, "ippools.yaml");
    let selectors: Vec<&Value> = pools
        .iter()
        .map(|pool| &pool["spec"]["nodeSelector"])
        .collect();
    assert_eq!(
        json!(selectors),
        json!([
            {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a", "a2"]}]},
            {"matchLabels": {"rack": "b"}},
            {"matchLabels": {"cilium-ipam.io/pool": "special"}},
        ])
    );
    let text = folder.read("pools/ippools.yaml");
    let special = "# LEFT OUT: IPPool special: `nodeSelector` `rack contains 'special' || role == 'x'` is not";
    text.assert_has(special);
    assert!(text.contains("# LEFT OUT: IPPool rack-a: `natOutgoing: true`"));

    // A second run shows differences, and writes nothing.
    let again = folder.run(&CALICO).expect(0);
    assert!(
        again
            .stdout
            .contains("pools is what the import would write"),
        "{}",
        again.all()
    );
    folder.write(
        "pools/ippools.yaml",
        text.replace("10.2.0.0/16", "10.2.0.0/15"),
    );
    let differs = folder.run(&CALICO).expect(1);
    assert!(
        differs
            .stdout
            .contains("-  - 10.2.0.0/15\n+  - 10.2.0.0/16\n"),
        "{}",
        differs.all()
    );
    assert!(folder.read("pools/ippools.yaml").contains("10.2.0.0/15"));
}

#[test]
fn nodes_without_a_block_get_that_of_calico_and_new_nodes_none_in_use() {
    let nodes = ["n1", "n2", "two", "new"].map(|name| node(name, "a", ""));
    let folder = calico_folder(
        &[
            ("n1", "10.1.0.128/26"),
            ("n2", "10.1.9.0/26"),
            // Cilium cannot hold two: both stay reserved.
            ("two", "10.1.0.0/26"),
            ("two", "10.1.0.64/26"),
        ],
        &nodes,
    );
    let ran = folder.run(&CALICO).expect(0);
    ran.stderr
        .assert_has("left out: Node two: Calico gave it 2 IPv4 blocks");
    folder.expect("apply --cluster-file cluster.json --auto-approve", 0);
    let cluster: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let held: Vec<(&str, &str)> = cluster["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "Node")
        .map(|node| {
            (
                node["metadata"]["name"].as_str().unwrap(),
                node["spec"]["podCIDR"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        held,
        [
            ("n1", "10.1.0.128/26"),
            ("n2", "10.1.9.0/26"),
            ("two", "10.1.1.0/26"),
            ("new", "10.1.0.192/26"),
        ]
    );
    changes_nothing(&folder);
}

#[test]
fn files_that_cannot_be_read_leave_no_file() {
    let folder = calico_folder(&[], &[]);
    let refused = |content: &str, part: &str| {
        folder.write("foreign.yaml", content);
        let ran = folder.run(&CALICO).expect(1);
        assert!(ran.stderr.contains(part), "{part}: {}", ran.all());
        assert!(!folder.join("pools").exists());
    };
    let cut_off = format!("{POOLS}- apiVersion: \"crd.projectc");
    refused(
        &cut_off,
        "foreign.yaml cannot be read: it is neither JSON nor YAML at line ",
    );
    refused("", "there is no pool of Calico that can be imported");
    refused(
        "{\"kind\": \"List\"}",
        "kubectl get ippools.crd.projectcalico.org",
    );
    refused(
        &POOLS.replace("10.", "1000."),
        "IPPool rack-a: `spec.cidr`: `1000.1.0.0/16` is not a CIDR",
    );
    // Without files, the objects of the cluster are read.
    let ran = folder.expect("import --from calico", 8);
    ran.stderr.assert_lacks("no pool of Calico");
    let from_file = args("import --from calico --cluster-file cluster.json");
    let ran = folder.run(&from_file).expect(1);
    ran.stderr.assert_has("no pool of Calico");
    let other = folder.run(&args(
        "import --objects foreign.yaml --cluster-file cluster.json",
    ));
    assert!(
        other
            .expect(1)
            .stderr
            .contains("--objects needs --from with another address manager")
    );
}

#[test]
fn duplicates_in_the_cluster_are_findings() {
    let nodes = ["n1", "n2"].map(|name| node(name, "a", &holds("10.1.0.0/26")));
    let folder = calico_folder(&[("n1", "10.1.0.0/26")], &nodes);
    let ran = folder.run(&CALICO).expect(2);
    ran.stderr.assert_has("10.1.0.0/26");
    assert!(folder.join("pools/ippools.yaml").exists());
}

#[test]
fn flags_for_the_cluster_are_refused() {
    let folder = calico_folder(&[], &[]);
    for flag in ["--adopt", "--allow-changes"] {
        let ran = folder.run(&[&CALICO[..], &[flag]].concat()).expect(1);
        ran.stderr.assert_has("cannot be used with");
    }
    assert!(!folder.join("pools").exists());
}

#[test]
fn hostile_texts_stay_in_their_comments() {
    let folder = calico_folder(&[], &[]);
    let selector = "rack == 'a\nkind: IPAMPolicy\u{1b}[2J\u{2028}---\nx";
    let pool = json!({
        "apiVersion": "projectcalico.org/v3", "kind": "IPPool",
        "metadata": {"name": "p"},
        "spec": {"cidr": "10.1.0.0/16", "nodeSelector": selector, "namespaceSelector": "a\n---\nb"},
    });
    let hostile = json!({"kind": "x\n---\nkind: IPAMPolicy", "apiVersion": "a\n/b\u{1b}[31m"});
    folder.write("foreign.yaml", format!("{pool}\n---\n{hostile}\n"));
    let ran = folder.run(&CALICO).expect(0);
    assert!(!ran.all().contains('\u{1b}'), "{}", ran.all());
    let text = folder.read("pools/ippools.yaml");
    assert!(!text.contains('\u{1b}'), "{text}");
    let kinds: Vec<Value> = documents(&folder, "ippools.yaml")
        .into_iter()
        .map(|document| document["kind"].clone())
        .collect();
    assert_eq!(kinds, ["IPPool"]);
}

#[test]
fn metallb_becomes_pools_and_pins_of_cilium() {
    let service = |name: &str, ip: &str, annotations: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "3",
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations},
            "spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
                "ports": [{"port": 80, "protocol": "TCP"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    };
    let services = [
        service("web", "192.168.10.7", json!({})),
        service(
            "shared",
            "192.168.10.8",
            json!({"metallb.io/allow-shared-ip": "key"}),
        ),
    ];
    let metallb = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "metallb.io/v1beta1", "kind": kind,
            "metadata": {"name": name, "namespace": "metallb-system"}, "spec": spec})
    };
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "config", "namespace": "metallb-system"},
        "data": {"config": "address-pools:\n- name: old\n  protocol: layer2\n  addresses: [192.0.2.0/28]\n"}});
    let pool = metallb(
        "IPAddressPool",
        "example",
        json!({"addresses": ["192.168.10.0/24", "192.168.9.1-192.168.9.5"]}),
    );
    let items = json!({"apiVersion": "v1", "kind": "List",
        "items": [pool, metallb("L2Advertisement", "example", json!({"ipAddressPools": ["example"]})),
            config, services[0], services[1]]});
    let nodes: Vec<String> = services.iter().map(Value::to_string).collect();
    let folder = Folder::with_cluster(&nodes, &[("metallb.json", &items.to_string())]);
    let arguments = [
        "import",
        "--from",
        "metallb",
        "--objects",
        "metallb.json",
        "--cluster-file",
        "cluster.json",
        "-o",
        "json",
    ];
    let ran = folder.run(&arguments).expect(0);
    let report = ran.json();
    assert_eq!(report["written"], true, "{report:#}");
    let names: Vec<&str> = report["remarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|remark| remark["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"sharing-key"), "{names:?}");
    let pools = documents(&folder, "load-balancer-pools.yaml");
    assert_eq!(
        pools[0]["spec"],
        json!({"blocks": [{"cidr": "192.168.10.0/24"}, {"start": "192.168.9.1", "stop": "192.168.9.5"}],
            "allowFirstLastIPs": "Yes"})
    );
    assert_eq!(pools[1]["metadata"]["name"], "old");
    // Both advertisements together announce all pools.
    let announcements = documents(&folder, ".cilium-ipam/announcements.yaml");
    assert_eq!(announcements.len(), 1);
    assert_eq!(announcements[0]["kind"], "CiliumL2AnnouncementPolicy");
    folder.expect("apply --cluster-file cluster.json --auto-approve", 0);
    let after = folder.plan();
    assert_eq!(after["changes"], json!([]), "{after:#}");
    assert_eq!(after["summary"]["errors"], 0, "{after:#}");
    let cluster: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let requested: Vec<&str> = cluster["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "Service")
        .map(|item| {
            item["metadata"]["annotations"]["lbipam.cilium.io/ips"]
                .as_str()
                .unwrap()
        })
        .collect();
    assert_eq!(requested, ["192.168.10.7", "192.168.10.8"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Selectors of any kind, and blocks that contradict them.
    #[test]
    fn generated_clusters_keep_their_blocks(
        nodes in prop::collection::vec((0..4_u8, 0..3_u8), 1..12),
        selectors in prop::collection::vec(prop::sample::select(&[
            "all()", "", "rack == 'r0'", "rack != 'r1'", "has(rack) && rack not in {'r1', 'r2'}",
            "rack == 'r0' || rack == 'r3'", "rack starts with 'r'", "!all()", "rack = 'r0'",
            "rack == 'r0' && rack == 'r1'", "(rack == 'r0')",
        ][..]), 3),
        disabled in prop::collection::vec(any::<bool>(), 3),
    ) {
        let mut objects: Vec<Value> = selectors.iter().zip(&disabled).enumerate().map(
            |(place, (selector, disabled))| json!({
                "apiVersion": "projectcalico.org/v3", "kind": "IPPool",
                "metadata": {"name": format!("p{place}")},
                "spec": {"cidr": format!("10.{place}.0.0/16"), "nodeSelector": selector,
                    "disabled": disabled, "blockSize": 26},
            }),
        ).collect();
        let mut of_cluster = Vec::new();
        for (number, (rack, pool)) in nodes.iter().enumerate() {
            let (name, block) = (format!("n{number}"), format!("10.{pool}.{number}.64/26"));
            objects.push(json!({
                "apiVersion": "projectcalico.org/v3", "kind": "BlockAffinity",
                "metadata": {"name": name},
                "spec": {"cidr": block, "node": name, "state": "confirmed", "deleted": false},
            }));
            of_cluster.push(node(&name, &format!("r{rack}"), &holds(&block)));
        }
        let folder = Folder::with_cluster(&of_cluster, &[("foreign.yaml", &json!({"kind": "List", "items": objects}).to_string()),
        ]);
        folder.run(&CALICO).expect(0);
        changes_nothing(&folder);
    }
}
