//! Plans the files before they are written, and amends them until the plan is as wished.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Arguments, yaml};
use crate::cli::failure::Failure;
use crate::cli::new_files::{NewFile, trial};
use crate::cli::output::Capped;
use crate::render::Detail;
use ipam_cilium::observed::Observed;
use ipam_controller::{Job, Loaded};
use ipam_core::model::{count, first_of};
use ipam_core::text::one_line;
use ipam_import::import::{ImportRequest, Inferred, Judgement, judge};
use ipam_import::proposal::Remark;
use ipam_plan::plan::{
    Blocked, BlockedReason, NodeObstacle, OperatorObstacle, Plan, PlanDocument, Target,
    WritePathObstacle,
};

/// Limit of the trial plans. One trial adds pins, one removes useless pins, one disables pools.
const TRIALS: usize = 5;

/// Limit of the nodes that a note names.
const NAMED: usize = 4;

/// The plan of new files.
pub(super) struct Trial {
    pub(super) document: PlanDocument,
    /// Errors and warnings of the plan.
    pub(super) diagnostics: String,
    /// Why nodes cannot get a block, each reason with its fix.
    pub(super) blocked: Vec<String>,
}

impl Trial {
    pub(super) fn new<'p>(
        directory: &Path,
        plan: &Plan,
        loaded: &Loaded,
        blocked: impl Iterator<Item = &'p Blocked>,
        detail: Detail,
    ) -> Trial {
        Trial {
            document: trial::document(directory, plan, detail),
            diagnostics: trial::diagnostics(&plan.findings, loaded, detail),
            blocked: reasons(blocked),
        }
    }
}

/// Files whose plan is as wished.
pub(super) struct Settled {
    pub(super) inferred: Inferred,
    pub(super) files: Vec<NewFile>,
    pub(super) trial: Trial,
}

impl Settled {
    /// # Errors
    /// Fails if the plan of any files changes something.
    pub(super) fn of(
        arguments: &Arguments,
        mut inferred: Inferred,
        observed: &Observed,
        request: &ImportRequest,
        detail: Detail,
    ) -> Result<Settled, Failure> {
        for _ in 0..TRIALS {
            let files = yaml::files(&arguments.directory, &inferred)?;
            let loaded = trial::loaded(files.iter().map(NewFile::source), detail)?;
            let plan = Job::files(&loaded).plan(observed);
            match judge(&inferred, &plan, observed, request) {
                Judgement::Good => {
                    let blocked = unserved(&plan, &inferred);
                    let directory = &arguments.directory;
                    return Ok(Settled {
                        trial: Trial::new(directory, &plan, &loaded, blocked, detail),
                        inferred,
                        files,
                    });
                }
                Judgement::Amended(amended) => inferred = *amended,
                Judgement::Refused(targets) => return Err(refusal(&targets, detail)),
            }
        }
        Err(Failure::Failed(
            "no files were found whose plan is empty; nothing was written".to_owned(),
        ))
    }
}

/// What is blocked. Another program that assigns blocks serves the nodes for which no pool has one,
/// and a remark names it.
fn unserved<'p>(plan: &'p Plan, inferred: &Inferred) -> impl Iterator<Item = &'p Blocked> {
    let assigns = |remark: &Remark| {
        matches!(
            remark,
            Remark::AssignsItself { .. } | Remark::OperatorAssigns(_)
        )
    };
    let has_rival = inferred.remarks.iter().any(assigns);
    let is_served = |blocked: &Blocked| {
        matches!(
            blocked.reason,
            BlockedReason::WritePath(WritePathObstacle::OtherAllocator(_))
                | BlockedReason::Operator(OperatorObstacle::Gives)
                | BlockedReason::Node(NodeObstacle::NodePoolsExhausted { .. })
        )
    };
    let all = plan.blocked.iter();
    all.filter(move |blocked| !(has_rival && is_served(blocked)))
}

fn reasons<'p>(all: impl Iterator<Item = &'p Blocked>) -> Vec<String> {
    let mut targets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for blocked in all {
        let reason = format!("{}; {}", blocked.reason, blocked.reason.unblock());
        let target = one_line(&blocked.target.to_string()).into_owned();
        targets.entry(reason).or_default().push(target);
    }
    let told = targets.into_iter();
    told.map(|(reason, targets)| format!("{}: {reason}", first_of(1, targets)))
        .collect()
}

/// Nodes whose block no files keep, by the reason.
pub(super) fn broken(inferred: &Inferred) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, node) in &inferred.broken {
        let block = node
            .block
            .map_or(String::new(), |block| format!(" {block}"));
        let nodes = reasons.entry(&node.why).or_default();
        nodes.push(format!("`{name}`{block}"));
    }
    let told = reasons.into_iter().map(|(why, nodes)| {
        format!(
            "{} without a pin, because no files keep its block: {}: {why}",
            count(nodes.len(), "node"),
            first_of(NAMED, nodes)
        )
    });
    told.collect()
}

fn refusal(targets: &[Target], detail: Detail) -> Failure {
    let mut text = "no files keep this cluster as it is; nothing was written. --allow-changes writes the files anyway, and `cilium-ipam plan` shows the changes:".to_owned();
    let targets = Capped::new(targets, detail);
    for target in &targets.shown {
        text += &format!("\n  the plan would change {target}");
    }
    if let Some(more) = targets.more() {
        text += &format!("\n  {more}");
    }
    Failure::Failed(text)
}
