//! Which address pools change, and how.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::super::change::{Change, Target};
use super::obstacle::{AddressUser, LbObstacle};
use super::{AddressPoolChange, AddressPoolObject, hidden};
use crate::openstack::{SubnetPools, UnresolvedSubnet};
use crate::plan::{self, BlockedReason, Plan, PoolAction};
use ipam_cilium::lbipam::{
    AddressPoolApi, AddressPoolManifest, AddressPoolSpec, LbRules, Translation, WrittenSelector,
};
use ipam_cilium::observed::{CiliumKind, FIELD_MANAGER, Observed, ObservedKind, SeenAddressPool};
use ipam_core::claims::Claims;
use ipam_core::model::{AddressPoolName, Finding, OWNER_LABEL, ObjectRef, Rule, Severity};
use ipam_core::net::{Range, RangeIndex};
use ipam_desired::{AddressPoolsAsked, Desired, WantedAddressPool};

pub(super) fn decide(desired: &Desired, observed: &Observed, plan: &mut Plan) {
    let claims = observed.live_claims(desired.policy.quarantine);
    let planner = PoolPlanner {
        observed,
        rules: observed.lb_rules(),
        users: Users::new(desired, observed, &claims),
    };
    for wanted in desired.address_pools.values() {
        plan.findings.extend(
            planner
                .users
                .given_in_use(wanted, &planner.carved(wanted), observed),
        );
        let target = Target::AddressPool(wanted.name.clone());
        plan.record(target, Some(&wanted.origin), planner.wanted(wanted));
    }
    let is_asked_here = desired.address_pools_asked == AddressPoolsAsked::All;
    for seen in observed
        .address_pools
        .values()
        .filter(|seen| is_asked_here && seen.is_ours())
    {
        let Ok(name) = seen.name.parse::<AddressPoolName>() else {
            continue;
        };
        if desired.address_pools.contains_key(&name) {
            continue;
        }
        let decided = planner.deletion(&name, seen).map(Some);
        plan.record(Target::AddressPool(name), None, decided);
    }
    let order = |change: &Change| match change {
        Change::AddressPool(change) => Some((change.action, change.object.name.clone())),
        Change::Service(_) | Change::PodPool(_) | Change::Port(_) | Change::Node(_) => None,
    };
    plan.changes.sort_by_key(order);
}

struct PoolPlanner<'d> {
    observed: &'d Observed,
    rules: LbRules,
    users: Users,
}

impl PoolPlanner<'_> {
    fn wanted(
        &self,
        wanted: &WantedAddressPool,
    ) -> Result<Option<AddressPoolChange>, BlockedReason> {
        let api = self.api()?;
        let (spec, translation) = self
            .carved(wanted)
            .translated(&self.rules)
            .map_err(LbObstacle::PoolFieldNotRead)?;
        let mut after = AddressPoolManifest {
            spec,
            ..wanted.manifest.clone()
        };
        after
            .labels
            .insert(OWNER_LABEL.0.to_owned(), OWNER_LABEL.1.to_owned());
        let spec = json!({"spec": after.spec});
        let kind = CiliumKind::LoadBalancerPool;
        plan::keeps(self.observed, kind, api.as_str(), &spec)?;
        let seen = self.observed.address_pools.get(wanted.name.as_str());
        self.users.refuse(&after, seen)?;
        let object = AddressPoolObject {
            api,
            name: wanted.name.clone(),
        };
        let has_field = |seen: &SeenAddressPool| {
            seen.manifest.spec.cidrs.is_empty() == after.spec.cidrs.is_empty()
        };
        let translation = match seen.is_some_and(has_field) {
            true => Translation::None,
            false => translation,
        };
        let shown = seen.map(|seen| (&seen.manifest.labels, &seen.version, shown_of(seen, &after)));
        let is_as_wanted =
            |_: &_, after: &_| Ok(seen.is_some_and(|seen| is_as_wanted(seen, after, &self.rules)));
        let Some(change) = AddressPoolChange::towards(after, object, shown, is_as_wanted)? else {
            return Ok(None);
        };
        let author = seen.and_then(|seen| seen.author.as_ref());
        Ok(Some(AddressPoolChange {
            reason: reason(change.action, author, translation),
            origin: Some(wanted.origin.clone()),
            ..change
        }))
    }

    /// The spec without the addresses that the pool reserves.
    fn carved(&self, wanted: &WantedAddressPool) -> AddressPoolSpec {
        let manifest = &wanted.manifest;
        // An annotation that cannot be read is an error of the files.
        let reserved = manifest.reserved().unwrap_or_default();
        manifest.spec.without(&reserved, &self.rules)
    }

    fn deletion(
        &self,
        name: &AddressPoolName,
        seen: &SeenAddressPool,
    ) -> Result<AddressPoolChange, LbObstacle> {
        let object = AddressPoolObject {
            api: self.api()?,
            name: name.clone(),
        };
        let (specs, guard) = ((Some(seen.manifest.clone()), None), seen.version.clone());
        Ok(AddressPoolChange {
            reason: reason(PoolAction::Delete, None, Translation::None),
            ..AddressPoolChange::new(PoolAction::Delete, object, specs, guard)
        })
    }

    fn api(&self) -> Result<AddressPoolApi, LbObstacle> {
        if let Some(why) = hidden(self.observed, ObservedKind::LoadBalancerPool) {
            return Err(LbObstacle::PoolsHidden(why.to_owned()));
        }
        if self.observed.cilium.version.is_none() {
            return Err(LbObstacle::VersionUnknown);
        }
        self.observed
            .address_pool_api()
            .ok_or(LbObstacle::NotServed)
    }
}

/// Why a pool of the files is written, with a remark on a translation to another version of the
/// API. `author` is the field manager and time of the last write of the spec.
fn reason(
    action: PoolAction,
    author: Option<&(String, String)>,
    translation: Translation,
) -> String {
    let why = match (action, author) {
        (PoolAction::Adopt, _) => {
            "it was created manually or by another tool; from the apply on, these files manage it"
                .to_owned()
        }
        (PoolAction::Update, Some((manager, time))) if manager != FIELD_MANAGER => {
            format!("differs from the files; last written by {manager} at {time}")
        }
        (PoolAction::Update, _) => "differs from the files".to_owned(),
        (PoolAction::Create, _) => "in the files, and not in the cluster".to_owned(),
        (PoolAction::Delete, _) => "ours, and not in the files".to_owned(),
    };
    why + match translation {
        Translation::None => "",
        Translation::CidrsToBlocks => {
            "; `cidrs` are written as `blocks`, which 1.15 and every later Cilium reads"
        }
        Translation::BlocksToCidrs => {
            "; `blocks` are written as `cidrs`, because this Cilium reads no `blocks`"
        }
    }
}

/// Whether nothing is left to write. What others add to labels and annotations is theirs; what we
/// wrote and the files have no more goes.
fn is_as_wanted(seen: &SeenAddressPool, wanted: &AddressPoolManifest, rules: &LbRules) -> bool {
    let is_same = |seen: &Texts, wanted: &Texts, ours: &BTreeSet<String>| {
        let keys = wanted.keys().chain(ours);
        keys.into_iter().all(|key| seen.get(key) == wanted.get(key))
    };
    is_same(&seen.manifest.labels, &wanted.labels, &seen.our_labels)
        && is_same(
            &seen.manifest.annotations,
            &wanted.annotations,
            &seen.our_annotations,
        )
        && seen.manifest.spec.means_the_same(&wanted.spec, rules)
}

type Texts = BTreeMap<String, String>;

/// What a pool shows, of labels and annotations what will be written and what we wrote.
fn shown_of(seen: &SeenAddressPool, written: &AddressPoolManifest) -> AddressPoolManifest {
    let only = |seen: &Texts, written: &Texts, ours: &BTreeSet<String>| {
        let matters =
            |(key, _): &(&String, &String)| written.contains_key(*key) || ours.contains(*key);
        seen.iter()
            .filter(matters)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    AddressPoolManifest {
        labels: only(&seen.manifest.labels, &written.labels, &seen.our_labels),
        annotations: only(
            &seen.manifest.annotations,
            &written.annotations,
            &seen.our_annotations,
        ),
        spec: seen.manifest.spec.clone(),
    }
}

/// Users of addresses that a pool must not give to Services.
pub(super) struct Users {
    known: RangeIndex<AddressUser>,
    /// The Neutron subnet whose addresses are unknown, so that `known` is incomplete.
    unresolved: Option<UnresolvedSubnet>,
}

impl Users {
    pub(super) fn new(desired: &Desired, observed: &Observed, claims: &Claims) -> Users {
        let blocks = observed
            .shown_blocks()
            .map(|(node, block)| (block.range(), AddressUser::PodCidr(node.clone())));
        let machines = observed.nodes.values().flat_map(|node| {
            node.addresses.iter().map(|address| {
                (
                    Range::from(*address),
                    AddressUser::Machine(node.name.clone()),
                )
            })
        });
        let services = observed
            .service_ranges
            .iter()
            .map(|range| (*range, AddressUser::ServiceCidr));
        let claimed = claims
            .held()
            .map(|(block, node)| (block.range(), AddressUser::Claimed(node.clone())));
        let unattributed = observed
            .unattributed
            .iter()
            .chain(&observed.tombstones)
            .map(|block| (block.range(), AddressUser::Unattributed));
        let subnets = SubnetPools::resolve(desired, observed);
        let of_neutron = subnets
            .ranges()
            .map(|(pool, range)| (range.range(), AddressUser::NeutronPool(pool.name.clone())));
        let all = blocks
            .chain(machines)
            .chain(services)
            .chain(claimed)
            .chain(unattributed)
            .chain(of_neutron);
        Users {
            known: RangeIndex::new(all),
            unresolved: subnets.unresolved().cloned(),
        }
    }

    /// Refuses ranges that the pool does not have yet and that something else uses.
    pub(super) fn refuse(
        &self,
        wanted: &AddressPoolManifest,
        seen: Option<&SeenAddressPool>,
    ) -> Result<(), BlockedReason> {
        let has = |range: &Range| {
            seen.is_some_and(|seen| seen.manifest.spec.ranges().any(|own| own.contains(range)))
        };
        let used = |range: Range| {
            let user = self.known.overlapping(&range).min()?;
            Some(LbObstacle::PoolRangeInUse(range, Box::new(user.clone())).into())
        };
        let mut further = wanted.spec.ranges().filter(|range| !has(range)).peekable();
        let is_more = further.peek().is_some()
            || seen.is_none_or(|seen| gives_more(&wanted.spec, &seen.manifest.spec));
        match (further.find_map(used), &self.unresolved) {
            (Some(obstacle), _) => Err(obstacle),
            (None, Some(trouble)) if is_more => Err(trouble.clone().into()),
            (None, _) => Ok(()),
        }
    }
}

impl Users {
    /// Ranges in other use that overlap `range`.
    pub(super) fn over(&self, range: &Range) -> Vec<Range> {
        self.known
            .overlapping(range)
            .map(|(used, _)| *used)
            .collect()
    }

    /// Tells of a pool that is there, and that goes on to give Services what something else has.
    fn given_in_use(
        &self,
        wanted: &WantedAddressPool,
        spec: &AddressPoolSpec,
        observed: &Observed,
    ) -> Option<Finding> {
        observed
            .address_pools
            .get(wanted.name.as_str())
            .filter(|_| !spec.disabled)?;
        let used = spec
            .ranges()
            .filter_map(|range| self.known.overlapping(&range).min());
        let used: BTreeSet<&(Range, AddressUser)> = used.collect();
        let (range, user) = used.first()?;
        let more = match used.len() - 1 {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        let message = format!(
            "CiliumLoadBalancerIPPool `{}` may give Services {range}, {user}{more}",
            wanted.name
        );
        let finding = Finding::new(Severity::Error, Rule("address-pool-in-use"), message);
        let finding = finding
            .about(ObjectRef::address_pool(wanted.name.as_str()))
            .at(&wanted.origin, "has them");
        Some(finding.help("remove these addresses from the pool"))
    }
}

/// Whether other Services may get addresses of the same ranges, or the same ones others.
fn gives_more(wanted: &AddressPoolSpec, seen: &AddressPoolSpec) -> bool {
    let whom = |spec: &AddressPoolSpec| {
        let selector = spec
            .service_selector
            .as_ref()
            .map(WrittenSelector::selector)
            .transpose();
        (
            selector.unwrap_or_default().unwrap_or_default(),
            spec.first_last(),
        )
    };
    !wanted.disabled && (seen.disabled || whom(wanted) != whom(seen))
}
