//! `plan --fail-on`: exit code 2 if a condition of the flag is met, 5 if the plan is refused,
//! otherwise 0.

use super::support::{Folder, holds, node, policy, pool};

/// A node and a pool, as one case needs them.
struct Case {
    condition: &'static str,
    nodes: Vec<String>,
    pools: String,
    /// Further conditions that this plan has.
    also: &'static [&'static str],
}

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

const ALL: [&str; 8] = [
    "changes",
    "blocked",
    "misplaced",
    "fell-over",
    "refused",
    "drift",
    "warning",
    "error",
];

fn folder(nodes: &[String], pools: &str) -> Folder {
    Folder::with_cluster(nodes, &[("pools/a.yaml", pools)])
}

/// A node whose annotation differs from its spec.
fn drifted() -> String {
    let annotation = r#""annotations":{"network.cilium.io/ipv4-pod-cidr":"10.20.9.0/24"},"uid""#;
    node("n1", "a", &holds("10.20.0.0/24")).replacen(r#""uid""#, annotation, 1)
}

fn cases() -> Vec<Case> {
    let case = |condition, nodes: Vec<String>, pools: String, also| Case {
        condition,
        nodes,
        pools,
        also,
    };
    let held = |name: &str, block: &str| node(name, "a", &holds(block));
    let limits = policy("{limits: {assign: {count: 0}}}");
    vec![
        case(
            "changes",
            vec![node("n1", "a", "")],
            pool("a", POOL),
            &[][..],
        ),
        case(
            "blocked",
            vec![held("n1", "10.20.0.0/24"), node("n2", "a", "")],
            pool("a", "{cidrs: [10.20.0.0/24], blockSize: 24}"),
            &["error"],
        ),
        case(
            "misplaced",
            vec![held("n1", "10.99.0.0/24")],
            pool("a", POOL),
            &[],
        ),
        case(
            "fell-over",
            vec![held("n1", "10.20.0.0/24"), node("n2", "a", "")],
            [
                pool("a", "{cidrs: [10.20.0.0/24], blockSize: 24, priority: 1}"),
                pool("b", "{cidrs: [10.30.0.0/24], blockSize: 24}"),
            ]
            .join("---\n"),
            &["changes", "warning"],
        ),
        case(
            "refused",
            vec![node("n1", "a", "")],
            format!("{}---\n{limits}", pool("a", POOL)),
            &["changes"],
        ),
        case("drift", vec![drifted()], pool("a", POOL), &[]),
        case(
            "warning",
            vec![held("n1", "10.20.0.0/24")],
            pool(
                "a",
                "{cidrs: [10.20.0.0/16], blockSize: 24, reserved: [10.30.0.0/24]}",
            ),
            &[],
        ),
        case(
            "error",
            vec![held("n1", "10.20.0.0/24"), held("n2", "10.20.0.0/24")],
            pool("a", POOL),
            &[],
        ),
    ]
}

fn plan(folder: &Folder, fail_on: &str, code: i32) {
    let words = ["plan", "--cluster", "cluster.json", "--fail-on", fail_on];
    let ran = folder.run(&words);
    assert_eq!(ran.code, code, "{fail_on}: {}{}", ran.stdout, ran.stderr);
}

#[test]
fn every_condition_fails_the_plan_that_has_it_and_no_other() {
    let clean = folder(&[node("n1", "a", &holds("10.20.0.0/24"))], &pool("a", POOL));
    plan(&clean, &ALL.join(","), 0);
    let cases = cases();
    assert_eq!(
        cases.iter().map(|case| case.condition).collect::<Vec<_>>(),
        ALL
    );
    for case in &cases {
        let folder = folder(&case.nodes, &case.pools);
        // A refusal matters more than all else.
        let is_refused = case.condition == "refused";
        let found = if is_refused { 5 } else { 2 };
        plan(&folder, case.condition, found);
        case.also.iter().for_each(|also| plan(&folder, also, found));
        plan(&folder, "never", 0);
        let others: Vec<&str> = ALL
            .into_iter()
            .filter(|name| *name != case.condition && !case.also.contains(name))
            .collect();
        // An error and a refusal count unless `never` is named.
        let has_error = case.condition == "error" || case.also.contains(&"error");
        let always = if has_error { 2 } else { 0 };
        plan(
            &folder,
            &others.join(","),
            if is_refused { found } else { always },
        );
        plan(&folder, &format!("never,{}", others.join(",")), 0);
        plan(&folder, &format!("{},{}", others[0], case.condition), found);
    }
}
