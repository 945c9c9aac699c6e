//! A full pool names the next range that nothing uses, and what Cilium needs before it.

use super::support::{Folder, KUBERNETES, TextAssertions, cluster, holds, node, operator, pool};

const NATIVE: &str = r#","routing-mode":"native","ipv4-native-routing-cidr":"10.20.0.0/16""#;

/// The help of the plan's finding `pool-exhausted` for two nodes and these ranges of one block.
fn help(settings: &str, cidrs: &str, others: &[&str]) -> String {
    let mut items = vec![node("n1", "a", ""), node("n2", "a", "")];
    items.extend(others.iter().map(|item| (*item).to_owned()));
    let spec =
        format!("{{cidrs: [{cidrs}], blockSize: 24, nodeSelector: {{matchLabels: {{rack: a}}}}}}");
    let folder = Folder::new(&[
        ("pools/a.yaml", &pool("a", &spec)),
        ("cluster.json", &cluster("1.19.3", settings, &items)),
    ]);
    let plan = ["plan", "--output", "json", "--cluster-file", "cluster.json"];
    let plan = folder.run(&plan).expect(2).json();
    let findings = plan["findings"].as_array().unwrap();
    let exhausted = findings.iter().find(|one| one["rule"] == "pool-exhausted");
    exhausted.unwrap()["help"].as_str().unwrap().to_owned()
}

#[test]
fn the_next_range_overlaps_nothing() {
    let add = |next: &str| {
        format!(
            "add a CIDR to its `cidrs`, for example {next}, which nothing in these files or this cluster uses"
        )
    };
    assert_eq!(help(KUBERNETES, "10.20.0.0/24", &[]), add("10.20.1.0/24"));
    let held = node("m", "z", &holds("10.20.1.0/25"));
    let lb = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lb","uid":"l","resourceVersion":"7"},"spec":{"blocks":[{"cidr":"10.20.2.0/26"}]}}"#;
    assert_eq!(
        help(KUBERNETES, "10.20.0.0/24", &[&held, lb]),
        add("10.20.3.0/24")
    );
    // The Service CIDR follows, and the last network of 10.0.0.0/8 is before it.
    assert_eq!(help(KUBERNETES, "10.95.255.0/24", &[]), add("10.97.0.0/24"));
    assert_eq!(help(KUBERNETES, "10.255.255.0/24", &[]), add("10.0.0.0/24"));
}

#[test]
fn the_next_range_holds_all_missing_blocks() {
    let more: Vec<String> = (3..7).map(|n| node(&format!("n{n}"), "a", "")).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let small = help(KUBERNETES, "10.20.0.0/24", &more);
    small.assert_has("for example 10.20.8.0/21, which");
    let large = help(KUBERNETES, "10.20.0.0/22", &more[..3]);
    large.assert_has("for example 10.20.4.0/22 (a /24 suffices), which");
}

#[test]
fn a_range_outside_private_networks_has_no_example() {
    let help = help(KUBERNETES, "20.0.0.0/24", &[]);
    assert_eq!(help, "add a CIDR to its `cidrs`");
}

#[test]
fn agents_know_the_native_routing_range_first() {
    let native = |cidr| help(&format!("{KUBERNETES}{NATIVE}"), cidr, &[]);
    assert_eq!(
        native("10.20.255.0/24"),
        "add a CIDR to its `cidrs`, for example 10.21.0.0/24, which nothing in these files or this cluster uses; before that, widen `ipv4-native-routing-cidr` (now 10.20.0.0/16) and restart the agents, or IPv4 packets to its Pods are masqueraded"
    );
    assert!(
        native("10.20.0.0/24")
            .ends_with("10.20.1.0/24, which nothing in these files or this cluster uses")
    );
}

#[test]
fn the_operator_of_cilium_accepts_the_range() {
    let settings = |cidrs: &str| {
        format!(
            r#""ipam":"cluster-pool","enable-ipv4":"true","cluster-pool-ipv4-cidr":"{cidrs}","cluster-pool-ipv4-mask-size":"24""#
        )
    };
    let operator = operator("kubernetes");
    assert_eq!(
        help(
            &settings("10.20.0.0/24 10.30.0.0/16"),
            "10.20.0.0/24",
            &[&operator]
        ),
        "add a CIDR to its `cidrs`, for example 10.30.0.0/24, which nothing in these files or this cluster uses"
    );
    assert_eq!(
        help(&settings("10.20.0.0/24"), "10.20.0.0/24", &[&operator]),
        "append a CIDR to `cluster-pool-ipv4-cidr` in cilium-config, restart cilium-operator, and then add the CIDR to the pool's `cidrs`, for example 10.20.1.0/24, which nothing in these files or this cluster uses"
    );
}

#[test]
fn ranges_outside_the_native_routing_range_are_one_warning() {
    let spec = "{cidrs: [10.20.0.0/24, 10.21.0.0/24, 10.22.0.0/24], blockSize: 24}";
    let settings = format!("{KUBERNETES}{NATIVE}");
    let folder = Folder::new(&[
        ("pools/a.yaml", &pool("a", spec)),
        (
            "cluster.json",
            &cluster("1.19.3", &settings, &[node("n1", "a", "")]),
        ),
    ]);
    let plan = ["plan", "--output", "json", "--cluster-file", "cluster.json"];
    let plan = folder.run(&plan).expect(0).json();
    let outside = plan["findings"].as_array().unwrap().iter();
    let outside: Vec<&str> = outside
        .filter(|one| one["rule"] == "pool-outside-native-routing-cidr")
        .map(|one| one["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        outside,
        [
            "pool `a` has 10.21.0.0/24, outside the native-routing CIDR 10.20.0.0/16; 1 more range is outside, too"
        ]
    );
}
