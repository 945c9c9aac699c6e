//! Finds what makes an operator panic: 1.20.0 to 1.20.2 do not expect that a pool reserves an
//! address of a sharing key (`sharingCluster.IsCompatible` of a nil cluster; cilium#48779).

use std::net::IpAddr;

use super::evaluation::Evaluation;
use super::pool::{AddressPool, FirstLast, by_name};
use super::rules::LbRules;
use super::selection::Request;
use super::service::{AddressRequest, LbService};
use super::service_outcome::{Fatal, ServiceOutcome};
use crate::behaviours;
use ipam_core::net::Range;

impl Evaluation<'_> {
    /// A Service with a sharing key that requests an address which its pool reserves. The operator
    /// panics at each start.
    pub(super) fn fatal(
        &self,
        requests: &[Request<'_, '_>],
        outcomes: &[ServiceOutcome],
    ) -> Option<Fatal> {
        let is_open = self.rules.is_of(behaviours::PANICS_AT_RESERVED);
        let mut all = requests.iter().zip(outcomes).filter(|_| is_open);
        all.find_map(|(request, outcome)| self.fatal_request(request, outcome))
    }

    fn fatal_request(&self, request: &Request<'_, '_>, outcome: &ServiceOutcome) -> Option<Fatal> {
        request.service.sharing_key.read(self.rules)?;
        let AddressRequest::Exactly(requested) = &request.wanted else {
            return None;
        };
        let pool_of = |address: IpAddr| {
            let covering = self.covering(address).into_iter();
            let mut open = covering.filter(|place| self.ranges[*place].gives());
            let active = &self.ranges
                [open.find(|place| request.is_selected_by(self.ranges[*place].of_pool))?];
            let is_held = self
                .holders
                .get(&address)
                .is_some_and(|held| !held.is_empty());
            (self.is_reserved(active, address) && !is_held).then(|| active.pool.name.clone())
        };
        let mut missing = requested
            .iter()
            .filter(|address| !outcome.keeps.contains(address));
        missing.find_map(|address| {
            Some(Fatal {
                service: request.service.name.clone(),
                address: *address,
                pool: pool_of(*address)?,
            })
        })
    }
}

/// Whether an edit releases a first or last address that a Service has. The operator panics, and
/// starts again.
pub(super) fn frees_held(
    before: &[AddressPool],
    pools: &[AddressPool],
    services: &[&LbService],
    rules: &LbRules,
) -> bool {
    if !rules.is_of(behaviours::PANICS_AT_RESERVED) {
        return false;
    }
    let known = by_name(before);
    let reserves = |pool: &AddressPool| rules.meaning_of(pool.first_last) == FirstLast::Reserved;
    let freed = pools.iter().filter_map(|pool| {
        let known = *known.get(pool.name.as_str())?;
        (reserves(known) && !reserves(pool)).then_some((pool, known))
    });
    let is_held = |pool: &AddressPool, range: &Range| {
        services.iter().any(|service| {
            let mut ingress = service.ingress.iter();
            pool.selects(&service.labels)
                && ingress.any(|one| *one == range.first() || *one == range.last())
        })
    };
    let edges = |pool: &AddressPool, known: &AddressPool| {
        let mut kept = known.ranges.iter().filter(|range| {
            pool.ranges.contains(range) && rules.reserves_first_and_last(known.first_last, range)
        });
        kept.any(|range| is_held(known, &range.range))
    };
    freed.into_iter().any(|(pool, known)| edges(pool, known))
}
