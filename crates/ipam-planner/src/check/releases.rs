//! The running release of Cilium: one that is unknown, and faults of the release that objects of the
//! cluster meet.

use std::collections::BTreeSet;

use super::{allocators, shared_slots};
use crate::upgrade::{self, UpgradeCode};
use ipam_cilium::observed::Observed;
use ipam_cilium::releases::{NEWEST, why_unknown};
use ipam_core::model::{CiliumVersion, Finding, Rule, Severity};
use ipam_desired::Desired;

/// Code of the finding about an unknown release.
pub const UNKNOWN_VERSION: &str = "unknown-version";

/// Findings that every command shows: they tell how far its answer can be trusted.
const ABOUT_CILIUM: [&str; 3] = [
    UNKNOWN_VERSION,
    "objects-like-cilium",
    "multiple-cilium-installations",
];

/// Releases that are visible, each with its source.
fn seen(observed: &Observed) -> BTreeSet<(CiliumVersion, String)> {
    let cilium = &observed.cilium;
    let detected = cilium.version.iter();
    let detected = detected.map(|(version, evidence)| (*version, evidence.to_string()));
    let operators = cilium.operator_versions.iter().flatten();
    let operators = operators.map(|version| (*version, "image tag of the operator".to_owned()));
    let agents = cilium.agents.iter().filter_map(|agent| agent.version);
    let agents = agents.map(|version| (version, "image tag of an agent".to_owned()));
    detected.chain(operators).chain(agents).collect()
}

/// Whether the rules of every release that runs are known.
pub(crate) fn are_known(observed: &Observed) -> bool {
    unknown(observed).is_empty()
}

/// Agents run, and no object tells their release.
fn is_hidden(observed: &Observed) -> bool {
    let cilium = &observed.cilium;
    let has_agents = !cilium.agents.is_empty() || cilium.agent_arguments.is_some();
    has_agents && seen(observed).is_empty()
}

/// A release that runs and is not known.
pub(crate) fn unknown(observed: &Observed) -> Vec<Finding> {
    let seen = seen(observed);
    let unknown = || {
        seen.iter()
            .filter_map(|(of, source)| Some((of, source, why_unknown(*of)?)))
    };
    let (why, fix) = match unknown().next_back() {
        Some((_, _, why)) => (why, "use a cilium-ipam that knows this release"),
        None if is_hidden(observed) => (
            "no image tag, chart label or CustomResourceDefinition tells the release of Cilium"
                .to_owned(),
            "run images with the tags of Cilium's releases, or let this account read the CustomResourceDefinition of CiliumNode",
        ),
        None => return Vec::new(),
    };
    let finding = Finding::new(Severity::Warning, Rule("unknown-version"), why);
    let finding = finding
        .seen(unknown().map(|(version, source, _)| format!("{source}: {version}")))
        .causes(format!(
            "the rules of {NEWEST} are used, and `watch` writes only `spec.podCIDRs` without approval"
        ));
    vec![finding.help(format!(
        "{fix}; until then, read the release notes of Cilium and approve each change with `apply`"
    ))]
}

/// Faults of the running release that objects of the cluster meet.
pub(crate) fn faults(observed: &Observed) -> Vec<Finding> {
    let finding = |fault: upgrade::UpgradeChange| {
        let message = format!("{}: {}", fault.message(), fault.cause.why);
        let mut subjects = fault.effects.keys().cloned();
        let finding = Finding::new(Severity::Warning, Rule("faulty-release"), message);
        let finding = match subjects.next() {
            Some(first) => subjects.fold(finding.about(first), Finding::about_also),
            None => finding,
        };
        let effects = fault.effects.iter();
        let effects = effects.map(|(subject, effect)| {
            format!(
                "{} `{}` {effect}",
                subject.kind,
                subject.name.escape_debug()
            )
        });
        let finding = finding
            .seen(effects)
            .seen([format!("source: {}", fault.cause.source)]);
        let consequence = match fault.code {
            UpgradeCode::StoredVersion => {
                "Cilium's operator cannot update the definition: fields of this release are missing"
            }
            _ => "a restart of Cilium's operator or agents can take addresses away from Services",
        };
        finding.causes(consequence).help(fault.cause.before)
    };
    upgrade::faults_of_running(observed)
        .into_iter()
        .map(finding)
        .collect()
}

/// What makes every answer about blocks of nodes uncertain: a command that shows no plan tells it, too.
pub fn about_blocks(desired: &Desired, observed: &Observed) -> Vec<Finding> {
    let is_uncertain = |finding: &Finding| finding.severity == Severity::Warning;
    let allocator = allocators::unclear(desired, observed).filter(is_uncertain);
    let active = allocators::acknowledged_and_active(desired, observed);
    let mut findings = about_cilium(observed);
    let allocators = active.into_iter().chain(allocator);
    findings.extend(allocators.filter(|_| !desired.pools.is_empty()));
    findings.extend(shared_slots::removed_at_operator_start(desired, observed));
    findings
}

/// The findings about Cilium itself that every command shows.
pub fn about_cilium(observed: &Observed) -> Vec<Finding> {
    let seen = observed.findings.iter().cloned();
    let mut findings: Vec<Finding> = seen.chain(unknown(observed)).collect();
    findings.retain(|finding| ABOUT_CILIUM.contains(&finding.rule.0));
    findings.sort();
    findings
}
