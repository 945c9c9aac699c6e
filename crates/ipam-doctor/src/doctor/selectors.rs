//! Selectors of BGP and L2 objects that select nothing by mistake: an absent one of Services, and one
//! that Kubernetes rejects.

use super::announced_services::{advertisement, unselective};
use super::finding;
use ipam_cilium::observed::{Observed, SelectorFault, SelectorProblem};
use ipam_core::model::{Finding, ObjectRef, Severity};

pub(super) fn invalid(observed: &Observed) -> Vec<Finding> {
    let finding = |fault: &SelectorFault| {
        let SelectorProblem::Invalid(why) = &fault.problem else {
            return None;
        };
        let SelectorFault { object, field, .. } = fault;
        let message = format!(
            "{} `{}` has an invalid selector in `{field}`: {}",
            object.kind,
            object.name.escape_debug(),
            why.escape_debug()
        );
        let finding = finding(Severity::Error, "selector-invalid", message);
        let finding = finding
            .about(object.clone())
            .causes("Cilium cannot use it, so the object announces nothing");
        Some(finding.help("correct the selector: `In` and `NotIn` need values, and `Exists` and `DoesNotExist` have none"))
    };
    let faults = observed.announcing.selector_faults.iter();
    faults.filter_map(finding).collect()
}

/// Of `others`, that about Services which these advertisements would announce names them, too.
pub(super) fn absent(observed: &Observed, others: &[Finding]) -> Vec<Finding> {
    let silent = others
        .iter()
        .filter(|finding| finding.rule.0 == "address-not-announced");
    let named: Vec<&ObjectRef> = silent.flat_map(|finding| &finding.other_subjects).collect();
    let finding = |name: &str| {
        let message = format!(
            "CiliumBGPAdvertisement `{}` announces no Service: its entry has no `selector`",
            name.escape_debug()
        );
        let finding = finding(
            Severity::Warning,
            "bgp-advertisement-without-selector",
            message,
        );
        finding
            .about(advertisement(name))
            .causes("an absent selector selects nothing, so no node announces the addresses of Services by it")
            .help("add a `selector`, such as `matchLabels` of the Services; an empty one (`{}`) selects every Service")
    };
    let names = unselective(observed).filter(|name| !named.contains(&&advertisement(name)));
    names.map(finding).collect()
}
