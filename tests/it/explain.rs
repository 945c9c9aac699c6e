//! `explain`: the whole way to a decision, for nodes, addresses, CIDRs and Services.

use super::support::{Folder, TextAssertions, repository, run};

fn explained(subject: &str, example: &str) -> String {
    let (pools, cluster) = (
        format!("examples/{example}/pools"),
        format!("examples/{example}/cluster.yaml"),
    );
    run(
        repository(),
        &["explain", subject, &pools, "--cluster", &cluster],
    )
    .expect(0)
    .stdout
}

#[test]
fn nodes_addresses_and_services() {
    let cases = [
        ("worker-a1", "racks"),
        ("worker-b2", "racks"),
        ("worker-a4", "racks"),
        ("10.20.4.7", "racks"),
        ("10.20.0.0/22", "racks"),
        ("192.0.2.1", "racks"),
        ("default/cni", "load-balancer"),
    ];
    let text: Vec<String> = cases
        .iter()
        .map(|(subject, example)| format!("$ explain {subject}\n{}", explained(subject, example)))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn what_decided_between_pools() {
    for (node, example, decided) in [
        ("worker-7", "pins", "the NodeAssignment at "),
        ("worker-1", "tie", "the name alone: "),
        (
            "worker-a1",
            "racks",
            "priority: 0 of `rack-a` before -10 of `zone-eu-1`",
        ),
    ] {
        let text = explained(node, example);
        text.assert_has(&format!("decided by  {decided}"));
    }
}

#[test]
fn json_and_unknown_names() {
    let words = [
        "examples/racks/pools",
        "--cluster",
        "examples/racks/cluster.yaml",
    ];
    let json = run(
        repository(),
        &[&["explain", "worker-a1", "-o", "json"], &words[..]].concat(),
    )
    .expect(0)
    .json();
    assert_eq!(
        (&json["kind"], &json["format_version"], &json["node"]),
        (&"node".into(), &"1.0".into(), &"worker-a1".into())
    );
    assert_eq!(json["pools"][0]["requirements"][0]["met"], true);
    let unknown = run(
        repository(),
        &[&["explain", "worker-a9"], &words[..]].concat(),
    )
    .expect(1);
    unknown.stderr.assert_has("did you mean `worker-a4`?");
    let hostile = Folder::new(&[]).run(&["explain", "\u{1b}[31m", "--cluster", "/dev/null"]);
    assert!(!hostile.all().contains('\u{1b}'), "{}", hostile.all());
}

#[test]
fn every_field_that_shows_a_block_with_what_it_means_here() {
    let words = [
        "explain",
        "master1",
        "examples/racks/pools",
        "--cluster",
        "examples/wrong-block/cluster.yaml",
    ];
    let text = run(repository(), &words).expect(0).stdout;
    text.assert_has(
        "shows       10.5.112.0/24 in spec.podCIDRs: its agent does not use it; of no pool",
    );
    text.assert_has("shows       10.5.113.0/24 in CiliumNode.spec.ipam.podCIDRs: its Pods live here; of no pool");
    let words = [
        "explain",
        "cni",
        "examples/load-balancer/pools",
        "--cluster",
        "examples/load-balancer/cluster.yaml",
    ];
    assert!(
        run(repository(), &words)
            .expect(1)
            .stderr
            .contains("name a Service as `default/cni`")
    );
}
