//! Plans that `--target`, `--exclude` or a selector limits: they decide as the whole plan, and never
//! speak for the whole cluster.

use serde_json::{Value, json};

use super::habits::{POOL, on_cluster, three};
use super::safety_arguments::{dual_stack, running};
use super::support::{Folder, TextAssertions, args, holds, node, pool, repository};

fn blocks(plan: &Value) -> Vec<(String, Value)> {
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .map(|change| {
            let name = change["name"].as_str().unwrap().to_owned();
            (name, change["after"].clone())
        })
        .collect()
}

#[test]
fn a_limited_plan_decides_as_the_whole_one_and_counts_the_rest() {
    let folder = three();
    let whole = on_cluster(&folder, &["plan", "-o", "json"])
        .expect(0)
        .json();
    let of = |flags: &[&str]| {
        on_cluster(&folder, &[&["plan", "-o", "json"], flags].concat())
            .expect(0)
            .json()
    };
    for (flags, names) in [
        (vec!["--target", "node/n3"], vec!["n3"]),
        (vec!["--target", "label:rack=a"], vec!["n1", "n2"]),
        (vec!["-l", "rack!=a"], vec!["n3"]),
        (
            vec!["--target", "pool/a", "--exclude", "node/n2"],
            vec!["n1", "n3"],
        ),
        (
            vec!["--target", "node/n1", "--target", "node/n2"],
            vec!["n1", "n2"],
        ),
        (vec!["--exclude", "pool/a"], vec![]),
    ] {
        let limited = of(&flags);
        let expected: Vec<_> = blocks(&whole)
            .into_iter()
            .filter(|(name, _)| names.contains(&name.as_str()))
            .collect();
        assert_eq!(blocks(&limited), expected, "{flags:?}");
        let left_out = &limited["summary"]["left_out"];
        assert_eq!(left_out["changes"], 3 - names.len(), "{flags:?}");
        assert_ne!(limited["digest"], whole["digest"], "{flags:?}");
    }
    assert_eq!(
        of(&["--target", "node/n3"])["selection"],
        json!({"targets": ["node/n3"], "excluded": []})
    );
    assert!(whole.get("selection").is_none() && whole["summary"].get("left_out").is_none());
}

#[test]
fn a_limited_plan_never_speaks_for_the_whole_cluster() {
    let nodes = [node("n1", "a", &holds("10.20.0.0/24")), node("n2", "b", "")];
    let folder = Folder::with_cluster(&nodes, &[("pools/a.yaml", &pool("a", POOL))]);
    let flags = ["plan", "--target", "node/n1", "--detailed-exitcode"];
    let told = on_cluster(&folder, &flags).expect(0).stdout;
    assert!(
        told.starts_with("No changes to 1 selected node. 1 change is not in this plan.\n"),
        "{told}"
    );
    told.assert_has("limited by --target 'node/n1'");
    told.assert_lacks(" the files, ");
    let page = on_cluster(&folder, &[&flags[..3], &["-o", "markdown"]].concat());
    let page = page.expect(0).stdout;
    page.assert_has("1 change is not in this plan");
    on_cluster(&folder, &["plan", "--detailed-exitcode"]).expect(2);
}

#[test]
fn an_unknown_object_is_an_error() {
    let folder = three();
    for (object, part) in [
        ("node/n9", "exists neither in the files nor in the cluster"),
        ("pool/b", "exists neither in the files nor in the cluster"),
        ("label:rack=z", "no node has the labels"),
        ("n1", "write it as node/n1"),
    ] {
        for command in ["plan", "apply"] {
            let told = on_cluster(&folder, &[command, "--target", object]).expect(1);
            told.stderr.assert_has(part);
        }
    }
}

#[test]
fn a_saved_plan_keeps_its_limit() {
    let folder = three();
    let out = ["plan", "--target", "node/n2", "--out", "p.json"];
    on_cluster(&folder, &out).expect(0);
    let told = on_cluster(&folder, &["show", "p.json"]).expect(0).stdout;
    told.assert_has("2 changes are not in this plan");
    let other = args("apply p.json --trust-plan-file --target node/n1");
    let told = on_cluster(&folder, &other).expect(4).stderr;
    told.assert_has("the plan is limited by --target 'node/n2'");
    // Files that change elsewhere do not concern it.
    folder.write(
        "pools/z.yaml",
        pool(
            "z",
            "{cidrs: [10.30.0.0/16], blockSize: 24, nodeSelector: {matchLabels: {rack: b}}}",
        ),
    );
    on_cluster(&folder, &["apply", "p.json", "--trust-plan-file"]).expect(0);
    let written = folder.read("cluster.json");
    written.assert_has("10.20.1.0/24");
    written.assert_lacks("10.20.0.0/24");
    written.assert_lacks("10.30.");
    // Without its limit, a saved plan is another one.
    let edited = folder.read("p.json").replace("node/n2", "node/n1");
    folder.write("edited.json", edited);
    let told = on_cluster(&folder, &["apply", "edited.json"])
        .expect(1)
        .stderr;
    told.assert_has("do not match its digest");
}

#[test]
fn a_limit_that_refuses_the_whole_plan_allows_a_part() {
    let folder = dual_stack(&running(&[("n1", "a"), ("n2", "a"), ("n3", "b")]), "");
    let told = on_cluster(&folder, &["apply", "--auto-approve"])
        .expect(5)
        .stderr;
    told.assert_has("apply fewer at a time with `--target`");
    on_cluster(&folder, &["apply", "--auto-approve", "--target", "node/n1"]).expect(0);
    let written = folder.read("cluster.json");
    written.assert_has("fd00:20::/64");
    written.assert_lacks("fd00:20:0:");
}

#[test]
fn a_targeted_service_comes_with_the_pools_that_it_may_need() {
    let example = repository().join("examples/load-balancer-pins");
    let example = example.display();
    let [pools, cluster] = ["pools", "cluster.yaml"].map(|name| format!("{example}/{name}"));
    let changes = |limit: &[&str]| -> Vec<String> {
        let plan = ["plan", &pools, "--cluster-file", &cluster, "-o", "json"];
        let plan = Folder::new(&[]).run(&[&plan[..], limit].concat()).expect(0);
        let plan = plan.json();
        let names = plan["changes"].as_array().unwrap().iter();
        names
            .map(|change| {
                format!(
                    "{} {}",
                    change["kind"].as_str().unwrap(),
                    change["name"].as_str().unwrap()
                )
            })
            .collect()
    };
    let target = ["--target", "service/shop/web"];
    assert_eq!(
        changes(&target),
        [
            "Service shop/web",
            "CiliumLoadBalancerIPPool others",
            "CiliumLoadBalancerIPPool shop"
        ]
    );
    let without = [&target[..], &["--exclude", "pool/shop"]].concat();
    assert_eq!(
        changes(&without),
        ["CiliumLoadBalancerIPPool others"],
        "no pin without its pool"
    );
}
