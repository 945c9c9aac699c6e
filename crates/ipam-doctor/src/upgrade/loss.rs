//! Why a Service loses, gets or waits for an address at a hop, and what avoids it.
//!
//! What a Service that lacks an address can expect at the operator's start: what is sure, and what
//! another Service may take first.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::HopView;
use super::addresses::{OneService, Starts, Trigger};
use super::change::{Cause, listed};
use ipam_cilium::behaviours;
use ipam_cilium::lbipam::{
    self, Certainty, GainedAddress, InOrder, LbService, LossReason, Pending, Prospect,
};
use ipam_core::model::ServiceName;
use ipam_core::net::Range;

const START: &str = "operator/pkg/lbipam, stripOrImportIngresses @ Cilium 1.15.19, 1.19.3";
const PIN: &str = "pin it with `cilium-ipam lb freeze`";

/// Why the Service loses the address.
pub(super) fn cause(
    one: &OneService<'_>,
    address: IpAddr,
    why: LossReason,
    trigger: Trigger,
) -> Cause {
    match trigger {
        Trigger::AnyStart => at_any_start(why),
        Trigger::NextRelease => by_release(one.hop, address, why),
    }
}

/// The edit of a pool in the files that keeps the address.
pub(super) fn edit(why: LossReason) -> Option<&'static str> {
    Some(match why {
        LossReason::PoolDisabled => {
            "remove `disabled: true`, and narrow `serviceSelector` so that it selects no new Service"
        }
        LossReason::NotSelected | LossReason::Rejoined => {
            "widen `serviceSelector`, or label the Service"
        }
        LossReason::PoolConflicting => "remove the addresses from one of the two pools",
        LossReason::Reserved => "set `allowFirstLastIPs: \"Yes\"`",
        LossReason::NoPool
        | LossReason::NotRequested
        | LossReason::Taken
        | LossReason::Waiting
        | LossReason::SharingKey
        | LossReason::NoLongerShared
        | LossReason::BlockEdited
        | LossReason::Hostname
        | LossReason::UnknownPool => return None,
    })
}

pub(super) fn at_any_start(why: LossReason) -> Cause {
    let before = match why {
        LossReason::NoPool => "add a CiliumLoadBalancerIPPool that covers the address",
        LossReason::NotSelected | LossReason::Rejoined => {
            "widen the selector of the pool, or label the Service"
        }
        LossReason::PoolDisabled => {
            "enable the pool, and change its selector so that it selects no new Service"
        }
        LossReason::PoolConflicting => "remove the addresses from one of the two pools",
        LossReason::Reserved => "set `allowFirstLastIPs: \"Yes\"` in the pool",
        LossReason::NotRequested => {
            "request the address that the Service has, in the annotation that the operator reads"
        }
        LossReason::Taken | LossReason::NoLongerShared => {
            "give one of the Services another address, or both one sharing key"
        }
        LossReason::Waiting
        | LossReason::SharingKey
        | LossReason::BlockEdited
        | LossReason::UnknownPool => PIN,
        LossReason::Hostname => {
            "create the Service with the `spec.loadBalancerClass` of the program that gave the hostname"
        }
    };
    Cause {
        why: format!(
            "each start of the operator takes the address away, because {why}; the running one keeps it"
        ),
        source: START,
        before: before.to_owned(),
    }
}

fn by_release(hop: &HopView<'_>, address: IpAddr, why: LossReason) -> Cause {
    let to = hop.to;
    if why == LossReason::NoPool && is_of_cidrs(hop, address) {
        return cidrs();
    }
    if why == LossReason::NoPool && hop.crosses(15) {
        return Cause {
            why: format!("Cilium {to} reads other fields of the pool"),
            source: "pkg/k8s/apis/cilium.io/v2alpha1/lbipam_types.go @ Cilium 1.15.19",
            before: "write the ranges to `spec.blocks`".to_owned(),
        };
    }
    if hop.crosses(16) && why == LossReason::NotRequested {
        return Cause {
            why: "Cilium 1.16 and later read `lbipam.cilium.io/ips`, which hides `io.cilium/lb-ipam-ips`; the two differ".to_owned(),
            source: "pkg/annotation/k8s.go @ Cilium 1.16",
            before: "set both annotations to the address that the Service has".to_owned(),
        };
    }
    if hop.crosses(16) && why == LossReason::Taken {
        return Cause {
            why: "Cilium 1.16 and later read `lbipam.cilium.io/sharing-key`, which hides `io.cilium/lb-ipam-sharing-key`; the two differ".to_owned(),
            source: "pkg/annotation/k8s.go @ Cilium 1.16",
            before: "set both annotations to the key that the Service has today".to_owned(),
        };
    }
    Cause {
        why: format!("with Cilium {to}, {why}"),
        source: START,
        before: PIN.to_owned(),
    }
}

/// Whether a pool covers it by `spec.cidrs`, which is no longer read.
fn is_of_cidrs(hop: &HopView<'_>, address: IpAddr) -> bool {
    let loses_cidrs = hop.before.lb_rules().is_of(behaviours::POOL_CIDRS)
        && !hop.after.lb_rules().is_of(behaviours::POOL_CIDRS);
    let range = Range::from(address);
    let mut pools = hop.before.address_pools.values();
    loses_cidrs
        && pools.any(|pool| {
            let cidrs = pool.manifest.spec.cidrs.iter();
            cidrs
                .filter_map(|block| block.range())
                .any(|of_pool| of_pool.range.contains(&range))
        })
}

/// `spec.cidrs` is no longer read.
pub(super) fn cidrs() -> Cause {
    Cause {
        why: "Cilium 1.16 and later read only `spec.blocks` of a CiliumLoadBalancerIPPool: the API server drops `spec.cidrs`".to_owned(),
        source: "Cilium 1.16, Documentation/operations/upgrade.rst",
        before: "at 1.15, move the entries of `spec.cidrs` to `spec.blocks`: `cilium-ipam plan` and `apply` do it for pools in the files".to_owned(),
    }
}

/// Why the Service may lose the addresses.
pub(super) fn cause_of_contest(one: &OneService<'_>, addresses: &[IpAddr]) -> Cause {
    let rules = one.hop.after.lb_rules();
    let contested = one.starts.next.outcomes.get(&one.service.name);
    let mut contested = contested.into_iter().flat_map(|outcome| &outcome.contested);
    if contested.any(|(_, why)| *why == LossReason::Rejoined) {
        return Cause {
            why: "the pool of the address does not select the Service, which shares it by its sharing key: a starting operator may serve it before the Service that has the address".to_owned(),
            source: START,
            before: at_any_start(LossReason::Rejoined).before,
        };
    }
    let is_shared = |other: &LbService| {
        other.name != one.service.name
            && other
                .ingress
                .iter()
                .any(|address| addresses.contains(address))
    };
    if one.hop.after.services.values().any(is_shared) {
        return Cause {
            why: "Services of one sharing key have several addresses: at a start of the operator they may change places".to_owned(),
            source: "cilium#46262; reported for 1.18.8 and 1.19.4",
            before: PIN.to_owned(),
        };
    }
    if !rules.is_of(behaviours::HOLDERS_FIRST) {
        return Cause {
            why: "while Services wait, a starting operator up to 1.18.1 may give them addresses that others have".to_owned(),
            source: "cilium#43131, cilium#39033, cilium#41147; seen on the real operator 1.17.6",
            before: format!(
                "{PIN}, or let no Service wait: give each an address or delete it, see `cilium-ipam show lb`"
            ),
        };
    }
    Cause {
        why: "a Service that lacks an address may take it first when the operator starts"
            .to_owned(),
        source: START,
        before: PIN.to_owned(),
    }
}

pub(super) fn cause_of_gain(hop: &HopView<'_>, trigger: Trigger) -> Cause {
    let why = match trigger {
        Trigger::AnyStart => "a starting operator serves Services that wait".to_owned(),
        Trigger::NextRelease => format!("LB-IPAM of Cilium {} can serve the Service", hop.to),
    };
    Cause {
        why,
        source: "operator/pkg/lbipam @ Cilium 1.15.19, 1.19.3",
        before: "delete the Service, or change its type, if it shall get no address".to_owned(),
    }
}

/// Why it is left to chance whether a Service gets an address.
pub(super) fn cause_of_chance() -> Cause {
    Cause {
        why: "several Services lack the same address, and the order inside the operator decides who gets it".to_owned(),
        source: "operator/pkg/lbipam; seen on the real operators 1.16.6, 1.17.6, 1.19.3, 1.20.2",
        before: "request other addresses, add addresses to the pool, or delete one of the Services"
            .to_owned(),
    }
}

pub(super) fn other_reason(hop: &HopView<'_>) -> Cause {
    Cause {
        why: format!(
            "Cilium {} has another reason in the Service's condition",
            hop.to
        ),
        source: "operator/pkg/lbipam/lbipam.go; cilium#33808",
        before: "adapt alerts and scripts that read the reason".to_owned(),
    }
}

pub(super) fn class_no_longer_served(hop: &HopView<'_>, service: &LbService) -> Cause {
    let what = match service.class {
        Some(_) => "`enable-lb-ipam` is read from 1.17 on",
        None => "`enable-lb-ipam` and `default-lb-service-ipam` are read from 1.17 on",
    };
    Cause {
        why: format!("LB-IPAM of Cilium {} does not serve the Service: {what}", hop.to),
        source: "operator/pkg/lbipam/cell.go @ Cilium 1.17",
        before: "remove these keys from cilium-config, or set `enable-lb-ipam: \"true\"` and `default-lb-service-ipam: lbipam`".to_owned(),
    }
}

pub(super) fn class_newly_served(hop: &HopView<'_>, service: &LbService) -> Cause {
    let class = service.class.as_deref().unwrap_or_default().escape_debug();
    Cause {
        why: format!(
            "LB-IPAM of Cilium {} serves `loadBalancerClass: {class}`, and the release before does not",
            hop.to
        ),
        source: "operator/pkg/lbipam @ Cilium 1.15.19",
        before: "request the address that the Service has, or give it another class: the class of a Service is immutable, so create it anew".to_owned(),
    }
}

/// Addresses that a Service may get after the upgrade, and why it may wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Prospects {
    pub(super) gains: Vec<Prospect>,
    /// Reasons for which the Service may wait.
    waits: BTreeSet<&'static str>,
}

/// Compares what the Service gets in every order.
pub(super) fn prospects(starts: &Starts, name: &ServiceName) -> Prospects {
    let orders = [&starts.next, &starts.adverse[0], &starts.adverse[1]];
    let outcomes = orders.map(|evaluated| evaluated.outcomes.get(name));
    let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
    let all: Vec<InOrder<'_>> = outcomes.iter().map(|one| InOrder::from(*one)).collect();
    let rivalry = &starts.rivalry;
    let mut gains = lbipam::prospects(&all, &|gain| rivalry.is_doubtful(gain, &starts.next_pools));
    let pending = outcomes.iter().take(1).flat_map(|one| &one.pending);
    for address in pending
        .filter_map(Pending::awaits)
        .filter(|one| rivalry.is_disputed(*one))
    {
        let any_of = vec![GainedAddress::Exactly(address)];
        if !gains.iter().any(|known| known.any_of == any_of) {
            gains.push(Prospect {
                any_of,
                certainty: Certainty::LeftToChance,
            });
        }
    }
    let is_sure = gains.iter().all(Prospect::is_sure);
    let pending = outcomes.iter().take(if is_sure { 1 } else { orders.len() });
    let pending = pending.flat_map(|outcome| &outcome.pending);
    Prospects {
        waits: pending.map(Pending::reason).collect(),
        gains,
    }
}

impl Prospects {
    /// Whether no outcome is left to chance.
    pub(super) fn are_sure(&self) -> bool {
        self.gains.iter().all(Prospect::is_sure)
    }

    /// `, then gets … and may get … or waits …`: what is sure, and then what chance decides.
    pub(super) fn then(&self) -> String {
        let texts = |is_sure: bool| {
            let gains = self
                .gains
                .iter()
                .filter(move |gain| gain.is_sure() == is_sure);
            gains.map(ToString::to_string).collect::<BTreeSet<_>>()
        };
        let waits = self.waits.iter();
        let waits: Vec<String> = waits.map(|reason| format!("waits (`{reason}`)")).collect();
        let mut all: Vec<String> = texts(true).into_iter().chain(texts(false)).collect();
        let instead = match self.are_sure() {
            true => {
                all.extend(waits);
                String::new()
            }
            false => waits.iter().map(|why| format!(" or {why}")).collect(),
        };
        match all.is_empty() {
            true => String::new(),
            false => format!(", then {}{instead}", listed(all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prospects(gains: &[(&str, Certainty)], waits: &[&'static str]) -> String {
        let gain = |(address, certainty): &(&str, Certainty)| Prospect {
            any_of: vec![GainedAddress::Exactly(address.parse().unwrap())],
            certainty: *certainty,
        };
        let all = Prospects {
            gains: gains.iter().map(gain).collect(),
            waits: waits.iter().copied().collect(),
        };
        all.then()
    }

    #[test]
    fn chance_decides_only_what_is_not_sure() {
        let (sure, open) = (Certainty::Certain, Certainty::LeftToChance);
        for (gains, waits, text) in [
            (&[][..], &[][..], ""),
            (&[], &["no_pool"], ", then waits (`no_pool`)"),
            (&[("10.0.0.1", sure)], &[], ", then gets 10.0.0.1"),
            (
                &[("10.0.0.1", sure), ("10.0.0.2", sure)],
                &["out_of_ips"],
                ", then gets 10.0.0.1, gets 10.0.0.2 and waits (`out_of_ips`)",
            ),
            (
                &[("10.0.0.1", sure), ("10.0.0.2", open)],
                &["out_of_ips"],
                ", then gets 10.0.0.1 and may get 10.0.0.2 or waits (`out_of_ips`)",
            ),
            (
                &[("10.0.0.1", open), ("fd00::1", open)],
                &[],
                ", then may get 10.0.0.1 and may get fd00::1",
            ),
        ] {
            assert_eq!(prospects(gains, waits), text);
        }
    }
}
