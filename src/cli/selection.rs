//! Flags that limit a plan to some objects.

use super::failure::Failure;
use ipam_cilium::observed::Observed;
use ipam_core::model::Selector;
use ipam_desired::Desired;
use ipam_planner::plan::{PlanDocument, Selected, Selection};

#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SelectionArguments {
    /// Keep only the changes of this object: `node/NAME`, `pool/NAME` with the nodes that use it,
    /// `service/NAMESPACE/NAME`, or `label:SELECTOR` for nodes. Repeatable. Blocks are chosen as in
    /// the whole plan, which counts the changes that it leaves out. A Service comes with the
    /// changes of all LoadBalancer pools, because its address may need them.
    #[arg(long, value_name = "OBJECT")]
    target: Vec<Selected>,
    /// Leave out the changes of this object, spelled as for --target. Repeatable.
    #[arg(long, value_name = "OBJECT")]
    exclude: Vec<Selected>,
    /// Keep only the changes of nodes with these labels, such as `rack=a,!gpu`: the same as
    /// `--target label:SELECTOR`.
    #[arg(long, short = 'l', value_name = "SELECTOR", conflicts_with = "target")]
    selector: Option<Selector>,
}

impl SelectionArguments {
    fn selection(&self) -> Selection {
        let SelectionArguments {
            target,
            exclude,
            selector,
        } = self;
        let labels = selector.iter().cloned().map(Selected::Labels);
        Selection {
            targets: target.iter().cloned().chain(labels).collect(),
            excluded: exclude.clone(),
        }
    }

    /// The limit of the plan. A saved plan keeps its own.
    pub(super) fn of_plan(&self, saved: Option<&PlanDocument>) -> Result<Selection, Failure> {
        let given = self.selection();
        let Some(saved) = saved else {
            return Ok(given);
        };
        let of_plan = saved.selection().map_err(|error| {
            Failure::Failed(format!(
                "the limit of the saved plan is unknown here: {error}"
            ))
        })?;
        if given.is_everything() || given == of_plan {
            return Ok(of_plan);
        }
        let what = match &saved.selection {
            Some(selection) => format!("the plan is limited by {}", selection.flags()),
            None => "the plan is not limited".to_owned(),
        };
        Err(Failure::Unexpected {
            what: format!("{what}, and the flags give another limit"),
            hint: "plan again with these flags, and review that plan",
        })
    }
}

/// Refuses a limit that names an object that does not exist. It is more likely misspelled than
/// gone.
pub(super) fn check_objects(
    selection: &Selection,
    desired: &Desired,
    observed: &Observed,
) -> Result<(), Failure> {
    match selection.unknown(desired, observed).next() {
        None => Ok(()),
        Some(Selected::Labels(selector)) => Err(Failure::Failed(format!(
            "no node has the labels `{selector}`; `cilium-ipam show nodes` lists the nodes"
        ))),
        Some(unknown) => Err(Failure::Failed(format!(
            "`{unknown}` exists neither in the files nor in the cluster; `cilium-ipam show nodes` and `show pools` list the names"
        ))),
    }
}
