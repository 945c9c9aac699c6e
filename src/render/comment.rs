//! The plan as the comment of a pull request, for a reader who knows nothing else: a verdict, what
//! a merge writes, then each risk with its fix, the worst first, then changes by pool and failure
//! domain, then the rest as counts. It always fits into the limit of the large Git hosts.

use super::comment_risks::{self, Told};
use super::comment_verdict::{self, Check};
use super::headlines::{self, manifest_diff};
use super::human::{Detail, SHOWN_DIGITS};
use super::markdown::{found, pointed_to, sections, waived, weakened_policy};
use super::markdown_page::{Page, PageLimit};
use super::markup::{Markup, code, prose};
use super::model::{Form, WHOLE};
use super::plan_causes::{blocked, misplaced};
use super::plan_sections::{
    address_pools, destructive, pod_pools, ports, service_pins, unapproved,
};
use super::plan_services::other_effects;
use super::text::{count, grouped_digits};
use super::{
    Irreversible, comment_disruptive, comment_domains, comment_refusals, comment_services,
};
use ipam_core::model::Severity;
use ipam_plan::plan::{
    ChangeAction, ChangeDocument, FindingDocument, Intent, PlanDocument, TargetKind,
};

/// What a comment says beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'c> {
    /// The last commit of the pull request.
    pub commit: Option<&'c str>,
    /// Name of the cluster, as people call it.
    pub cluster: Option<&'c str>,
    /// Time of the comment, RFC 3339.
    pub time: &'c str,
    /// What makes the changes.
    pub occasion: Occasion,
    /// What `watch` or the operator writes even if the plan is refused.
    pub unattended: Option<Unattended<'c>>,
    /// How the job ends that shows the plan before a merge.
    pub check: Option<Check<'c>>,
}

/// What `watch` and the operator write of a plan without a person.
#[derive(Clone, Copy, Debug)]
pub struct Unattended<'c> {
    /// Number of changes that are written.
    pub changes: usize,
    /// The operator that runs on the cluster, by the holder of its Lease. A cluster file has no
    /// Leases, and a job may not be allowed to read them.
    pub operator: Option<&'c str>,
}

/// What makes the changes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The merge of the pull request.
    Merge,
    /// An apply of this plan.
    Apply,
}

/// The whole comment for a pull request, in Markdown.
pub fn comment(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    comment_below("", plan, around)
}

/// The comment below another text, both within the limit, and the legend of its words.
pub(super) fn comment_below(
    above: &str,
    plan: &PlanDocument,
    around: &Circumstances<'_>,
) -> String {
    let text = without_legend(above, plan, around);
    let legend = comment_verdict::legend(&text);
    text + &legend
}

fn without_legend(above: &str, plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let PlanDocument {
        format_version: _,
        intent,
        digest: _,
        source,
        selection: _,
        summary,
        waivers: _,
        refusals,
        weakened,
        changes,
        services,
        blocked: waiting,
        misplaced: outside,
        drift: _,
        findings,
    } = plan;
    let (worst_changes, other): (Vec<_>, Vec<_>) =
        changes.iter().partition(|change| change.is_destructive());
    let command = command("plan", &source.directory, " --show-all");
    let losses = comment_services::losses(plan);
    let (worst, told) = comment_risks::worst(plan, &losses, around.occasion);
    let (title, lines) = (title(plan, around), first_lines(plan, worst, around));
    let head = format!("{}{above}{title}{lines}", weakened_policy(weakened));
    let unchanged = match summary.unchanged {
        0 => String::new(),
        nodes => format!(" ({} unchanged)", grouped_digits(nodes)),
    };
    let made = closing_lines(plan, around);
    let tail = format!("{made}\nAll of it{unchanged}: {command}\n");
    let elsewhere = format!("run {command}");
    let limit = PageLimit::COMMENT.less(comment_verdict::LONGEST);
    let mut page = Page::new(limit, head, &tail).with_rest_in(&elsewhere);
    let short = Detail::Short;
    comment_refusals::refused(&mut page, refusals, told);
    comment_services::losing_services(&mut page, &losses, told.loss);
    destructive_changes(&mut page, &worst_changes, told);
    comment_disruptive::disruptive(&mut page, &other, told.change, *intent);
    page.listing(unapproved(summary, changes, short));
    if !told.blocked {
        page.listing(blocked(waiting, short));
    }
    let findings = comment_refusals::unrefused(findings, refusals);
    found_besides(&mut page, &findings, told.finding);
    page.listing(misplaced(outside, short).form(Form::Open, WHOLE));
    comment_domains::drift(&mut page, plan, around.occasion);
    comment_domains::by_pool_and_domain(&mut page, &other);
    page.listing(address_pools(&other));
    page.listing(pod_pools(&other));
    page.listing(ports(&other));
    page.listing(service_pins(&other));
    page.listing(other_effects(services));
    comment_disruptive::nodes_of_pools(&mut page, &other);
    page.finish()
}

/// The plan with every entry, below the first lines of its comment.
pub fn plan_report(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let losses = comment_services::losses(plan);
    let (worst, told) = comment_risks::worst(plan, &losses, around.occasion);
    let verdict = prose(&plan.verdict().line());
    let lines = first_lines(plan, worst, around);
    let weakened = weakened_policy(&plan.weakened);
    // The line ends a list of answers, which would go on with the entries.
    let head = format!("### {verdict}\n\n{weakened}{lines}\n---\n");
    let tail = closing_lines(plan, around);
    let mut page = Page::new(PageLimit::REPORT, head, &tail);
    let changes = plan.changes.iter();
    let lasting: Vec<_> = changes.filter(|one| !one.is_destructive()).collect();
    comment_disruptive::disruptive(&mut page, &lasting, told.change, plan.intent);
    sections(&mut page, plan, Detail::Full);
    let text = page.finish();
    let legend = comment_verdict::legend(&text);
    text + &legend
}

/// A single change that the first lines tell is not repeated. A pool has its diff.
fn destructive_changes(page: &mut Page<'_>, changes: &[&ChangeDocument], told: Told<'_>) {
    match changes {
        [only] if told.change.is_some_and(|told| std::ptr::eq(*only, told)) => {}
        [only] if only.kind == TargetKind::AddressPool => {
            let why = || format!(": {}", prose(&only.reason));
            let what = match only.action {
                ChangeAction::Create => format!("is created{}", why()),
                ChangeAction::Update if only.loses_addresses() => format!("shrinks{}", why()),
                ChangeAction::Update => format!("is changed{}", why()),
                // Without `why`: the reason of an adoption would repeat these words.
                ChangeAction::Adopt if only.loses_addresses() => {
                    "shrinks, and cilium-ipam manages it from then on".to_owned()
                }
                ChangeAction::Adopt => {
                    "is changed, and cilium-ipam manages it from then on".to_owned()
                }
                ChangeAction::Delete => format!("is deleted{}", why()),
                ChangeAction::Assign | ChangeAction::Release | ChangeAction::Pin => {
                    format!("{}{}", only.action, why())
                }
            };
            let heading = format!("**destructive:** pool {} {what}", code(&only.name));
            page.diff(&heading, &manifest_diff(only).join("\n"));
        }
        _ => page.listing(destructive(changes)),
    }
}

/// Findings, without a single one that the first lines tell.
fn found_besides(
    page: &mut Page<'_>,
    findings: &[FindingDocument],
    told: Option<&FindingDocument>,
) {
    match (findings, told) {
        ([only], Some(told)) if std::ptr::eq(only, told) => pointed_to(page, [only.rule.as_str()]),
        _ => found(page, findings, Detail::Short),
    }
}

/// The comment if the files are invalid, so that there is no plan.
pub fn comment_on_findings(
    directory: &str,
    findings: &[FindingDocument],
    around: &Circumstances<'_>,
) -> String {
    let errors = findings
        .iter()
        .filter(|one| one.severity == Severity::Error);
    let errors = errors.map(|one| one.count).sum();
    let command = command("validate", directory, "");
    let check = around.check.as_ref().map(Check::line);
    let check = check.map(|line| format!("\n{line}\n"));
    let head = format!(
        "### {}: no plan, the files are invalid: {}\n{}",
        code(directory),
        count(errors, "error"),
        check.unwrap_or_default()
    );
    let tail = format!(
        "\n{}\n\nAll of it: {command}\n",
        made_from(directory, None, around)
    );
    let elsewhere = format!("run {command}");
    let mut page = Page::new(PageLimit::COMMENT, head, &tail).with_rest_in(&elsewhere);
    found(&mut page, findings, Detail::Short);
    page.finish()
}

fn title(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let title = match plan.intent {
        Intent::Files => String::new(),
        Intent::Undo => "undo of ".to_owned(),
    };
    let cluster = around
        .cluster
        .map(|cluster| format!(" on {}", code(cluster)))
        .unwrap_or_default();
    format!(
        "### {title}{}{cluster}: {}\n",
        code(&plan.source.directory),
        prose(plan.verdict().sentence())
    )
}

/// What a merge writes, and the worst risks.
fn first_lines(plan: &PlanDocument, worst: Vec<String>, around: &Circumstances<'_>) -> String {
    let mut text = String::new();
    let consequence = comment_verdict::consequence(plan, around).to_string();
    let limited = prose(&headlines::by(plan.selection.as_ref())).to_string();
    let irreversible = (plan.summary.irreversible > 0).then(|| irreversible(plan));
    let all = [consequence].into_iter().chain(worst);
    let check = around.check.as_ref().map(Check::line);
    let all = all.chain(check).chain([limited]).chain(irreversible);
    for line in all.filter(|line| !line.is_empty()) {
        text.push_str(&format!("\n{line}\n"));
    }
    text
}

fn irreversible(plan: &PlanDocument) -> String {
    let why = match Irreversible::of(plan) {
        Irreversible::WriteOnce => {
            format!(
                "a node's {} can be written only once",
                code("spec.podCIDRs")
            )
        }
        other => prose(other.as_str()).to_string(),
    };
    let changes = count(plan.summary.irreversible, "change");
    format!("Once written, {changes} cannot be undone: {why}.")
}

/// The sources of the comment, and the commands to continue with.
fn closing_lines(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let directory = &plan.source.directory;
    let origin = made_from(directory, plan.source.revision.as_deref(), around);
    let waived = waived(&plan.waivers);
    let digest = code(&plan.digest);
    let next = match (plan.refusals.is_empty(), plan.changes.is_empty()) {
        (false, _) | (true, true) => String::new(),
        (true, false) => {
            let digits = plan.digest.get(..SHOWN_DIGITS).unwrap_or_default();
            let apply = self::command("apply", directory, &format!(" --expect-digest {digits}"));
            format!("\n\nTo apply exactly this by hand: {apply}")
        }
    };
    format!("\n{origin} · digest {digest}{waived}{next}\n")
}

fn made_from(directory: &str, revision: Option<&str>, around: &Circumstances<'_>) -> String {
    let Circumstances {
        commit,
        cluster,
        time,
        occasion: _,
        unattended: _,
        check: _,
    } = around;
    let commit = commit.or(revision);
    let at = commit.map(|id| format!(" at {}", code(id)));
    let cluster = cluster.map(|name| format!(" · cluster {}", code(name)));
    format!(
        "{}{}{} · {}",
        code(directory),
        at.unwrap_or_default(),
        cluster.unwrap_or_default(),
        code(time)
    )
}

/// A command for the reader to copy. A directory that the shell would read as more than a word is
/// not repeated.
pub(super) fn command(verb: &str, directory: &str, flags: &str) -> Markup {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let is_word = !directory.is_empty() && directory.bytes().all(is_plain);
    let directory = match is_word && !directory.starts_with('-') {
        true => directory,
        false => "DIR",
    };
    code(&format!("cilium-ipam {verb} {directory}{flags}"))
}
