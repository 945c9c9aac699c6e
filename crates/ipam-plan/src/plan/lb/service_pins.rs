//! Pins of Services: which Services must ask for other addresses.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::super::change::Target;
use super::address_pools::Users;
use super::choice::{Choices, EnabledPool, Standing, choose};
use super::obstacle::{AddressUser, LbObstacle};
use super::simulated_state::SimulatedState;
use super::{ServiceChange, annotation_value, hidden};
use crate::openstack::{SubnetPools, UnresolvedSubnet};
use crate::plan::{BlockedReason, CommonObstacle, Plan};
use ipam_cilium::lbipam::{
    ADDRESSES, AddressPool, Certainty, LbService, NotServed, OperatorState, ServingState,
    conflicts, may_share,
};
use ipam_cilium::observed::{Observed, ObservedKind};
use ipam_core::model::{
    Finding, Hazard, NearNames, ObjectRef, PoolName, Rule, ServiceName, Severity,
};
use ipam_core::net::Range;
use ipam_desired::{Desired, PinnedTo, ServicePin};

/// Reason of the condition of a Service whose request is fulfilled (`operator/pkg/lbipam` @ 1.19).
const SATISFIED: &str = "satisfied";

pub(super) fn decide(
    desired: &Desired,
    observed: &Observed,
    state: &SimulatedState,
    plan: &mut Plan,
) {
    if desired.service_pins.is_empty() {
        return;
    }
    let pools = enabled_pools(state);
    let resolved = SubnetPools::resolve(desired, observed);
    let subnets = resolved
        .ranges()
        .map(|(pool, range)| (pool.name.clone(), range.range()));
    let choices = choices(desired, observed, state, &pools);
    let (pins, open) = with_addresses(desired, choices);
    let planner = PinPlanner {
        state,
        pools: in_use(pools),
        subnets: subnets.collect(),
        unresolved: resolved.unresolved().cloned(),
        holders: holders(state),
        pinned: pinned(&pins),
    };
    let names = LazyCell::new(|| names(state));
    let near = LazyCell::new(|| NearNames::new(names.iter().map(String::as_str)));
    for (pin, obstacle) in open {
        let target = Target::Service(pin.service.clone());
        plan.block(target, Some(&pin.origin), obstacle);
    }
    for resolved in &pins {
        let pin = resolved.pin;
        let target = Target::Service(pin.service.clone());
        let Some(service) = state.services.get(&pin.service) else {
            let why = hidden(observed, ObservedKind::Service).map(str::to_owned);
            match why.map(LbObstacle::ServicesHidden) {
                Some(why) => plan.block(target, Some(&pin.origin), why),
                None => plan.findings.push(missing(pin, &near)),
            }
            continue;
        };
        let decided = planner.of(resolved, service);
        if let (Ok(None), Some(finding)) = (&decided, not_given(resolved, service)) {
            plan.findings.push(finding);
            continue;
        }
        plan.record(target, Some(&pin.origin), decided);
    }
}

fn names(state: &SimulatedState) -> Vec<String> {
    state.services.keys().map(ToString::to_string).collect()
}

fn holders(state: &SimulatedState) -> BTreeMap<IpAddr, Vec<&LbService>> {
    let mut holders: BTreeMap<IpAddr, Vec<&LbService>> = BTreeMap::new();
    for service in state.services.values() {
        for address in &service.ingress {
            holders.entry(*address).or_default().push(service);
        }
    }
    holders
}

fn pinned<'d>(pins: &[ResolvedPin<'d>]) -> BTreeMap<IpAddr, Vec<&'d ServiceName>> {
    let mut pinned: BTreeMap<IpAddr, Vec<&'d ServiceName>> = BTreeMap::new();
    for resolved in pins {
        for address in &resolved.addresses {
            let services = pinned.entry(*address).or_default();
            services.push(&resolved.pin.service);
        }
    }
    pinned
}

/// A pin with its addresses, of the files or chosen. Without any if its Service does not exist.
struct ResolvedPin<'d> {
    pin: &'d ServicePin,
    addresses: Vec<IpAddr>,
}

fn choices(
    desired: &Desired,
    observed: &Observed,
    state: &SimulatedState,
    pools: &[EnabledPool],
) -> Choices {
    let is_chosen = |pin: &ServicePin| matches!(pin.to, PinnedTo::Chosen(_));
    if !desired.service_pins.values().any(is_chosen) {
        return Choices::new();
    }
    let claims = observed.live_claims(desired.policy.quarantine);
    let users = Users::new(desired, observed, &claims);
    choose(desired, observed, state, pools, &|range| users.over(range))
}

/// The pins with their addresses, and those for which none can be chosen.
fn with_addresses(
    desired: &Desired,
    mut choices: Choices,
) -> (Vec<ResolvedPin<'_>>, Vec<(&ServicePin, LbObstacle)>) {
    let (mut pins, mut open) = (Vec::new(), Vec::new());
    for pin in desired.service_pins.values() {
        let of_files = || {
            pin.addresses()
                .iter()
                .map(|pinned| pinned.address)
                .collect()
        };
        match choices.remove(&pin.service) {
            Some(Ok(addresses)) => pins.push(ResolvedPin { pin, addresses }),
            Some(Err(obstacle)) => open.push((pin, obstacle)),
            None => pins.push(ResolvedPin {
                pin,
                addresses: of_files(),
            }),
        }
    }
    (pins, open)
}

fn missing(pin: &ServicePin, near: &NearNames<'_>) -> Finding {
    let message = format!(
        "Service `{}` is pinned, and there is no LoadBalancer Service of that name yet",
        pin.service
    );
    let (severity, help) = match near.of(&pin.service.to_string()) {
        Some(near) => (
            Severity::Warning,
            format!("did you mean `{}`?", near.escape_debug()),
        ),
        None => (
            Severity::Info,
            "create the Service, and plan again".to_owned(),
        ),
    };
    let finding = Finding::new(severity, Rule("pinned-service-missing"), message);
    finding
        .about(ObjectRef::service(&pin.service))
        .at(&pin.origin, "not there")
        .help(help)
}

/// A Service that asks for the addresses of its pin, and has others or none. Only its condition shows
/// that the operator has seen the request: in a cluster file, no operator runs.
fn not_given(resolved: &ResolvedPin<'_>, service: &LbService) -> Option<Finding> {
    let pin = resolved.pin;
    let missing = resolved
        .addresses
        .iter()
        .find(|address| !service.ingress.contains(address))?;
    let has: Vec<String> = service.ingress.iter().map(ToString::to_string).collect();
    let has = if has.is_empty() {
        "none".to_owned()
    } else {
        has.join(" ")
    };
    let refused = service
        .reason
        .as_deref()
        .filter(|reason| *reason != SATISFIED);
    let (severity, why, help) = match refused {
        Some(reason) => (
            Severity::Warning,
            format!("Cilium has not given it (`{}`)", reason.escape_debug()),
            "wait if the request is new; otherwise see the conditions of the Service and the log of Cilium's operator",
        ),
        None => (
            Severity::Info,
            "waits for Cilium's operator to give it".to_owned(),
            "wait for the operator, and plan again; in a cluster file, no operator runs",
        ),
    };
    let message = format!(
        "Service `{}` asks for {missing}, and {why}; it has {has}",
        pin.service
    );
    let finding = Finding::new(severity, Rule("pinned-address-not-given"), message);
    let finding = finding
        .about(ObjectRef::service(&pin.service))
        .at(&pin.origin, "not given");
    Some(finding.help(help))
}

fn enabled_pools(state: &SimulatedState) -> Vec<EnabledPool> {
    let pools = state.read(&state.rules);
    let out: BTreeSet<String> = conflicts(&pools, OperatorState::Running(&pools))
        .into_iter()
        .filter(|(_, conflict)| conflict.certainty == Certainty::Certain)
        .map(|(name, _)| name.to_owned())
        .collect();
    let enabled = pools
        .into_iter()
        .filter(|pool| pool.state == ServingState::Enabled);
    let enabled = enabled.map(|pool| {
        let standing = match out.contains(&pool.name) {
            true => Standing::Conflicting,
            false => Standing::InUse,
        };
        EnabledPool { pool, standing }
    });
    enabled.collect()
}

fn in_use(pools: Vec<EnabledPool>) -> Vec<AddressPool> {
    let in_use = pools
        .into_iter()
        .filter(|enabled| enabled.standing == Standing::InUse);
    in_use.map(|enabled| enabled.pool).collect()
}

struct PinPlanner<'p> {
    state: &'p SimulatedState,
    pools: Vec<AddressPool>,
    /// Ranges of Neutron subnets, whose addresses Neutron gives to ports.
    subnets: Vec<(PoolName, Range)>,
    /// The first subnet whose addresses are unknown.
    unresolved: Option<UnresolvedSubnet>,
    /// Services by the addresses that they have now.
    holders: BTreeMap<IpAddr, Vec<&'p LbService>>,
    /// Services by the addresses that they are pinned to, by name.
    pinned: BTreeMap<IpAddr, Vec<&'p ServiceName>>,
}

impl PinPlanner<'_> {
    fn of(
        &self,
        resolved: &ResolvedPin<'_>,
        service: &LbService,
    ) -> Result<Option<ServiceChange>, BlockedReason> {
        let rules = &self.state.rules;
        let ResolvedPin { pin, addresses } = resolved;
        // An address that the Service asks for already stays, even if other Services want it.
        let set = |addresses: &[IpAddr]| addresses.iter().copied().collect::<BTreeSet<_>>();
        if set(&service.requested(rules)) == set(addresses) {
            let has_all = set(addresses).is_subset(&set(&service.ingress));
            return match self.obstacle(pin, addresses, service).filter(|_| !has_all) {
                Some(obstacle) => Err(obstacle),
                None => Ok(None),
            };
        }
        if let Some(obstacle) = self.obstacle(pin, addresses, service) {
            return Err(obstacle);
        }
        if !service.version.is_known() {
            return Err(CommonObstacle::MissingUid.into());
        }
        let key = rules.addresses_annotation();
        Ok(Some(ServiceChange {
            service: pin.service.clone(),
            key,
            before: service.addresses.get(ADDRESSES, key).cloned(),
            after: Some(annotation_value(addresses)),
            hazard: Hazard::None,
            guard: service.version.clone(),
            origin: Some(pin.origin.clone()),
        }))
    }

    fn obstacle(
        &self,
        pin: &ServicePin,
        addresses: &[IpAddr],
        service: &LbService,
    ) -> Option<BlockedReason> {
        if let Some(why) = self.state.rules.why_not_served(service) {
            let obstacle = match why {
                NotServed::SwitchedOff | NotServed::Default(_) => LbObstacle::LbIpamDisabled,
                NotServed::PartOff { class, .. } => LbObstacle::AnotherController(class.to_owned()),
                NotServed::AnotherController(class) => LbObstacle::AnotherController(class),
            };
            return Some(obstacle.into());
        }
        if let Some(address) = service
            .spec_address()
            .filter(|address| !addresses.contains(address))
        {
            return Some(LbObstacle::SpecRequestsOtherAddress(address).into());
        }
        let outside = addresses
            .iter()
            .find(|address| !self.gives(**address, service));
        if let Some(address) = outside {
            return Some(LbObstacle::OutsidePools(*address).into());
        }
        if let Some(trouble) = &self.unresolved {
            return Some(trouble.clone().into());
        }
        for address in addresses.iter().copied().map(Range::from) {
            if let Some((pool, subnet)) = self
                .subnets
                .iter()
                .find(|(_, subnet)| subnet.overlaps(&address))
            {
                let used = Box::new((*subnet, AddressUser::NeutronPool(pool.clone())));
                return Some(LbObstacle::PoolRangeInUse(address, used).into());
            }
        }
        addresses.iter().find_map(|address| {
            let holder = self.holder(*address, pin, service)?;
            Some(LbObstacle::ServiceAddressHeld(*address, holder).into())
        })
    }

    /// Whether a pool in use gives the address to the Service.
    fn gives(&self, address: IpAddr, service: &LbService) -> bool {
        let covers = |pool: &AddressPool| {
            pool.ranges.iter().any(|range| {
                let is_edge = address == range.range.first() || address == range.range.last();
                let is_kept_back = is_edge
                    && self
                        .state
                        .rules
                        .reserves_first_and_last(pool.first_last, range);
                range.range.contains(&Range::from(address)) && !is_kept_back
            })
        };
        self.pools
            .iter()
            .any(|pool| pool.selects(&service.labels) && covers(pool))
    }

    /// Another Service that has the address, or is pinned to it before this one, and that cannot
    /// share it.
    fn holder(
        &self,
        address: IpAddr,
        pin: &ServicePin,
        service: &LbService,
    ) -> Option<ServiceName> {
        let has = self.holders.get(&address).into_iter().flatten().copied();
        let pinned = self.pinned.get(&address).into_iter().flatten();
        let pinned = pinned.filter_map(|other| self.state.services.get(*other));
        // Of two pins, the one that the cluster fulfils already wins; otherwise the one of the
        // first Service by name.
        let asks = |other: &&LbService| other.requested(&self.state.rules).contains(&address);
        let pinned = pinned.filter(|other| other.name < pin.service || asks(other));
        let mut others = has.chain(pinned).filter(|other| other.name != pin.service);
        others
            .find(|other| !may_share(other, service, &self.state.rules))
            .map(|other| other.name.clone())
    }
}
