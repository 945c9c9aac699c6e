//! Equal inputs give byte-equal plans, whatever the order of files, documents and objects.

use serde_json::Value;

use super::support::{Folder, holds, node, pin, pool};

fn items() -> Vec<String> {
    let mut items: Vec<String> = (0..40)
        .map(|index| node(&format!("n{index}"), ["a", "b"][index % 2], ""))
        .collect();
    items.push(node("held", "a", &holds("10.20.3.0/24")));
    items
}

fn documents() -> [String; 3] {
    let rack = |rack: &str, range: &str| {
        let selector = format!("nodeSelector: {{matchLabels: {{rack: {rack}}}}}");
        pool(
            rack,
            &format!("{{cidrs: [{range}], blockSize: 24, {selector}}}"),
        )
    };
    [
        rack("a", "10.20.0.0/20"),
        rack("b", "10.21.0.0/16"),
        pin("n7", "10.21.40.0/24"),
    ]
}

#[test]
fn the_order_of_files_and_objects_does_not_matter_to_a_single_byte() {
    let documents = documents();
    let plan = |items: &[String], order: [usize; 3]| {
        let folder = Folder::with_cluster(items, &[]);
        for index in order {
            folder.write(
                &format!("pools/{}.yaml", ["b", "c", "a"][index]),
                &documents[index],
            );
        }
        folder
            .expect("plan --cluster cluster.json -o json --fail-on never", 0)
            .stdout
    };
    let mut items = items();
    let expected = plan(&items, [0, 1, 2]);
    for (seed, order) in [[2, 1, 0], [1, 0, 2], [2, 0, 1], [0, 2, 1]]
        .into_iter()
        .enumerate()
    {
        items.rotate_left(seed * 7 % 41 + 1);
        items.swap(seed, 40 - seed);
        assert!(plan(&items, order) == expected, "seed {seed}");
    }
}

#[test]
fn the_order_of_documents_changes_nothing_but_their_lines() {
    let plan = |documents: [String; 3]| {
        let folder =
            Folder::with_cluster(&items(), &[("pools/all.yaml", &documents.join("---\n"))]);
        let mut plan = folder.plan();
        without_lines(&mut plan);
        plan
    };
    let [a, b, c] = documents();
    assert_eq!(plan([c.clone(), a.clone(), b.clone()]), plan([a, b, c]));
}

fn without_lines(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("origin");
            if fields.get("reason").is_some_and(|reason| {
                reason
                    .as_str()
                    .is_some_and(|reason| reason.starts_with("pinned"))
            }) {
                fields.remove("reason");
            }
            fields.values_mut().for_each(without_lines);
        }
        Value::Array(items) => items.iter_mut().for_each(without_lines),
        _ => {}
    }
}

/// Of nodes of the same age, `n2` comes before `n10`. A node keeps its block, whatever its name.
#[test]
fn nodes_of_the_same_age_get_blocks_in_the_natural_order_of_their_names() {
    let pools = pool("a", "{cidrs: [10.0.0.0/16], blockSize: 24}");
    let nodes = [
        node("n10", "a", ""),
        node("n2", "a", ""),
        node("n1", "a", &holds("10.0.1.0/24")),
    ];
    let folder = Folder::with_cluster(&nodes, &[("pools/a.yaml", &pools)]);
    let plan = folder.plan();
    let changes = plan["changes"].as_array().unwrap().iter();
    let given = changes.map(|change| (change["name"].clone(), change["after"].clone()));
    let expected = [("n10", "10.0.2.0/24"), ("n2", "10.0.0.0/24")];
    let expected = expected.map(|(name, block)| (name.into(), serde_json::json!([block])));
    assert_eq!(given.collect::<Vec<_>>(), expected, "{plan:#}");
}
