//! `import --from …` without `--objects`: the objects of other address managers on a real API
//! server, with CustomResourceDefinitions that accept any field.

use serde_json::{Value, json};
use testbed::{MetalLb, Options, Program, User, wait_until};

use super::server::{Server, grant, kubernetes, node};
use crate::support::{TextAssertions, args};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A kind of another program: group, version, plural, kind.
type Kind = (&'static str, &'static str, &'static str, &'static str);

pub fn define(server: &Server, kinds: &[Kind], scope: &str) {
    for (group, version, plural, kind) in kinds {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": scope,
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        // CRDs of this group need the approval of Kubernetes' project.
        let definition = match *group == "networking.x-k8s.io" {
            true => with_approval(definition),
            false => definition,
        };
        server.plane.create(DEFINITIONS, &definition).unwrap();
    }
    let mut paths: Vec<String> = kinds
        .iter()
        .map(|(group, version, plural, _)| format!("/apis/{group}/{version}/{plural}"))
        .collect();
    wait_until(
        "the kinds to be served",
        std::time::Duration::from_secs(60),
        || {
            paths.retain(|path| server.plane.list(path).is_err());
            Ok(paths.is_empty().then_some(()))
        },
    )
    .unwrap();
}

fn with_approval(mut definition: Value) -> Value {
    definition["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "unapproved, for a test"});
    definition
}

fn start(programs: &[Program]) -> Server {
    let options = Options {
        users: vec![User::named("half-blind")],
        ..Options::default()
    };
    Server::start(
        &kubernetes("1.19.3", None),
        Some("1.19.3"),
        options,
        programs,
    )
}

/// Nodes that hold blocks: name, rack and block.
fn holding(server: &Server, nodes: &[(&str, &str, &str)]) {
    server.nodes(nodes.iter().map(|(name, rack, block)| {
        let mut node = node(name, json!({"rack": rack}));
        node["spec"] = json!({"podCIDR": block, "podCIDRs": [block]});
        node
    }));
}

fn matches_the_files(server: &Server) {
    let plan = args("plan --fail-on changes,blocked,misplaced,refused,error");
    server.run(&plan).expect(0);
}

const CALICO: [Kind; 5] = [
    ("crd.projectcalico.org", "v1", "ippools", "IPPool"),
    (
        "crd.projectcalico.org",
        "v1",
        "blockaffinities",
        "BlockAffinity",
    ),
    ("crd.projectcalico.org", "v1", "ipamblocks", "IPAMBlock"),
    (
        "crd.projectcalico.org",
        "v1",
        "ipreservations",
        "IPReservation",
    ),
    ("crd.projectcalico.org", "v1", "ipamconfigs", "IPAMConfig"),
];

fn calico(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "crd.projectcalico.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

#[test]
fn calico_on_a_real_api_server() {
    let server = start(&[]);
    let ran = server.expect("import --from calico", 1);
    ran.stderr
        .assert_has("does not serve ippools.crd.projectcalico.org");
    define(&server, &CALICO, "Cluster");
    let ran = server.expect("import --from calico", 1);
    ran.stderr.assert_has("no pool of Calico");

    // More than one page.
    let nodes: Vec<(String, &str, String)> = (0..600)
        .map(|number| {
            let (rack, third) = [("a", 1), ("b", 2)][number % 2];
            let block = format!("10.{third}.{}.{}/26", number / 8, 64 * (number / 2 % 4));
            (format!("n{number}"), rack, block)
        })
        .collect();
    let of_nodes: Vec<(&str, &str, &str)> = nodes
        .iter()
        .map(|(name, rack, block)| (&**name, *rack, &**block))
        .collect();
    holding(&server, &of_nodes);
    let group = "/apis/crd.projectcalico.org/v1";
    for rack in ["a", "b"] {
        let third = if rack == "a" { 1 } else { 2 };
        // As Calico's documentation prints it.
        let spec = json!({"allowedUses": ["Workload", "Tunnel"], "blockSize": 26, "cidr": format!("10.{third}.0.0/16"),
            "ipipMode": "Never", "natOutgoing": true, "nodeSelector": format!("rack == '{rack}'"), "vxlanMode": "CrossSubnet"});
        server
            .plane
            .create(
                &format!("{group}/ippools"),
                &calico("IPPool", &format!("rack-{rack}"), &spec),
            )
            .unwrap();
    }
    let affinities: Vec<Value> = nodes
        .iter()
        .map(|(node, _, cidr)| {
            let name = format!("{node}-{}", cidr.replace(['.', '/'], "-"));
            calico("BlockAffinity", &name, &json!({"cidr": cidr, "deleted": "false", "node": node, "state": "confirmed", "type": "host"}))
        })
        .collect();
    server
        .plane
        .create_many(&format!("{group}/blockaffinities"), &affinities, 16)
        .unwrap();
    let blocks: Vec<Value> = nodes
        .iter()
        .map(|(node, _, cidr)| {
            let name = cidr.replace(['.', '/'], "-");
            calico("IPAMBlock", &name, &json!({"affinity": format!("host:{node}"), "allocations": [null, 0], "attributes": [],
                "cidr": cidr, "deleted": false, "strictAffinity": false, "unallocated": [0]}))
        })
        .collect();
    server
        .plane
        .create_many(&format!("{group}/ipamblocks"), &blocks, 16)
        .unwrap();

    let held = server.pod_cidrs();
    let ran = server.expect("import --from calico", 0);
    ran.stdout
        .assert_has("No changes. 600 nodes match the files, 0 moved.");
    matches_the_files(&server);
    assert_eq!(server.pod_cidrs(), held);

    // Without one of the kinds, addresses in use would be unknown.
    let reads = [
        ("crd.projectcalico.org", "ippools"),
        ("crd.projectcalico.org", "blockaffinities"),
        ("crd.projectcalico.org", "ipreservations"),
        ("crd.projectcalico.org", "ipamconfigs"),
        ("", "services"),
    ];
    grant(&server, "half-blind", &reads);
    let kubeconfig = server.plane.kubeconfig_for("half-blind").unwrap();
    let ran = server
        .run_as(&kubeconfig, &["import", "blind", "--from", "calico"])
        .expect(8);
    ran.stderr
        .assert_has("ipamblocks.crd.projectcalico.org cannot be read");
    assert!(!server.folder.join("blind").exists());
}

const METALLB: [Kind; 3] = [
    ("metallb.io", "v1beta1", "ipaddresspools", "IPAddressPool"),
    (
        "metallb.io",
        "v1beta1",
        "l2advertisements",
        "L2Advertisement",
    ),
    ("metallb.io", "v1beta2", "bgppeers", "BGPPeer"),
];

#[test]
fn metallb_on_a_real_api_server() {
    let server = start(&[]);
    define(&server, &METALLB, "Namespaced");
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "metallb-system"}});
    server
        .plane
        .create("/api/v1/namespaces", &namespace)
        .unwrap();
    let metallb = |version: &str, plural: &str, kind: &str, spec: Value| {
        let object = json!({"apiVersion": format!("metallb.io/{version}"), "kind": kind,
            "metadata": {"name": "first", "namespace": "metallb-system"}, "spec": spec});
        let path = format!("/apis/metallb.io/{version}/namespaces/metallb-system/{plural}");
        server.plane.create(&path, &object).unwrap();
    };
    metallb(
        "v1beta1",
        "ipaddresspools",
        "IPAddressPool",
        json!({"addresses": ["192.168.10.0/24", "192.168.9.1-192.168.9.5"]}),
    );
    metallb(
        "v1beta1",
        "l2advertisements",
        "L2Advertisement",
        json!({"ipAddressPools": ["first"]}),
    );
    let path = "/api/v1/namespaces/default/services";
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    server.plane.create(path, &service).unwrap();
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.168.10.7"}]}}});
    server
        .plane
        .patch(&format!("{path}/web/status"), &status)
        .unwrap();

    let ran = server.expect("import --from metallb", 0);
    // Told: the cluster has no such kind, and a person would miss its settings.
    for kind in ["bgpadvertisements.metallb.io", "communities.metallb.io"] {
        ran.stderr.assert_has(&format!("left out: {kind}"));
    }
    ran.stderr.assert_lacks("bgppeers");
    server.expect("apply --auto-approve", 0);
    matches_the_files(&server);
    let service = server.plane.get(&format!("{path}/web")).unwrap();
    assert_eq!(
        service["metadata"]["annotations"]["lbipam.cilium.io/ips"],
        "192.168.10.7"
    );
}

#[test]
fn node_ipam_controller_on_a_real_api_server() {
    let server = start(&[]);
    define(
        &server,
        &[("networking.x-k8s.io", "v1", "clustercidrs", "ClusterCIDR")],
        "Cluster",
    );
    // As its documentation prints them.
    let create = |name: &str, spec: Value| {
        let object = json!({"apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": {"name": name}, "spec": spec});
        server
            .plane
            .create("/apis/networking.x-k8s.io/v1/clustercidrs", &object)
            .unwrap();
    };
    let rack = |rack: &str| json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]});
    create(
        "rack-a",
        json!({"ipv4": "10.1.0.0/16", "perNodeHostBits": 8, "nodeSelector": rack("a")}),
    );
    create(
        "rack-b",
        json!({"ipv4": "10.2.0.0/16", "perNodeHostBits": 7, "nodeSelector": rack("b")}),
    );
    create(
        "others",
        json!({"ipv4": "10.3.0.0/16", "perNodeHostBits": 8}),
    );
    holding(
        &server,
        &[
            ("n1", "a", "10.1.0.0/24"),
            ("n2", "b", "10.2.0.128/25"),
            // Its ClusterCIDR was full, or its label is newer than its block.
            ("n3", "b", "10.3.0.0/24"),
            ("n4", "c", "10.3.1.0/24"),
        ],
    );
    let held = server.pod_cidrs();
    let ran = server.expect("import --from node-ipam-controller", 0);
    ran.stdout
        .assert_has("No changes. 4 nodes match the files, 0 moved.");
    matches_the_files(&server);
    let pins = server.folder.read("pools/node-assignments.yaml");
    pins.assert_has("name: n3");
    pins.assert_lacks("name: n1");
    assert_eq!(server.pod_cidrs(), held);
}

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// The addresses that a Service holds.
fn held(server: &Server, name: &str) -> Vec<String> {
    let service = server.plane.get(&format!("{SERVICES}/{name}")).unwrap();
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    let ingress = ingress.into_iter().flatten();
    let mut held: Vec<String> = ingress
        .map(|ingress| ingress["ip"].as_str().unwrap().to_owned())
        .collect();
    held.sort();
    held
}

#[test]
fn addresses_that_metallb_itself_gave() {
    let server = start(&[Program::MetalLbController]);
    let metallb = MetalLb::start(&server.programs, &server.plane).unwrap();
    let path = format!(
        "/apis/metallb.io/v1beta1/namespaces/{}/ipaddresspools",
        MetalLb::NAMESPACE
    );
    for (name, spec) in [
        (
            "first",
            json!({"addresses": ["192.168.10.0/24"], "avoidBuggyIPs": true}),
        ),
        (
            "reserved",
            json!({"addresses": ["192.168.20.5-192.168.20.9"], "autoAssign": false}),
        ),
    ] {
        let pool = json!({"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": name}, "spec": spec});
        server.plane.create(&path, &pool).unwrap();
    }
    let services = [
        ("any", 80, json!({})),
        (
            "wish",
            80,
            json!({"metallb.io/loadBalancerIPs": "192.168.10.77"}),
        ),
        (
            "by-pool",
            80,
            json!({"metallb.io/address-pool": "reserved"}),
        ),
        (
            "one",
            80,
            json!({"metallb.io/allow-shared-ip": "key", "metallb.io/loadBalancerIPs": "192.168.10.88"}),
        ),
        (
            "two",
            443,
            json!({"metallb.io/allow-shared-ip": "key", "metallb.io/loadBalancerIPs": "192.168.10.88"}),
        ),
    ];
    for (name, port, annotations) in &services {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": annotations},
            "spec": {"type": "LoadBalancer", "ports": [{"port": port}]}});
        server.plane.create(SERVICES, &service).unwrap();
    }
    let all = || -> Vec<(&str, Vec<String>)> {
        let names = services.iter().map(|(name, ..)| *name);
        names.map(|name| (name, held(&server, name))).collect()
    };
    let given = wait_until(
        "MetalLB to give addresses",
        std::time::Duration::from_secs(120),
        || {
            let all = all();
            Ok(all.iter().all(|(_, held)| held.len() == 1).then_some(all))
        },
    )
    .unwrap();
    drop(metallb);
    let of = |name: &str| &given.iter().find(|(other, _)| *other == name).unwrap().1[0];
    assert_eq!(of("wish"), "192.168.10.77");
    assert_eq!(of("by-pool"), "192.168.20.5");
    assert_eq!(
        (of("one"), of("two")),
        (&"192.168.10.88".to_owned(), &"192.168.10.88".to_owned())
    );

    // Two Services share an address by an annotation that Cilium does not read.
    let ran = server.expect("import --from metallb", 2);
    ran.stderr.assert_has("lbipam.cilium.io/sharing-key=key");
    ran.stderr
        .assert_has("sharing keys: none and none; give both the same one");
    for name in ["one", "two"] {
        let annotation =
            json!({"metadata": {"annotations": {"lbipam.cilium.io/sharing-key": "key"}}});
        server
            .plane
            .patch(&format!("{SERVICES}/{name}"), &annotation)
            .unwrap();
    }
    let label = json!({"metadata": {"labels": {"cilium-ipam.io/address-pool": "reserved"}}});
    server
        .plane
        .patch(&format!("{SERVICES}/by-pool"), &label)
        .unwrap();
    server.expect("apply --auto-approve --waive lost-addresses=9", 0);
    matches_the_files(&server);
    assert_eq!(all(), given);
    for (name, held) in &given {
        let service = server.plane.get(&format!("{SERVICES}/{name}")).unwrap();
        assert_eq!(
            service["metadata"]["annotations"]["lbipam.cilium.io/ips"],
            held[0].as_str(),
            "{name}"
        );
    }
}
