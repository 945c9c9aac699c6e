//! Areas of addresses of Services, with those that the plan takes away or gives.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::area::{Area, AreaKind, Presence};
use crate::plan::Plan;
use ipam_cilium::lbipam::GainedAddress;
use ipam_cilium::observed::Observed;
use ipam_core::model::ServiceName;
use ipam_core::net::{Block, Range, RangeIndex};

pub(super) fn areas(observed: &Observed, plan: &Plan) -> Vec<Area> {
    let mut areas: BTreeMap<(IpAddr, &ServiceName), Area> = BTreeMap::new();
    for (name, service) in &observed.services {
        let held = service.ingress.iter();
        areas.extend(held.filter_map(|at| Some(((*at, name), area(*at, name)?))));
    }
    for effect in &plan.effects.services {
        let name = &effect.service;
        let lost = effect.loses.iter().filter_map(|lost| {
            let address = lost.address.ip()?;
            let area = area(address, name)?.present(Presence::Removed);
            Some(((address, name), area.with_note(lost.why)))
        });
        areas.extend(lost);
        let gains = effect.gains.iter().flat_map(|gain| &gain.any_of);
        let gained = gains.filter_map(|gained| match gained {
            GainedAddress::Exactly(at) => {
                Some(((*at, name), area(*at, name)?.present(Presence::Added)))
            }
            _ => None,
        });
        areas.extend(gained);
    }
    let pools = RangeIndex::new(
        observed
            .load_balancer_ranges()
            .map(|(name, range)| (range, name)),
    );
    let with_pool = |mut area: Area| {
        let pool = pools.overlapping(&area.block.range()).next();
        area.pool = pool.map(|(_, name)| (*name).to_owned());
        area
    };
    areas.into_values().map(with_pool).collect()
}

/// Nothing where the address has no block, which is none of the addresses that a server takes.
fn area(address: IpAddr, service: &ServiceName) -> Option<Area> {
    Some(Area::new(AreaKind::Service, single(address)?, service))
}

/// The block of one address.
pub(super) fn single(address: IpAddr) -> Option<Block> {
    Range::from(address).largest_block()
}
