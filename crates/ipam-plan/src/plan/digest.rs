//! SHA-256 over what files and changes mean.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use ipam_core::alloc::WhenFull;
use ipam_core::model::WritePathChoice;
use ipam_core::text::joined;
use ipam_desired::{
    AddressPairs, ChosenFrom, Desired, NeutronPool, Pin, PinnedAddress, PinnedTo, Policy,
    PolicyRule, Pool, PoolRange, Protected, ServicePin, WantedAddressPool,
};

/// Hex SHA-256 of a text.
pub fn of_text(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .fold(String::with_capacity(64), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// The meaning of the files: the same for other comments, order of documents, or file names. Every
/// field is named, so that a new one must be decided on here. Saved plans hold the digest, so the
/// text stays as it is.
pub(super) fn of_desired(desired: &Desired) -> String {
    let Desired {
        pools,
        neutron_pools,
        // With a faulty pool, nothing is planned.
        faulty: _,
        pins,
        address_pools,
        address_pools_asked: _,
        service_pins,
        policy,
        // Examples of rules change no plan.
        rule_cases: _,
    } = desired;
    let mut text = String::new();
    pools.values().for_each(|pool| add_pool(&mut text, pool));
    for pool in neutron_pools.values() {
        let NeutronPool {
            name,
            origin: _,
            network,
            subnet,
            subnet_origin: _,
        } = pool;
        let _ = writeln!(text, "neutron pool {name} {network} {subnet}");
    }
    for pin in pins.values() {
        let Pin {
            node,
            pool,
            blocks,
            origin: _,
        } = pin;
        let _ = writeln!(text, "pin {node} {pool} [{}]", joined(blocks.iter(), " "));
    }
    for pool in address_pools.values() {
        let WantedAddressPool {
            name,
            origin: _,
            manifest,
            // `manifest` has the ranges, too.
            ranges: _,
        } = pool;
        let manifest = serde_json::to_string(manifest).unwrap_or_default();
        let _ = writeln!(text, "address pool {name} {manifest}");
    }
    for pin in service_pins.values() {
        let ServicePin {
            service,
            to,
            origin: _,
        } = pin;
        let addresses = match to {
            PinnedTo::Addresses(addresses) => addresses,
            PinnedTo::Chosen(ChosenFrom::Pool(pool)) => {
                let _ = writeln!(text, "service pin {service} pool {pool}");
                continue;
            }
            PinnedTo::Chosen(ChosenFrom::BestPool) => {
                let _ = writeln!(text, "service pin {service} best pool");
                continue;
            }
        };
        let addresses = addresses.iter().map(|pinned| {
            let PinnedAddress { address, origin: _ } = pinned;
            address
        });
        let _ = writeln!(text, "service pin {service} [{}]", joined(addresses, " "));
    }
    add_policy(&mut text, policy);
    of_text(&text)
}

fn add_pool(text: &mut String, pool: &Pool) {
    let Pool {
        name,
        origin: _,
        ranges,
        block_size,
        selector,
        priority,
        reserved,
        retiring,
        state,
        when_full,
    } = pool;
    let block = |range: &PoolRange| {
        let PoolRange { block, origin: _ } = range;
        *block
    };
    let sizes = block_size
        .iter()
        .map(|size| format!("{}{size}", size.family()));
    let when_full = match when_full {
        WhenFull::NextPool => "",
        WhenFull::Wait => " wait",
    };
    let _ = writeln!(
        text,
        "pool {name} [{}] [{}] ({selector}) {priority} [{}] {state}{when_full}",
        joined(ranges.iter().map(block), " "),
        joined(sizes, " "),
        joined(reserved, " ")
    );
    if !retiring.is_empty() {
        let retiring = joined(retiring.iter().map(block), " ");
        let _ = writeln!(text, "retiring [{retiring}]");
    }
}

fn add_policy(text: &mut String, policy: &Policy) {
    let Policy {
        origin: _,
        write_path,
        acknowledged_allocators,
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
        // `auto_apply` and `activity` decide who applies a plan, not the contents of the plan.
        auto_apply: _,
        activity: _,
        address_pairs,
        // `migration` says when `migrate` changes a node, and `migrate` plans each node again: a
        // plan that was saved before an edit of the windows still writes the same.
        migration: _,
        rules,
    } = policy;
    let write_path = match write_path {
        WritePathChoice::Auto => "auto",
        WritePathChoice::Forced(path) => path.as_str(),
    };
    if !acknowledged_allocators.is_empty() {
        let _ = writeln!(text, "acknowledged allocators {acknowledged_allocators:?}");
    }
    match address_pairs {
        AddressPairs::Ignored => {}
        AddressPairs::PodCidrs => {
            let _ = writeln!(text, "allowed address pairs for pod CIDRs");
        }
    }
    for rule in rules {
        let PolicyRule {
            name,
            origin: _,
            severity,
            rule,
        } = rule;
        let _ = writeln!(
            text,
            "rule {name:?} {severity} {:?}",
            rule.expression.source()
        );
    }
    let limits = limits.iter().map(|(name, value)| format!("{name}={value}"));
    let protected = (nodes.iter().map(ToString::to_string))
        .chain(pools.iter().map(|pool| format!("pool:{pool}")));
    let _ = writeln!(
        text,
        "policy {write_path} [{}] [{}] {quarantine} {failure_domain:?} [{}] [{}]",
        joined(excluded, " "),
        joined(own_address_space, " "),
        joined(limits, " "),
        joined(protected, " ")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saved plans hold the digest, so this text never changes.
    #[test]
    fn the_text_of_the_defaults_stays() {
        let limits = Policy::LIMITS.map(|(name, value)| format!("{name}={value}"));
        let text = format!(
            "policy auto [] [] PT10M \"topology.kubernetes.io/zone\" [{}] []\n",
            limits.join(" ")
        );
        assert_eq!(of_desired(&Desired::default()), of_text(&text));
    }
}
