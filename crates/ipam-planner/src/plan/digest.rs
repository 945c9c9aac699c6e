//! SHA-256 over what files and changes mean.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use ipam_core::model::WritePathChoice;
use ipam_core::net::Range;
use ipam_desired::{AddressPairs, Desired, Policy, PoolState, Protected};

/// Hex SHA-256 of a text.
pub(super) fn of_text(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// The meaning of the files: the same for other comments, order of documents, or file names.
pub(super) fn of_desired(desired: &Desired) -> String {
    let ranges = |ranges: &[Range]| {
        ranges
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut text = String::new();
    for pool in desired.pools.values() {
        let cidrs: Vec<String> = pool
            .ranges
            .iter()
            .map(|range| range.block.to_string())
            .collect();
        let sizes: Vec<String> = pool
            .block_size
            .iter()
            .map(|size| format!("{}{size}", size.family()))
            .collect();
        let state = match pool.state {
            PoolState::Active => "active",
            PoolState::Disabled => "disabled",
        };
        let _ = writeln!(
            text,
            "pool {} [{}] [{}] ({}) {} [{}] {state}",
            pool.name,
            cidrs.join(" "),
            sizes.join(" "),
            pool.selector,
            pool.priority,
            ranges(&pool.reserved)
        );
    }
    for pool in desired.neutron_pools.values() {
        let _ = writeln!(
            text,
            "neutron pool {} {} {}",
            pool.name, pool.network, pool.subnet
        );
    }
    for pin in desired.pins.values() {
        let blocks: Vec<String> = pin.blocks.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "pin {} {} [{}]", pin.node, pin.pool, blocks.join(" "));
    }
    for pool in desired.address_pools.values() {
        let manifest = serde_json::to_string(&pool.manifest).unwrap_or_default();
        let _ = writeln!(text, "address pool {} {manifest}", pool.name);
    }
    for pin in desired.service_pins.values() {
        let addresses: Vec<String> = pin
            .addresses
            .iter()
            .map(|pinned| pinned.address.to_string())
            .collect();
        let _ = writeln!(
            text,
            "service pin {} [{}]",
            pin.service,
            addresses.join(" ")
        );
    }
    let write_path = match desired.policy.write_path {
        WritePathChoice::Auto => "auto",
        WritePathChoice::Forced(path) => path.as_str(),
    };
    let Policy {
        origin: _,
        write_path: _,
        excluded,
        own_address_space,
        quarantine,
        limits,
        failure_domain,
        protected:
            Protected {
                nodes,
                node_origins: _,
                pools,
            },
        // It says who applies a plan, not what is in it.
        unattended: _,
        activity: _,
        address_pairs,
    } = &desired.policy;
    if *address_pairs == AddressPairs::PodCidrs {
        let _ = writeln!(text, "allowed address pairs for pod CIDRs");
    }
    let limits: Vec<String> = limits
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let protected = (nodes.iter().map(ToString::to_string))
        .chain(pools.iter().map(|pool| format!("pool:{pool}")));
    let _ = writeln!(
        text,
        "policy {write_path} [{}] [{}] {quarantine} {failure_domain:?} [{}] [{}]",
        ranges(excluded),
        ranges(own_address_space),
        limits.join(" "),
        protected.collect::<Vec<_>>().join(" ")
    );
    of_text(&text)
}
