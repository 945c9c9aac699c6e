//! Files that are valid but probably wrong: each gives a warning with its rule, its line and a fix.

use serde_json::{Value, json};

use super::support::{Folder, TextAssertions, holds, node, pin, policy, pool};

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder(files: &[String], nodes: &[String]) -> Folder {
    Folder::with_cluster(nodes, &[("pools/a.yaml", &files.join("---\n"))])
}

/// Severity, line and help of each finding of this rule.
fn found(report: &Value, rule: &str) -> Vec<(String, u64, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_rule = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["rule"] == rule);
    let told = |found: &Value| {
        (
            text(&found["severity"]),
            found["origin"]["line"].as_u64().unwrap_or_default(),
            text(&found["help"]),
        )
    };
    of_rule.map(told).collect()
}

fn validated(files: &[String], rule: &str) -> Vec<(String, u64, String)> {
    found(
        &folder(files, &[])
            .run(&["validate", "-o", "json"])
            .expect(0)
            .json(),
        rule,
    )
}

fn planned(
    files: &[String],
    nodes: &[String],
    more: &[&str],
    rule: &str,
) -> Vec<(String, u64, String)> {
    let arguments = [&["plan", "--cluster", "cluster.json", "-o", "json"], more].concat();
    found(&folder(files, nodes).run(&arguments).expect(0).json(), rule)
}

#[track_caller]
fn assert_warns(found: &[(String, u64, String)], line: u64) {
    let [(severity, at, help)] = found else {
        panic!("{found:?}")
    };
    assert_eq!(
        (severity.as_str(), *at, help.is_empty()),
        ("warning", line, false),
        "{found:?}"
    );
}

#[test]
fn a_pin_for_a_node_that_is_nearly_another_one() {
    const RULE: &str = "pinned-node-missing";
    let nodes = [
        node("worker-7", "a", ""),
        node("cp-1", "a", &holds("10.20.9.0/24")),
    ];
    let of = |name: &str| {
        planned(
            &[pool("a", POOL), pin(name, "10.20.1.0/24")],
            &nodes,
            &[],
            RULE,
        )
    };
    assert_warns(&of("wrker-7"), 8);
    assert!(of("wrker-7")[0].2.contains("did you mean `worker-7`?"));
    assert_warns(&of("cp1"), 8);
    for to_come in ["worker-8", "worker-71", "gpu-1"] {
        assert_eq!(of(to_come), [], "{to_come}");
    }
    let pinned = [
        pool("a", POOL),
        pin("wrker-7", "10.20.1.0/24"),
        pin("worker-7", "10.20.2.0/24"),
    ];
    assert_eq!(planned(&pinned, &nodes, &[], RULE), [], "both are meant");
}

#[test]
fn a_protected_node_that_does_not_exist() {
    const RULE: &str = "protected-node-missing";
    let nodes = [node("cp-1", "a", "")];
    let of = |names: &str, more: &[&str]| {
        let folder = Folder::with_cluster(
            &nodes,
            &[
                ("pools/a.yaml", &pool("a", POOL)),
                (
                    "pools/p.yaml",
                    &policy(&format!("{{protected: {{nodes: [\n  {names}]}}}}")),
                ),
            ],
        );
        let arguments = [&["plan", "--cluster", "cluster.json", "-o", "json"], more].concat();
        found(&folder.run(&arguments).expect(0).json(), RULE)
    };
    assert_eq!(of("cp-1", &[]), []);
    assert_warns(&of("cp-1,\n  cp1", &[]), 6);
    assert!(of("cp1", &[])[0].2.contains("did you mean `cp-1`?"));
    assert_warns(&of("gone", &[]), 5);
    // A flag has no line.
    assert_warns(&of("cp-1", &["--protect-node", "cp2"]), 0);
}

/// Reported by `validate`, and not in every plan.
#[test]
fn labels_that_a_kubelet_may_set_are_one_finding() {
    const RULE: &str = "selector-uses-kubelet-labels";
    let selecting = |name: &str, third: u8, labels: &str| {
        pool(
            name,
            &format!(
                "{{cidrs: [10.{third}.0.0/16], blockSize: 24, nodeSelector: {{matchLabels: {{{labels}}}}}}}"
            ),
        )
    };
    let files = [
        selecting("a", 20, "rack: a"),
        selecting("b", 21, "rack: b, topology.kubernetes.io/zone: z"),
        selecting("c", 22, "node-restriction.kubernetes.io/rack: c"),
        pool("rest", "{cidrs: [10.23.0.0/16], blockSize: 24}"),
    ];
    let folder = folder(&files, &[node("n", "a", "")]);
    for arguments in [&["validate"][..], &["doctor", "--cluster", "cluster.json"]] {
        let report = folder
            .run(&[arguments, &["-o", "json"]].concat())
            .expect(0)
            .json();
        let found: Vec<&Value> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["rule"] == RULE)
            .collect();
        let [finding] = found[..] else {
            panic!("{report:#}")
        };
        assert_eq!(finding["severity"], "info", "{finding:#}");
        let message = finding["message"].as_str().unwrap();
        assert!(message.starts_with("2 pools select"), "{message}");
        assert!(
            message.ends_with("`rack` (2), `topology.kubernetes.io/zone` (1)"),
            "{message}"
        );
        assert!(
            finding
                .to_string()
                .contains("node-restriction.kubernetes.io/"),
            "{finding:#}"
        );
    }
    assert_eq!(planned(&files, &[node("n", "a", "")], &[], RULE), []);
    let ran = folder.expect("validate", 0);
    assert!(
        ran.stdout.contains("4 pools, 0 pins, 0 warnings"),
        "{ran:?}"
    );
    // A remark that most directories get is short.
    assert!(ran.stderr.lines().count() <= 8, "{}", ran.stderr);
    assert_eq!(validated(&files[2..], RULE), []);
}

#[test]
fn strict_validation_fails_on_warnings_and_on_nothing_less() {
    let reserving = |reserved: &str| {
        let spec = format!(
            "{{cidrs: [10.20.0.0/23], blockSize: 24, reserved: [{reserved}], nodeSelector: {{matchLabels: {{rack: a}}}}}}"
        );
        folder(&[pool("a", &spec)], &[])
    };
    let doubtful = reserving("10.20.0.0/23");
    doubtful.run(&["validate"]).expect(0);
    let ran = doubtful.run(&["validate", "--strict"]).expect(3);
    ran.stderr.assert_has("pool-without-blocks");
    ran.stderr.assert_has("1 warning, and --strict");
    assert_eq!(ran.stdout, "");
    let keys = |report: &Value| {
        report
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let (lax, strict) = (
        &["validate", "-o", "json"][..],
        &["validate", "-o", "json", "--strict"][..],
    );
    let (valid, report) = (
        doubtful.run(lax).expect(0).json(),
        doubtful.run(strict).expect(3).json(),
    );
    assert_eq!(
        (&valid["valid"], &report["valid"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (keys(&valid), &valid["findings"]),
        (keys(&report), &report["findings"])
    );
    // A remark is not a warning.
    let remark = reserving("");
    assert_eq!(
        remark.run(strict).expect(0).json()["findings"][0]["severity"],
        "info"
    );
    remark.run(&["validate", "--strict"]).expect(0);
    let faulty = folder(&[pool("a", "{}")], &[]);
    assert!(
        faulty
            .run(&["validate", "--strict"])
            .expect(3)
            .stderr
            .contains("the files are invalid")
    );
}

#[test]
fn a_pin_for_a_service_that_is_nearly_another_one() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop", "uid": "u",
        "resourceVersion": "5"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    let pinned = |name: &str| {
        format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {{name: p}}\nspec: {{service: {name}, ips: [20.0.10.9]}}\n"
        )
    };
    let of = |name: &str| {
        planned(
            &[pool("a", POOL), pinned(name)],
            &[service.to_string()],
            &[],
            "pinned-service-missing",
        )
    };
    assert_warns(&of("shop/wbe"), 9);
    assert!(of("shop/wbe")[0].2.contains("did you mean `shop/web`?"));
    assert_eq!(of("shop/api")[0].0, "info");
}

/// GitHub shows annotations beside lines, code scanning reads SARIF, and most CI systems JUnit.
#[test]
fn validate_tells_each_ci_the_line_of_a_fault() {
    let range = "{cidrs: [10.1.0.0/16], blockSize: 24}";
    let both = format!("{}---\n{}", pool("a", range), pool("b", range));
    let folder = Folder::new(&[("pools/a.yaml", &both)]);
    let validate = |format: &str| folder.run(&["validate", "pools", "-o", format]).expect(3);
    let github = validate("github");
    let line = github.stdout.lines().next().unwrap();
    assert!(
        line.starts_with("::error file=pools/a.yaml,line="),
        "{line}"
    );
    line.assert_has("title=pool-overlap::");
    // People read the log.
    assert!(github.stderr.contains("overlaps"), "{github:?}");
    let sarif = validate("sarif").json();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "pool-overlap");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "pools/a.yaml");
    let number = place["region"]["startLine"].as_u64().unwrap();
    line.assert_has(&format!("line={number},"));
    let junit = validate("junit").stdout;
    junit.assert_has("<testsuite name=\"validate\"");
    junit.assert_has("failures=\"1\"");
}
