//! Addresses that LB-IPAM takes away from Services: now, and when Cilium's operator starts next.

use super::load_balancing::{View, named, naming_services};
use crate::plan::LossTime;
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{Certainty, LbRules, LossReason};
use ipam_cilium::observed::OperatorRun;
use ipam_core::model::{Finding, Rule, Severity};

/// Addresses that the running operator takes away: another program wrote them, or the Service or its
/// pool has just changed.
pub(super) fn now(view: &View<'_>) -> Vec<Finding> {
    let of_now = view
        .lost
        .iter()
        .filter(|((when, ..), _)| *when == LossTime::Now);
    let finding = |((_, _, why), lost): (&(_, _, LossReason), &Vec<_>)| {
        // Another check reports two holders of one address.
        if *why == LossReason::Taken {
            return None;
        }
        let message = format!(
            "Cilium's operator takes addresses away from Services, because {why}: {}",
            named(lost.iter())
        );
        let finding = Finding::new(Severity::Error, Rule("addresses-lost-now"), message);
        let finding = naming_services(finding, lost);
        let finding = finding
            .causes("clients lose these addresses, however often another program writes them");
        Some(finding.help(way_out_now(*why, &view.outlook.rules)))
    };
    of_now.filter_map(finding).collect()
}

fn way_out_now(why: LossReason, rules: &LbRules) -> String {
    let keep = match why {
        LossReason::NotRequested => "let the Services request the addresses that they have",
        LossReason::NotSelected => {
            "label the Services so that the pool of the address selects them"
        }
        _ => "add the addresses to a pool that selects the Services",
    };
    let by_default = match rules.is_of(behaviours::LB_IPAM_SETTINGS) {
        true => ", or set `default-lb-service-ipam: none` in cilium-config",
        false => "",
    };
    format!(
        "to keep them, {keep}; if another program gives these addresses, create the Services anew with its `spec.loadBalancerClass`{by_default}"
    )
}

/// Addresses that the running operator keeps, and the next one removes or may give to another
/// Service.
pub(super) fn at_restart(view: &View<'_>) -> Vec<Finding> {
    let later = view
        .lost
        .iter()
        .filter(|((when, ..), _)| *when == LossTime::OperatorRestart);
    let starts = match view.outlook.run() {
        OperatorRun::Assumed => "the Cilium operator restarts",
        OperatorRun::Stopped => "the Cilium operator, which is stopped, starts",
    };
    let finding = |((_, certainty, why), lost): (&(_, Certainty, LossReason), &Vec<_>)| {
        // Another check reports two holders of one address.
        if (*certainty, *why) == (Certainty::Certain, LossReason::Taken) {
            return None;
        }
        let effect = match certainty {
            Certainty::Certain => "keep their addresses only until",
            Certainty::LeftToChance => "may lose their addresses when",
        };
        let because = match why {
            LossReason::PoolDisabled => "the pool is disabled".to_owned(),
            LossReason::PoolConflicting => "the pool overlaps another one".to_owned(),
            LossReason::Reserved => "their pool reserves the first and the last address".to_owned(),
            LossReason::Waiting => {
                let version = view.outlook.rules.version();
                format!("Cilium {version} may serve a Service that waits before them")
            }
            other => other.to_string(),
        };
        let message = format!(
            "Services that {effect} {starts}, because {because}: {}",
            named(lost.iter())
        );
        let finding = Finding::new(
            Severity::Warning,
            Rule("addresses-lost-at-restart"),
            message,
        );
        Some(finding.help(way_out(*why)))
    };
    later.filter_map(finding).collect()
}

fn way_out(why: LossReason) -> &'static str {
    match why {
        LossReason::PoolDisabled => {
            "enable the pool, and change its selector so that it selects no new Service"
        }
        LossReason::Reserved => {
            "set `allowFirstLastIPs: Yes`, or give the Services other addresses"
        }
        LossReason::Waiting => {
            "give the pool room for the Services that wait, let the Services request the addresses that they have, or upgrade to Cilium 1.18.2 or later"
        }
        LossReason::SharingKey => "let the Services request the addresses that they have",
        LossReason::NoLongerShared | LossReason::Taken => {
            "give all but one of them another address, or make them compatible"
        }
        LossReason::PoolConflicting => "remove the addresses from one of the two pools",
        LossReason::NoPool
        | LossReason::NotSelected
        | LossReason::Rejoined
        | LossReason::NotRequested
        | LossReason::BlockEdited
        | LossReason::Hostname
        | LossReason::UnknownPool => "correct the pool or the Service before the operator restarts",
    }
}
