//! Makes a plan of a directory, for the commands that only show it. With `--base`, it compares the
//! Policy of the files with that of another revision, whose limits, rules and excluded ranges
//! apply as well: a pull request cannot lift them for itself.

use std::collections::BTreeSet;
use std::path::Path;

use super::Common;
use super::failure::Failure;
use super::files::{Files, SafetyArguments, SelectionArguments, check_objects};
use super::target::read;
use crate::render::Detail;
use ipam_cilium::observed::Observed;
use ipam_cluster::Extent;
use ipam_config::source::{Location, gone_policies};
use ipam_controller::{Job, Loaded, Scope, load};
use ipam_core::model::{Finding, Severity, Waiver};
use ipam_core::net::Range;
use ipam_desired::{Policy, weakened, weakened_rules};
use ipam_plan::plan::{Plan, PlanDocument, RefusalDocument};

/// Code of the refusal by a limit.
const LIMIT: &str = "policy-limit";

/// Code of the refusal by a rule.
const RULE: &str = "policy-rule";

#[derive(Clone, Debug, clap::Args)]
pub(super) struct BaseArguments {
    /// Compare with the files of this Git revision, such as `origin/main`.
    ///
    /// Lists first what the Policy allows now and did not before. The limits, rules, protections and
    /// excluded ranges of that revision apply as well. If the directory was moved, name its earlier
    /// place after a colon, as it would be given as DIR: `origin/main:old/pools`.
    #[arg(long, value_name = "REV[:DIR]")]
    base: Option<String>,
}

/// The Policy of the base revision.
pub(super) struct Base {
    revision: String,
    loaded: Loaded,
    /// A sentence for each Policy that a moved directory left behind.
    moved: Vec<String>,
}

impl BaseArguments {
    pub(super) fn is_given(&self) -> bool {
        self.base.is_some()
    }

    /// Reads the directory as the base has it. A base without any file there has no Policy.
    pub(super) fn read(&self, location: &Location) -> Result<Option<Base>, Failure> {
        let Some(base) = &self.base else {
            return Ok(None);
        };
        let (revision, place) = parts(base)?;
        let of_base = Location {
            directory: place.unwrap_or(&location.directory).to_owned(),
            revision: Some(revision.to_owned()),
        };
        let loaded = load(&of_base);
        let is_error = |one: &&Finding| one.severity == Severity::Error;
        let mut errors = loaded.findings.iter().filter(is_error);
        let is_new = |one: &Finding| place.is_none() && one.rule.0 == "empty-directory";
        if let Some(error) = errors.find(|one| !is_new(one)) {
            return Err(Failure::Failed(format!(
                "the files of --base {base} cannot be used: {}",
                error.message
            )));
        }
        let moved = match loaded.desired.policy.origin.is_some() || place.is_some() {
            true => Vec::new(),
            false => moved(&of_base, location)?,
        };
        Ok(Some(Base {
            revision: revision.to_owned(),
            loaded,
            moved,
        }))
    }
}

/// The revision, and the directory after a colon. A time in braces has colons of its own, as in
/// `main@{2026-11-29 10:00}`.
fn parts(base: &str) -> Result<(&str, Option<&Path>), Failure> {
    let start = base.rfind('}').unwrap_or_default();
    match base[start..]
        .find(':')
        .map(|place| base.split_at(start + place))
    {
        None => Ok((base, None)),
        Some((_, ":")) => Err(Failure::Failed(format!(
            "--base {base} names no directory after its colon: write one, such as `main:pools`, or leave out the colon"
        ))),
        Some((revision, directory)) => Ok((revision, Some(Path::new(&directory[1..])))),
    }
}

/// Policies that the base has elsewhere and the files do not: a moved directory leaves its Policy
/// behind.
fn moved(base: &Location, head: &Location) -> Result<Vec<String>, Failure> {
    let revision = base.revision.as_deref().unwrap_or_default();
    let gone = gone_policies(base, head).map_err(|why| {
        Failure::Failed(format!(
            "the files of --base {revision} cannot be used: {}",
            why.message
        ))
    })?;
    let directory = head.directory.display();
    let sentence = |file: String| {
        format!(
            "the Policy of {revision} in `{file}` is gone or has lost its pools, and {revision} has none in `{directory}`: if the directory was moved, pass its earlier place, `--base {revision}:DIR`"
        )
    };
    Ok(gone.into_iter().map(sentence).collect())
}

impl Base {
    /// The plan with what its Policy weakens, and with what the Policy of the base refuses.
    pub(super) async fn judge(
        &self,
        document: PlanDocument,
        plan: &Plan,
        head: &Loaded,
        observed: &Observed,
        waivers: &BTreeSet<Waiver>,
    ) -> PlanDocument {
        let policy = &self.loaded.desired.policy;
        let mut weakened = weakened(policy, &head.desired.policy);
        weakened.extend(self.moved.iter().cloned());
        let mut under_base = head.clone();
        under_base.desired.policy = Policy {
            rules: weakened_rules(policy, &head.desired.policy),
            ..policy.clone()
        };
        let job = Job::saved(&under_base, None, waivers);
        let refusals = job.refusals(&plan.changes, observed).await;
        let refusals = refusals.iter().map(RefusalDocument::from);
        let mut refusals: Vec<RefusalDocument> =
            refusals.map(|refusal| self.attributed(refusal)).collect();
        refusals.retain(|of_base| !is_in(of_base, &document.refusals));
        refusals.extend(self.excluded(&document, policy));
        document.judged_by_base(weakened, refusals)
    }

    fn attributed(&self, refusal: RefusalDocument) -> RefusalDocument {
        let help = match &refusal.waiver {
            // The files may have the higher limit already.
            Some(waiver) if refusal.rule == LIMIT => format!(
                "apply fewer at a time with `--target`, merge the higher limit first, or plan again with `--waive {waiver}`"
            ),
            _ if refusal.rule == RULE => {
                format!("{}; merge the change of the rule first", refusal.help)
            }
            Some(_) | None => refusal.help,
        };
        RefusalDocument {
            message: format!("by the Policy of {}: {}", self.revision, refusal.message),
            help,
            ..refusal
        }
    }

    /// Changes that give what the base excludes.
    fn excluded(&self, document: &PlanDocument, policy: &Policy) -> Vec<RefusalDocument> {
        let mut refusals = Vec::new();
        for change in &document.changes {
            let novel = change
                .after
                .iter()
                .filter(|text| !change.before.contains(text));
            let ranges = novel.filter_map(|text| text.parse::<Range>().ok());
            let gives = |range: &Range| policy.excluded.iter().any(|one| one.overlaps(range));
            let Some(range) = { ranges }.find(gives) else {
                continue;
            };
            refusals.push(self.attributed(RefusalDocument {
                rule: LIMIT.to_owned(),
                message: format!("`{}` would get {range}, which is excluded", change.name),
                help: "exclude the range again, or merge the change of the Policy first".to_owned(),
                waiver: None,
            }));
        }
        refusals
    }
}

/// Whether a refusal of the base is among the plan's refusals already.
fn is_in(of_base: &RefusalDocument, refusals: &[RefusalDocument]) -> bool {
    refusals
        .iter()
        .any(|one| one.rule == of_base.rule && of_base.message.ends_with(&one.message))
}

/// What is planned, and what the plan may do.
pub(super) struct Planning<'a> {
    pub(super) files: &'a Files,
    pub(super) selection: &'a SelectionArguments,
    pub(super) safety_arguments: &'a SafetyArguments,
    pub(super) base: Option<&'a BaseArguments>,
}

/// The outcome of planning.
pub(super) enum Made {
    Plan(Box<MadePlan>),
    /// The files have errors, so there is no plan.
    Invalid(Box<Loaded>),
}

/// A plan, with the files that it is made from.
pub(super) struct MadePlan {
    pub(super) document: PlanDocument,
    pub(super) plan: Plan,
    pub(super) loaded: Loaded,
    pub(super) observed: Observed,
}

impl Planning<'_> {
    /// Reads the files and the cluster, and plans.
    pub(super) async fn make(&self, common: &Common) -> Result<Made, Failure> {
        let location = self.files.location();
        let base = match self.base {
            Some(base) => base.read(&location)?,
            None => None,
        };
        let (mut loaded, observed) =
            read(location.clone(), common, Extent::Plan, Scope::Ports).await?;
        let Some(observed) = observed else {
            return Ok(Made::Invalid(Box::new(loaded)));
        };
        self.safety_arguments.amend(&mut loaded.desired.policy);
        let waivers = self.safety_arguments.waivers();
        let selection = self.selection.of_plan(None)?;
        let job = Job::saved(&loaded, None, &waivers).limited_to(&selection);
        let (plan, document) = planned(&job, &observed, &location.directory)?;
        let document = match &base {
            Some(base) => {
                let judged = base.judge(document, &plan, &loaded, &observed, &waivers);
                judged.await
            }
            None => document,
        };
        let document = match common.detail() {
            Detail::Short => document.cut(),
            Detail::Full => document,
        };
        Ok(Made::Plan(Box::new(MadePlan {
            document,
            plan,
            loaded,
            observed,
        })))
    }
}

/// Plans the selected objects from the files.
pub(super) fn planned(
    job: &Job<'_>,
    observed: &Observed,
    directory: &Path,
) -> Result<(Plan, PlanDocument), Failure> {
    let desired = &job.loaded.desired;
    check_objects(job.selection, desired, observed)?;
    let plan = job.plan(observed);
    let document = PlanDocument::new(&plan, &directory.to_string_lossy())
        .of_revision(job.loaded.revision.clone())
        .with_failure_domains(&desired.policy.failure_domain, observed);
    Ok((plan, document))
}
