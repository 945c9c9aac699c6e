//! Hostnames that clouds give to Services: LB-IPAM removes them with the first pool, so they count as
//! addresses.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, holds, node, pool};

const CLUSTER: [&str; 2] = ["--cluster-file", "cluster.json"];

fn service(name: &str, class: Option<&str>, ingress: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop",
        "uid": format!("uid-{name}"), "resourceVersion": "5"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": class, "ipFamilies": ["IPv4"],
        "ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": ingress}}})
    .to_string()
}

fn address_pool(name: &str, cidr: &str) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": name}, "spec": {"blocks": [{"cidr": cidr}],
        "serviceSelector": {"matchLabels": {"lb": "cilium"}}}})
}

/// Two Services with hostnames, one of another class, one with an address and a hostname.
fn services() -> Vec<String> {
    vec![
        node("n1", "a", &holds("10.20.0.0/24")),
        service("web", None, &json!([{"hostname": "a1.elb.example.com"}])),
        service(
            "api",
            None,
            &json!([{"hostname": "a2.elb.example.com"}, {"hostname": "a2.elb.example.com"},
                {"hostname": "a3.elb.example.com"}]),
        ),
        service(
            "other",
            Some("example.com/nlb"),
            &json!([{"hostname": "a4.elb.example.com"}]),
        ),
    ]
}

fn folder(version: &str, items: &[String]) -> Folder {
    Folder::new(&[
        ("cluster.json", &cluster(version, KUBERNETES, items)),
        (
            "pools/nodes.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
        (
            "pools/edge.yaml",
            &address_pool("edge", "10.7.0.0/24").to_string(),
        ),
    ])
}

fn lost(plan: &Value) -> Vec<String> {
    let services = plan["services"].as_array().unwrap();
    let lost = services.iter().flat_map(|service| {
        let loses = service["loses"].as_array().unwrap();
        loses.iter().map(|lost| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!(
                "{} {} {} {}",
                text(&service["name"]),
                text(&lost["address"]),
                text(&lost["when"]),
                text(&lost["cause"])
            )
        })
    });
    lost.collect()
}

#[test]
fn the_first_pool_loses_every_hostname() {
    for version in ["1.15.19", "1.17.4", "1.20.2"] {
        let folder = folder(version, &services());
        let plan = folder.run(&[&["plan", "-o", "json"], &CLUSTER[..]].concat());
        let plan = plan.expect(5).json();
        let cause = "now CiliumLoadBalancerIPPool/edge";
        assert_eq!(
            lost(&plan),
            [
                format!("api a2.elb.example.com {cause}"),
                format!("api a3.elb.example.com {cause}"),
                format!("web a1.elb.example.com {cause}"),
            ],
            "{version}"
        );
        assert_eq!(plan["refusals"][0]["rule"], "lost-addresses");
        assert_eq!(plan["refusals"][0]["waiver"], "lost-addresses=3");
        assert_eq!(plan["summary"]["load_balancing"]["lost_addresses"], 3);
    }
}

#[test]
fn explain_shows_hostnames_and_what_removes_them() {
    let folder = folder("1.19.3", &services());
    let explained = |name: &str| {
        let explain = [&["explain", name], &CLUSTER[..]].concat();
        folder.run(&explain).expect(0).stdout
    };
    let web = explained("shop/web");
    assert!(web.contains("a1.elb.example.com, a hostname"), "{web}");
    assert!(
        web.contains("the plan removes a1.elb.example.com: LB-IPAM removes"),
        "{web}"
    );
    let other = explained("shop/other");
    assert!(other.contains("a4.elb.example.com, a hostname"), "{other}");
    assert!(!other.contains("the plan removes"), "{other}");
}

#[test]
fn an_apply_needs_a_waiver_that_counts_the_hostnames() {
    let folder = folder("1.19.3", &services());
    let apply = |waiver: &str| {
        let waive = ["--waive", waiver];
        let words = ["apply", "--auto-approve"];
        folder.run(&[&words, &CLUSTER[..], &waive].concat())
    };
    let refused = apply("lost-addresses=2").expect(5).stderr;
    for name in ["shop/web a1.elb.example.com", "shop/api a2.elb.example.com"] {
        assert!(refused.contains(name), "{name} in {refused}");
    }
    assert!(!refused.contains("no Service loses"), "{refused}");
    assert!(!refused.contains("a4.elb"), "{refused}");
    apply("lost-addresses=3").expect(0);
}

/// With a pool, LB-IPAM removes hostnames whatever the files change.
#[test]
fn a_further_pool_is_not_the_cause() {
    let mut items = services();
    items.push(address_pool("old", "10.6.0.0/24").to_string());
    let folder = folder("1.19.3", &items);
    let plan = folder.run(&[&["plan", "-o", "json"], &CLUSTER[..]].concat());
    assert_eq!(lost(&plan.expect(0).json()), [""; 0]);
    let doctor = ["doctor", "--no-pools", "--fail-on", "never", "-o", "json"];
    let doctor = folder.run(&[&doctor, &CLUSTER[..]].concat()).expect(0);
    assert_eq!(severities(&doctor.json()), ["warning"]);
}

fn severities(examination: &Value) -> Vec<&str> {
    let findings = examination["findings"].as_array().unwrap();
    let of_hostnames = findings
        .iter()
        .filter(|finding| finding["rule"] == "hostname-removed");
    of_hostnames
        .map(|finding| finding["severity"].as_str().unwrap())
        .collect()
}

#[test]
fn doctor_and_show_name_hostnames() {
    let folder = folder("1.19.3", &services());
    let doctor = ["doctor", "--no-pools", "--fail-on", "never", "-o", "json"];
    let doctor = folder.run(&[&doctor, &CLUSTER[..]].concat()).expect(0);
    let doctor = doctor.json();
    assert_eq!(severities(&doctor), ["info"], "{doctor:#}");
    for name in ["a1.elb", "a2.elb", "a3.elb"] {
        assert!(doctor.to_string().contains(name), "{name} in {doctor:#}");
    }
    let show = folder
        .run(&[&["show", "lb"], &CLUSTER[..]].concat())
        .expect(0);
    let row = show.stdout.lines().find(|line| line.contains("api"));
    let row = row.unwrap_or_else(|| panic!("{show:?}"));
    assert!(
        row.contains("a2.elb.example.com,a3.elb.example.com"),
        "{row}"
    );
    let show = folder.run(&[&["show", "lb", "-o", "json"], &CLUSTER[..]].concat());
    let show = show.expect(0).json();
    assert_eq!(
        show["services"][1]["hostnames"],
        json!(["a1.elb.example.com"]),
        "{show:#}"
    );
}

#[test]
fn freeze_leaves_hostnames_and_import_warns() {
    let folder = folder("1.19.3", &services());
    let freeze = ["lb", "freeze", "--dry-run"];
    let freeze = folder.run(&[&freeze, &CLUSTER[..]].concat()).expect(2);
    let all = freeze.stdout.clone() + &freeze.stderr;
    let reason = "a1.elb.example.com and no IP address: a pin cannot keep a hostname";
    assert!(all.contains(reason), "{all}");
    let import = ["import", "new"];
    folder.run(&[&import, &CLUSTER[..]].concat()).expect(0);
    let file = folder.read("new/load-balancer-pools.yaml");
    let comment = file.replace("\n#", "");
    assert!(comment.contains("shop/web a1.elb.example.com"), "{file}");
    folder.run(&["validate", "new"]).expect(0);
}

/// Cilium keeps the hostname of an entry as long as the address in the entry, and one of two entries
/// with the same address.
#[test]
fn a_hostname_goes_with_the_address_in_its_entry() {
    let both = |ip: &str, name: &str| json!({"ip": ip, "hostname": name});
    let items = [
        node("n1", "a", &holds("10.20.0.0/24")),
        service("web", None, &json!([both("10.9.0.1", "w.example.com")])),
        service(
            "api",
            None,
            &json!([
                both("10.9.0.2", "x.example.com"),
                both("10.9.0.2", "y.example.com")
            ]),
        ),
    ];
    let folder = folder("1.19.3", &items);
    let plan = folder.run(&[&["plan", "-o", "json"], &CLUSTER[..]].concat());
    let plan = plan.expect(5).json();
    let lost: Vec<String> = lost(&plan)
        .iter()
        .map(|lost| {
            lost.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        lost,
        [
            "api 10.9.0.2",
            "api x.example.com",
            "api y.example.com",
            "web 10.9.0.1",
            "web w.example.com"
        ],
        "{plan:#}"
    );
}
