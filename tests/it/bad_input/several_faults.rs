//! Several faults at once: none hides another, and none causes another.

use super::{GOOD, folder};
use crate::support::{Folder, pin, pool};

#[test]
fn every_fault_of_every_file_at_once() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [10.20.0.1/16, nonsense], blocksize: 24}"),
    );
    folder.write(
        "pools/deep/b.yaml",
        pool(
            "b",
            "{cidrs: [10.20.0.1/16, nonsense], blockSize: 24, reserved: [x], priority: 1}",
        ),
    );
    folder.write("pools/c.yml", "kind: Pool\n---\nkind: [\n");
    insta::assert_snapshot!(folder.run(&["validate"]).expect(3).all());
}

/// Rules and lines of what `validate` finds, in its order.
fn found(folder: &Folder) -> Vec<(String, u64)> {
    let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|f| {
            (
                f["rule"].as_str().unwrap().to_owned(),
                f["origin"]["line"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[track_caller]
fn assert_found(text: &str, expected: &[(&str, u64)]) {
    let folder = folder();
    folder.write("pools/a.yaml", text);
    let expected: Vec<_> = expected
        .iter()
        .map(|(rule, line)| ((*rule).to_owned(), *line))
        .collect();
    assert_eq!(
        found(&folder),
        expected,
        "{}",
        folder.run(&["validate"]).stderr
    );
}

#[test]
fn a_fault_of_structure_hides_no_other_and_causes_none() {
    let selector = "nodeSelector: {matchLabels: {a: 1,\n  \"b c\": d}, matchExpressions: [\n  {key: a, operator: Is},\n  {key: a, operator: In},\n  {key: a, operatr: In, values: [b]},\n  {key: a, operator: Exists, values: [b]}]}";
    assert_found(
        &pool(
            "a",
            &format!(
                "{{cidrs: [10.20.0.1/16,\n  5,\n  fd00::/48], blocksize: 24,\n  reserved: [x,\n  192.168.0.1], {selector}}}"
            ),
        ),
        &[
            ("host-bits", 4),
            ("wrong-type", 5),
            ("unknown-field", 6),
            ("bad-range", 7),
            ("wrong-type", 8),
            ("bad-selector", 9),
            ("unknown-value", 10),
            ("bad-selector", 11),
            ("unknown-field", 12),
            ("bad-selector", 13),
        ],
    );
    assert_found(
        &pool(
            "a",
            "{cidrs: [10.20.0.0/16, \"fd00::/48\"], blockSize: {ipv4: x,\n  ipv6: 64}, priority: 2.0}",
        ),
        &[("wrong-type", 4), ("wrong-type", 5)],
    );
    assert_found(
        &pin("n", "10.20.0.1/24")
            .replace("{podCIDRs", "{pol: a,\n  podCIDRs")
            .replace("{name: n}", "{name: N_n, extra: 1}"),
        &[
            ("bad-name", 3),
            ("unknown-field", 3),
            ("unknown-field", 4),
            ("host-bits", 5),
        ],
    );
    assert_found(
        "apiVersion: x\nkind: IPAMPolicy\nmetadata: {}\nspec: {writePath: Node, excluded: [x,\n  1]}\n",
        &[
            ("unknown-value", 1),
            ("missing-field", 3),
            ("unknown-value", 4),
            ("bad-range", 4),
            ("wrong-type", 5),
        ],
    );
}

#[test]
fn a_faulty_pool_does_not_make_its_pins_faulty() {
    let named = |node: &str, cidr: &str| pin(node, cidr).replace("{podCIDRs", "{pool: a, podCIDRs");
    let pins = format!(
        "---\n{}---\n{}",
        named("n", "10.20.0.0/24"),
        pin("m", "10.99.0.0/24")
    );
    for (faulty, rule, line) in [
        (
            pool("a", "{cidrs: [10.20.0.1/16], blockSize: 24}"),
            "host-bits",
            4,
        ),
        (
            pool("a", "{cidrs: 10.20.0.0/16, blockSize: 24}"),
            "wrong-type",
            4,
        ),
        (
            pool("a", "{cidrs: [10.20.0.0/16], blocksize: 24}"),
            "unknown-field",
            4,
        ),
        (
            pool("a", GOOD).replace("{name: a}", "{}"),
            "missing-field",
            3,
        ),
        (
            pool("a", GOOD).replace("IPPool", "IPPol"),
            "unknown-kind",
            2,
        ),
        (
            format!(
                "{}---\n{}",
                pool("a", "{cidrs: [10.1.0.0/16], blockSize: 24}"),
                pool("a", GOOD)
            ),
            "duplicate-name",
            8,
        ),
    ] {
        assert_found(&format!("{faulty}{pins}"), &[(rule, line)]);
    }
    // Faults that do not depend on the faulty pool are reported as well.
    let good = pool("b", "{cidrs: [10.30.0.0/16], blockSize: 24}");
    let outside = named("n", "10.31.0.0/24").replace("pool: a", "pool: b");
    let text = format!(
        "{}---\n{good}---\n{outside}",
        pool("a", "{cidrs: [10.20.0.1/16], blockSize: 24}")
    );
    assert_found(&text, &[("host-bits", 4), ("pin-outside-pool", 14)]);
}

#[test]
fn ten_thousand_pools_in_one_file() {
    let folder = folder();
    let one = |i: u32| {
        pool(
            &format!("pool-{i}"),
            &format!(
                "{{cidrs: [10.{}.{}.0/24], blockSize: 28, nodeSelector: {{matchLabels: {{rack: r{i}}}}}}}",
                i / 256,
                i % 256
            ),
        )
    };
    folder.write(
        "pools/all.yaml",
        (0..10_000).map(one).collect::<Vec<_>>().join("---\n"),
    );
    assert_eq!(
        folder.run(&["validate"]).expect(0).stdout,
        "valid: 10,000 pools, 0 pins, 0 warnings\n"
    );
}
