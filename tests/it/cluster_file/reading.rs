//! Which files are refused. Items that are refused are in `cases/refused-clusters`.

use super::{POOL, blocked, folder};
use crate::support::{Folder, KUBERNETES, node, pool};

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
fn without_cilium_everything_waits() {
    let list = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
        node("n", "a", "")
    );
    let folder = Folder::new(&[("cluster.json", &list), ("pools/a.yaml", &pool("a", POOL))]);
    assert!(blocked(&folder).contains("no cilium-config"));
}
