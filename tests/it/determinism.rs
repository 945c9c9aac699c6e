//! Equal inputs give byte-equal plans, whatever the order of files, documents and objects.

use super::support::{Folder, KUBERNETES, cluster, holds, node, pin, pool};

#[test]
fn order_does_not_matter() {
    let mut items: Vec<String> = (0..40).map(|index| node(&format!("n{index}"), ["a", "b"][index % 2], "")).collect();
    items.push(node("held", "a", &holds("10.20.3.0/24")));
    let rack = |rack: &str, range: &str| {
        pool(rack, &format!("{{cidrs: [{range}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: {rack}}}}}}}"))
    };
    let documents = [rack("a", "10.20.0.0/20"), rack("b", "10.21.0.0/16"), pin("n7", "10.21.40.0/24")];
    let plan = |items: &[String], documents: &[String]| {
        let folder = Folder::new(&[
            ("cluster.json", &cluster("1.19.3", KUBERNETES, items)),
            ("pools/all.yaml", &documents.join("---\n")),
        ]);
        let json =
            folder.run(&["plan", "--cluster", "cluster.json", "-o", "json", "--out", "plan.json"]).expect(0).json();
        // The lines of the documents differ, and nothing else may.
        let mut text = serde_json::to_string(&json).unwrap();
        for line in 1..=20 {
            text = text.replace(&format!("\"line\":{line},"), "").replace(&format!("all.yaml:{line}"), "all.yaml");
        }
        text
    };
    let expected = plan(&items, &documents);
    for seed in 1..6 {
        items.rotate_left(seed * 7 % 41);
        items.swap(seed, 40 - seed);
        let [a, b, c] = documents.clone();
        let shuffled = if seed % 2 == 0 { [c, a, b] } else { [b, c, a] };
        assert_eq!(plan(&items, &shuffled), expected, "seed {seed}");
    }
}
