//! Seeded clusters of pools and Services. Clusters of one control plane differ in namespace, labels
//! and ranges, so they are independent. Knows neither operators nor `cilium-ipam`.

use anyhow::Result;
use serde_json::{Value, json};
use testbed::{ControlPlane, Random};

const POOLS: &str = "/apis/cilium.io/v2alpha1/ciliumloadbalancerippools";
const OLDER: [&str; 2] = ["io.cilium/lb-ipam-ips", "io.cilium/lb-ipam-sharing-key"];
const NEWER: [&str; 2] = ["lbipam.cilium.io/ips", "lbipam.cilium.io/sharing-key"];

/// One cluster, and the edit that is made to it.
pub struct Cluster {
    number: usize,
    pools: Vec<Value>,
    services: Vec<Value>,
    /// Of the spec of the first pool.
    edit: Option<Value>,
}

impl Cluster {
    /// `count` clusters, numbered from 0.
    pub fn some(count: usize, random: &mut Random) -> Vec<Cluster> {
        let mut clusters: Vec<Cluster> = (0..count)
            .map(|number| Cluster::new(number, random))
            .collect();
        for cluster in &mut clusters {
            cluster.edit = some_edit(random);
        }
        clusters
    }

    fn new(number: usize, random: &mut Random) -> Cluster {
        let pools = 1 + random.below(3);
        let some_pool = |index| some_pool(number, index, random);
        let made: Vec<Value> = (0..pools).map(some_pool).collect();
        let services = 3 + random.below(5);
        let some_service = |index| some_service(number, index, pools, random);
        Cluster {
            number,
            pools: made,
            services: (0..services).map(some_service).collect(),
            edit: None,
        }
    }

    pub fn namespace(&self) -> String {
        format!("c{}", self.number)
    }

    pub fn create(&self, plane: &ControlPlane) -> Result<()> {
        let name = self.namespace();
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        plane.create("/api/v1/namespaces", &namespace)?;
        for pool in &self.pools {
            plane.create(POOLS, pool)?;
        }
        let path = format!("/api/v1/namespaces/{name}/services");
        for service in &self.services {
            plane.create(&path, service)?;
        }
        Ok(())
    }

    pub fn edit(&self, plane: &ControlPlane) -> Result<()> {
        if let Some(spec) = &self.edit {
            let path = format!("{POOLS}/{}", pool_name(self.number, 0));
            plane.patch(&path, &json!({"spec": spec}))?;
        }
        Ok(())
    }

    /// The pool of a Service of this name, and the start of its addresses.
    pub fn pool_of(&self, service: &str) -> Option<String> {
        let is_named = |value: &&Value| value["metadata"]["name"] == service;
        let found = self.services.iter().find(is_named)?;
        let pool = found["metadata"]["labels"]["pool"].as_str()?;
        Some(pool.to_owned())
    }

    /// All of it, for a person who looks for the cause of a fault.
    pub fn shown(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for pool in &self.pools {
            lines.push(format!("{}: {}", pool["metadata"]["name"], pool["spec"]));
        }
        lines.extend(self.edit.iter().map(|edit| format!("edit: {edit}")));
        for service in &self.services {
            let metadata = &service["metadata"];
            let (pool, annotations) = (&metadata["labels"]["pool"], &metadata["annotations"]);
            lines.push(format!("{}: {pool} {annotations}", metadata["name"]));
        }
        lines.join("\n    ")
    }
}

fn pool_name(number: usize, index: usize) -> String {
    format!("c{number}-p{index}")
}

/// The start of the addresses of a pool of this name.
pub fn prefix_of(pool: &str) -> Option<String> {
    let (number, index) = pool.strip_prefix('c')?.split_once("-p")?;
    Some(format!("60.{number}.{index}."))
}

fn some_pool(number: usize, index: usize, random: &mut Random) -> Value {
    let prefix = format!("60.{number}.{index}");
    let cidr = format!("{prefix}.0/{}", [29, 30, 31][random.below(3)]);
    let mut spec = match random.below(4) {
        0 | 1 => json!({"blocks": [{"cidr": cidr}]}),
        2 => json!({"blocks": [{"start": format!("{prefix}.0"), "stop": format!("{prefix}.3")}]}),
        _ => json!({"cidrs": [{"cidr": cidr}]}),
    };
    let name = pool_name(number, index);
    spec["serviceSelector"] = json!({"matchLabels": {"pool": name}});
    match random.below(3) {
        0 => spec["allowFirstLastIPs"] = "Yes".into(),
        1 => spec["allowFirstLastIPs"] = "No".into(),
        _ => {}
    }
    json!({"apiVersion": "cilium.io/v2alpha1", "kind": "CiliumLoadBalancerIPPool",
        "metadata": {"name": name}, "spec": spec})
}

/// A Service of one pool; it may share, and request an address by either annotation.
fn some_service(number: usize, index: usize, pools: usize, random: &mut Random) -> Value {
    let pool = random.below(pools);
    let mut annotations = json!({});
    if random.below(3) == 0 {
        for key in [OLDER[1], NEWER[1]] {
            annotations[key] = "shared".into();
        }
    }
    let address = |random: &mut Random| format!("60.{number}.{pool}.{}", random.below(4));
    match random.below(6) {
        0 => annotations[OLDER[0]] = address(random).into(),
        1 => annotations[NEWER[0]] = address(random).into(),
        2 => {
            annotations[OLDER[0]] = address(random).into();
            annotations[NEWER[0]] = address(random).into();
        }
        _ => {}
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{index}"),
        "labels": {"pool": pool_name(number, pool)}, "annotations": annotations},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80 + index}]}})
}

/// Now and then, the first pool is disabled, or its first and last address are reserved.
fn some_edit(random: &mut Random) -> Option<Value> {
    match random.below(4) {
        0 => Some(json!({"disabled": true})),
        1 => Some(json!({"allowFirstLastIPs": "No"})),
        _ => None,
    }
}
