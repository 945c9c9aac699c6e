//! Which files are refused. Items that are refused are in `cases/refused-clusters`.

use serde_json::{Value, json};

use super::{POOL, blocked, folder};
use crate::support::{Folder, KUBERNETES, TextAssertions, args, node, pool};

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
    folder.write("text.yaml", "just text\n");
    assert!(plan("text.yaml").contains("not a List"));
    folder.write("faulty.yaml", "kind: List\nitems:\n\t- {}\n");
    let place = "cluster file faulty.yaml: it is neither JSON nor YAML at line 3, column ";
    let faulty = plan("faulty.yaml");
    faulty.assert_has(place);
    faulty.assert_has("a tab in place of spaces; indent with spaces (yaml-syntax)");
    folder.write("half.json", "{\"kind\": \"List\", \"items\": [");
    assert!(plan("half.json").contains("not a List: the text ends too early, at line 1"));
}

#[test]
fn all_forms_that_kubectl_prints_are_one_cluster() {
    let folder = folder(
        "1.19.3",
        KUBERNETES,
        &[node("n", "a", ""), node("m", "a", "")],
        &[pool("a", POOL)],
    );
    let list: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let items = list["items"].as_array().unwrap();
    let plan = |file: &str| {
        let ran = folder
            .run(&["plan", "-o", "json", "--cluster", file])
            .expect(0);
        ran.json()["changes"].clone()
    };
    let documents: Vec<String> = items.iter().map(Value::to_string).collect();
    folder.write(
        "documents.yaml",
        format!("---\n{}", documents.join("\n---\n")),
    );
    folder.write("documents.json", documents.join("\n"));
    let (of_nodes, others): (Vec<_>, Vec<_>) = items
        .iter()
        .cloned()
        .partition(|item| item["kind"] == "Node");
    let bare = of_nodes.into_iter().map(|mut node| {
        let fields = node.as_object_mut().unwrap();
        fields.retain(|key, _| !["kind", "apiVersion"].contains(&key.as_str()));
        node
    });
    let bare: Vec<_> = bare.collect();
    let nodes = json!({"apiVersion": "v1", "kind": "NodeList", "items": bare});
    let nested = json!({"apiVersion": "v1", "kind": "List", "items": [
        nodes, {"apiVersion": "v1", "kind": "List", "items": others}]});
    folder.write("nested.json", nested.to_string());
    for file in ["documents.yaml", "documents.json", "nested.json"] {
        assert_eq!(plan(file), plan("cluster.json"), "{file}");
    }
}

#[test]
fn several_files_are_one_cluster() {
    let (nodes, pools) = ([node("n", "a", ""), node("m", "a", "")], [pool("a", POOL)]);
    let folder = folder("1.19.3", KUBERNETES, &nodes, &pools);
    let list: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let items = list["items"].as_array().unwrap().iter().cloned();
    let (nodes, others): (Vec<Value>, Vec<Value>) = items.partition(|item| item["kind"] == "Node");
    let list =
        |kind: &str, items: &[Value]| json!({"apiVersion": "v1", "kind": kind, "items": items});
    folder.write("nodes.json", list("List", &nodes).to_string());
    folder.write("others.json", list("List", &others).to_string());
    let of_nodes = list("NodeList", &nodes).to_string();
    folder.write("nodes.yaml", format!("---\n{of_nodes}"));
    let documents: Vec<String> = others.iter().map(Value::to_string).collect();
    folder.write("others.yaml", format!("---\n{}", documents.join("\n---\n")));
    let run = |command: &str, files: &[&str]| {
        let named = files.iter().flat_map(|file| ["--cluster-file", *file]);
        folder.run(&args(command).into_iter().chain(named).collect::<Vec<_>>())
    };
    let changes = |files: &[&str]| run("plan -o json", files).expect(0).json()["changes"].clone();
    let whole = changes(&["cluster.json"]);
    for files in [
        ["nodes.json", "others.json"],
        ["others.yaml", "nodes.yaml"],
        ["nodes.json", "others.yaml"],
    ] {
        assert_eq!(changes(&files), whole, "{files:?}");
    }
    let twice = run("plan", &["nodes.json", "others.yaml", "nodes.yaml"]).expect(8);
    let twin =
        "cluster file nodes.yaml: Node `m` appears twice: it is in nodes.json, too; remove it";
    twice.stderr.assert_has(twin);
    folder.write(
        "faulty.json",
        r#"{"kind": "List", "items": [{"kind": "Node"}]}"#,
    );
    let faulty = run("plan", &["nodes.json", "faulty.json"]).expect(8);
    faulty.stderr.assert_has("cluster file faulty.json: item 1");
    let refused = run("apply --auto-approve", &["nodes.json", "others.json"]).expect(1);
    let join = "snapshot --cluster-file nodes.json --cluster-file others.json --out cluster.json";
    refused.stderr.assert_has(join);
    run("snapshot --out joined.json", &["nodes.json", "others.json"]).expect(0);
    run("apply --auto-approve", &["joined.json"]).expect(0);
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
            folder.plan()["findings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|finding| finding["rule"] == "multiple-cilium-installations")
        );
    }
}

#[test]
fn a_large_yaml_file_is_read() {
    let mut list = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for index in 0..12_000 {
        list.push_str(&format!("- {{apiVersion: v1, kind: Node, metadata: {{name: n{index}, uid: u{index}, resourceVersion: \"1\", labels: {{a: b, c: d, e: f, g: h, i: j}}}}}}\n"));
    }
    let folder = Folder::new(&[("cluster.yaml", &list), ("pools/a.yaml", &pool("a", POOL))]);
    let ran = folder.expect("plan --cluster cluster.yaml --fail-on never", 0);
    let headline = "12,000 blocked, 1 error; no changes can be made now. 0 of 12,000 nodes match the files, 0 moved.";
    assert!(
        ran.stdout.starts_with(headline) && ran.stdout.trim_end().ends_with(headline),
        "{}",
        ran.stdout
    );
}

#[test]
fn without_cilium_everything_waits() {
    let list = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
        node("n", "a", "")
    );
    let folder = Folder::new(&[("cluster.json", &list), ("pools/a.yaml", &pool("a", POOL))]);
    assert!(blocked(&folder).contains("no cilium-config"));
}
