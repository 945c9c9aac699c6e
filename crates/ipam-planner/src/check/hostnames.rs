//! Hostnames of Services that LB-IPAM removes.

use ipam_cilium::lbipam::{LbService, ServedHostname};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, ObjectRef, Rule, Severity, count};

/// Services that the message names; more are counted.
const NAMED: usize = 10;

/// One finding for all Services with such hostnames. Without a pool, LB-IPAM is idle, and only the
/// first pool is a risk.
pub(super) fn that_go(observed: &Observed) -> Option<Finding> {
    let rules = observed.lb_rules();
    let hostnames = |service: &LbService| -> Vec<String> {
        let hostnames = service.hostnames_that_go(&rules);
        let hostnames = hostnames.map(ServedHostname::address);
        hostnames.map(|one| one.to_string()).collect()
    };
    let services = observed.services.values();
    let with_names = services.map(|service| (service, hostnames(service)));
    let going: Vec<(&LbService, Vec<String>)> =
        with_names.filter(|(_, names)| !names.is_empty()).collect();
    let (severity, when) = match observed.address_pools.is_empty() {
        true => (
            Severity::Info,
            "that the first CiliumLoadBalancerIPPool makes Cilium remove",
        ),
        false => (
            Severity::Warning,
            "that Cilium removes at the next change of the Service or of a pool",
        ),
    };
    let named = going.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|(service, names)| format!("`{}` {}", service.name, names.join(" ")))
        .collect();
    let more = match going.len() - named.len() {
        0 => String::new(),
        more => format!(" and {}", count(more, "further Service")),
    };
    let message = format!("Services with hostnames {when}: {}{more}", named.join(", "));
    let mut subjects = going
        .iter()
        .map(|(service, _)| ObjectRef::service(&service.name));
    let finding = Finding::new(severity, Rule("hostname-removed"), message).about(subjects.next()?);
    let finding = subjects.fold(finding, Finding::about_also);
    let finding = finding
        .seen(["LB-IPAM serves these Services, and keeps only IP addresses in a status".to_owned()])
        .causes("clients lose the name: external-dns deletes the DNS records that point to it");
    Some(finding.help("create the Services with the `spec.loadBalancerClass` of the program that gave the hostnames"))
}
