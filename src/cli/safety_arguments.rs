//! Flags for limits, waivers and protections, in addition to the Policy.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::failure::Failure;
use ipam_core::model::{LimitName, LimitNameError, NodeName, PoolName, Waiver};
use ipam_desired::Policy;
use ipam_planner::plan::PlanDocument;

/// Limits, waivers and protections.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SafetyArguments {
    /// Allow the plan to exceed this limit, such as `release-percent`, or to take this many
    /// addresses from Services, such as `lost-addresses=3`. Repeatable.
    #[arg(long, value_name = "WAIVER")]
    waive: Vec<Waiver>,
    /// Set a limit, such as `disruptive-count=3`, if that of the Policy is higher or missing.
    #[arg(long, value_name = "LIMIT=N")]
    limit: Vec<Setting>,
    /// Also protect this node.
    #[arg(long, value_name = "NODE")]
    protect_node: Vec<NodeName>,
    /// Also protect this pool.
    #[arg(long, value_name = "POOL")]
    protect_pool: Vec<PoolName>,
}

#[derive(Clone, Debug)]
struct Setting {
    name: LimitName,
    value: u32,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let (name, value) = text.split_once('=').ok_or("write it as LIMIT=N")?;
        let name: LimitName = name
            .parse()
            .map_err(|error: LimitNameError| error.to_string())?;
        let most = name.measure.most();
        match value.parse() {
            Ok(value) if value <= most => Ok(Setting { name, value }),
            _ => Err(format!("N must be a whole number, at most {most}")),
        }
    }
}

impl SafetyArguments {
    /// Adds the flags to the Policy.
    pub(super) fn amend(&self, policy: &mut Policy) {
        let SafetyArguments {
            waive: _,
            limit,
            protect_node,
            protect_pool,
        } = self;
        for Setting { name, value } in limit {
            // A flag only lowers the limit of the Policy. Exceeding it requires a waiver, which the
            // plan records.
            let limit = policy.limits.entry(*name).or_insert(*value);
            *limit = (*limit).min(*value);
        }
        policy.protected.nodes.extend(protect_node.iter().cloned());
        policy.protected.pools.extend(protect_pool.iter().cloned());
    }

    pub(super) fn waivers(&self) -> BTreeSet<Waiver> {
        self.waive.iter().copied().collect()
    }

    /// Checks that the flags, if any, repeat the waivers of a saved plan. The plan's waivers apply.
    pub(super) fn check_waivers(&self, saved: &PlanDocument) -> Result<(), Failure> {
        let given: BTreeSet<String> = self.waive.iter().map(ToString::to_string).collect();
        let of_plan: BTreeSet<String> = saved.waivers.iter().cloned().collect();
        if given.is_empty() || given == of_plan {
            return Ok(());
        }
        let names = |names: &BTreeSet<String>| match names.len() {
            0 => "no waivers".to_owned(),
            1 => format!("the waiver {}", names.iter().cloned().collect::<String>()),
            _ => format!(
                "the waivers {}",
                names.iter().cloned().collect::<Vec<_>>().join(", ")
            ),
        };
        let what = format!(
            "the plan has {}, and --waive asks for {}",
            names(&of_plan),
            names(&given)
        );
        Err(Failure::Unexpected {
            what,
            hint: "plan again with these waivers, and review that plan",
        })
    }
}
