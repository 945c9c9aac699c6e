//! Explains a Service of type LoadBalancer: its addresses, every pool, and its outlook.

use serde::Serialize;

use super::{FORMAT_VERSION, RequirementResult, requirements};
use ipam_cilium::lbipam::{
    AddressPool, LbService, OperatorState, ServingState, conflicts, evaluate,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::Labels;
use ipam_core::net::Range;

/// Explanation of a Service's addresses.
#[derive(Debug, Serialize)]
pub struct ServiceExplanation {
    format_version: &'static str,
    /// `namespace/name`.
    pub service: String,
    /// Its labels, with Cilium's pseudo-labels.
    pub labels: Labels,
    /// Its addresses, each with the pools that cover it.
    pub addresses: Vec<String>,
    pub pools: Vec<ConsideredAddressPool>,
    /// Cilium's message in the status of the Service.
    pub reason: Option<String>,
    /// Addresses that it will lose, get or wait for.
    pub outlook: Vec<String>,
}

/// A pool, evaluated for the Service.
#[derive(Debug, Serialize)]
pub struct ConsideredAddressPool {
    pub pool: String,
    /// Each requirement of its selector. A selector without requirements selects every Service.
    pub requirements: Vec<RequirementResult>,
    /// The result for this Service.
    pub verdict: String,
}

pub(super) fn explain(service: &LbService, observed: &Observed) -> ServiceExplanation {
    let rules = observed.lb_rules();
    let pools = observed.address_pools_as_read(&rules);
    let losers = conflicts(&pools, OperatorState::Running(&pools));
    let considered = |pool: &AddressPool| {
        let verdict = match (
            pool.selects(&service.labels),
            losers.get(pool.name.as_str()),
            pool.state,
        ) {
            (false, ..) => "does not select it".to_owned(),
            (true, Some(conflict), _) => {
                format!(
                    "selects it, but overlaps `{}`, and Cilium uses only one of the two",
                    conflict.with.escape_debug()
                )
            }
            (true, None, ServingState::Disabled) => "selects it, and is disabled".to_owned(),
            (true, None, ServingState::Enabled) => "selects it".to_owned(),
        };
        let results = pool
            .selector
            .as_ref()
            .map(|selector| requirements(selector, &service.labels));
        ConsideredAddressPool {
            pool: pool.name.clone(),
            requirements: results.unwrap_or_default(),
            verdict,
        }
    };
    let covering = |address: &std::net::IpAddr| {
        let range = Range::from(*address);
        let covers = |pool: &&AddressPool| {
            pool.ranges
                .iter()
                .any(|covering| covering.range.contains(&range))
        };
        let names: Vec<String> = pools
            .iter()
            .filter(covers)
            .map(|pool| format!("`{}`", pool.name.escape_debug()))
            .collect();
        if names.is_empty() {
            format!("{address}, of no pool")
        } else {
            format!("{address} of {}", names.join(" or "))
        }
    };
    let evaluated = evaluate(
        &pools,
        observed.services.values(),
        &rules,
        OperatorState::Running(&pools),
    );
    let outlook = evaluated.outcomes.get(&service.name).map(|outlook| {
        let loses = outlook
            .loses
            .iter()
            .map(|(address, why)| format!("loses {address}: {why}"));
        let gains = outlook.gains.iter().map(ToString::to_string);
        loses
            .chain(gains)
            .chain(
                outlook
                    .pending
                    .iter()
                    .map(|pending| format!("waits: {}", pending.reason())),
            )
            .collect()
    });
    ServiceExplanation {
        format_version: FORMAT_VERSION,
        service: service.name.to_string(),
        labels: service.labels.clone(),
        addresses: service.ingress.iter().map(covering).collect(),
        pools: pools.iter().map(considered).collect(),
        reason: service.reason.clone(),
        outlook: outlook.unwrap_or_else(|| {
            vec!["not for LB-IPAM: its class belongs to another controller".to_owned()]
        }),
    }
}
