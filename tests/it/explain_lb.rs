//! `explain` of LoadBalancer Services: why two do not share an address, and who answers for one.

use serde_json::{Value, json};

use super::support::{Folder, KUBERNETES, cluster, pool};

fn service(namespace: &str, name: &str, port: u16, annotations: &Value, ip: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace, "uid": name,
        "resourceVersion": "5", "annotations": annotations, "labels": {"app": name}},
        "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"], "ports": [{"port": port}]},
        "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    .to_string()
}

fn folder(settings: &str, items: &[String]) -> Folder {
    let blue = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "blue", "uid": "u",
        "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:01Z"}, "spec": {"blocks": [{"cidr": "20.0.10.0/24"}]}})
    .to_string();
    let items = [items, &[blue]].concat();
    Folder::new(&[
        ("cluster.json", &cluster("1.19.3", settings, &items)),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
    ])
}

fn explained(folder: &Folder, arguments: &[&str]) -> String {
    folder
        .run(&[&["explain"], arguments, &["--cluster-file", "cluster.json"]].concat())
        .expect(0)
        .stdout
}

#[test]
fn why_two_services_do_not_share() {
    let key = json!({"lbipam.cilium.io/sharing-key": "k"});
    let folder = folder(
        KUBERNETES,
        &[
            service("shop", "web", 80, &key, "20.0.10.1"),
            service("shop", "api", 80, &json!({}), "20.0.10.2"),
            service("shop", "dns", 53, &key, "20.0.10.1"),
            service("shop", "late", 81, &key, "20.0.10.3"),
            service("other", "far", 90, &key, "20.0.10.4"),
        ],
    );
    for (other, told) in [
        (
            "shop/api",
            vec![
                "do not share an address, and cannot:",
                "sharing keys: `k` and none",
                "ports: both have 80/TCP",
            ],
        ),
        ("shop/dns", vec!["share 20.0.10.1"]),
        ("shop/late", vec!["may share an address, and do not yet"]),
        (
            "other/far",
            vec!["namespaces: both need lbipam.cilium.io/sharing-cross-namespace"],
        ),
    ] {
        let text = explained(&folder, &["shop/web", "--with", other]);
        for words in told {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    let json = explained(
        &folder,
        &["service/shop/web", "--with", "shop/dns", "-o", "json"],
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["kind"], "sharing");
    assert_eq!(json["shared"], json!(["20.0.10.1"]));
    let unknown = folder
        .run(&[
            "explain",
            "shop/web",
            "--with",
            "shop/dsn",
            "--cluster-file",
            "cluster.json",
        ])
        .expect(1)
        .stderr;
    assert!(unknown.contains("did you mean `shop/dns`?"), "{unknown}");
}

#[test]
fn who_answers_for_an_address() {
    let web = service("shop", "web", 80, &json!({}), "20.0.10.1");
    let node = |name: &str, rack: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "resourceVersion": "1",
            "labels": {"rack": rack}}, "spec": {"podCIDRs": []}})
        .to_string()
    };
    let policy = |name: &str, app: &str, rack: &str| {
        json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumL2AnnouncementPolicy", "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"loadBalancerIPs": true, "serviceSelector": {"matchLabels": {"app": app}}, "nodeSelector": {"matchLabels": {"rack": rack}}}})
        .to_string()
    };
    let off = folder(KUBERNETES, std::slice::from_ref(&web));
    let text = explained(&off, &["20.0.10.1"]);
    assert!(
        text.contains("L2: off") && text.contains("BGP: off"),
        "{text}"
    );
    assert!(!explained(&off, &["20.0.10.9"]).contains("who answers"));

    let l2 = format!("{KUBERNETES}, \"enable-l2-announcements\": \"true\"");
    let items = [web, node("n1", "a"), node("n2", "a"), node("n3", "b")];
    for (policies, told) in [
        (
            vec![],
            "no CiliumL2AnnouncementPolicy with loadBalancerIPs selects it",
        ),
        (
            vec![policy("p", "web", "a")],
            "L2: policy `p` selects 2 nodes (n1 n2)",
        ),
        (
            vec![policy("p", "web", "c")],
            "L2: policy `p` selects no node: no node answers",
        ),
        (
            vec![policy("p", "api", "a")],
            "no CiliumL2AnnouncementPolicy with loadBalancerIPs selects it",
        ),
    ] {
        let folder = folder(&l2, &[&items[..], &policies].concat());
        let text = explained(&folder, &["20.0.10.1"]);
        assert!(text.contains(told), "{told}: {text}");
        let is_selected = told.contains("2 nodes");
        assert_eq!(
            text.contains("cilium-l2announce-shop-web"),
            is_selected || told.contains("no node: "),
            "{text}"
        );
    }
}

/// Nothing holds the addresses; requests, pins and reservations speak for them.
#[test]
fn what_speaks_for_an_address_before_it_is_held() {
    let asks = json!({"lbipam.cilium.io/ips": "20.0.10.7"});
    let items = [
        service("shop", "asks", 80, &asks, "20.0.10.1"),
        service("shop", "web", 80, &json!({}), "20.0.10.2"),
        service("shop", "api", 80, &json!({}), "20.0.10.3"),
        service("shop", "far", 80, &json!({}), "20.0.10.4"),
    ];
    let folder = folder(KUBERNETES, &items);
    let pin = |service: &str, to: &str| {
        format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {{name: {service}}}\nspec: {{service: shop/{service}, {to}}}\n"
        )
    };
    let blue = "apiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata:\n  name: blue\n  annotations: {cilium-ipam.io/reserved: 20.0.10.3-20.0.10.5}\nspec: {blocks: [{cidr: 20.0.10.0/24}]}\n";
    let files = [
        blue.to_owned(),
        pin("web", "ips: [20.0.10.9]"),
        pin("api", "pool: blue"),
        pin("far", "ips: [30.0.0.1]"),
    ];
    folder.write("pools/lb.yaml", files.join("---\n"));
    for (subject, told) in [
        (
            "20.0.10.7",
            vec!["requested by this Service", "lbipam.cilium.io/ips"],
        ),
        (
            "20.0.10.9",
            vec!["pinned to this Service", "planned, not written yet"],
        ),
        (
            "20.0.10.4",
            vec!["reserved, given to no Service", "pools/lb.yaml"],
        ),
        ("20.0.10.0", vec!["planned, not written yet"]),
        (
            "shop/asks",
            vec!["requests 20.0.10.7 by lbipam.cilium.io/ips"],
        ),
        (
            "shop/web",
            vec![
                "pinned to 20.0.10.9 (pools/lb.yaml",
                "the plan writes lbipam.cilium.io/ips: 20.0.10.9",
            ],
        ),
        (
            "shop/api",
            vec![
                "pinned to an address of pool `blue`",
                "the plan writes lbipam.cilium.io/ips: 20.0.10.0",
                "20.0.10.3 is reserved by pool `blue`",
            ],
        ),
        (
            "shop/far",
            vec!["its pin is blocked: no pool in use that selects it gives 30.0.0.1"],
        ),
    ] {
        let text = explained(&folder, &[subject]);
        for words in told {
            assert!(text.contains(words), "{subject}: {words}: {text}");
        }
    }
    let json = explained(&folder, &["shop/web", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["requested"].as_array().unwrap().len(), 2, "{json:#}");
}

#[test]
fn a_first_address_that_its_pool_reserves_is_named() {
    let edge = json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": "edge", "uid": "u",
        "resourceVersion": "5"}, "spec": {"blocks": [{"cidr": "30.0.10.0/24"}], "allowFirstLastIPs": "No"}});
    let folder = folder(KUBERNETES, &[edge.to_string()]);
    let text = explained(&folder, &["30.0.10.255"]);
    assert!(
        text.contains("first or last address, given to no Service"),
        "{text}"
    );
    let text = explained(&folder, &["30.0.10.7"]);
    assert!(!text.contains("first or last"), "{text}");
}

/// A pin of a Service or a node that is still to come.
#[test]
fn a_pin_of_what_is_not_there_yet_is_told() {
    let folder = folder(KUBERNETES, &[]);
    folder.write(
        "pools/pins.yaml",
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: api}\nspec: {service: shop/api, ips: [20.0.10.7]}\n---\napiVersion: cilium-ipam.io/v1alpha1\nkind: NodeAssignment\nmetadata: {name: n7}\nspec: {pool: a, podCIDRs: [10.20.7.0/24]}\n",
    );
    for (subject, told) in [
        (
            &["shop/api"][..],
            "Service `shop/api` is not in the cluster; pools/pins.yaml:4 pins it to 20.0.10.7",
        ),
        (
            &["n7"],
            "node `n7` is not in the cluster; pools/pins.yaml:8 pins it to 10.20.7.0/24",
        ),
        (&["shop/web"], "unknown subject `shop/web`"),
    ] {
        let ran =
            folder.run(&[&["explain"], subject, &["--cluster-file", "cluster.json"]].concat());
        let said = ran.expect(1).stderr;
        assert!(said.contains(told), "{said}");
    }
}
