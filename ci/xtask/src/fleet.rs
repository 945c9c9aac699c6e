//! Many nodes in a real control plane.

use serde_json::json;
use testbed::{ControlPlane, Error};

use crate::node;
use crate::parallel::for_each;

/// More connections do not help on two cores.
const CONNECTIONS: usize = 16;

/// Creates the Nodes, then writes the status of each through its subresource, as kubelets do.
///
/// # Errors
/// The first failure.
pub fn create_nodes(
    plane: &ControlPlane,
    nodes: impl IntoIterator<Item = usize>,
) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.into_iter().collect();
    for_each(&nodes, CONNECTIONS, |&index| create_node(plane, index))
}

/// The same for one.
///
/// # Errors
/// Fails if the server says no.
pub fn create_node(plane: &ControlPlane, index: usize) -> Result<(), Error> {
    let mut node = node::node(index);
    let status = node["status"].take();
    plane.create(node::NODES, &node)?;
    plane
        .patch(&node::status_path(index), &json!({"status": status}))
        .map(drop)
}

/// Deletes the Nodes and creates them again, so that each is another object of the same name.
///
/// # Errors
/// The first failure.
pub fn recreate_nodes(
    plane: &ControlPlane,
    nodes: impl IntoIterator<Item = usize>,
) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.into_iter().collect();
    for_each(&nodes, CONNECTIONS, |&index| {
        plane.delete(&node::path(index))?;
        create_node(plane, index)
    })
}

/// Deletes the Nodes.
///
/// # Errors
/// The first failure.
pub fn delete_nodes(
    plane: &ControlPlane,
    nodes: impl IntoIterator<Item = usize>,
) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.into_iter().collect();
    for_each(&nodes, CONNECTIONS, |&index| {
        plane.delete(&node::path(index)).map(drop)
    })
}

/// Writes the status of each Node once more, as its kubelet does every few seconds.
///
/// # Errors
/// The first failure.
pub fn heartbeat(
    plane: &ControlPlane,
    nodes: impl IntoIterator<Item = usize>,
    beat: u64,
) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.into_iter().collect();
    for_each(&nodes, CONNECTIONS, |&index| {
        plane
            .patch(&node::status_path(index), &node::heartbeat(beat))
            .map(drop)
    })
}

/// Creates the CiliumNodes that agents write. The server must have Cilium's CRDs.
///
/// # Errors
/// The first failure.
pub fn create_cilium_nodes(
    plane: &ControlPlane,
    nodes: impl IntoIterator<Item = usize>,
) -> Result<(), Error> {
    let nodes: Vec<usize> = nodes.into_iter().collect();
    for_each(&nodes, CONNECTIONS, |&index| {
        plane
            .create(node::CILIUM_NODES, &node::cilium_node(index))
            .map(drop)
    })
}
