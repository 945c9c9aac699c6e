//! Blocks in one slot of Cilium's operator, in cluster files: what `doctor`, `plan`, `import` and
//! `upgrade` say, and what is never written.

use serde_json::Value;

use super::support::{Folder, Ran, cluster, node, pin, pool};

const RULE: &str = "operator-will-remove-block";
const POLICY: &str = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {writePath: cilium-node}\n";

fn settings(mask: u8) -> String {
    format!(
        r#""ipam":"cluster-pool","enable-ipv4":"true","enable-ipv6":"false","cluster-pool-ipv4-cidr":"10.42.0.0/16","cluster-pool-ipv4-mask-size":"{mask}""#
    )
}

fn operator(version: &str, arguments: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"cilium-operator","namespace":"kube-system","labels":{{"io.cilium/app":"operator"}}}},"spec":{{"replicas":1,"template":{{"spec":{{"containers":[{{"name":"cilium-operator","image":"quay.io/cilium/operator-generic:v{version}","args":[{arguments}]}}]}}}}}}}}"#
    )
}

fn cilium_node(name: &str, block: &str) -> String {
    format!(
        r#"{{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{{"name":"{name}","uid":"c-{name}","resourceVersion":"8"}},"spec":{{"ipam":{{"podCIDRs":["{block}"]}}}}}}"#
    )
}

/// Nodes with these blocks under an operator of this version and mask.
fn folder(version: &str, arguments: &str, mask: u8, blocks: &[(&str, &str)]) -> Folder {
    let mut items = vec![operator(version, arguments)];
    for (name, block) in blocks {
        items.push(node(name, "a", ""));
        items.push(cilium_node(name, block));
    }
    let folder = Folder::new(&[]);
    folder.write("cluster.json", cluster(version, &settings(mask), &items));
    folder
}

/// Three blocks of /24, of which two lie in one /22.
const BLOCKS: [(&str, &str); 3] = [
    ("n0", "10.42.0.0/24"),
    ("n1", "10.42.1.0/24"),
    ("n2", "10.42.8.0/24"),
];

fn run(folder: &Folder, arguments: &[&str]) -> Ran {
    folder.run(&[arguments, &["--cluster-file", "cluster.json"]].concat())
}

fn findings(folder: &Folder) -> Vec<Value> {
    let report = run(
        folder,
        &["doctor", "--no-pools", "-o", "json", "--show-all"],
    )
    .json();
    let findings = report["findings"].as_array().unwrap().iter();
    let of_rule = findings.filter(|finding| finding["rule"] == RULE);
    of_rule.cloned().collect()
}

#[test]
fn doctor_names_the_nodes_of_a_changed_mask() {
    let folder = folder("1.19.3", "", 22, &BLOCKS);
    let found = findings(&folder);
    let [finding] = &found[..] else {
        panic!("{found:#?}")
    };
    assert_eq!(finding["severity"], "error");
    let message = finding["message"].as_str().unwrap();
    assert!(message.contains("1 of 2 nodes"), "{message}");
    assert!(message.contains("operator 1.19.3 removes"), "{message}");
    let text = finding.to_string();
    assert!(text.contains("n0") && text.contains("n1"), "{text}");
    assert!(!text.contains("n2"), "{text}");
    assert!(text.contains("cluster-pool-ipv4-mask-size to 24"), "{text}");
    run(&folder, &["doctor", "--no-pools"]).expect(2);
}

#[test]
fn the_release_and_the_mode_of_the_operator_decide() {
    let is_found = |version: &str, arguments: &str, mask: u8| {
        !findings(&folder(version, arguments, mask, &BLOCKS)).is_empty()
    };
    for version in ["1.17.15", "1.18.9", "1.20.2"] {
        assert!(is_found(version, "", 22), "{version}");
    }
    for version in ["1.15.19", "1.17.14", "1.18.3", "1.19.1"] {
        assert!(!is_found(version, "", 22), "{version}");
        let doctor = run(&folder(version, "", 22, &BLOCKS), &["doctor", "--no-pools"]);
        let text = doctor.expect(0).stdout;
        assert!(text.contains("operator-will-refuse"), "{version}: {text}");
        assert!(text.contains("1 of 2 nodes"), "{version}: {text}");
    }
    assert!(!is_found("1.19.3", r#""--ipam=kubernetes""#, 22));
    // The arguments of the operator override its settings.
    assert!(!is_found(
        "1.19.3",
        r#""--cluster-pool-ipv4-mask-size=24""#,
        22
    ));
    for mask in [24, 26] {
        assert!(!is_found("1.19.3", "", mask), "{mask}");
    }
}

/// 1.17.15 removes blocks, 1.18.3 does not. Either may lead.
#[test]
fn each_of_several_operators_is_judged() {
    let mut items = vec![
        operator("1.18.3", ""),
        operator("1.17.15", "").replace(
            r#""name":"cilium-operator","namespace""#,
            r#""name":"cilium-operator-old","namespace""#,
        ),
    ];
    for (name, block) in BLOCKS {
        items.push(node(name, "a", ""));
        items.push(cilium_node(name, block));
    }
    let folder = Folder::new(&[]);
    folder.write("cluster.json", cluster("1.18.3", &settings(22), &items));
    let found = findings(&folder);
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("operator 1.17.15 removes"), "{message}");
}

/// A variable in the arguments hides the mask, which is not the default of 24.
#[test]
fn a_mask_in_a_variable_is_unknown() {
    let mask = |value: &str| format!(r#""--cluster-pool-ipv4-mask-size={value}""#);
    for (value, expected) in [("24", "10.42.9.0/24"), ("$(MASK)", "operator-unseen")] {
        let folder = Folder::new(&[]);
        let items = [operator("1.19.3", &mask(value)), node("n9", "a", "")];
        folder.write("cluster.json", cluster("1.19.3", &settings(24), &items));
        folder.write("pools/p.yaml", POLICY);
        folder.write(
            "pools/a.yaml",
            pool("a", "{cidrs: [10.42.9.0/24], blockSize: 24}"),
        );
        let plan = run(&folder, &["plan", "-o", "json"]).stdout;
        assert!(plan.contains(expected), "{value}: {plan}");
        let is_unknown = expected == "operator-unseen";
        assert_eq!(plan.contains("is no number"), is_unknown, "{value}: {plan}");
    }
}

#[test]
fn an_old_duplicate_is_lost_by_one_node() {
    let blocks = [("n0", "10.42.0.0/24"), ("n1", "10.42.0.0/24")];
    let found = findings(&folder("1.20.2", "", 24, &blocks));
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("1 of 2 nodes"), "{message}");
    assert!(message.contains("same or overlapping"), "{message}");
}

#[test]
fn plan_import_and_upgrade_report_it() {
    let removes = folder("1.19.3", "", 22, &BLOCKS);
    removes.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.42.0.0/16], blockSize: 24}"),
    );
    let plan = run(&removes, &["plan", "-o", "json"]).json();
    let rules = plan["findings"].as_array().unwrap().iter();
    assert!(
        rules
            .map(|finding| &finding["rule"])
            .any(|rule| rule == RULE),
        "{plan:#}"
    );
    let imported = run(&removes, &["import", "out", "--dry-run"]);
    assert!(imported.all().contains(RULE), "{}", imported.all());
    let keeps = folder("1.18.3", "", 22, &BLOCKS);
    let upgrade = ["upgrade", "--no-pools", "-o", "json", "--show-all", "--to"];
    let told = run(&keeps, &[&upgrade[..], &["1.20.2"]].concat()).expect(2);
    let told = told.json();
    let hops = told["hops"].as_array().unwrap().iter();
    let changes: Vec<&Value> = hops
        .flat_map(|hop| hop["changes"].as_array().unwrap())
        .collect();
    let removals: Vec<&&Value> = changes
        .iter()
        .filter(|change| change["code"] == "upgrade-block-removed")
        .collect();
    let [removal] = removals[..] else {
        panic!("{told:#}")
    };
    let objects = removal["objects"].as_array().unwrap().iter();
    let names: Vec<&Value> = objects.map(|object| &object["name"]).collect();
    assert_eq!(names, ["n0", "n1"]);
    run(&keeps, &[&upgrade[..], &["1.19.1"]].concat()).expect(0);
}

/// A pin into a slot that another node uses is never written while an operator may start.
#[test]
fn no_block_is_written_into_a_used_slot() {
    let mut items = vec![operator("1.19.3", "").replace(r#""replicas":1"#, r#""replicas":0"#)];
    items.push(node("n0", "a", ""));
    items.push(cilium_node("n0", "10.42.0.0/26"));
    items.push(node("n1", "a", ""));
    let folder = Folder::new(&[]);
    folder.write("cluster.json", cluster("1.19.3", &settings(24), &items));
    let size = pool("a", "{cidrs: [10.42.0.0/16], blockSize: 26}");
    folder.write(
        "pools/a.yaml",
        [&size, "---\n", &pin("n1", "10.42.0.64/26"), "---\n", POLICY].concat(),
    );
    let plan = run(&folder, &["plan", "-o", "json"]).json();
    assert_eq!(plan["changes"].as_array().unwrap().len(), 0, "{plan:#}");
    let blocked = plan["blocked"].to_string();
    assert!(blocked.contains("operator-refuses"), "{blocked}");
    assert!(
        blocked.contains("in a slot that no other node uses"),
        "{blocked}"
    );
    // Without the pin and with the operator's size, the node gets a slot of its own.
    let size = pool("a", "{cidrs: [10.42.0.0/16], blockSize: 24}");
    folder.write("pools/a.yaml", [&size, "---\n", POLICY].concat());
    let plan = run(&folder, &["plan", "-o", "json"]).json();
    assert_eq!(plan["changes"][0]["after"][0], "10.42.1.0/24", "{plan:#}");
}
