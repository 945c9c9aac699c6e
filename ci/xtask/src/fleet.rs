//! Many nodes in a real control plane.

use std::ops::Range;

use serde_json::json;
use testbed::{ControlPlane, Error};

use crate::node;
use crate::parallel::for_each;

/// More make two cores no faster.
const CONNECTIONS: usize = 16;

/// Creates the Nodes, then writes the status of each through its subresource, as kubelets do.
///
/// # Errors
/// The first failure.
pub fn create_nodes(plane: &ControlPlane, nodes: Range<usize>) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.collect();
    for_each(&nodes, CONNECTIONS, |&index| {
        let mut node = node::node(index);
        let status = node["status"].take();
        plane.create("/api/v1/nodes", &node)?;
        let path = format!("/api/v1/nodes/{}/status", node::name(index));
        plane.patch(&path, &json!({"status": status})).map(drop)
    })
}

/// Creates the CiliumNodes that agents write. The server must have Cilium's CRDs.
///
/// # Errors
/// The first failure.
pub fn create_cilium_nodes(plane: &ControlPlane, nodes: Range<usize>) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.collect();
    for_each(&nodes, CONNECTIONS, |&index| {
        plane.create("/apis/cilium.io/v2/ciliumnodes", &node::cilium_node(index)).map(drop)
    })
}
