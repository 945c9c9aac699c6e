//! Services that LB-IPAM and another program both serve. Each of the two overwrites the status that the
//! other one wrote.

use std::collections::BTreeMap;

use super::load_balancing::{View, named, naming_services};
use ipam_cilium::lbipam::{LbRules, LbService};
use ipam_cilium::observed::{Balancer, Observed};
use ipam_core::model::{Finding, Rule, Severity};

/// The other program that serves a Service of LB-IPAM. Its annotation may be left over from before a
/// move, so it must have written after Cilium, or its workload must run and serve Services without a
/// class, and the Service must have none.
pub fn second_controller(
    service: &LbService,
    observed: &Observed,
    rules: &LbRules,
) -> Option<String> {
    let other = &service.other_controller;
    let mark = other.mark;
    if mark.is_none() && other.writer.is_none() {
        return None;
    }
    if observed.address_pools.is_empty() || !rules.serves(service) {
        return None;
    }
    let is_served =
        |program: &Balancer| service.class.is_none() && observed.balancers.contains_key(program);
    let running = mark.filter(is_served);
    match (running, &other.writer) {
        (Some(program), _) => Some(program.to_string()),
        (None, Some(_)) if mark.is_some() => mark.map(|program| program.to_string()),
        (None, Some(manager)) => Some(format!("`{}`", manager.escape_debug())),
        (None, None) => None,
    }
}

pub(super) fn of_cluster(view: &View<'_>) -> Vec<Finding> {
    let mut by_program: BTreeMap<String, Vec<&LbService>> = BTreeMap::new();
    for service in view.observed.services.values() {
        if let Some(program) = second_controller(service, view.observed, &view.outlook.rules) {
            by_program.entry(program).or_default().push(service);
        }
    }
    let finding = |(program, services): (String, Vec<&LbService>)| {
        let addresses = services.iter().flat_map(|service| {
            let addresses = service.ingress.iter();
            addresses.map(|address| (service.name.clone(), *address))
        });
        let held: Vec<_> = addresses.collect();
        let message = format!(
            "{program} and Cilium's LB-IPAM both serve {}: {}",
            ipam_core::model::count(services.len(), "Service"),
            named(held.iter())
        );
        let workloads = view.observed.balancers.iter();
        let workloads = workloads.filter(|(balancer, _)| balancer.as_str() == program);
        let workloads =
            workloads.map(|(_, object)| format!("{program} runs: `{}`", object.escape_debug()));
        let writers = services
            .iter()
            .filter_map(|one| one.other_controller.writer.as_deref());
        let writer = writers.take(1).map(|manager| {
            format!(
                "the field manager `{}` wrote a status after Cilium",
                manager.escape_debug()
            )
        });
        let finding = Finding::new(Severity::Warning, Rule("two-controllers"), message);
        let finding = naming_services(finding, &held);
        let finding = finding.seen(workloads.chain(writer));
        let finding = finding.causes("each overwrites the status that the other one writes, so addresses may never stop changing");
        finding.help("stop one of the two programs, or create the Services anew with a `spec.loadBalancerClass` that only one of them serves")
    };
    by_program.into_iter().map(finding).collect()
}
