//! Releases of Cilium with known faults: named where an object of the cluster meets them.

use serde_json::{Value, json};
use testbed::{Options, install_crds};

use super::server::{Server, kubernetes};
use super::support::{Folder, KUBERNETES, TextAssertions, cluster};

const LB_POOL: &str = r#"{"apiVersion":"cilium.io/v2","kind":"CiliumLoadBalancerIPPool","metadata":{"name":"lan"},"spec":{"blocks":[{"cidr":"20.0.10.0/24"}]}}"#;
const L2_POLICY: &str = r#"{"apiVersion":"cilium.io/v2alpha1","kind":"CiliumL2AnnouncementPolicy","metadata":{"name":"l2"},"spec":{"loadBalancerIPs":true}}"#;

/// A Service that a Gateway or an Ingress owns, or that has no owner.
fn service(name: &str, owner: Option<&str>, policy: &str) -> String {
    let owners: Vec<Value> = owner
        .map(|kind| json!({"kind": kind, "name": "ext", "uid": "u", "controller": true}))
        .into_iter()
        .collect();
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "shop", "ownerReferences": owners},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "externalTrafficPolicy": policy},
        "status": {"loadBalancer": {"ingress": [{"ip": format!("20.0.10.{}", name.len())}]}}})
    .to_string()
}

fn folder(version: &str, settings: &str, items: &[String]) -> Folder {
    let settings = format!("{KUBERNETES}{settings}");
    Folder::new(&[("cluster.json", &cluster(version, &settings, items))])
}

fn l2(version: &str, services: &[String]) -> Folder {
    let items = [&[LB_POOL.to_owned(), L2_POLICY.to_owned()], services].concat();
    folder(version, r#","enable-l2-announcements":"true""#, &items)
}

fn upgrade(folder: &Folder, to: &str) -> Value {
    let command = [
        "upgrade",
        "--no-pools",
        "--cluster-file",
        "cluster.json",
        "--to",
        to,
        "-o",
        "json",
    ];
    folder.run(&command).json()
}

/// Code and objects of each entry.
fn entries(upgrade: &Value) -> Vec<(String, Vec<String>)> {
    let hops = upgrade["hops"].as_array().unwrap().iter();
    let changes = hops.flat_map(|hop| hop["changes"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entry = |change: &Value| {
        let objects = change["objects"].as_array().unwrap().iter();
        (
            text(&change["code"]),
            objects.map(|object| text(&object["name"])).collect(),
        )
    };
    changes.map(entry).collect()
}

fn doctor(folder: &Folder) -> Vec<Value> {
    let line = "doctor --no-pools --cluster-file cluster.json -o json --fail-on never";
    folder.json(line)["findings"].as_array().unwrap().clone()
}

fn has(findings: &[Value], rule: &str, text: &str) -> bool {
    let mut findings = findings.iter();
    findings.any(|finding| finding["rule"] == rule && finding.to_string().contains(text))
}

#[test]
fn gateways_with_local_traffic_are_silent_under_1_20_2() {
    for owner in ["Gateway", "Ingress"] {
        let services = [
            service("local", Some(owner), "Local"),
            service("wide", Some(owner), "Cluster"),
            service("direct", None, "Local"),
        ];
        let before = l2("1.20.1", &services);
        let expected = (
            "upgrade-service-announcement".to_owned(),
            vec!["shop/local".to_owned()],
        );
        let told = upgrade(&before, "1.20.2");
        assert_eq!(entries(&told), std::slice::from_ref(&expected), "{told:#}");
        assert!(told.to_string().contains("cilium#48799"), "{told:#}");
        let told = entries(&upgrade(&before, "1.20"));
        assert_eq!(told, [("upgrade-patch-to-avoid".to_owned(), expected.1)]);
        assert!(!has(
            &doctor(&before),
            "address-not-announced",
            "shop/local"
        ));
        let after = doctor(&l2("1.20.2", &services));
        assert!(
            has(&after, "address-not-announced", "shop/local"),
            "{after:#?}"
        );
        assert!(has(&after, "faulty-release", "cilium#48799"), "{after:#?}");
        for name in ["shop/wide", "shop/direct"] {
            assert!(!has(&after, "address-not-announced", name), "{name}");
            assert!(!has(&after, "faulty-release", name), "{name}");
        }
    }
}

#[test]
fn the_operator_of_1_16_7_empties_services_when_it_ends() {
    let services = [service("shop", None, "Cluster")];
    let faulty = folder("1.16.7", "", &services);
    assert!(has(&doctor(&faulty), "faulty-release", "cilium#37965"));
    let told = entries(&upgrade(&faulty, "1.17"));
    assert!(
        told.contains(&(
            "upgrade-bad-release".to_owned(),
            vec!["shop/shop".to_owned()]
        )),
        "{told:?}"
    );
    let told = entries(&upgrade(&folder("1.16.6", "", &services), "1.16.7"));
    assert!(
        told.contains(&(
            "upgrade-bad-release".to_owned(),
            vec!["shop/shop".to_owned()]
        )),
        "{told:?}"
    );
    for version in ["1.16.6", "1.16.8", "1.17.7"] {
        assert!(
            !has(
                &doctor(&folder(version, "", &services)),
                "faulty-release",
                ""
            ),
            "{version}"
        );
    }
    let hostname = service("shop", None, "Cluster")
        .replace(r#""ip":"20.0.10.4""#, r#""hostname":"a.example""#);
    let named = folder("1.16.7", "", &[hostname]);
    assert!(has(&doctor(&named), "faulty-release", "may lose a.example"));
    let nobody = folder("1.16.7", "", &[]);
    assert!(!has(&doctor(&nobody), "faulty-release", ""));
    assert_eq!(entries(&upgrade(&nobody, "1.17")), []);
}

/// The operator and the agents are upgraded one after the other.
#[test]
fn faults_of_the_operator_go_by_its_own_release() {
    let services = [service("shop", None, "Cluster")];
    let image = |version: &str| format!("quay.io/cilium/operator-generic:v{version}");
    for (operator, agents, is_faulty) in [("1.16.7", "1.16.6", true), ("1.16.6", "1.16.7", false)] {
        let container = json!({"name": "cilium-operator", "image": image(operator)});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "cilium-operator", "namespace": "kube-system",
                "labels": {"io.cilium/app": "operator"}},
            "spec": {"template": {"spec": {"containers": [container]}}}});
        let items = [&services[..], &[deployment.to_string()]].concat();
        let folder = folder(agents, "", &items);
        let found = doctor(&folder);
        assert_eq!(has(&found, "faulty-release", "cilium#37965"), is_faulty);
        let told = entries(&upgrade(&folder, "1.17"));
        let names_fault = told.iter().any(|(code, _)| code == "upgrade-bad-release");
        assert_eq!(names_fault, is_faulty, "{told:?}");
    }
}

#[test]
fn operators_that_unshare_addresses() {
    let shared = |name: &str, port: u16| {
        let text = service(name, None, "Cluster");
        let mut service: Value = serde_json::from_str(&text).unwrap();
        service["metadata"]["annotations"] = json!({"io.cilium/lb-ipam-sharing-key": "k"});
        service["spec"]["ports"] = json!([{"port": port}]);
        service.to_string()
    };
    let pool = LB_POOL.replace("cilium.io/v2", "cilium.io/v2alpha1");
    for version in ["1.15.0", "1.16.0", "1.16.1", "1.15.1", "1.16.2"] {
        let items = [pool.clone(), shared("a", 80), shared("b", 443)];
        let findings = doctor(&folder(version, "", &items));
        let is_faulty = !matches!(version, "1.15.1" | "1.16.2");
        assert_eq!(
            has(&findings, "faulty-release", "cilium#30700"),
            is_faulty,
            "{version}"
        );
    }
}

fn definition(stored: &[&str]) -> String {
    let version =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "ciliumnodeconfigs.cilium.io"},
        "spec": {"versions": [version("v2", true), version("v2alpha1", false)]},
        "status": {"storedVersions": stored}})
    .to_string()
}

#[test]
fn stored_versions_that_a_release_no_longer_has() {
    let name = || vec!["ciliumnodeconfigs.cilium.io".to_owned()];
    let old = folder("1.19.3", "", &[definition(&["v2alpha1", "v2"])]);
    for to in ["1.20.0", "1.20.1"] {
        let told = upgrade(&old, to);
        assert_eq!(
            entries(&told),
            [("upgrade-stored-version".to_owned(), name())],
            "{told:#}"
        );
        assert!(told.to_string().contains("cilium#47774"), "{told:#}");
    }
    assert_eq!(entries(&upgrade(&old, "1.20.2")), []);
    for (running, is_faulty) in [("1.20.1", true), ("1.20.2", false)] {
        let found = doctor(&folder(running, "", &[definition(&["v2alpha1", "v2"])]));
        assert_eq!(
            has(&found, "faulty-release", "cilium#47774"),
            is_faulty,
            "{running}"
        );
    }
    assert_eq!(
        entries(&upgrade(&old, "1.20")),
        [("upgrade-patch-to-avoid".to_owned(), name())]
    );
    let clean = folder("1.19.3", "", &[definition(&["v2"])]);
    assert_eq!(entries(&upgrade(&clean, "1.20.1")), []);
}

/// What the real API server says to the definitions of each release, and what `upgrade` says.
#[test]
fn the_api_server_refuses_what_upgrade_predicts() {
    let server = Server::start(
        &kubernetes("1.19.3", None),
        Some("1.15.19"),
        Options::default(),
        &[],
    );
    let plane = &server.plane;
    let path =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ciliumnodeconfigs.cilium.io";
    let stored = || plane.get(path).unwrap()["status"]["storedVersions"].clone();
    assert_eq!(stored(), json!(["v2alpha1"]));
    install_crds(plane, "1.19.3").unwrap();
    assert_eq!(stored(), json!(["v2alpha1", "v2"]));
    let predicted = |to: &str| {
        let ran = server.run(&["upgrade", "--no-pools", "--to", to, "-o", "json"]);
        entries(&ran.json())
            .iter()
            .any(|(code, _)| code == "upgrade-stored-version")
    };
    for (release, is_refused) in [("1.20.0", true), ("1.20.2", false)] {
        assert_eq!(predicted(release), is_refused, "{release}");
        let answer = install_crds(plane, release);
        assert_eq!(answer.is_err(), is_refused, "{release}: {answer:?}");
        if let Err(error) = answer {
            let error = error.to_string();
            error.assert_has("storedVersions");
            error.assert_has("v2alpha1");
        }
    }
    // After the fix that `upgrade` prints, 1.20.0 is accepted.
    install_crds(plane, "1.19.3").unwrap();
    let change = json!({"status": {"storedVersions": ["v2"]}});
    plane.patch(&format!("{path}/status"), &change).unwrap();
    assert!(!predicted("1.20.0"));
    install_crds(plane, "1.20.0").unwrap();
}
