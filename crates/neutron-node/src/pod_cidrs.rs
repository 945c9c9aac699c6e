//! `--pod-cidrs-on`: allows the Node's pod CIDRs on the VM's port. Reads the Node from Kubernetes
//! like a Pod does: one GET with the token of its ServiceAccount.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use serde_json::Value;

use crate::arguments::PodCidrs;
use crate::network_state::{NetworkState, SyncResult};
use crate::pairs::PairsKeeper;
use crate::{DEADLINE, USER_AGENT};
use ipam_core::net::Block;
use neutron_cni::Source;
use neutron_cni::cni::{CniError, ErrorCode};
use neutron_cni::plugin::{cloud, session_cache};
use openstack::{HttpNeutron, OnRequest, get_json};
use private_files::{read_small, state_folder};

/// Reads the Node and keeps the pairs, if the last sync is at least this old.
pub(super) fn sync(
    wanted: &PodCidrs,
    state: &mut NetworkState,
    interval: Duration,
    on_request: Option<&OnRequest>,
) -> Result<SyncResult, CniError> {
    if !state.is_due(interval) {
        return Ok(SyncResult::NotDue);
    }
    let outcome = sync_now(wanted, on_request);
    state.record(&outcome);
    outcome.map(|()| SyncResult::Done)
}

fn sync_now(wanted: &PodCidrs, on_request: Option<&OnRequest>) -> Result<(), CniError> {
    let node = node(&wanted.node_name, &wanted.service_account)?;
    let ranges = pod_cidrs(&node)?;
    let source = Source::File {
        path: wanted.clouds_file.clone(),
        cloud: wanted.cloud.clone(),
    };
    let neutron = HttpNeutron::new(
        cloud(&source)?,
        USER_AGENT,
        session_cache(wanted.state.clone()),
        Instant::now() + DEADLINE,
    )?
    .reporting(on_request.cloned());
    let folder = state_folder(&wanted.state)?;
    let keeper = PairsKeeper::new(&wanted.on, folder, "pod CIDRs", &neutron)?;
    Ok(keeper.keep_ranges(&neutron, &ranges)?)
}

fn node(name: &str, account: &Path) -> Result<Value, CniError> {
    let variable =
        |name: &str| std::env::var(name).map_err(|_| try_later(&format!("{name} is not set")));
    let [host, port] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(variable);
    let (host, port) = (host?, port?);
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(try_later("`--node-name` is not the name of a Node"));
    }
    let token = read_small(&account.join("token"))?;
    let url = format!("https://{host}:{port}/api/v1/nodes/{name}");
    let (status, body) = get_json(
        &url,
        token.trim(),
        USER_AGENT,
        &account.join("ca.crt").display().to_string(),
        DEADLINE,
    )?;
    if status == 200 {
        Ok(body)
    } else {
        Err(try_later(&format!(
            "Kubernetes answers {status} for Node {name}"
        )))
    }
}

/// A Node without pod CIDRs has none yet. Its old pairs stay.
fn pod_cidrs(node: &Value) -> Result<BTreeSet<IpNet>, CniError> {
    let listed = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
    let ranges: Option<BTreeSet<IpNet>> = listed
        .map(|one| Some(IpNet::from(Block::lenient(one.as_str()?).ok()?)))
        .collect();
    ranges
        .filter(|ranges| !ranges.is_empty())
        .ok_or_else(|| try_later("the Node has no pod CIDRs yet"))
}

fn try_later(message: &str) -> CniError {
    CniError::new(
        ErrorCode::TryAgainLater,
        message,
        "the daemon will retry; see the chart's ServiceAccount",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_node_with_valid_pod_cidrs_counts() {
        let node = json!({"spec": {"podCIDRs": ["::ffff:10.1.0.0/120", "fd00:1::/64"]}});
        assert_eq!(
            pod_cidrs(&node).unwrap(),
            [
                "10.1.0.0/24".parse().unwrap(),
                "fd00:1::/64".parse().unwrap()
            ]
            .into()
        );
        for bad in [
            json!({}),
            json!({"spec": {"podCIDRs": []}}),
            json!({"spec": {"podCIDRs": ["10.1.0.0/24", "x"]}}),
        ] {
            assert!(pod_cidrs(&bad).is_err(), "{bad}");
        }
    }
}
