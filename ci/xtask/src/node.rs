//! Nodes as kubelets make them, but without a kubelet: about 3 KB of JSON each.

use serde_json::{Value, json};

/// The racks, by turns; a node has its own as the label `rack`.
pub const RACKS: [&str; 3] = ["a", "b", "c"];

/// The collection of Nodes.
pub const NODES: &str = "/api/v1/nodes";
/// The collection of CiliumNodes.
pub const CILIUM_NODES: &str = "/apis/cilium.io/v2/ciliumnodes";

/// Heartbeats are older than any action of a benchmark.
const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// The node's name.
#[must_use]
pub fn name(index: usize) -> String {
    format!("worker-{index:06}")
}

/// The path of the Node.
#[must_use]
pub fn path(index: usize) -> String {
    format!("{NODES}/{}", name(index))
}

/// The path of the Node's status.
#[must_use]
pub fn status_path(index: usize) -> String {
    format!("{NODES}/{}/status", name(index))
}

/// The path of the CiliumNode.
#[must_use]
pub fn cilium_node_path(index: usize) -> String {
    format!("{CILIUM_NODES}/{}", name(index))
}

/// A kubelet's heartbeat: the same status with another time, which differs each time.
#[must_use]
pub fn heartbeat(beat: u64) -> Value {
    let [hour, minute, second] = [beat / 3600 % 24, beat / 60 % 60, beat % 60];
    json!({"status": {"conditions": conditions(&format!("2026-01-02T{hour:02}:{minute:02}:{second:02}Z"))}})
}

/// The Node as a client sees it.
#[must_use]
pub fn node(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata(index),
        "spec": {"providerID": format!("metal://{}", machine_id(index))}, "status": status(index)})
}

/// The CiliumNode that an agent writes, before it has a block.
#[must_use]
pub fn cilium_node(index: usize) -> Value {
    let address = address(index);
    json!({"apiVersion": "cilium.io/v2", "kind": "CiliumNode",
    "metadata": {"name": name(index), "labels": labels(index)},
    "spec": {
        "addresses": [{"ip": address, "type": "InternalIP"}],
        "alibaba-cloud": {}, "azure": {}, "eni": {}, "encryption": {}, "ipam": {},
        "bootid": boot_id(index), "health": {}, "ingress": {},
    }})
}

/// No pool of the benchmarks has these addresses.
fn address(index: usize) -> String {
    format!(
        "172.{}.{}.{}",
        16 + (index >> 16),
        (index >> 8) & 0xff,
        index & 0xff
    )
}

fn machine_id(index: usize) -> String {
    format!("4c4c4544-0042-3510-8058-{index:012x}")
}

fn boot_id(index: usize) -> String {
    format!("9b1f4e5a-2c1d-4a7e-b2a4-{index:012x}")
}

fn labels(index: usize) -> Value {
    json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name(index),
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "metal-64c-256g",
        "rack": RACKS[index % RACKS.len()],
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": format!("eu-1{}", RACKS[index % RACKS.len()]),
    })
}

fn metadata(index: usize) -> Value {
    json!({
        "name": name(index),
        "labels": labels(index),
        "annotations": {
            "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///var/run/containerd/containerd.sock",
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
    })
}

fn status(index: usize) -> Value {
    json!({
        "addresses": [{"address": address(index), "type": "InternalIP"}, {"address": name(index), "type": "Hostname"}],
        "allocatable": resources("63770m", "257698037760"),
        "capacity": resources("64", "264241152Ki"),
        "conditions": conditions(LONG_AGO),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64", "bootID": boot_id(index), "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.1.0-56-amd64", "kubeProxyVersion": "", "kubeletVersion": "v1.36.3",
            "machineID": machine_id(index).replace('-', ""), "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": machine_id(index),
        },
    })
}

fn resources(cpu: &str, memory: &str) -> Value {
    json!({"cpu": cpu, "ephemeral-storage": "943247632Ki", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "memory": memory, "pods": "110"})
}

fn conditions(heartbeat: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": heartbeat, "lastTransitionTime": LONG_AGO})
    };
    json!([
        condition(
            "NetworkUnavailable",
            "False",
            "CiliumIsUp",
            "Cilium is running on this node"
        ),
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure"
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available"
        ),
        condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status"
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_large_as_a_real_one() {
        let bytes = node(99_999).to_string().len();
        assert!((2_500..4_000).contains(&bytes), "{bytes}");
    }
}
