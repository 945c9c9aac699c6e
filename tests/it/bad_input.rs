//! Faulty files: each gives a diagnostic with its rule, file and line, exit 3, and nothing is
//! written.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, node, pin, pool};
use ipam_config::documents::{DocumentKind, Documents, SourceFile, json_schema, lower};
use ipam_core::model::{Finding, Rule, Severity};

const GOOD: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

/// One faulty file, the rule that must find it, and the line.
fn cases() -> Vec<(&'static str, String, &'static str, u64)> {
    let twice = |a: String, b: String| format!("{a}---\n{b}");
    let spec = |spec: &str| pool("a", spec);
    vec![
        ("overlapping pools", twice(pool("a", GOOD), pool("b", "{cidrs: [10.20.128.0/17], blockSize: 24}")), "pool-overlap", 9),
        ("host bits", spec("{cidrs: [10.20.0.1/16], blockSize: 24}"), "host-bits", 4),
        ("block larger than its range", spec("{cidrs: [10.20.0.0/25], blockSize: 24}"), "block-larger-than-range", 4),
        ("/0", spec("{cidrs: [0.0.0.0/0], blockSize: 24}"), "whole-address-space", 4),
        ("IPv4-mapped IPv6", spec("{cidrs: [\"::ffff:10.0.0.0/112\"], blockSize: {ipv6: 120}}"), "mapped-ipv4", 4),
        ("no CIDR", spec("{cidrs: [rack-a], blockSize: 24}"), "bad-cidr", 4),
        ("loopback", spec("{cidrs: [127.0.0.0/16], blockSize: 24}"), "unusable-address-space", 4),
        ("unknown field", spec("{cidrs: [10.20.0.0/16], blocksize: 24}"), "unknown-field", 4),
        ("missing field", spec("{cidrs: [10.20.0.0/16]}"), "missing-field", 4),
        ("wrong type", spec("{cidrs: 10.20.0.0/16, blockSize: 24}"), "wrong-type", 4),
        ("null", spec("{cidrs: null, blockSize: 24}"), "wrong-type", 4),
        ("no spec", "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {name: a}\nspec:\n".into(), "wrong-type", 4),
        ("block size of 33", spec("{cidrs: [10.20.0.0/16], blockSize: 33}"), "out-of-range", 4),
        ("huge number", spec("{cidrs: [10.20.0.0/16], blockSize: 24, priority: 99999999999999999999}"), "out-of-range", 4),
        ("no size for a family", spec("{cidrs: [\"fd00::/48\"], blockSize: 24}"), "missing-block-size", 4),
        ("unknown kind", pool("a", GOOD).replace("IPPool", "IPPol"), "unknown-kind", 2),
        ("no kind", "metadata: {name: a}\n".into(), "missing-field", 1),
        ("unknown version", pool("a", GOOD).replace("v1alpha1", "v9"), "unknown-value", 1),
        ("duplicate name", twice(pool("a", GOOD), pool("a", "{cidrs: [10.21.0.0/16], blockSize: 24}")), "duplicate-name", 8),
        ("impossible name", pool("A_b", GOOD), "bad-name", 3),
        ("pin outside its pool", twice(pool("a", GOOD), pin("n", "10.99.0.0/24")), "pin-outside-pool", 9),
        ("pin of another size", twice(pool("a", GOOD), pin("n", "10.20.0.0/25")), "pin-size", 9),
        ("pin into a pool that is not there", twice(pool("rack-a", GOOD), pin("n", "10.20.0.0/24").replace("{podCIDRs", "{pool: rack-b, podCIDRs")), "pin-pool-unknown", 9),
        ("block pinned twice", twice(pool("a", GOOD), twice(pin("n", "10.20.0.0/24"), pin("m", "10.20.0.0/24"))), "block-pinned-twice", 13),
        ("unknown operator", spec("{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchExpressions: [{key: a, operator: Is}]}}"), "unknown-value", 4),
        ("operator without values", spec("{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchExpressions: [{key: a, operator: In}]}}"), "bad-selector", 4),
        ("impossible label", spec("{cidrs: [10.20.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {\"a b\": c}}}"), "bad-selector", 4),
        ("backwards range", spec("{cidrs: [10.20.0.0/16], blockSize: 24, reserved: [10.20.0.9-10.20.0.1]}"), "bad-range", 4),
        ("two policies", twice(pool("a", GOOD), "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {}\n---\napiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: q}\nspec: {}\n".into()), "two-policies", 13),
        ("pin of an excluded block", twice(pool("a", GOOD), twice(pin("n", "10.20.0.0/24"), "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {excluded: [10.20.0.0/20]}\n".into())), "pin-excluded", 8),
        ("a fraction", spec("{cidrs: [10.20.0.0/16],\n  blockSize: 24.0}"), "wrong-type", 5),
        ("an exponent", spec("{cidrs: [10.20.0.0/16], blockSize: 24,\n  priority: 1e2}"), "wrong-type", 5),
        ("a fraction of a family", spec("{cidrs: [10.20.0.0/16], blockSize: {\n  ipv4: 24.5}}"), "wrong-type", 5),
        ("priority beyond 32 bits", spec("{cidrs: [10.20.0.0/16], blockSize: 24,\n  priority: 3000000000}"), "out-of-range", 5),
        ("no CIDRs", spec("{cidrs: [], blockSize: 24}"), "out-of-range", 4),
        ("no block size", spec("{cidrs: [10.20.0.0/16], blockSize: {}}"), "out-of-range", 4),
        ("three blocks", twice(pool("a", GOOD), pin("n", "10.20.0.0/24\", \"10.20.1.0/24\", \"fd00::/64")), "out-of-range", 9),
        ("a kind that is a number", pool("a", GOOD).replace("IPPool", "5"), "wrong-type", 2),
        ("a typo beside host bits", spec("{blocksize: 24,\n  cidrs: [10.20.0.1/16]}"), "host-bits", 5),
        ("a pin and no pools", pin("n", "10.20.0.0/24").replace("{podCIDRs", "{pool: a, podCIDRs"), "pin-pool-unknown", 4),
        ("a subnet with a block size", subnet("blockSize: 24, "), "neutron-pool-field", 4),
        ("a subnet with a selector", subnet("nodeSelector: {matchLabels: {rack: a}}, "), "neutron-pool-field", 4),
        ("a subnet with CIDRs", subnet("cidrs: [10.20.0.0/16], "), "neutron-pool-field", 4),
        ("a network by its name", subnet("").replace("network: 782ec9ac", "network: pods-782ec9ac"), "bad-neutron-id", 4),
        ("a network without a subnet", subnet("").replace("subnet:", "subnett:"), "unknown-field", 4),
        ("a subnet that is named twice", twice(subnet(""), subnet("").replace("{name: a}", "{name: b}")), "pool-overlap", 9),
        ("a pin into a subnet", twice(subnet(""), pin("n", "10.20.0.0/24").replace("{podCIDRs", "{pool: a, podCIDRs")), "pin-neutron-pool", 9),
        ("nothing at all", String::new(), "empty-directory", 1),
        ("comments only", "# later\n---\n# still nothing\n".into(), "empty-directory", 1),
        ("an alias without anchor", "a: *b\n".into(), "yaml-syntax", 1),
        ("nested blocks", format!("{}a\n", "- ".repeat(100_000)), "yaml-too-large", 1),
        ("a flood of documents", "--- a\n".repeat(100_001), "yaml-too-large", 100_001),
        ("no YAML", "kind: [IPPool\nmetadata: }\n".into(), "yaml-syntax", 2),
        ("duplicate key", pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24, blockSize: 25}"), "yaml-syntax", 4),
        ("a binary", "\u{0}\u{1}\u{2}".into(), "yaml-syntax", 1),
        ("an alias bomb", alias_bomb(), "yaml-too-large", 6),
        ("deep nesting", format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000)), "yaml-too-large", 1),
    ]
}

/// A pool that is a subnet, with this before it.
fn subnet(more: &str) -> String {
    let (network, subnet) = (
        "782ec9ac-44f9-4318-8c67-a2fed2ccca4f",
        "2e7b9b0c-9d65-4b7e-8d1e-6f0c1d5a9b11",
    );
    pool(
        "a",
        &format!("{{{more}neutron: {{network: {network}, subnet: {subnet}}}}}"),
    )
}

fn alias_bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let below = level - 1;
        let aliases = vec![format!("*a{below}"); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    text
}

fn folder() -> Folder {
    Folder::new(&[(
        "cluster.json",
        &cluster("1.19.3", KUBERNETES, &[node("n", "a", "")]),
    )])
}

#[test]
fn each_fault_is_named_with_its_line_and_nothing_is_written() {
    assert_named(cases());
}

/// What it is, the text of a file, the rule that it breaks, and the line.
type Case = (&'static str, String, &'static str, u64);

fn assert_named(cases: Vec<Case>) {
    for (what, text, rule, line) in cases {
        let folder = folder();
        folder.write("pools/faulty.yaml", &text);
        let before = folder.read("cluster.json");
        let ran = folder.run(&["validate", "-o", "json"]).expect(3);
        let report = ran.json();
        let found = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["rule"] == rule);
        let finding = found.unwrap_or_else(|| panic!("{what}: no {rule} in {report:#}"));
        assert_eq!(finding["origin"]["file"], "pools/faulty.yaml", "{what}");
        assert_eq!(finding["origin"]["line"], line, "{what}: {finding:#}");
        assert!(
            finding["help"]
                .as_str()
                .is_some_and(|help| !help.is_empty()),
            "{what}: {finding:#}"
        );
        let human = folder
            .run(&["apply", "--cluster", "cluster.json", "--auto-approve"])
            .expect(3);
        assert!(
            human.stderr.contains(&format!("cilium-ipam::{rule}")),
            "{what}: {}",
            human.stderr
        );
        assert!(
            human.stderr.contains(&format!("faulty.yaml:{line}")),
            "{what}: {}",
            human.stderr
        );
        assert_eq!(folder.read("cluster.json"), before, "{what}");
    }
}

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

/// Every place of a schema where a mapping has a field, as the keys that lead to it; `[]` is an
/// item of a list.
fn fields(schema: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        found.push(path.clone());
        fields(field, path, found);
        path.pop();
    }
    if schema["items"].is_object() {
        path.push("[]".to_owned());
        fields(&schema["items"], path, found);
        path.pop();
    }
}

/// A document whose only content is `value` at the end of `path`.
fn nested(path: &[String], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |value, key| match key.as_str() {
            "[]" => json!([value]),
            key => json!({key: value}),
        })
}

#[test]
fn no_field_of_our_kinds_may_be_empty() {
    use DocumentKind::{IpPool, NodeAssignment, Policy, ServiceAssignment};
    for kind in [IpPool, NodeAssignment, ServiceAssignment, Policy] {
        let mut places = Vec::new();
        fields(&json_schema(Some(kind)), &mut Vec::new(), &mut places);
        assert!(places.len() > 5, "{places:?}");
        for path in places.iter().filter(|path| path[0] != "kind") {
            let mut document = nested(path, Value::Null);
            document["kind"] = json!(kind.as_str());
            let file = SourceFile {
                path: "a.yaml".into(),
                text: document.to_string().into(),
            };
            let (_, findings) = lower(&Documents { files: vec![file] });
            let field = path.join(".").replace(".[]", "[0]");
            let told = |finding: &&Finding| {
                let is_empty = finding
                    .message
                    .starts_with(&format!("`{field}` is empty, expected"));
                // Where one word is allowed, that word is told.
                let is_word = finding.message.starts_with(&format!("`{field}` is not `"));
                let is_unknown = finding
                    .message
                    .starts_with(&format!("`{field}` cannot be `null`"));
                finding.rule == Rule("wrong-type") && is_empty
                    || finding.rule == Rule("unknown-value") && (is_word || is_unknown)
            };
            let finding = findings
                .iter()
                .find(told)
                .unwrap_or_else(|| panic!("{kind:?} {field}: {findings:#?}"));
            assert!(
                finding.severity == Severity::Error && !finding.help.is_empty(),
                "{finding:#?}"
            );
            let about = findings
                .iter()
                .filter(|finding| finding.message.starts_with(&format!("`{field}` ")));
            assert_eq!(
                about.count(),
                1,
                "{kind:?} {field} is told once: {findings:#?}"
            );
        }
    }
}

#[test]
fn an_empty_selector_does_not_select_every_node() {
    for (selector, is_valid) in [
        ("nodeSelector:", false),
        ("nodeSelector: ~", false),
        ("nodeSelector: {}", true),
    ] {
        let folder = folder();
        folder.write(
            "pools/a.yaml",
            pool(
                "a",
                &format!("\n  cidrs: [10.20.0.0/16]\n  blockSize: 24\n  {selector}"),
            ),
        );
        let report = folder
            .run(&["validate", "-o", "json"])
            .expect(if is_valid { 0 } else { 3 })
            .json();
        if !is_valid {
            let finding = &report["findings"][0];
            assert_eq!(
                (&finding["rule"], &finding["origin"]["line"]),
                (&json!("wrong-type"), &json!(7))
            );
            assert_eq!(finding["help"], "write a selector, or `{}` for every node");
        }
    }
}

/// As the API server, which drops such fields before it looks at them.
#[test]
fn empty_fields_of_ciliums_own_kind_are_dropped_with_a_warning() {
    let folder = folder();
    let spec = "{blocks: [{cidr: 20.0.10.0/24, start: null}], cidrs: ,\n  serviceSelector: , disabled: ~, allowFirstLastIPs: }";
    folder.write("pools/lb.yaml", address_pool("blue", spec));
    let report = folder.run(&["validate", "-o", "json"]).expect(0).json();
    let findings = report["findings"].as_array().unwrap();
    let told: Vec<&str> = findings
        .iter()
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    for field in [
        "blocks[0].start",
        "cidrs",
        "serviceSelector",
        "disabled",
        "allowFirstLastIPs",
    ] {
        assert!(
            told.contains(&&*format!(
                "`spec.{field}` is empty, so the API server drops it"
            )),
            "{field}: {told:#?}"
        );
    }
    assert!(
        findings.len() == 5
            && findings
                .iter()
                .all(|finding| finding["rule"] == "empty-field"),
        "{report:#}"
    );
    for (spec, rule) in [
        ("{blocks: [{cidr: 20.0.10.0/24}, null]}", "wrong-type"),
        (
            "{blocks: [{cidr: 20.0.10.0/24}], serviceSelektor: null}",
            "unknown-field",
        ),
        ("null", "missing-field"),
    ] {
        folder.write("pools/lb.yaml", address_pool("blue", spec));
        let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
        assert_eq!(report["findings"][0]["rule"], rule, "{report:#}");
    }
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
        "apiVersion: x\nkind: Policy\nmetadata: {}\nspec: {writePath: Node, excluded: [x,\n  1]}\n",
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
    // What has nothing to do with the faulty pool is told all the same.
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

#[test]
fn messages_are_in_our_words() {
    for (what, text, _, _) in cases() {
        let folder = folder();
        folder.write("pools/faulty.yaml", &text);
        let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
        for finding in report["findings"].as_array().unwrap() {
            let message = finding["message"].as_str().unwrap();
            for leak in [
                "Options",
                "Policy in",
                "from_",
                "budget",
                "invalid type",
                "i32",
                "u64",
                " line ",
                "column",
            ] {
                assert!(!message.contains(leak), "{what}: {message}");
            }
        }
    }
}

#[test]
fn places_that_are_no_files() {
    let folder = folder();
    let rule = |arguments: &[&str]| {
        let ran = folder.run(&[arguments, &["-o", "json"]].concat()).expect(3);
        ran.json()["findings"][0]["rule"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(rule(&["validate", "nowhere"]), "missing-directory");
    std::fs::create_dir(folder.join("empty")).unwrap();
    assert_eq!(rule(&["validate", "empty"]), "empty-directory");
    folder.write("latin/a.yaml", b"kind: IPP\xf6l\n");
    assert_eq!(rule(&["validate", "latin"]), "not-utf8");
    folder.write("latin/a.yaml", b"kind: IPPool\n# caf\xc3\xa9 \xe9\n");
    let report = folder
        .run(&["validate", "latin", "-o", "json"])
        .expect(3)
        .json();
    let origin = &report["findings"][0]["origin"];
    assert_eq!(
        (origin["line"].as_u64(), origin["column"].as_u64()),
        (Some(2), Some(8))
    );
    folder.write("large/a.yaml", vec![b'#'; 50 * 1024 * 1024]);
    assert_eq!(rule(&["validate", "large"]), "file-too-large");
    folder.write("outside.yaml", pool("a", GOOD));
    std::fs::create_dir(folder.join("linked")).unwrap();
    std::os::unix::fs::symlink(folder.join("outside.yaml"), folder.join("linked/a.yaml")).unwrap();
    assert_eq!(rule(&["validate", "linked"]), "link-outside");
    std::fs::create_dir(folder.join("dangling")).unwrap();
    std::os::unix::fs::symlink("gone.yaml", folder.join("dangling/a.yaml")).unwrap();
    assert_eq!(rule(&["validate", "dangling"]), "unreadable-file");
    folder.write("blank/a.yaml", "");
    folder.write("blank/b.yaml", "# nothing yet\n");
    assert_eq!(rule(&["validate", "blank"]), "empty-directory");
    std::fs::create_dir(folder.join("pipe")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(folder.join("pipe/a.yaml"))
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(rule(&["validate", "pipe"]), "unreadable-file");
}

#[test]
fn the_case_of_an_extension_does_not_matter() {
    let folder = folder();
    folder.write("pools/a.YAML", pool("a", GOOD));
    folder.write(
        "pools/b.Yml",
        pool("b", "{cidrs: [10.21.0.0/16], blockSize: 24, priority: 1}"),
    );
    assert_eq!(
        folder.run(&["validate"]).expect(0).stdout,
        "valid: 2 pools, 0 pins, 0 warnings\n"
    );
}

#[test]
fn links_within_the_directory_are_followed_once() {
    let folder = folder();
    folder.write("pools/.data/a.yaml", pool("a", GOOD));
    std::os::unix::fs::symlink(".data/a.yaml", folder.join("pools/a.yaml")).unwrap();
    std::os::unix::fs::symlink(".", folder.join("pools/loop")).unwrap();
    assert_eq!(
        folder.run(&["validate"]).expect(0).stdout,
        "valid: 1 pool, 0 pins, 0 warnings\n"
    );
}

/// Emacs locks `a.yaml` by a link `.#a.yaml`, others by names without a dot: no such link makes the
/// files around it invalid.
#[test]
fn a_link_to_nowhere_is_a_fault_only_where_it_should_be_yaml() {
    let folder = folder();
    folder.write("pools/a.yaml", pool("a", GOOD));
    std::os::unix::fs::symlink("me@host.4711", folder.join("pools/lock")).unwrap();
    let report = folder.run(&["validate", "-o", "json"]).expect(0).json();
    assert_eq!(report["findings"][0]["rule"], "dangling-link");
    folder.run(&["plan", "--cluster", "cluster.json"]).expect(0);
    std::fs::remove_file(folder.join("pools/a.yaml")).unwrap();
    let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
    assert!(
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .any(|finding| finding["rule"] == "empty-directory")
    );
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [\"\\e[31mred\\u202e\"], blockSize: 24}"),
    );
    let ran = folder.run(&["validate"]).expect(3);
    assert!(
        !ran.stderr.contains('\u{1b}') && !ran.stderr.contains('\u{202e}'),
        "{}",
        ran.stderr
    );
}

#[test]
fn warnings_do_not_stop_a_plan() {
    let folder = folder();
    folder.write(
        "pools/a.yaml",
        pool("a", "{cidrs: [20.0.10.0/24], blockSize: 26}"),
    );
    let ran = folder
        .run(&["plan", "--cluster", "cluster.json", "-o", "json"])
        .expect(0);
    assert_eq!(ran.json()["findings"][0]["rule"], "foreign-address-space");
    folder.write("pools/policy.yaml", "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {name: p}\nspec: {ownAddressSpace: [20.0.0.0/8]}\n");
    let ran = folder
        .run(&["plan", "--cluster", "cluster.json", "-o", "json"])
        .expect(0);
    assert_eq!(ran.json()["findings"].as_array().unwrap().len(), 0);
}

#[test]
fn a_second_place_in_an_endless_line_is_not_drawn() {
    let filler = "x".repeat(200_000);
    let first = pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}");
    let second = format!(
        "{{apiVersion: cilium-ipam.io/v1alpha1, kind: IPPool, metadata: {{name: b, labels: {{l: \"{filler}\"}}}}, spec: {{cidrs: [10.20.0.0/16], blockSize: 24}}}}\n"
    );
    let folder = Folder::new(&[("pools/a.yaml", &format!("{first}---\n{second}"))]);
    let ran = folder.run(&["validate"]).expect(3);
    assert!(ran.stderr.len() < 20_000, "{} bytes", ran.stderr.len());
}

fn address_pool(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

fn service_pin(service: &str, ips: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {{name: p}}\nspec: {{service: {service}, ips: {ips}}}\n"
    )
}

#[test]
fn faults_about_load_balancer_addresses_are_named_with_their_lines() {
    let blocks = |blocks: &str| address_pool("blue", &format!("{{blocks: [{blocks}]}}"));
    let selecting = |selector: &str| {
        address_pool(
            "blue",
            &format!("{{blocks: [{{cidr: 20.0.10.0/24}}],\n  serviceSelector: {selector}}}"),
        )
    };
    let cases: Vec<Case> = vec![
        ("an empty block", blocks("{}"), "empty-block", 4),
        ("a stop alone", blocks("{stop: 10.0.0.9}"), "empty-block", 4),
        (
            "two forms",
            blocks("{cidr: 10.0.0.0/24, start: 10.0.0.9}"),
            "two-forms",
            4,
        ),
        (
            "start > end",
            blocks("{start: 10.0.0.9,\n  stop: 10.0.0.1}"),
            "bad-range",
            5,
        ),
        (
            "two families",
            blocks("{start: 10.0.0.9, stop: \"fd00::1\"}"),
            "bad-range",
            4,
        ),
        ("no family", blocks("{start: ten}"), "bad-address", 4),
        ("no CIDR", blocks("{cidr: 10.0.0.0}"), "bad-cidr", 4),
        (
            "everything",
            blocks("{cidr: 0.0.0.0/0}"),
            "whole-address-space",
            4,
        ),
        (
            "everything of IPv6",
            blocks("{cidr: \"::/0\"}"),
            "whole-address-space",
            4,
        ),
        (
            "no addresses",
            address_pool("blue", "{disabled: true}"),
            "no-addresses",
            4,
        ),
        ("an empty list", blocks(""), "no-addresses", 4),
        (
            "overlap inside",
            blocks("{cidr: 10.0.0.0/24},\n  {start: 10.0.0.9}"),
            "ranges-overlap",
            5,
        ),
        (
            "loopback",
            blocks("{cidr: 127.0.0.0/24}"),
            "unusable-address-space",
            4,
        ),
        ("a number", blocks("{cidr: 10}"), "wrong-type", 4),
        (
            "unknown field",
            address_pool("blue", "{block: [{cidr: 10.0.0.0/24}]}"),
            "unknown-field",
            4,
        ),
        (
            "unknown version",
            blocks("{cidr: 10.0.0.0/24}").replace("cilium.io/v2", "cilium.io/v3"),
            "unknown-value",
            1,
        ),
        (
            "bad yes",
            address_pool(
                "blue",
                "{blocks: [{cidr: 10.0.0.0/24}],\n  allowFirstLastIPs: Perhaps}",
            ),
            "unknown-value",
            5,
        ),
        (
            "our label",
            blocks("{cidr: 10.0.0.0/24}").replace(
                "{name: blue}",
                "{name: blue, labels: {app.kubernetes.io/managed-by: me}}",
            ),
            "owner-label",
            3,
        ),
        (
            "bad name",
            blocks("{cidr: 10.0.0.0/24}").replace("name: blue", "name: Blue"),
            "bad-name",
            3,
        ),
        (
            "nothing selected",
            selecting(
                "{matchExpressions: [{key: a, operator: In, values: [x]}, {key: a, operator: NotIn, values: [x]}]}",
            ),
            "selector-matches-nothing",
            5,
        ),
        (
            "nothing selected",
            selecting(
                "{matchExpressions: [{key: a, operator: Exists}, {key: a, operator: DoesNotExist}]}",
            ),
            "selector-matches-nothing",
            5,
        ),
        (
            "bad selector",
            selecting("{matchLabels: {\"a b\": x}}"),
            "bad-selector",
            5,
        ),
        (
            "two pools with one name",
            blocks("{cidr: 10.0.0.0/24}") + "---\n" + &blocks("{cidr: 10.0.1.0/24}"),
            "duplicate-name",
            8,
        ),
        (
            "two pools that overlap",
            blocks("{cidr: 10.0.0.0/24}")
                + "---\n"
                + &blocks("{start: 10.0.0.9}").replace("blue", "red"),
            "address-pool-overlap",
            9,
        ),
        (
            "no service",
            service_pin("web", "[10.0.0.1]"),
            "bad-service",
            4,
        ),
        (
            "no address",
            service_pin("shop/web", "[10.0.0.0/24]"),
            "bad-address",
            4,
        ),
        (
            "no addresses",
            service_pin("shop/web", "[]"),
            "out-of-range",
            4,
        ),
        (
            "an address twice",
            service_pin("shop/web", "[10.0.0.1, 10.0.0.1]"),
            "address-pinned-twice",
            4,
        ),
        (
            "a Service twice",
            service_pin("shop/web", "[10.0.0.1]")
                + "---\n"
                + &service_pin("shop/web", "[10.0.0.2]").replace("name: p", "name: q"),
            "service-pinned-twice",
            9,
        ),
    ];
    assert_named(cases);
}

#[test]
fn a_message_says_what_was_found_and_helps_with_this_field() {
    let policy = |spec: &str| {
        format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: Policy\nmetadata: {{name: p}}\nspec: {spec}\n"
        )
    };
    let selector = "{matchExpressions: [{key: a, operator: }]}";
    for (file, message, help) in [
        (
            policy("{quarantine: 10}"),
            "`spec.quarantine` is the number 10, expected a duration such as `10m`",
            "write a duration such as `10m`",
        ),
        (
            policy("{quarantine: soon}"),
            "`spec.quarantine` is `soon`, expected a duration such as `10m`",
            "write a number and a unit, such as `90s`, `10m` or `1h 30m`",
        ),
        (
            pool("a", "{cidrs: 10.0.0.0/16, blockSize: 24}"),
            "`spec.cidrs` is the text `10.0.0.0/16`, expected a list",
            "write `[10.0.0.0/16]`",
        ),
        (
            pool(
                "a",
                &format!("{{cidrs: [10.0.0.0/16], blockSize: 24, nodeSelector: {selector}}}"),
            ),
            "`spec.nodeSelector.matchExpressions[0].operator` is empty, expected text",
            "known here: `In`, `NotIn`, `Exists`, `DoesNotExist`",
        ),
        (
            pool(
                "a",
                "{cidrs: [\"fd00::/48\"], blockSize: {ipv6: 64}, reserved: [\"::/0\"]}",
            ),
            "`::/0` is the whole address space",
            "name the part that is meant; to give nothing at all, set `disabled: true` on the pool",
        ),
    ] {
        let folder = Folder::new(&[("pools/a.yaml", &file)]);
        let report = folder.run(&["validate", "-o", "json"]).expect(3).json();
        let [finding] = &report["findings"].as_array().unwrap()[..] else {
            panic!("{report:#}")
        };
        assert_eq!(
            (finding["message"].as_str(), finding["help"].as_str()),
            (Some(message), Some(help)),
            "{file}"
        );
    }
}

#[test]
fn a_faulty_duration_on_the_command_line() {
    let folder = Folder::new(&[]);
    for flag in ["--patience", "--lock-timeout"] {
        let said = folder.run(&["apply", flag, "5x"]).expect(1).stderr;
        let told = format!(
            "invalid value '5x' for '{flag} <DURATION>': expected a duration, such as `90s`, `5m` or `1h 30m`"
        );
        assert!(said.contains(&told), "{said}");
    }
}
