//! LoadBalancer pools and Services, compared with the real operators: our prediction must match
//! their actions.

use serde_json::{Value, json};
use testbed::{CiliumVersion, Operator, Options, Program, wait_until};

use super::server::{Server, kubernetes};
use super::support::{args, repository, run};

pub const POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumloadbalancerippools";
pub const SERVICES: &str = "/api/v1/namespaces/default/services";

pub fn server(version: CiliumVersion) -> Server {
    let programs = [CiliumVersion::V1_15, CiliumVersion::V1_19].map(Program::CiliumOperator);
    Server::start(
        &kubernetes(version.release(), None),
        None,
        Options::default(),
        &programs,
    )
}

pub fn operator(server: &Server, version: CiliumVersion) -> Operator {
    Operator::start(
        &server.programs,
        &server.plane,
        version,
        &["--ipam=kubernetes", "--enable-ipv6=false"],
    )
    .unwrap()
}

pub fn address_pool(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool", "metadata": {"name": name}, "spec": spec})
}

pub fn service(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
}

/// The pools of the demo.
fn demo(server: &Server) {
    let blue = json!({"blocks": [{"cidr": "20.0.10.0/24"}], "serviceSelector":
        {"matchExpressions": [{"key": "color", "operator": "In", "values": ["blue", "cyan"]}]}});
    let red = json!({"blocks": [{"cidr": "30.0.10.0/24"}], "serviceSelector": {"matchLabels": {"color": "red"}}});
    server
        .plane
        .create(POOLS, &address_pool("blue-pool", &blue))
        .unwrap();
    server
        .plane
        .create(POOLS, &address_pool("red-pool", &red))
        .unwrap();
    server
        .plane
        .create(SERVICES, &service("cni", &json!({"color": "blue"})))
        .unwrap();
}

fn shown(server: &Server) -> Value {
    server.json("show lb -o json")
}

/// The output once Cilium's figures are present and equal ours.
pub fn settled(server: &Server) -> Value {
    let is_settled = |shown: &Value| {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        // Of the others, Cilium up to 1.16.0 may leave one as it was until something else happens
        // (cilium#41536).
        let agrees =
            |pool: &Value| number(&pool["available"]) == pool["expected"]["available"].as_u64();
        let pools = shown["pools"].as_array().unwrap();
        let services = shown["services"].as_array().unwrap();
        !pools.is_empty()
            && pools.iter().all(agrees)
            && services.iter().all(|service| !service["reason"].is_null())
    };
    let mut last = Value::Null;
    let outcome = wait_until("the operator to agree", testbed::PATIENCE, || {
        last = shown(server);
        Ok(is_settled(&last).then(|| last.clone()))
    });
    outcome.unwrap_or_else(|error| panic!("{error}: {last:#}"))
}

/// The columns that `kubectl get ippools` prints, without the age.
pub fn by_kubectl(server: &Server) -> Vec<Vec<String>> {
    let mut kubectl = server.plane.kubectl(&server.programs).unwrap();
    let output = kubectl
        .args(["get", "ippools", "--no-headers"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| line.split_whitespace().take(4).map(str::to_owned).collect())
        .collect()
}

pub fn by_us(shown: &Value) -> Vec<Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |pool: &Value| {
        vec![
            text(&pool["name"]),
            pool["disabled"].to_string(),
            text(&pool["conflicting"]),
            text(&pool["available"]),
        ]
    };
    shown["pools"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn the_demo_on_1_19_with_blocks_and_without() {
    let server = server(CiliumVersion::V1_19);
    let _operator = operator(&server, CiliumVersion::V1_19);
    demo(&server);
    let pruned = json!({"cidrs": [{"cidr": "40.0.10.0/24"}], "serviceSelector": {"matchLabels": {"color": "green"}}});
    server
        .plane
        .create(POOLS, &address_pool("green-pool", &pruned))
        .unwrap();
    server
        .plane
        .create(SERVICES, &service("waiting", &json!({"color": "green"})))
        .unwrap();
    let shown = settled(&server);
    assert_eq!(by_us(&shown), by_kubectl(&server));
    let totals: Vec<&Value> = shown["pools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| &pool["total"])
        .collect();
    assert_eq!(totals, ["256", "0", "256"]);
    let waiting = &shown["services"][1];
    assert_eq!(
        (&waiting["reason"], &waiting["expected"]),
        (&json!("no_pool"), &json!([]))
    );
}

/// Waits until a new object would be younger than this one: of two pools created in one second,
/// either may lose. A dry run shows it: an operator may act on a pool that exists for a moment.
fn next_second(server: &Server, older: &Value) {
    let tried =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "time-"}});
    let is_over = || {
        let now = server
            .plane
            .create("/api/v1/namespaces/default/configmaps?dryRun=All", &tried)?;
        Ok(
            (now["metadata"]["creationTimestamp"] != older["metadata"]["creationTimestamp"])
                .then_some(()),
        )
    };
    wait_until("the next second", testbed::PATIENCE, is_over).unwrap();
}

/// The operator reports for each Service what we predict, as long as it runs.
fn assert_nothing_else_is_expected(shown: &Value) {
    for service in shown["services"].as_array().unwrap() {
        let expected = service["expected"].as_array().unwrap().iter();
        let mut now = expected.filter(|one| !one.as_str().unwrap().contains("when the operator"));
        assert_eq!(now.next(), None, "{service:#}");
    }
}

#[test]
fn services_of_every_kind_on_both_versions() {
    for (version, annotation) in [
        (CiliumVersion::V1_15, "io.cilium/lb-ipam"),
        (CiliumVersion::V1_19, "lbipam.cilium.io"),
    ] {
        let key = |name: &str| {
            if version == CiliumVersion::V1_15 {
                format!("{annotation}-{name}")
            } else {
                format!("{annotation}/{name}")
            }
        };
        let server = server(version);
        let _operator = operator(&server, version);
        let of_color = |color: &str, cidr: &str| json!({"blocks": [{"cidr": cidr}], "serviceSelector": {"matchLabels": {"color": color}}});
        let pool = |name: &str, color: &str, cidr: &str| {
            server
                .plane
                .create(POOLS, &address_pool(name, &of_color(color, cidr)))
                .unwrap()
        };
        let blue = pool("blue", "blue", "50.0.0.0/28");
        pool("tiny", "tiny", "51.0.0.0/31");
        next_second(&server, &blue);
        pool("late", "blue", "50.0.0.8/30");
        let create = |name: &str, color: &str, annotations: Value, ports: Value| {
            let mut service = service(name, &json!({"color": color}));
            service["metadata"]["annotations"] = annotations;
            service["spec"]["ports"] = ports;
            server.plane.create(SERVICES, &service).unwrap();
        };
        let http = || json!([{"port": 80}]);
        create("asks", "blue", json!({key("ips"): "50.0.0.3"}), http());
        create(
            "asks-the-first",
            "blue",
            json!({key("ips"): "50.0.0.0"}),
            http(),
        );
        create(
            "asks-outside",
            "blue",
            json!({key("ips"): "9.9.9.9"}),
            http(),
        );
        create(
            "asks-another",
            "red",
            json!({key("ips"): "50.0.0.5"}),
            http(),
        );
        create("no-pool", "red", json!({}), http());
        for name in ["tiny-a", "tiny-b", "tiny-c"] {
            create(name, "tiny", json!({}), http());
        }
        settled(&server);
        create("too-late", "blue", json!({key("ips"): "50.0.0.3"}), http());
        create("shares-a", "blue", json!({key("sharing-key"): "k"}), http());
        settled(&server);
        create(
            "shares-b",
            "blue",
            json!({key("sharing-key"): "k"}),
            json!([{"port": 443}]),
        );
        create(
            "shares-udp",
            "blue",
            json!({key("sharing-key"): "k"}),
            json!([{"port": 80, "protocol": "UDP"}]),
        );
        create(
            "shares-not",
            "blue",
            json!({key("sharing-key"): "other", key("ips"): "50.0.0.3"}),
            http(),
        );
        let shown = settled(&server);
        assert_eq!(by_us(&shown), by_kubectl(&server));
        assert_nothing_else_is_expected(&shown);
        let services = shown["services"].as_array().unwrap();
        let of = |name: &str| {
            services
                .iter()
                .find(|service| service["name"] == name)
                .unwrap()
        };
        assert_eq!(
            of("shares-a")["external_ips"],
            of("shares-b")["external_ips"]
        );
        let apart = of("shares-a")["external_ips"] == of("shares-udp")["external_ips"];
        assert_eq!(apart, version == CiliumVersion::V1_19);
        let waiting = services
            .iter()
            .filter(|service| service["reason"] != "satisfied")
            .count();
        assert_eq!(
            waiting,
            if version == CiliumVersion::V1_15 {
                7
            } else {
                6
            }
        );
    }
}

#[test]
fn the_picture_in_the_readme() {
    let shown = run(
        repository(),
        &args("show lb --cluster examples/load-balancer/cluster.yaml"),
    )
    .expect(0)
    .stdout;
    let readme =
        std::fs::read_to_string(repository().join("docs/src/how-to/load-balancer.md")).unwrap();
    assert!(
        readme.contains(&format!("examples/load-balancer/cluster.yaml\n{shown}```")),
        "{shown}"
    );
}

#[test]
fn the_picture_of_an_edit_in_the_readme() {
    let folder = super::examples::copy(&repository().join("examples/load-balancer"));
    folder.expect("apply --cluster cluster.yaml --auto-approve", 0);
    let pools = folder
        .read("pools/load-balancer.yaml")
        .replace("20.0.10.0/24", "20.0.10.128/25");
    folder.write("pools/load-balancer.yaml", pools);
    let planned = folder.expect("plan --cluster cluster.yaml", 5).stdout;
    let (shown, _) = planned.split_once("\ndigest").unwrap();
    let readme =
        std::fs::read_to_string(repository().join("docs/src/how-to/load-balancer.md")).unwrap();
    assert!(
        readme.contains(&format!("$ cilium-ipam plan\n{shown}```")),
        "{shown}"
    );
}
