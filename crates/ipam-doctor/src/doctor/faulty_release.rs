//! Faults of the running release that objects of the cluster meet.

use crate::upgrade::{UpgradeChange, UpgradeCode, faults_of_running};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Finding, Rule, Severity};

pub(super) fn of_running(observed: &Observed) -> Vec<Finding> {
    let finding = |fault: UpgradeChange| {
        let message = format!("{}: {}", fault.message(), fault.cause.why);
        let finding = Finding::new(Severity::Warning, Rule("faulty-release"), message);
        let finding = finding.about_all(fault.effects.keys().cloned());
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
    faults_of_running(observed)
        .into_iter()
        .map(finding)
        .collect()
}
