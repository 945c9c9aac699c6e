//! The programs that give nodes their blocks: how each starts, and where its blocks lie. It knows
//! nothing of what is measured.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use testbed::{CiliumVersion, ControlPlane, ControllerManager, Operator, usage, wait_until};
use xtask::running::Running;
use xtask::tool::clean;
use xtask::{fleet, node};

use super::fresh::Stage;

const CLUSTER_CIDRS: &str = "/apis/networking.x-k8s.io/v1/clustercidrs";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MANAGER_FLAGS: [&str; 4] = [
    "--controllers=node-ipam-controller",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.0.0.0/11",
    "--node-cidr-mask-size=24",
];
const UNLIMITED: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=10000"];
const CILIUM_FLAGS: [&str; 4] = [
    "--ipam=cluster-pool",
    "--enable-ipv6=false",
    "--cluster-pool-ipv4-cidr=10.0.0.0/11",
    "--cluster-pool-ipv4-mask-size=24",
];
const LISTEN: &str = "--webserver-bind-address=127.0.0.1:0";
const NO_LEADER: &str = "--enable-leader-election=false";

/// One of them.
pub enum Contender {
    /// This project's.
    Operator,
    ControllerManager,
    /// The same with the limits of its client lifted.
    ControllerManagerUnlimited,
    /// Cilium's own, in ipam `cluster-pool`.
    CiliumOperator,
    /// The one of kubernetes-sigs with its ClusterCIDRs: this program.
    NodeIpamController(PathBuf),
}

/// One that runs. Dropping it stops it.
pub enum Started {
    Operator(Running),
    Manager(ControllerManager),
    Cilium(Operator),
    Other(Ended),
}

/// A process that is killed when it is dropped.
pub struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(match self {
            Started::Operator(running) => running.cpu_ms()? / 1e3,
            Started::Manager(manager) => manager.cpu_seconds()?,
            Started::Cilium(operator) => operator.cpu_seconds()?,
            Started::Other(other) => usage::cpu_seconds(other.0.id())?,
        })
    }

    pub fn peak_rss_mib(&self) -> Result<f64> {
        Ok(match self {
            Started::Operator(running) => running.peak_rss_mib()?,
            Started::Manager(manager) => manager.peak_rss_mib()?,
            Started::Cilium(operator) => operator.peak_rss_mib()?,
            Started::Other(other) => usage::peak_rss_mib(other.0.id())?,
        })
    }
}

impl Contender {
    pub fn name(&self) -> &'static str {
        match self {
            Contender::Operator => "cilium-ipam",
            Contender::ControllerManager => "kube-controller-manager",
            Contender::ControllerManagerUnlimited => "kube-controller-manager, limits lifted",
            Contender::CiliumOperator => "cilium-operator 1.19.3",
            Contender::NodeIpamController(_) => "node-ipam-controller",
        }
    }

    /// Its command, without what connects it to the server.
    pub fn shown(&self) -> String {
        match self {
            Contender::Operator => "cilium-ipam operator".to_owned(),
            Contender::ControllerManager => {
                format!("kube-controller-manager {}", MANAGER_FLAGS.join(" "))
            }
            Contender::ControllerManagerUnlimited => {
                let flags = [&MANAGER_FLAGS[..], &UNLIMITED].concat();
                format!("kube-controller-manager {}", flags.join(" "))
            }
            Contender::CiliumOperator => format!("cilium-operator {}", CILIUM_FLAGS.join(" ")),
            Contender::NodeIpamController(_) => format!("node-ipam-controller {NO_LEADER}"),
        }
    }

    /// The objects that it gives blocks to.
    pub fn collection(&self) -> &'static str {
        match self {
            Contender::CiliumOperator => node::CILIUM_NODES,
            _ => node::NODES,
        }
    }

    /// The path of one of these objects.
    pub fn path(&self, index: usize) -> String {
        match self {
            Contender::CiliumOperator => node::cilium_node_path(index),
            _ => node::path(index),
        }
    }

    /// A new object.
    pub fn object(&self, index: usize) -> Value {
        match self {
            Contender::CiliumOperator => node::cilium_node(index),
            _ => node::node(index),
        }
    }

    /// The block of such an object.
    pub fn block<'o>(&self, object: &'o Value) -> Option<&'o str> {
        match self {
            Contender::CiliumOperator => object["spec"]["ipam"]["podCIDRs"][0].as_str(),
            _ => object["spec"]["podCIDR"].as_str(),
        }
    }

    /// Starts it; returns once it serves.
    pub fn start(&self, stage: &Stage<'_>) -> Result<Started> {
        let (programs, plane) = (stage.programs, stage.plane);
        let started = match self {
            Contender::Operator => {
                let operator = Running::operator(stage.tool, plane.kubeconfig())?;
                operator.until("seen", None)?;
                return Ok(Started::Operator(operator));
            }
            Contender::ControllerManager => {
                Started::Manager(ControllerManager::start(programs, plane, &MANAGER_FLAGS)?)
            }
            Contender::ControllerManagerUnlimited => {
                let flags = [&MANAGER_FLAGS[..], &UNLIMITED].concat();
                Started::Manager(ControllerManager::start(programs, plane, &flags)?)
            }
            Contender::CiliumOperator => {
                let version = CiliumVersion::V1_19;
                Started::Cilium(Operator::start(programs, plane, version, &CILIUM_FLAGS)?)
            }
            Contender::NodeIpamController(program) => {
                install_cluster_cidr(plane)?;
                let mut command = clean(program);
                command.arg(format!("--kubeconfig={}", plane.kubeconfig().display()));
                command.args([LISTEN, NO_LEADER]).stdin(Stdio::null());
                command.stdout(Stdio::null()).stderr(Stdio::null());
                let child = command.spawn().context("it does not start")?;
                Started::Other(Ended(child))
            }
        };
        self.wait_for_first(plane, stage.nodes)?;
        Ok(started)
    }

    /// It is healthy before its informers have seen anything: one node shows that it works.
    fn wait_for_first(&self, plane: &ControlPlane, index: usize) -> Result<()> {
        match self {
            Contender::CiliumOperator => fleet::create_cilium_nodes(plane, [index])?,
            _ => fleet::create_node(plane, index)?,
        }
        wait_until("the first block", super::fresh::LIMIT, || {
            let object = plane.get(&self.path(index))?;
            Ok(self.block(&object).map(|_| ()))
        })?;
        plane.delete(&self.path(index))?;
        Ok(())
    }
}

/// The fields of its definition that a client needs, and one ClusterCIDR for all nodes.
fn install_cluster_cidr(plane: &ControlPlane) -> Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let names = json!({"plural": "clustercidrs", "singular": "clustercidr", "kind": "ClusterCIDR", "listKind": "ClusterCIDRList", "shortNames": ["cc"]});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clustercidrs.networking.x-k8s.io", "annotations": {
            "api-approved.kubernetes.io": "unapproved, experimental-only"}},
        "spec": {"group": "networking.x-k8s.io", "scope": "Cluster", "names": names, "versions": [version]},
    });
    plane.create(DEFINITIONS, &definition)?;
    wait_until("ClusterCIDRs", super::fresh::LIMIT, || {
        Ok(plane.list(CLUSTER_CIDRS).ok())
    })?;
    let cidr = json!({"apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": {"name": "all"},
        "spec": {"perNodeHostBits": 8, "ipv4": super::RANGE}});
    plane.create(CLUSTER_CIDRS, &cidr)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{BLOCK_SIZE, RANGE};
    use super::*;

    #[test]
    fn all_have_the_same_range_and_size() {
        for flag in [
            format!("--cluster-cidr={RANGE}"),
            format!("--node-cidr-mask-size={BLOCK_SIZE}"),
        ] {
            assert!(MANAGER_FLAGS.contains(&flag.as_str()), "{flag}");
        }
        for flag in [
            format!("--cluster-pool-ipv4-cidr={RANGE}"),
            format!("--cluster-pool-ipv4-mask-size={BLOCK_SIZE}"),
        ] {
            assert!(CILIUM_FLAGS.contains(&flag.as_str()), "{flag}");
        }
    }
}
