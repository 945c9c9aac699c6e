//! LoadBalancer pools and pins from files, applied to a real API server with the real operators
//! beside it.

use serde_json::{Value, json};
use testbed::{CiliumVersion, Options, Program, install_cilium, wait_until};

use super::lb::{
    POOLS, SERVICES, address_pool, by_kubectl, by_us, operator, server, service, settled,
};
use super::server::{Server, kubernetes};
use super::support::{TextAssertions, args, repository};

const BOTH: [CiliumVersion; 2] = [CiliumVersion::V1_15, CiliumVersion::V1_19];

/// The pools of the example, as people have them in Git.
fn demo() -> String {
    std::fs::read_to_string(repository().join("examples/load-balancer/pools/load-balancer.yaml"))
        .unwrap()
}

fn manifest(name: &str, spec: &Value) -> String {
    address_pool(name, spec).to_string() + "\n"
}

fn plan(server: &Server) -> Value {
    server.json("plan -o json --fail-on never")
}

fn apply(server: &Server, more: &[&str]) -> Value {
    server
        .run(&[&["apply", "--auto-approve", "-o", "json"], more].concat())
        .expect(0)
        .json()
}

/// Messages of the findings of a rule.
fn messages<'p>(plan: &'p Value, rule: &str) -> Vec<&'p str> {
    let findings = plan["findings"].as_array().unwrap().iter();
    let of_rule = findings.filter(|finding| finding["rule"] == rule);
    of_rule
        .map(|finding| finding["message"].as_str().unwrap())
        .collect()
}

#[track_caller]
fn assert_nothing_is_left(server: &Server) {
    let plan = plan(server);
    assert_eq!(
        (&plan["changes"], &plan["blocked"]),
        (&json!([]), &json!([])),
        "{plan:#}"
    );
}

fn external_ips(server: &Server, name: &str) -> Vec<String> {
    let service = server.plane.get(&format!("{SERVICES}/{name}")).unwrap();
    let ingress = service["status"]["loadBalancer"]["ingress"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ingress
        .iter()
        .map(|ingress| ingress["ip"].as_str().unwrap().to_owned())
        .collect()
}

fn wait_for_ips(server: &Server, name: &str, wanted: &[&str]) {
    let is_there = || Ok((external_ips(server, name) == wanted).then_some(()));
    let outcome = wait_until("the addresses", testbed::PATIENCE, is_there);
    outcome.unwrap_or_else(|error| {
        panic!(
            "{error}: {name} has {:?}, not {wanted:?}",
            external_ips(server, name)
        )
    });
}

#[test]
fn the_demo_from_files_on_both_operators() {
    for version in BOTH {
        let server = server(version);
        let _operator = operator(&server, version);
        server.folder.write("pools/demo.yaml", demo());
        server
            .plane
            .create(SERVICES, &service("cni", &json!({"color": "blue"})))
            .unwrap();
        let planned = plan(&server);
        let api = if version == CiliumVersion::V1_15 {
            "cilium.io/v2alpha1"
        } else {
            "cilium.io/v2"
        };
        for change in planned["changes"].as_array().unwrap() {
            assert_eq!(
                (&change["action"], &change["write_path"]),
                (&json!("create"), &json!(api))
            );
            assert!(
                change["reason"]
                    .as_str()
                    .unwrap()
                    .contains("`cidrs` are written as `blocks`"),
                "{change:#}"
            );
        }
        let gains = json!(["gets an IPv4 address of blue-pool"]);
        assert_eq!(
            (
                &planned["services"][0]["name"],
                &planned["services"][0]["gains"]
            ),
            (&json!("cni"), &gains)
        );
        apply(&server, &[]);
        let shown = settled(&server);
        assert_eq!(by_us(&shown), by_kubectl(&server));
        let address = external_ips(&server, "cni");
        assert!(
            address.len() == 1 && address[0].starts_with("20.0.10."),
            "{address:?}"
        );
        if version == CiliumVersion::V1_15 {
            let available = |index: usize| shown["pools"][index]["available"].clone();
            assert_eq!(
                (available(0), available(1), &*address[0]),
                (json!("253"), json!("254"), "20.0.10.1")
            );
            let told = &shown["services"][0];
            assert_eq!(
                (&told["pools"], &told["reason"], &told["external_ips"]),
                (
                    &json!(["blue-pool"]),
                    &json!("satisfied"),
                    &json!(["20.0.10.1"])
                )
            );
            let table = server.expect("show lb", 0).stdout;
            let mut rows = table.lines();
            let blue = rows.find(|row| row.starts_with("blue-pool")).unwrap();
            let columns = args(blue);
            assert_eq!(
                (&columns[..4], columns[5]),
                (&["blue-pool", "false", "False", "256"][..], "253")
            );
        }
        assert_nothing_is_left(&server);
        let pool = server.plane.get(&format!("{POOLS}/blue-pool")).unwrap();
        assert_eq!(
            pool["metadata"]["labels"],
            json!({"app.kubernetes.io/managed-by": "cilium-ipam"})
        );
        assert_eq!(pool["spec"]["blocks"], json!([{"cidr": "20.0.10.0/24"}]));
        let managers = pool["metadata"]["managedFields"].as_array().unwrap();
        assert!(
            managers
                .iter()
                .any(|entry| entry["manager"] == "cilium-ipam"
                    && entry["fieldsV1"]["f:spec"].is_object())
        );
    }
}

/// As people have them before they come to us.
fn made_by_kubectl(server: &Server) {
    for document in demo().split("---\n") {
        let mut kubectl = server.plane.kubectl(&server.programs).unwrap();
        server.folder.write("made.yaml", document);
        let ran = kubectl
            .args(["apply", "-f"])
            .arg(server.folder.join("made.yaml"))
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    server
        .plane
        .create(SERVICES, &service("cni", &json!({"color": "blue"})))
        .unwrap();
}

#[test]
fn pools_taken_over_survive_the_upgrade_that_they_would_not_have() {
    let server = server(CiliumVersion::V1_15);
    let old = operator(&server, CiliumVersion::V1_15);
    made_by_kubectl(&server);
    wait_for_ips(&server, "cni", &["20.0.10.1"]);
    settled(&server);
    server.folder.write("pools/demo.yaml", demo());
    let planned = plan(&server);
    let told = messages(&planned, "addresses-lost-at-upgrade");
    assert!(
        told.len() == 1 && told[0].contains("`default/cni` 20.0.10.1"),
        "{told:?}"
    );
    let actions: Vec<&Value> = planned["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| &change["action"])
        .collect();
    assert_eq!(actions, ["adopt", "adopt"]);
    assert_eq!(
        planned["services"],
        json!([]),
        "no Service loses or gets an address"
    );
    let shown = server.expect("plan", 0).stdout;
    shown.assert_has("-  cidrs:");
    shown.assert_has("+  blocks:");
    apply(&server, &[]);
    let pool = server.plane.get(&format!("{POOLS}/blue-pool")).unwrap();
    assert_eq!(
        (&pool["spec"]["cidrs"], &pool["spec"]["blocks"]),
        (&Value::Null, &json!([{"cidr": "20.0.10.0/24"}]))
    );
    settled(&server);
    assert_nothing_is_left(&server);
    let told = plan(&server);
    assert!(messages(&told, "addresses-lost-at-upgrade").is_empty());
    wait_for_ips(&server, "cni", &["20.0.10.1"]);
    drop(old);
    install_cilium(&server.plane, &kubernetes("1.19.3", None)).unwrap();
    let _new = operator(&server, CiliumVersion::V1_19);
    settled(&server);
    wait_for_ips(&server, "cni", &["20.0.10.1"]);
    assert_nothing_is_left(&server);
}

/// The refusals of a plan by rule.
fn refusals(plan: &Value) -> Vec<&str> {
    plan["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|refusal| refusal["rule"].as_str().unwrap())
        .collect()
}

#[test]
fn what_takes_an_address_away_is_named_needs_a_waiver_and_can_be_taken_back() {
    for version in BOTH {
        let server = server(version);
        let _operator = operator(&server, version);
        server.folder.write("pools/demo.yaml", demo());
        server
            .plane
            .create(SERVICES, &service("cni", &json!({"color": "blue"})))
            .unwrap();
        apply(&server, &[]);
        settled(&server);
        let address = external_ips(&server, "cni").remove(0);

        server.folder.write(
            "pools/demo.yaml",
            demo().replace("20.0.10.0/24", "20.0.77.0/24"),
        );
        let planned = plan(&server);
        assert_eq!(refusals(&planned), ["lost-addresses"]);
        let lost = &planned["services"][0]["loses"][0];
        assert_eq!(
            (&lost["address"], &lost["when"], &lost["certainty"]),
            (&json!(address), &json!("now"), &json!("certain"))
        );
        let refused = server.expect("apply --auto-approve", 5).stderr;
        assert!(
            refused.contains(&format!("default/cni {address}"))
                && refused.contains("--waive lost-addresses=1")
        );
        let done = apply(&server, &["--waive", "lost-addresses=1"]);
        assert_eq!(done["applied"][0]["name"], "blue-pool");
        let moved = || {
            Ok(external_ips(&server, "cni")
                .iter()
                .any(|ip| ip.starts_with("20.0.77."))
                .then_some(()))
        };
        wait_until("the new address", testbed::PATIENCE, moved).unwrap();
        settled(&server);
        assert_nothing_is_left(&server);

        server.folder.write("pools/demo.yaml", demo());
        apply(&server, &["--waive", "lost-addresses=1"]);
        let back = || {
            Ok(external_ips(&server, "cni")
                .iter()
                .any(|ip| ip.starts_with("20.0.10."))
                .then_some(()))
        };
        wait_until("the old pool's address", testbed::PATIENCE, back).unwrap();
        assert_nothing_is_left(&server);
    }
}

#[test]
fn disabling_a_pool_is_dangerous_later_and_refused_now() {
    let server = server(CiliumVersion::V1_19);
    let first = operator(&server, CiliumVersion::V1_19);
    server.folder.write("pools/demo.yaml", demo());
    server
        .plane
        .create(SERVICES, &service("cni", &json!({"color": "blue"})))
        .unwrap();
    apply(&server, &[]);
    settled(&server);
    let address = external_ips(&server, "cni").remove(0);
    server.folder.write(
        "pools/demo.yaml",
        demo().replace("  serviceSelector:", "  disabled: true\n  serviceSelector:"),
    );
    let planned = plan(&server);
    assert_eq!(refusals(&planned), ["lost-addresses"]);
    let lost = &planned["services"][0]["loses"];
    assert_eq!(
        (&lost[0]["address"], &lost[0]["when"]),
        (&json!(address), &json!("operator-restart")),
        "{lost:#}"
    );
    assert!(messages(&planned, "addresses-lost-at-restart").is_empty());
    apply(&server, &["--waive", "lost-addresses=1"]);
    settled(&server);
    assert_eq!(external_ips(&server, "cni"), [address]);
    let planned = plan(&server);
    let told = messages(&planned, "addresses-lost-at-restart");
    assert!(
        told.len() == 1 && told[0].contains("the pool is disabled: `default/cni` 20.0.10."),
        "{told:?}"
    );
    drop(first);
    let _second = operator(&server, CiliumVersion::V1_19);
    wait_for_ips(&server, "cni", &[]);
}

/// What a plan does to which object.
fn actions(plan: &Value) -> Vec<(&str, &str)> {
    let changes = plan["changes"].as_array().unwrap().iter();
    changes
        .map(|change| {
            (
                change["action"].as_str().unwrap(),
                change["name"].as_str().unwrap(),
            )
        })
        .collect()
}

#[test]
fn only_what_is_ours_is_changed_and_deleted() {
    for version in BOTH {
        let server = server(version);
        let _operator = operator(&server, version);
        let of = |cidr: &str, labels: Value| {
            let field = if version == CiliumVersion::V1_15 {
                "cidrs"
            } else {
                "blocks"
            };
            let mut selector = json!({"matchLabels": labels});
            selector["matchExpressions"] = json!([{"key": "env", "operator": "Exists"}]);
            json!({field: [{"cidr": cidr}], "serviceSelector": selector, "allowFirstLastIPs": "No"})
        };
        let create = |name: &str, cidr: &str, owner: Option<&str>| {
            let mut pool = address_pool(name, &of(cidr, json!({"color": "blue", "team": "a"})));
            if let Some(owner) = owner {
                pool["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": owner});
            }
            server.plane.create(POOLS, &pool).unwrap();
        };
        create("foreign", "10.1.0.0/24", None);
        create("helms", "10.2.0.0/24", Some("Helm"));
        create("adopted", "10.3.0.0/24", None);
        let earlier =
            [
                manifest(
                    "adopted",
                    &json!({"blocks": [{"cidr": "10.3.0.0/24"}], "serviceSelector": {"matchLabels": {"color": "red"}}}),
                ),
                manifest("helms", &json!({"blocks": [{"cidr": "10.2.0.0/24"}]})),
                manifest("new", &json!({"blocks": [{"start": "10.4.0.7", "stop": "10.4.0.9"}]})),
            ]
            .join("---\n");
        server.folder.write("pools/a.yaml", &earlier);
        settled(&server);
        let planned = plan(&server);
        assert_eq!(actions(&planned), [("adopt", "adopted"), ("create", "new")]);
        assert!(
            planned["blocked"][0]["reason"]
                .as_str()
                .unwrap()
                .contains("names another manager: `Helm`"),
            "{planned:#}"
        );
        apply(&server, &[]);
        settled(&server);
        let adopted = server.plane.get(&format!("{POOLS}/adopted")).unwrap();
        // What kubectl and others had set is gone, and not merged into what the files say.
        assert_eq!(
            adopted["spec"]["serviceSelector"],
            json!({"matchLabels": {"color": "red"}})
        );
        assert_eq!(
            (
                &adopted["spec"]["allowFirstLastIPs"],
                &adopted["spec"]["cidrs"]
            ),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(plan(&server)["changes"], json!([]));

        server.folder.write(
            "pools/a.yaml",
            manifest(
                "new",
                &json!({"blocks": [{"start": "10.4.0.7", "stop": "10.4.0.8"}]}),
            ),
        );
        let planned = plan(&server);
        assert_eq!(
            actions(&planned),
            [("update", "new"), ("delete", "adopted")]
        );
        apply(&server, &[]);
        assert!(server.plane.get(&format!("{POOLS}/adopted")).is_err());
        server.folder.write("pools/a.yaml", &earlier);
        apply(&server, &[]);
        assert_eq!(
            server.plane.get(&format!("{POOLS}/adopted")).unwrap()["spec"]["serviceSelector"],
            adopted["spec"]["serviceSelector"]
        );
        for name in ["foreign", "helms"] {
            let pool = server.plane.get(&format!("{POOLS}/{name}")).unwrap();
            assert_eq!(pool["metadata"]["generation"], 1, "never touched: {pool:#}");
        }
        // Without any pool in the files all of ours would go.
        server.folder.write(
            "pools/a.yaml",
            super::support::pool("p", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        );
        assert_eq!(refusals(&plan(&server)), ["last-address-pools"]);
        apply(&server, &["--waive", "last-address-pools"]);
        let left: Vec<Value> = server
            .plane
            .list(POOLS)
            .unwrap()
            .iter()
            .map(|pool| pool["metadata"]["name"].clone())
            .collect();
        assert_eq!(left, ["foreign", "helms"]);
    }
}

fn pin(service: &str, addresses: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {{name: {service}}}\nspec: {{service: default/{service}, ips: [{addresses}]}}\n"
    )
}

#[test]
fn pins_are_kept_by_both_operators() {
    for version in BOTH {
        let server = server(version);
        let _operator = operator(&server, version);
        server
            .plane
            .create(SERVICES, &service("web", &json!({"color": "blue"})))
            .unwrap();
        server
            .plane
            .create(SERVICES, &service("shop", &json!({"color": "blue"})))
            .unwrap();
        server.folder.write("pools/demo.yaml", demo());
        server
            .folder
            .write("pools/pins.yaml", pin("web", "20.0.10.9"));
        apply(&server, &[]);
        wait_for_ips(&server, "web", &["20.0.10.9"]);
        settled(&server);
        assert_nothing_is_left(&server);

        let both = [pin("web", "20.0.10.77"), pin("shop", "30.0.10.5")].join("---\n");
        server.folder.write("pools/pins.yaml", both);
        let planned = plan(&server);
        assert_eq!(refusals(&planned), ["lost-addresses"]);
        let effect = &planned["services"][0];
        assert_eq!(
            (&effect["loses"][0]["address"], &effect["gains"]),
            (&json!("20.0.10.9"), &json!(["gets 20.0.10.77"]))
        );
        assert!(
            planned["blocked"][0]["reason"]
                .as_str()
                .unwrap()
                .contains("no pool in use that selects it gives 30.0.10.5")
        );
        apply(&server, &["--waive", "lost-addresses=1"]);
        wait_for_ips(&server, "web", &["20.0.10.77"]);
        let twice = [pin("web", "20.0.10.77"), pin("shop", "20.0.10.77")].join("---\n");
        server.folder.write("pools/pins.yaml", twice);
        let blocked = plan(&server)["blocked"].clone();
        assert!(
            blocked[0]["reason"]
                .as_str()
                .unwrap()
                .contains("Service default/web has 20.0.10.77"),
            "{blocked:#}"
        );
        let earlier = pin("web", "20.0.10.9");
        server.folder.write("pools/pins.yaml", earlier);
        apply(&server, &["--waive", "lost-addresses=1"]);
        wait_for_ips(&server, "web", &["20.0.10.9"]);
    }
}

#[test]
fn without_the_definition_pools_wait() {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        None,
        Options::default(),
        &[] as &[Program],
    );
    server.folder.write("pools/demo.yaml", demo());
    let planned = plan(&server);
    assert_eq!(planned["changes"], json!([]));
    let reasons: Vec<&str> = planned["blocked"]
        .as_array()
        .unwrap()
        .iter()
        .map(|blocked| blocked["reason"].as_str().unwrap())
        .collect();
    assert!(
        reasons.len() == 2
            && reasons
                .iter()
                .all(|reason| reason.contains("is not installed")),
        "{reasons:?}"
    );
}
