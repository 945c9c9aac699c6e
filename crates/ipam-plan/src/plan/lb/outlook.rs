//! What LB-IPAM does to Services if no object changes: now, and when Cilium's operator starts
//! next. The one rule of `doctor`, `show lb`, `lb freeze` and `explain`. Must never know a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::simulate::with_hostnames;
use super::{LossTime, LostAddress};
use ipam_cilium::lbipam::{
    AddressPool, Certainty, Conflict, Evaluated, Fatal, LbRules, LbService, LossReason, NotServed,
    OperatorState, ServedAddress, ServingState, conflicts, evaluate,
};
use ipam_cilium::observed::{Observed, OperatorRun};
use ipam_core::model::ServiceName;
use ipam_core::net::{Range, RangeIndex};

/// What becomes of the addresses of all Services.
pub struct Outlook<'o> {
    observed: &'o Observed,
    /// The rules of the operator.
    pub rules: LbRules,
    /// The pools as the operator reads them.
    pub pools: Vec<AddressPool>,
    run: OperatorRun,
    running: Evaluated,
    at_start: Evaluated,
}

/// The state of Services after an operator with these rules starts with these pools.
pub(crate) fn at_start(observed: &Observed, pools: &[AddressPool], rules: &LbRules) -> Evaluated {
    let services = observed.services.values();
    evaluate(pools, services, rules, OperatorState::Restarted)
}

impl<'o> Outlook<'o> {
    pub fn new(observed: &'o Observed) -> Outlook<'o> {
        let rules = observed.lb_rules();
        let pools = observed.address_pools_as_read(&rules);
        let services = observed.services.values();
        Outlook {
            running: evaluate(&pools, services, &rules, OperatorState::Running(&pools)),
            at_start: at_start(observed, &pools, &rules),
            run: observed.operator_run(),
            observed,
            rules,
            pools,
        }
    }

    /// Whether the operator runs. While it is stopped, nothing is lost.
    pub fn run(&self) -> OperatorRun {
        self.run
    }

    /// The next evaluation by the operator: now, or at its start if it is stopped.
    pub fn next(&self) -> &Evaluated {
        match self.run {
            OperatorRun::Assumed => &self.running,
            OperatorRun::Stopped => &self.at_start,
        }
    }

    /// The pools that the operator puts out of use next, because they overlap another one.
    pub fn conflicts(&self) -> BTreeMap<&str, Conflict> {
        let state = match self.run {
            OperatorRun::Assumed => OperatorState::Running(&self.pools),
            OperatorRun::Stopped => OperatorState::Restarted,
        };
        conflicts(&self.pools, state)
    }

    /// What makes the next operator panic.
    pub(crate) fn fatal(&self) -> Option<&Fatal> {
        self.at_start.fatal.as_ref()
    }

    pub fn service(&self, name: &ServiceName) -> Option<&'o LbService> {
        self.observed.services.get(name)
    }

    /// Everything that Services lose, or may lose.
    pub fn all_lost(&self) -> impl Iterator<Item = (&'o ServiceName, LostAddress)> {
        let services = self.observed.services.iter();
        services.flat_map(|(name, service)| {
            let lost = self.lost(service).into_iter();
            lost.map(move |lost| (name, lost))
        })
    }

    /// The addresses and hostnames that a Service loses, or may lose, each at the earliest time.
    pub fn lost(&self, service: &LbService) -> Vec<LostAddress> {
        let running = self.running.outcomes.get(&service.name);
        let now = running.filter(|_| self.run == OperatorRun::Assumed);
        let now = now.into_iter().flat_map(|outcome| &outcome.loses);
        let at_start = self.at_start.outcomes.get(&service.name);
        let certain = at_start.into_iter().flat_map(|outcome| &outcome.loses);
        let possible = at_start.into_iter().flat_map(|outcome| &outcome.contested);
        let later = LossTime::OperatorRestart;
        let mut all: Vec<LostAddress> = now
            .map(|lost| of(lost, LossTime::Now, Certainty::Certain))
            .chain(certain.map(|lost| of(lost, later, Certainty::Certain)))
            .chain(possible.map(|lost| of(lost, later, Certainty::LeftToChance)))
            .collect();
        let mut seen = BTreeSet::new();
        all.retain(|lost| seen.insert(lost.address.clone()));
        with_hostnames(service, self.removed_hostnames(service), &mut all);
        all
    }

    /// Services that LB-IPAM does not serve, with their addresses of enabled pools.
    pub fn not_served(&self) -> impl Iterator<Item = (&'o LbService, NotServed, Vec<IpAddr>)> {
        let enabled = self.pools.iter();
        let enabled = enabled.filter(|pool| pool.state == ServingState::Enabled);
        let ranges = enabled.flat_map(|pool| pool.ranges.iter().map(|range| (range.range, ())));
        let ranges = RangeIndex::new(ranges);
        self.observed.services.values().filter_map(move |service| {
            let why = self.rules.why_not_served(service)?;
            let addresses = service.ingress.iter().copied();
            let is_of_pool = |one: &IpAddr| ranges.overlapping(&Range::from(*one)).next().is_some();
            let addresses: Vec<IpAddr> = addresses.filter(is_of_pool).collect();
            (!addresses.is_empty()).then_some((service, why, addresses))
        })
    }

    /// Without a pool, LB-IPAM is idle.
    fn removed_hostnames<'s>(
        &'s self,
        service: &'s LbService,
    ) -> impl Iterator<Item = LostAddress> + 's {
        let hostnames = service.hostnames_that_go(&self.rules);
        let hostnames = hostnames.filter(|_| !self.pools.is_empty());
        hostnames.map(|one| LostAddress {
            address: one.address(),
            when: match self.run {
                OperatorRun::Assumed => LossTime::Now,
                OperatorRun::Stopped => LossTime::OperatorRestart,
            },
            why: LossReason::Hostname,
            certainty: Certainty::Certain,
        })
    }

    /// `loses 20.0.10.1 now: no pool covers it`.
    pub fn in_words(&self, lost: &LostAddress) -> String {
        let (verb, when) = (lost.certainty.verb(), self.time_in_words(lost.when));
        format!("{verb} {} {when}: {}", lost.address, lost.why)
    }

    pub fn time_in_words(&self, when: LossTime) -> &'static str {
        match (when, self.run) {
            (LossTime::OperatorRestart, OperatorRun::Stopped) => "when the stopped operator starts",
            (when, _) => when.in_words(),
        }
    }
}

fn of((address, why): &(IpAddr, LossReason), when: LossTime, certainty: Certainty) -> LostAddress {
    LostAddress {
        address: ServedAddress::Ip(*address),
        when,
        why: *why,
        certainty,
    }
}
