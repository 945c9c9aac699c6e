//! Which items of a file are read, and which files are refused.

use super::{POOL, blocked, folder, plan};
use crate::support::{Folder, KUBERNETES, cluster, holds, node, pool};

#[test]
fn an_item_that_may_be_one_that_is_read_is_never_overlooked() {
    let cilium_node = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"m"},"spec":{"ipam":{"podCIDRs":["10.20.0.0/24"]}}}"#;
    let cases = [
        (
            cilium_node.replace(r#""kind":"CiliumNode""#, r#""kind":"CilumNode""#),
            "item 6 of its list (`m`) is a `CilumNode`; did you mean `CiliumNode`?",
        ),
        (
            cilium_node.replace(r#""apiVersion":"cilium.io/v2","#, ""),
            "item 6 of its list (`m`) has no `apiVersion`",
        ),
        (
            cilium_node.replace(r#""cilium.io/v2""#, "null"),
            "item 6 of its list (`m`) has no `apiVersion`",
        ),
        (
            cilium_node.replace(r#""CiliumNode""#, r#""""#),
            "item 6 of its list (`m`) has no `kind`",
        ),
        (
            cilium_node.replace("cilium.io/v2", "v1"),
            "item 6 of its list (`m`) is a CiliumNode with apiVersion `v1`; expected `cilium.io/v2`",
        ),
        (
            node("m", "a", &holds("10.20.0.0/24")).replace(r#""Node""#, r#""node""#),
            "is a `node`; did you mean `Node`?",
        ),
        (
            cilium_node.replace(r#""CiliumNode""#, r#""ciliumnodes""#),
            "is a `ciliumnodes`; did you mean `CiliumNode`?",
        ),
        (
            cilium_node.replace(r#""CiliumNode""#, r#""cilium-node""#),
            "is a `cilium-node`; did you mean `CiliumNode`?",
        ),
        (
            node("m", "a", &holds("10.20.0.0/24")).replace(r#""Node""#, r#""NODES""#),
            "is a `NODES`; did you mean `Node`?",
        ),
        (
            format!(r#"{{"apiVersion":"v1","kind":"List","items":[{cilium_node}]}}"#),
            "item 6 of its list is a `List`",
        ),
        (
            "7".to_owned(),
            "item 6 of its list is not a Kubernetes object: invalid type: integer `7`, expected a mapping",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Node","metadata":"x"}"#.to_owned(),
            "item 6 of its list is not a Kubernetes object: invalid type: string \"x\", expected a mapping",
        ),
    ];
    for (item, message) in cases {
        let folder = folder(
            "1.19.3",
            KUBERNETES,
            &[node("n", "a", ""), item.clone()],
            &[pool("a", POOL)],
        );
        let before = folder.read("cluster.json");
        for verb in [
            &["plan"][..],
            &["apply", "--auto-approve"],
            &["snapshot"],
            &["show", "nodes"],
        ] {
            let ran = folder
                .run(&[verb, &["--cluster", "cluster.json"]].concat())
                .expect(8);
            assert!(ran.stderr.contains(message), "{item}: {}", ran.stderr);
            assert!(
                !ran.stderr.contains("expected struct")
                    && ran.stderr.contains("hint: fix the file"),
                "{}",
                ran.stderr
            );
        }
        assert_eq!(folder.read("cluster.json"), before);
    }
}

#[test]
fn other_kinds_of_a_list_are_ignored() {
    let items = [
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":"x"}}"#,
        r#"{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"x"}}"#,
        r#"{"apiVersion":"serving.knative.dev/v1","kind":"Service","metadata":{"name":"s","namespace":"x"}}"#,
        r#"{"apiVersion":"longhorn.io/v1beta2","kind":"Node","metadata":{"name":"n","namespace":"x"}}"#,
        r#"{"apiVersion":"cilium.io/v2","kind":"CiliumIdentity","metadata":{"name":"7"}}"#,
    ];
    let items = [vec![node("n", "a", "")], items.map(str::to_owned).into()].concat();
    let folder = folder("1.19.3", KUBERNETES, &items, &[pool("a", POOL)]);
    assert_eq!(plan(&folder)["changes"][0]["after"][0], "10.20.0.0/24");
}

#[test]
fn files_that_are_no_cluster() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", ""), node("n", "a", "")],
        &[pool("a", POOL)],
    );
    let plan = |file: &str| folder.run(&["plan", "--cluster", file]).expect(8).stderr;
    assert!(plan("cluster.json").contains("appears twice"));
    assert!(plan("missing.json").contains("missing.json"));
    folder.write("node.json", node("n", "a", ""));
    assert!(plan("node.json").contains("not a List"));
    folder.write("text.yaml", "just text\n");
    assert!(plan("text.yaml").contains("not a List"));
    folder.write("half.json", "{\"kind\": \"List\", \"items\": [");
    assert!(plan("half.json").contains("not a List"));
}

#[test]
fn whose_settings_hold_does_not_depend_on_the_order() {
    let config = |namespace: &str, ipam: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-config","namespace":"{namespace}"}},"data":{{"ipam":"{ipam}"}}}}"#
        )
    };
    let (first, second) = (config("a", "cluster-pool"), config("b", "kubernetes"));
    for items in [
        [first.clone(), second.clone(), node("n", "a", "")],
        [second, first, node("n", "a", "")],
    ] {
        let list = format!(
            r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
            items.join(",")
        );
        let folder = Folder::new(&[("cluster.json", &list), ("pools/a.yaml", &pool("a", POOL))]);
        assert!(blocked(&folder).contains("no cilium-config"));
        assert!(
            plan(&folder)["findings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|finding| finding["rule"] == "multiple-cilium-installations")
        );
    }
}

#[test]
fn null_is_what_go_writes_for_nothing() {
    let nulls = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"u","resourceVersion":"1","labels":null,"annotations":null,"managedFields":null},"spec":null,"status":{"addresses":null}}"#;
    let empty = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumNode","metadata":{"name":"n"},"spec":{"ipam":null}}"#;
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[nulls.into(), empty.into()],
        &[pool("a", POOL)],
    );
    assert_eq!(plan(&folder)["summary"]["assign"], 1);
    let faulty = node("odd", "a", r#""podCIDRs":"10.20.0.0/24""#);
    folder.write("faulty.json", cluster("1.19.3", KUBERNETES, &[faulty]));
    assert!(
        folder
            .run(&["plan", "--cluster", "faulty.json"])
            .expect(8)
            .stderr
            .contains("nodes `odd` cannot be read")
    );
}

#[test]
fn a_large_yaml_file_is_read() {
    let mut list = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for index in 0..12_000 {
        list.push_str(&format!("- {{apiVersion: v1, kind: Node, metadata: {{name: n{index}, uid: u{index}, resourceVersion: \"1\", labels: {{a: b, c: d, e: f, g: h, i: j}}}}}}\n"));
    }
    let folder = Folder::new(&[("cluster.yaml", &list), ("pools/a.yaml", &pool("a", POOL))]);
    let ran = folder
        .run(&["plan", "--cluster", "cluster.yaml", "--fail-on", "never"])
        .expect(0);
    let headline = "12,000 blocked, 1 error; no changes can be made now. 0 of 12,000 nodes as the files say, 0 moved.";
    assert!(
        ran.stdout.starts_with(headline) && ran.stdout.trim_end().ends_with(headline),
        "{}",
        ran.stdout
    );
}

#[test]
fn faults_that_a_fuzzer_found() {
    let listed = r#"{"apiVersion":"v1","kind":"Node","metadata":[],"spec":{}}"#;
    let of_list = folder("1.19.3", KUBERNETES, &[listed.into()], &[pool("a", POOL)]);
    of_list
        .run(&["plan", "--cluster", "cluster.json"])
        .expect(8);
    let last = node("n", "a", "").replace(
        r#""resourceVersion":"7""#,
        r#""resourceVersion":"18446744073709551615""#,
    );
    let at_the_end = folder("1.19.3", KUBERNETES, &[last], &[pool("a", POOL)]);
    let ran = at_the_end
        .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
        .expect(1);
    assert!(
        ran.stderr.contains("no resourceVersion is left"),
        "{}",
        ran.stderr
    );
}
