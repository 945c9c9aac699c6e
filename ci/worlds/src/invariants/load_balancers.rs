//! Rules for LoadBalancer pools and Services. It knows no nodes.

use super::{Checks, Invariant};
use ipam_cilium::observed::SeenAddressPool;
use ipam_plan::plan::{AddressPoolChange, Change, Plan, PoolAction, Target};

impl Checks<'_> {
    /// Only our objects are changed or deleted, every wanted pool is reported, and no Service loses an
    /// address that it does not have.
    pub(super) fn load_balancers(&mut self, plan: &Plan) {
        for change in &plan.changes {
            let Change::AddressPool(pool) = change else {
                continue;
            };
            let is_allowed = self.is_allowed(pool);
            self.expect(is_allowed, Invariant::OnlyOurs, || format!("{change:?}"));
        }
        let reported: Vec<Target> = plan
            .changes
            .iter()
            .map(Change::target)
            .chain(plan.blocked.iter().map(|blocked| blocked.target.clone()))
            .chain(plan.unchanged.iter().cloned())
            .collect();
        for name in self.desired.address_pools.keys() {
            let is_it =
                |target: &Target| matches!(target, Target::AddressPool(pool) if pool == name);
            let is_reported = reported.iter().any(is_it);
            self.expect(is_reported, Invariant::EachOnce, || {
                format!("{name} is not reported")
            });
        }
        for (service, lost) in plan.effects.lost() {
            let seen = self.observed.services.get(service);
            let had = seen.is_some_and(|seen| seen.served().any(|one| one == lost.address));
            self.expect(had, Invariant::LossesAreReal, || {
                format!("{service} has no {lost:?}")
            });
        }
    }

    fn is_allowed(&self, change: &AddressPoolChange) -> bool {
        let AddressPoolChange {
            action,
            object,
            before,
            after,
            guard,
            ..
        } = change;
        let name = &object.name;
        let seen = self.observed.address_pools.get(name.as_str());
        let is_wanted = self.desired.address_pools.contains_key(name);
        let is_ours = seen.is_some_and(SeenAddressPool::is_ours);
        let may = match action {
            PoolAction::Create => seen.is_none() && is_wanted,
            PoolAction::Adopt => !is_ours && is_wanted,
            PoolAction::Update => is_ours && guard.is_known(),
            PoolAction::Delete => is_ours && !is_wanted,
        };
        let is_deletion = *action == PoolAction::Delete;
        may && before.is_some() == seen.is_some() && after.is_none() == is_deletion
    }
}
