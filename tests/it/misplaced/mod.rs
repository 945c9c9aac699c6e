//! Held blocks that the files would not give today: counted, explained and gated, and never more
//! than a screen of text.

mod causes;
mod grouping;

use serde_json::Value;

use crate::support::{Folder, node, pool};

const NODES: usize = 2_000;

fn rack(name: &str, cidr: &str, size: u8, selected: &str) -> String {
    pool(
        name,
        &format!(
            "{{cidrs: [{cidr}], blockSize: {size}, nodeSelector: {{matchLabels: {{rack: {selected}}}}}}}"
        ),
    )
}

/// Racks a, b and c, whose pools select these racks and give blocks of this size.
fn racks(of_a: &str, of_b: &str, size: u8) -> [String; 3] {
    [
        rack("a", "10.0.0.0/12", size, of_a),
        rack("b", "10.16.0.0/12", size, of_b),
        rack("c", "10.32.0.0/12", size, "c"),
    ]
}

/// 2,000 nodes, each with a /24 of the pool of its rack.
fn applied(pools: &[String]) -> Folder {
    let nodes: Vec<String> = (0..NODES)
        .map(|index| node(&format!("n{index:04}"), ["a", "b", "c"][index % 3], ""))
        .collect();
    let folder = Folder::with_cluster(
        &nodes,
        &[("pools/racks.yaml", &racks("a", "b", 24).join("---\n"))],
    );
    folder.expect("apply --cluster cluster.json --auto-approve", 0);
    let clean = folder
        .expect("plan --cluster cluster.json --fail-on misplaced", 0)
        .stdout;
    assert_eq!(clean, "No changes. 2,000 nodes match the files, 0 moved.\n");
    folder.write("pools/racks.yaml", pools.join("---\n"));
    folder
}

fn plan(folder: &Folder) -> Value {
    folder.json("plan --cluster cluster.json -o json")
}

/// Code, pool and number of the misplaced blocks.
fn causes(plan: &Value) -> Vec<(String, String, usize)> {
    let mut causes = std::collections::BTreeMap::new();
    for one in plan["misplaced"].as_array().unwrap() {
        let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
        *causes.entry((text("code"), text("pool"))).or_insert(0) += 1;
    }
    causes
        .into_iter()
        .map(|((code, pool), count)| (code, pool, count))
        .collect()
}

fn cause(code: &str, pool: &str, count: usize) -> (String, String, usize) {
    (code.to_owned(), pool.to_owned(), count)
}
