//! Writes on a real API server with the CRDs of several releases: it refuses a field that it would
//! drop, and `plan` blocks such a change before.

use ipam_cilium::observed::PodPoolApi;
use ipam_cluster::live::LiveCluster;
use ipam_cluster::{Cluster, Operation, Target, Write, WriteError};
use serde_json::{Value, json};
use testbed::{CiliumInstallation, Options};

use super::server::Server;
use super::support::{TextAssertions, api_server};

const POD_POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumpodippools";
const POD_POOL_CRD: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ciliumpodippools.cilium.io";
const LB_POOL: &str = "apiVersion: cilium.io/v2alpha1\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: blue}\nspec: {blocks: [{cidr: 20.0.10.0/24}]}\n";
const POD_POOL: &str = "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {name: a}\nspec: {cidrs: [10.20.0.0/16], blockSize: 24}\n";

fn start(version: &str, ipam: &str, crds: &str) -> Server {
    let installation = CiliumInstallation {
        version: version.to_owned(),
        ipam: ipam.to_owned(),
        ..CiliumInstallation::default()
    };
    Server::start(&installation, Some(crds), Options::default(), &[])
}

fn write(server: &Server, write: &Write) -> Result<(), WriteError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let connection = api_server(server.plane.kubeconfig(), testbed::PATIENCE);
    runtime.block_on(async {
        let cluster = LiveCluster::connect(connection).await.unwrap();
        cluster.write(write).await.map(drop)
    })
}

fn pod_pool(name: &str, more: &Value) -> Value {
    let mut object = json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumPodIPPool",
        "metadata": {"name": name}, "spec": {"ipv4": {"cidrs": ["10.50.0.0/16"], "maskSize": 24}}});
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

#[track_caller]
fn assert_refused(result: Result<(), WriteError>, field: &str) {
    match result {
        Err(WriteError::Refused(why)) => {
            why.assert_has("unknown field");
            why.assert_has(field);
        }
        other => panic!("{other:?}"),
    }
}

/// Creates and merge patches are strict. Server-side apply always was.
#[test]
fn the_server_refuses_unknown_fields() {
    for release in ["1.15.19", "1.18.4", "1.20.2"] {
        let server = start(release, "multi-pool", release);
        let unknown = json!({"reservedRanges": [{"start": "10.50.0.1"}]});
        let target = || Target::PodPool(PodPoolApi::V2Alpha1, "p".to_owned());
        let create = |object| Write {
            target: target(),
            operation: Operation::Create(object),
        };
        assert_refused(
            write(&server, &create(pod_pool("p", &unknown))),
            "reservedRanges",
        );
        assert!(
            server.plane.list(POD_POOLS).unwrap().is_empty(),
            "{release}"
        );
        write(&server, &create(pod_pool("p", &json!({})))).unwrap();
        let patch = Write {
            target: target(),
            operation: Operation::Patch(json!({"spec": unknown})),
        };
        assert_refused(write(&server, &patch), "reservedRanges");
    }
}

/// What `plan` writes is kept by the CRDs of each release.
#[test]
fn every_planned_field_is_kept() {
    for release in ["1.15.19", "1.18.4", "1.20.2"] {
        let server = start(release, "multi-pool", release);
        server.folder.write("pools/a.yaml", POD_POOL);
        server.folder.write("pools/lb.yaml", LB_POOL);
        server.expect("apply --auto-approve", 0);
        let pools = server.plane.list(POD_POOLS).unwrap();
        assert_eq!(pools[0]["spec"]["ipv4"]["maskSize"], 24, "{release}");
        let plan = server.run(&["plan", "-o", "json"]).json();
        assert_eq!(plan["changes"], json!([]), "{release}: {plan:#}");
    }
}

fn blocked(server: &Server, name: &str) -> (String, String) {
    let plan = server.run(&["plan", "-o", "json"]).json();
    let mut all = plan["blocked"].as_array().unwrap().iter();
    let blocked = all.find(|blocked| blocked["name"] == name);
    let blocked = blocked.unwrap_or_else(|| panic!("{plan:#}"));
    let text = |key: &str| blocked[key].as_str().unwrap().to_owned();
    (text("code"), text("reason"))
}

/// Agents of 1.12 read pools with `cidrs`, which the CRDs of 1.20 do not have.
#[test]
fn plan_blocks_a_field_that_the_schema_lacks() {
    let server = start("1.12.19", "kubernetes", "1.20.2");
    server.folder.write("pools/lb.yaml", LB_POOL);
    let (code, reason) = blocked(&server, "blue");
    assert_eq!(code, "fields-not-kept", "{reason}");
    reason.assert_has("spec.cidrs");
}

/// A server that stores v2, as Cilium 1.21 will: pools are written in v2, and `reservedRanges` of
/// another writer stay inside the CIDRs.
#[test]
fn pod_pools_in_the_stored_version() {
    let server = start("1.20.2", "multi-pool", "1.20.2");
    let crd = server.plane.get(POD_POOL_CRD).unwrap();
    let mut old = crd["spec"]["versions"][0].clone();
    let mut new = old.clone();
    new["name"] = "v2".into();
    old["storage"] = false.into();
    let family = "/schema/openAPIV3Schema/properties/spec/properties/ipv4/properties";
    let reserved = json!({"type": "array", "items": {"type": "object",
        "properties": {"start": {"type": "string"}, "end": {"type": "string"}}}});
    new.pointer_mut(family).unwrap()["reservedRanges"] = reserved;
    let versions = json!({"spec": {"versions": [new, old]}});
    server.plane.patch(POD_POOL_CRD, &versions).unwrap();
    let stored = "/apis/cilium.io/v2/ciliumpodippools";
    testbed::wait_until("v2 to be served", testbed::PATIENCE, || {
        Ok(server.plane.list(stored).is_ok().then_some(()))
    })
    .unwrap();
    server.folder.write("pools/a.yaml", POD_POOL);
    server.expect("apply --auto-approve", 0);
    let reserved = json!([{"start": "10.20.9.1", "end": "10.20.9.20"}]);
    let patch = json!({"spec": {"ipv4": {"reservedRanges": reserved}}});
    server.plane.patch(&format!("{stored}/a"), &patch).unwrap();

    let wider = POD_POOL.replace("10.20.0.0/16", "10.20.0.0/16, 10.30.0.0/16");
    server.folder.write("pools/a.yaml", wider);
    server.expect("apply --auto-approve", 0);
    let pool = &server.plane.list(stored).unwrap()[0];
    assert_eq!(pool["spec"]["ipv4"]["cidrs"][1], "10.30.0.0/16");
    assert_eq!(pool["spec"]["ipv4"]["reservedRanges"], reserved);

    server.folder.write(
        "pools/a.yaml",
        POD_POOL.replace("10.20.0.0/16", "10.30.0.0/16"),
    );
    let (code, reason) = blocked(&server, "a");
    assert_eq!(code, "pod-pool-reserved", "{reason}");
}
