//! `lb freeze` and `lb thaw` on cluster files: which Services are pinned, the notes, and that no
//! file is overwritten.

use serde_json::{Value, json};

use super::support::{Folder, TextAssertions, pool};

const KEY: &str = "lbipam.cilium.io/ips";

/// The further fields of a Service.
#[derive(Clone, Default)]
struct Made {
    annotations: Value,
    labels: Value,
    owner: Option<(&'static str, &'static str)>,
    /// The field manager that wrote the annotation.
    manager: Option<&'static str>,
    class: Option<&'static str>,
}

fn service(name: &str, addresses: &[&str], made: Made) -> String {
    let ingress: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let mut metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "5",
        "annotations": made.annotations, "labels": made.labels});
    if let Some((kind, name)) = made.owner {
        metadata["ownerReferences"] =
            json!([{"kind": kind, "name": name, "uid": "u", "controller": true}]);
    }
    if let Some(manager) = made.manager {
        metadata["managedFields"] = json!([{"manager": manager, "operation": "Update",
            "fieldsV1": {"f:metadata": {"f:annotations": {format!("f:{KEY}"): {}}}}}]);
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack",
            "loadBalancerClass": made.class, "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": ingress}}})
    .to_string()
}

fn address_pool(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": name,
        "uid": format!("uid-{name}"), "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:01Z"}, "spec": spec})
    .to_string()
}

fn folder(services: &[String]) -> Folder {
    let blue = address_pool(
        "blue",
        &json!({"blocks": [{"cidr": "20.0.10.0/24"}, {"cidr": "fd00:20::/112"}]}),
    );
    let items = [&[blue], services].concat();
    Folder::with_cluster(
        &items,
        &[(
            "pools/nodes.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        )],
    )
}

fn lb(folder: &Folder, arguments: &[&str], code: i32) -> super::support::Ran {
    folder
        .run(&[&["lb"], arguments, &["--cluster-file", "cluster.json"]].concat())
        .expect(code)
}

fn planned(folder: &Folder) -> Value {
    folder.json("plan --cluster-file cluster.json -o json")
}

fn files(folder: &Folder) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("pools/frozen")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push(
                    path.strip_prefix(folder.path())
                        .unwrap()
                        .display()
                        .to_string(),
                ),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn what_is_held_is_pinned_and_nothing_else_changes() {
    let held = ["20.0.10.7", "fd00:20::7"];
    let folder = folder(&[
        service("web", &held, Made::default()),
        service("api", &["20.0.10.8", "fd00:20::8"], Made::default()),
        service("waiting", &[], Made::default()),
        service(
            "foreign",
            &["9.9.9.9"],
            Made {
                class: Some("other/one"),
                ..Made::default()
            },
        ),
    ]);
    let dry = lb(&folder, &["freeze", "--dry-run"], 0);
    assert!(
        dry.stdout.starts_with("Would write 2 files:\n"),
        "{}",
        dry.all()
    );
    assert_eq!(files(&folder), Vec::<String>::new());

    lb(&folder, &["freeze", "--service", "shop/web"], 0);
    assert_eq!(files(&folder), ["pools/frozen/shop/web.yaml"]);
    let report = lb(&folder, &["freeze", "-o", "json"], 0).json();
    assert_eq!(report["files"].as_array().unwrap().len(), 1, "{report:#}");
    assert_eq!(report["done"], true);
    let plan = planned(&folder);
    let pins: Vec<(&Value, &Value)> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (&change["action"], &change["after"]))
        .collect();
    assert_eq!(
        pins,
        [
            (&json!("pin"), &json!(["20.0.10.8", "fd00:20::8"])),
            (&json!("pin"), &json!(held))
        ]
    );
    assert_eq!(plan["services"], json!([]), "{plan:#}");

    let written = folder.read("pools/frozen/shop/web.yaml");
    let again = lb(&folder, &["freeze"], 0).stdout;
    assert_eq!(again, "Nothing to freeze: 2 Services pinned already.\n");
    assert_eq!(folder.read("pools/frozen/shop/web.yaml"), written);
    let unknown = lb(&folder, &["freeze", "--service", "shop/wbe"], 1).stderr;
    unknown.assert_has("no LoadBalancer Service `shop/wbe`");
}

#[test]
fn with_a_refused_edit_the_next_steps_undo_it_first() {
    let blocks = json!({"blocks": [{"cidr": "20.0.10.0/24"}, {"cidr": "20.0.12.0/24"}]});
    let folder = Folder::with_cluster(
        &[
            address_pool("blue", &blocks),
            service("web", &["20.0.10.7"], Made::default()),
            service("api", &["20.0.12.8"], Made::default()),
        ],
        &[(
            "pools/blue.yaml",
            &address_pool("blue", &json!({"blocks": [{"cidr": "20.0.10.0/24"}]})),
        )],
    );
    let ran = lb(&folder, &["freeze", "--service", "shop/web"], 0);
    assert_eq!(files(&folder), ["pools/frozen/shop/web.yaml"]);
    ran.stdout.assert_has(
        "  1. Undo these edits, and keep the files written now.\n  2. cilium-ipam apply ",
    );
    assert!(!ran.stdout.contains("Next step:"), "{}", ran.all());
}

#[test]
fn a_file_that_differs_is_shown_and_stays() {
    let folder = folder(&[
        service("web", &["20.0.10.7"], Made::default()),
        service("api", &["20.0.10.8"], Made::default()),
    ]);
    lb(&folder, &["freeze", "--service", "shop/web"], 0);
    let edited = folder
        .read("pools/frozen/shop/web.yaml")
        .replace("20.0.10.7", "20.0.10.70");
    folder.write("pools/frozen/shop/web.yaml", &edited);
    let ran = lb(&folder, &["freeze"], 1);
    ran.stdout
        .assert_has("-  - \"20.0.10.70\"\n+  - \"20.0.10.7\"\n");
    assert_eq!(files(&folder), ["pools/frozen/shop/web.yaml"]);
    assert_eq!(folder.read("pools/frozen/shop/web.yaml"), edited);
    // An edited file belongs to a person.
    let edited = edited.replace("\"20.0.10.70\"", "\"20.0.10.7\" # ours");
    folder.write("pools/frozen/shop/web.yaml", &edited);
    let ran = lb(&folder, &["thaw"], 0);
    ran.stderr
        .assert_has("remove the ServiceAssignment by hand");
    assert_eq!(files(&folder), ["pools/frozen/shop/web.yaml"]);
}

#[test]
fn services_of_controllers_are_pinned_only_where_the_pin_stays() {
    let gateway = |annotations: Value| Made {
        annotations,
        labels: json!({"io.cilium.gateway/owning-gateway": "g"}),
        owner: Some(("Gateway", "g")),
        ..Made::default()
    };
    let folder = folder(&[
        service("cilium-gateway-g", &["20.0.10.1"], gateway(json!({}))),
        service(
            "cilium-gateway-h",
            &["20.0.10.2"],
            gateway(json!({KEY: "20.0.10.99"})),
        ),
        service(
            "cilium-ingress-i",
            &["20.0.10.3"],
            Made {
                labels: json!({"cilium.io/ingress": "true"}),
                owner: Some(("Ingress", "i")),
                ..Made::default()
            },
        ),
        service(
            "envoy",
            &["20.0.10.4"],
            Made {
                owner: Some(("Gateway", "e")),
                ..Made::default()
            },
        ),
    ]);
    let ran = lb(&folder, &["freeze"], 2);
    for told in [
        "Gateway `g` made Service shop/cilium-gateway-g: Cilium keeps the annotation",
        "Service shop/cilium-gateway-h: Gateway `g` sets its request to `20.0.10.99`",
        "Ingress `i` made Service shop/cilium-ingress-i",
        "Service shop/envoy: Gateway `e` made it, and its controller may remove the annotation",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.all());
    }
    assert_eq!(
        files(&folder),
        [
            "pools/frozen/shop/cilium-gateway-g.yaml",
            "pools/frozen/shop/cilium-ingress-i.yaml"
        ]
    );
    lb(&folder, &["freeze", "--service", "shop/envoy"], 0);
    assert_eq!(files(&folder).len(), 3);
}

#[test]
fn a_pin_that_cannot_help_is_not_written() {
    let old = address_pool(
        "old",
        &json!({"disabled": true, "blocks": [{"cidr": "30.0.10.0/24"}]}),
    );
    let folder = folder(&[
        old,
        service("doomed", &["30.0.10.1"], Made::default()),
        service("web", &["20.0.10.7"], Made::default()),
    ]);
    let ran = lb(&folder, &["freeze"], 2);
    ran.stderr.assert_has("Service shop/doomed: Cilium takes 30.0.10.1 away when the operator restarts, also from a pinned Service: its pool is disabled");
    assert_eq!(files(&folder), ["pools/frozen/shop/web.yaml"]);
}

#[test]
fn a_thaw_names_the_annotations_that_stay() {
    let asks = |address: &str, manager: Option<&'static str>| Made {
        annotations: json!({KEY: address}),
        manager,
        ..Made::default()
    };
    let folder = folder(&[
        service(
            "ours",
            &["20.0.10.1"],
            asks("20.0.10.1", Some("cilium-ipam")),
        ),
        service(
            "theirs",
            &["20.0.10.2"],
            asks("20.0.10.2", Some("kubectl-annotate")),
        ),
    ]);
    lb(&folder, &["freeze"], 0);
    assert_eq!(planned(&folder)["changes"], json!([]));
    let ran = lb(&folder, &["thaw", "--dry-run"], 0);
    assert!(
        ran.stdout.starts_with("Would remove 2 files:\n"),
        "{}",
        ran.all()
    );
    assert_eq!(files(&folder).len(), 2);
    let ran = lb(&folder, &["thaw"], 0);
    let told = format!("kubectl annotate service --namespace shop ours theirs {KEY}-");
    ran.stderr.assert_has(&told);
    assert_eq!(files(&folder), Vec::<String>::new());
    assert!(!folder.join("pools/frozen").exists());
    assert_eq!(planned(&folder)["changes"], json!([]));
    let nothing = lb(&folder, &["thaw"], 0).stdout;
    assert!(nothing.starts_with("Nothing to thaw"), "{nothing}");
}
