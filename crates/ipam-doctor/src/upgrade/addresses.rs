//! What happens to the addresses of Services when the next operator starts. Asks the simulation of
//! LB-IPAM, and has no rule of its own.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::change::{Cause, Changes, UpgradeCode, listed};
use super::loss::{self, Prospects, prospects};
use super::{HopView, pools};
use ipam_cilium::lbipam::{
    AddressPool, Evaluated, GainedAddress, LbRules, LbService, LossReason, OperatorState, Pending,
    Prospect, Rivalry, ServedHostname, ServiceOutcome, ServingOrder, evaluate, evaluate_in,
    may_share,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{NodeName, ObjectRef, ServiceName};
use ipam_core::net::{Family, Range};

/// Facts that the entries of earlier hops have reported.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Addresses that may change their Service at every start of an operator.
    contested: BTreeSet<(ServiceName, IpAddr)>,
    /// Addresses that stand for one that the operator is free to choose.
    chosen: BTreeSet<(ServiceName, IpAddr)>,
    /// Nodes whose agents wait for a block.
    pub(super) waiting: BTreeSet<(NodeName, Family)>,
    /// Nodes whose blocks of a family a starting operator removes.
    pub(super) removed: BTreeSet<(NodeName, Family)>,
}

/// The outcome of one start, and of what it is compared with.
pub(super) struct Starts {
    /// The operator before goes on running.
    pub(super) running: Evaluated,
    /// The operator of the release before the hop restarts.
    pub(super) restarted: Evaluated,
    /// The operator of the next release starts.
    pub(super) next: Evaluated,
    /// The operator of the next release starts, and Services that compete have bad luck.
    pub(super) adverse: [Evaluated; 2],
    /// The pools as the next release reads them.
    pub(super) next_pools: Vec<AddressPool>,
    /// The pools whose addresses may change hands.
    pub(super) rivalry: Rivalry,
}

fn start(
    order: ServingOrder,
    observed: &Observed,
    rules: &LbRules,
    pools: &[AddressPool],
) -> Evaluated {
    let services = observed.services.values();
    evaluate_in(order, pools, services, rules, OperatorState::Restarted)
}

impl Starts {
    pub(super) fn new(before: &Observed, after: &Observed) -> Starts {
        let (rules, next_rules) = (before.lb_rules(), after.lb_rules());
        let pools = before.address_pools_as_read(&rules);
        let next_pools = after.address_pools_as_read(&next_rules);
        let state = OperatorState::Running(&pools);
        let next = start(ServingOrder::Usual, after, &next_rules, &next_pools);
        Starts {
            running: evaluate(&pools, before.services.values(), &rules, state),
            restarted: start(ServingOrder::Usual, before, &rules, &pools),
            rivalry: Rivalry::new(&next, &next_pools, OperatorState::Restarted),
            next,
            adverse: ServingOrder::ADVERSE
                .map(|order| start(order, after, &next_rules, &next_pools)),
            next_pools,
        }
    }
}

/// Judges every Service. Returns the addresses that they have after the hop.
pub(super) fn judge(
    hop: &HopView<'_>,
    told: &mut Told,
    changes: &mut Changes,
) -> BTreeMap<ServiceName, Vec<IpAddr>> {
    let starts = Starts::new(&hop.before, &hop.after);
    for service in hop.before.services.values() {
        let judge = OneService {
            hop,
            starts: &starts,
            service,
        };
        judge.judge(told, changes);
    }
    after(hop, &starts, told)
}

/// The addresses after the hop. Where the operator is free to choose, a free address of the pool
/// stands for its choice; Services that share one get the same.
fn after(
    hop: &HopView<'_>,
    starts: &Starts,
    told: &mut Told,
) -> BTreeMap<ServiceName, Vec<IpAddr>> {
    let mut choices = Choices::new(hop, &starts.next_pools);
    let mut addresses = BTreeMap::new();
    for (name, outcome) in &starts.next.outcomes {
        let mut ingress = outcome.keeps.clone();
        let is_sure = LazyCell::new(|| prospects(starts, name).are_sure());
        for gain in &outcome.gains {
            match gain {
                GainedAddress::Exactly(address) => {
                    ingress.push(*address);
                    told.chosen
                        .extend((!*is_sure).then(|| (name.clone(), *address)));
                }
                GainedAddress::OneOf { family, pools } => {
                    let chosen = choices.choose(hop.after.services.get(name), *family, pools);
                    ingress.extend(chosen);
                    told.chosen
                        .extend(chosen.map(|address| (name.clone(), address)));
                }
            }
        }
        addresses.insert(name.clone(), ingress);
    }
    addresses
}

/// Addresses that stand for the operator's choices.
struct Choices<'h> {
    rules: LbRules,
    pools: &'h [AddressPool],
    taken: BTreeSet<IpAddr>,
    /// Chosen for Services with a sharing key.
    shared: Vec<(IpAddr, Vec<&'h LbService>)>,
}

impl<'h> Choices<'h> {
    fn new(hop: &'h HopView<'_>, pools: &'h [AddressPool]) -> Choices<'h> {
        let services = hop.after.services.values();
        Choices {
            rules: hop.after.lb_rules(),
            pools,
            taken: services
                .flat_map(|service| service.ingress.iter().copied())
                .collect(),
            shared: Vec::new(),
        }
    }

    fn choose(
        &mut self,
        service: Option<&'h LbService>,
        family: Family,
        names: &BTreeSet<String>,
    ) -> Option<IpAddr> {
        let sharing = service.filter(|service| service.sharing_key(&self.rules).is_some());
        if let Some(service) = sharing {
            let rules = &self.rules;
            let joins = |(address, holders): &&mut (IpAddr, Vec<&LbService>)| {
                Family::of(*address) == family
                    && holders
                        .iter()
                        .all(|holder| may_share(holder, service, rules))
            };
            if let Some((address, holders)) = self.shared.iter_mut().find(joins) {
                holders.push(service);
                return Some(*address);
            }
        }
        let chosen = self.free(family, names)?;
        self.taken.insert(chosen);
        self.shared
            .extend(sharing.map(|service| (chosen, vec![service])));
        Some(chosen)
    }

    /// The lowest address of these pools that is neither reserved nor taken.
    fn free(&self, family: Family, names: &BTreeSet<String>) -> Option<IpAddr> {
        let named = self.pools.iter().filter(|pool| names.contains(&pool.name));
        let ranges = named.flat_map(|pool| pool.ranges.iter().map(move |range| (pool, range)));
        let mut of_family = ranges.filter(|(_, range)| range.range.family() == family);
        of_family.find_map(|(pool, range)| {
            let is_reserved = |address: IpAddr| {
                (address == range.range.first() || address == range.range.last())
                    && self.rules.reserves_first_and_last(pool.first_last, range)
            };
            // Two more than those that are taken: the first and the last one may be reserved.
            let most = u128::try_from(self.taken.len()).map_or(u128::MAX, |taken| taken + 2);
            let mut candidates =
                (0..=most.min(range.range.width())).filter_map(|step| nth(&range.range, step));
            candidates.find(|address| !self.taken.contains(address) && !is_reserved(*address))
        })
    }
}

fn nth(range: &Range, step: u128) -> Option<IpAddr> {
    Some(match range.first() {
        IpAddr::V4(first) => IpAddr::V4(
            u32::try_from(u128::from(u32::from(first)) + step)
                .ok()?
                .into(),
        ),
        IpAddr::V6(first) => IpAddr::V6(u128::from(first).checked_add(step)?.into()),
    })
}

/// A Service in one hop.
pub(super) struct OneService<'h> {
    pub(super) hop: &'h HopView<'h>,
    pub(super) starts: &'h Starts,
    pub(super) service: &'h LbService,
}

/// Whether the same happens when the operator of the release before restarts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    AnyStart,
    NextRelease,
}

impl OneService<'_> {
    fn judge(&self, told: &mut Told, changes: &mut Changes) {
        let name = &self.service.name;
        let (before, next) = (
            self.starts.running.outcomes.get(name),
            self.starts.next.outcomes.get(name),
        );
        match (before, next) {
            (None, None) => {}
            (Some(_), None) => self.no_longer_served(changes),
            (None, Some(next)) => self.newly_served(next, changes),
            (Some(before), Some(next)) => {
                self.losses(next, told, changes);
                self.contests(next, told, changes);
                self.lost_hostnames(changes);
                if next.loses.is_empty() {
                    self.gains(before, changes);
                    self.reasons(before, next, changes);
                }
            }
        }
    }

    fn add(&self, code: UpgradeCode, cause: Cause, effect: String, changes: &mut Changes) {
        changes.add(code, cause, ObjectRef::service(&self.service.name), effect);
    }

    fn prospects(&self) -> Prospects {
        prospects(self.starts, &self.service.name)
    }

    fn restarted(&self) -> Option<&ServiceOutcome> {
        self.starts.restarted.outcomes.get(&self.service.name)
    }

    fn losses(&self, next: &ServiceOutcome, told: &Told, changes: &mut Changes) {
        let mut by_cause: BTreeMap<Cause, Vec<String>> = BTreeMap::new();
        for (address, why) in &next.loses {
            let is_at_any = self
                .restarted()
                .is_some_and(|outcome| outcome.loses.contains(&(*address, *why)));
            let trigger = match is_at_any {
                true => Trigger::AnyStart,
                false => Trigger::NextRelease,
            };
            let cause = loss::cause(self, *address, *why, trigger);
            pools::add_edit_for_loss(self.hop, (*address, *why), &cause, changes);
            let is_chosen = told.chosen.contains(&(self.service.name.clone(), *address));
            let text = match is_chosen {
                true => "the address that it got at an earlier hop".to_owned(),
                false => self.with_hostname(*address),
            };
            by_cause.entry(cause).or_default().push(text);
        }
        for (cause, lost) in by_cause {
            let effect = format!("loses {}{}", listed(lost), self.prospects().then());
            self.add(UpgradeCode::AddressLost, cause, effect, changes);
        }
    }

    /// The address in words, with the hostname of its entry.
    fn with_hostname(&self, address: IpAddr) -> String {
        let mut hostnames = self.service.hostnames.iter();
        match hostnames.find(|one| one.ip == Some(address)) {
            Some(one) => format!("{address} with its hostname {}", one.address()),
            None => address.to_string(),
        }
    }

    fn lost_hostnames(&self, changes: &mut Changes) {
        let lost = self.hostnames();
        if !lost.is_empty() {
            let cause = loss::at_any_start(LossReason::Hostname);
            let effect = format!("loses {}", listed(lost));
            self.add(UpgradeCode::AddressLost, cause, effect, changes);
        }
    }

    /// The hostnames without an address in their entry that the next operator removes. Without a pool,
    /// LB-IPAM is idle.
    fn hostnames(&self) -> Vec<String> {
        let is_lost =
            |one: &&ServedHostname| one.ip.is_none() && !self.starts.next_pools.is_empty();
        let lost = self.service.hostnames.iter().filter(is_lost);
        lost.map(|one| one.address().to_string()).collect()
    }

    /// Told once: every later hop restarts the operator as well.
    fn contests(&self, next: &ServiceOutcome, told: &mut Told, changes: &mut Changes) {
        let name = &self.service.name;
        let contested = next.contested.iter().map(|(address, _)| *address);
        let mut new: Vec<IpAddr> = contested.collect();
        new.retain(|address| told.contested.insert((name.clone(), *address)));
        new.retain(|address| !told.chosen.contains(&(name.clone(), *address)));
        if !new.is_empty() {
            let cause = loss::cause_of_contest(self, &new);
            let effect = format!("may lose {}", listed(new));
            self.add(UpgradeCode::AddressMayMove, cause, effect, changes);
        }
    }

    /// Addresses that the running operator would not have given anyway.
    fn gains(&self, before: &ServiceOutcome, changes: &mut Changes) {
        let prospects = self.prospects();
        // A choice among other pools is no address more.
        if before.gains.len() >= prospects.gains.len() {
            return;
        }
        let is_known = |gain: &GainedAddress| before.gains.contains(gain);
        let is_new = |one: &&Prospect| !one.any_of.iter().all(is_known);
        let new: Vec<&Prospect> = prospects.gains.iter().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let is_at_any = self.restarted().is_some_and(|outcome| {
            let mut gains = new.iter().flat_map(|one| &one.any_of);
            gains.all(|gain| outcome.gains.contains(gain))
        });
        let trigger = match is_at_any {
            true => Trigger::AnyStart,
            false => Trigger::NextRelease,
        };
        let cause = match prospects.are_sure() {
            true => loss::cause_of_gain(self.hop, trigger),
            false => loss::cause_of_chance(),
        };
        self.add(UpgradeCode::AddressGained, cause, listed(new), changes);
    }

    /// A Service that waits before and after, with a reason of another name.
    fn reasons(&self, before: &ServiceOutcome, next: &ServiceOutcome, changes: &mut Changes) {
        let reasons = |outcome: &ServiceOutcome| -> BTreeSet<&'static str> {
            outcome.pending.iter().map(Pending::reason).collect()
        };
        let (old, new) = (reasons(before), reasons(next));
        if old.is_empty() || new.is_empty() || old == new {
            return;
        }
        let ticked = |reasons: BTreeSet<&str>| listed(reasons.iter().map(|r| format!("`{r}`")));
        let effect = format!("waits with {} instead of {}", ticked(new), ticked(old));
        let cause = loss::other_reason(self.hop);
        self.add(UpgradeCode::ConditionNames, cause, effect, changes);
    }

    fn no_longer_served(&self, changes: &mut Changes) {
        let effect = match &self.service.ingress[..] {
            [] => "LB-IPAM gives it no address".to_owned(),
            ingress => format!("keeps {} without LB-IPAM", listed(ingress)),
        };
        let cause = loss::class_no_longer_served(self.hop, self.service);
        self.add(UpgradeCode::ServiceClass, cause, effect, changes);
    }

    fn newly_served(&self, next: &ServiceOutcome, changes: &mut Changes) {
        let lost = next.loses.iter();
        let lost = lost.map(|(address, _)| self.with_hostname(*address));
        let lost: Vec<String> = lost.chain(self.hostnames()).collect();
        let effect = match (&lost[..], self.prospects().then()) {
            ([], then) if then.is_empty() => "LB-IPAM serves it".to_owned(),
            ([], then) => format!("LB-IPAM serves it{then}"),
            (lost, then) => format!("loses {}{then}", listed(lost)),
        };
        let cause = loss::class_newly_served(self.hop, self.service);
        self.add(UpgradeCode::ServiceClass, cause, effect, changes);
    }
}
