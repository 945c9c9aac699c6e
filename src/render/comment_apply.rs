//! The outcome of an apply as the comment of a merged pull request, and drift as an issue.

use super::comment::{Circumstances, comment_below};
use super::human::{Detail, limit};
use super::limited;
use super::markup::{Markup, code, prose};
use super::natural::by_name;
use super::text::grouped_digits;
use ipam_planner::plan::PlanDocument;

/// Longest reason in characters, so that the plan below it still fits.
const REASON: usize = 300;

/// How an apply ended.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'v> {
    /// All of it; the counts in words.
    Applied(&'v str),
    /// Only a part; the reason, and the counts in words.
    InPart(&'v str, &'v str),
    /// Nothing; the reason.
    NotApplied(&'v str),
}

/// The comment. If something is left, it shows the plan of now.
pub fn apply_comment(
    directory: &str,
    verdict: Verdict<'_>,
    plan: Option<&PlanDocument>,
    around: &Circumstances<'_>,
) -> String {
    let directory = code(directory);
    let restarts = plan.map(restarts).unwrap_or_default();
    let (text, of_when) = match verdict {
        Verdict::Applied(counts) => {
            return format!(
                "### {directory}: applied as reviewed\n\n{counts}\n{restarts}\n{}\n",
                at(around)
            );
        }
        Verdict::InPart(why, counts) => (
            format!(
                "### {directory}: **applied in part**\n\n{counts} {}\n",
                reason(why)
            ),
            "The plan before this apply:",
        ),
        Verdict::NotApplied(why) => (
            format!("### {directory}: **not applied**\n\n{}\n", reason(why)),
            "The plan of now:",
        ),
    };
    match plan {
        Some(plan) => {
            let above = format!("{text}\n{of_when}\n\n");
            comment_below(&above, plan, around)
        }
        None => format!("{text}\n{}\n", at(around)),
    }
}

/// The agents that must restart; empty without any.
fn restarts(plan: &PlanDocument) -> String {
    let changes = plan.changes.iter();
    let late = changes.filter(|one| one.kind == "Node" && one.hazard == "disruptive");
    let names: Vec<Markup> = by_name(late, |change| &change.name)
        .into_iter()
        .map(|change| code(&change.name))
        .collect();
    if names.is_empty() {
        return String::new();
    }
    let shown = limit(Detail::Short);
    let more = match names.len().saturating_sub(shown) {
        0 => String::new(),
        more => format!(" and {} more", grouped_digits(more)),
    };
    let names = Markup::joined(names.into_iter().take(shown), " ");
    format!(
        "\n**To do:** restart the Cilium agents of {names}{more}. They read the new blocks only then.\n"
    )
}

fn reason(why: &str) -> String {
    let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(REASON).collect();
    let more = if cut.len() < line.len() { " …" } else { "" };
    let upper = cut.chars().next().map(|c| c.to_uppercase().to_string());
    let rest = cut.chars().skip(1).collect::<String>();
    prose(&format!("{}{rest}{more}", upper.unwrap_or_default())).to_string()
}

fn at(around: &Circumstances<'_>) -> String {
    let Circumstances {
        commit,
        cluster,
        time,
        occasion: _,
    } = around;
    let commit = commit.map(|id| format!("commit {} · ", code(id)));
    let cluster = cluster.map(|name| format!("cluster {} · ", code(name)));
    let (commit, cluster) = (commit.unwrap_or_default(), cluster.unwrap_or_default());
    format!("{commit}{cluster}{}", code(time))
}

/// The text of an issue about a cluster that differs from the files.
pub fn drift_issue(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let above = "The cluster differs from the files in Git: it was changed, or the files were changed and not applied. Apply the plan below, or change the files. A later check updates this issue, and closes it when they agree.\n\n";
    comment_below(above, plan, around)
}

/// The text of that issue once they agree.
pub fn drift_is_gone(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let who = match plan.selection {
        None => "The cluster".to_owned(),
        Some(_) => format!(
            "The cluster, {},",
            prose(&limited::by(plan.selection.as_ref()))
        ),
    };
    format!(
        "{who} is as the files in {} say.\n\n{}\n",
        code(&plan.source.directory),
        at(around)
    )
}

#[cfg(test)]
mod tests {
    use super::super::comment::Occasion;
    use super::*;

    const AROUND: Circumstances<'_> = Circumstances {
        commit: Some("abc"),
        cluster: None,
        time: "2026-01-01T00:00:00Z",
        occasion: Occasion::Apply,
    };

    #[test]
    fn a_reason_stays_text_and_short() {
        let why = format!("node `@team` in\n# way {}", "x".repeat(500));
        let text = apply_comment("pools", Verdict::NotApplied(&why), None, &AROUND);
        assert!(
            text.starts_with("### `pools`: **not applied**\n\nNode `@team` in "),
            "{text}"
        );
        assert!(!text.contains("\n# way"), "{text}");
        assert!(text.contains('…') && text.len() < 600, "{text}");
    }

    #[test]
    fn an_apply_is_told_with_its_counts() {
        let text = apply_comment(
            "pools",
            Verdict::Applied("Applied 1 change."),
            None,
            &AROUND,
        );
        assert_eq!(
            text,
            "### `pools`: applied as reviewed\n\nApplied 1 change.\n\ncommit `abc` · `2026-01-01T00:00:00Z`\n"
        );
    }
}
