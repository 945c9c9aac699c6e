//! The outcome of an apply as the comment of a merged pull request, and drift as an issue.

use std::collections::BTreeSet;

use super::causes::grouped;
use super::comment::{Circumstances, command, comment_below};
use super::headlines;
use super::human::Detail;
use super::markdown_page::{Page, PageLimit};
use super::markup::{code, prose};
use super::model::{Form, Listing, Row, WHOLE, page as page_column};
use super::phrase::Phrase;
use super::plan_sections::short_name;
use super::text::{count, grouped_digits};
use ipam_core::text::by_name;
use ipam_plan::plan::{PlanDocument, TargetKind};

/// Longest reason in characters, so that the plan below it still fits.
const REASON: usize = 300;

/// Limit of the left changes that have a row.
const LEFT: usize = 20;

/// Causes of changes that are left, if nothing was applied.
const CAUSES: usize = 3;

/// How an apply ended.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'v> {
    /// All changes were applied; the counts in words.
    Applied(&'v str),
    /// Only a part of the changes was applied.
    InPart {
        why: &'v str,
        /// The counts in words.
        counts: &'v str,
        left: &'v [LeftChange],
    },
    /// No change was applied.
    NotApplied {
        why: &'v str,
        /// Empty if no write was tried.
        left: &'v [LeftChange],
    },
}

/// A change that was not made, or of which that is unknown.
#[derive(Clone, Debug)]
pub struct LeftChange {
    pub kind: TargetKind,
    pub name: String,
    pub after: Vec<String>,
    pub why: String,
}

/// The comment. If nothing was applied, it shows the plan of now.
pub fn apply_comment(
    directory: &str,
    verdict: Verdict<'_>,
    plan: Option<&PlanDocument>,
    around: &Circumstances<'_>,
) -> String {
    let title = code(directory);
    match verdict {
        Verdict::Applied(counts) => format!(
            "### {title}: applied as reviewed\n\n{counts}\n{}\n{}\n",
            restarts(plan, &[]),
            at(around)
        ),
        Verdict::InPart { why, counts, left } => {
            let head = format!(
                "### {title}: **applied in part**\n\n{counts} {}\n{}",
                reason(why),
                restarts(plan, left)
            );
            in_part(directory, head, left, around)
        }
        Verdict::NotApplied { why, left } => {
            let (why, causes) = (reason(why), causes(left));
            let text = format!("### {title}: **not applied**\n\n{why}\n{causes}");
            match plan {
                Some(plan) => {
                    // Another write that came first may have changed the plan.
                    let when = match left.is_empty() {
                        true => "of now",
                        false => "that the apply began with",
                    };
                    let above = format!("{text}\nThe plan {when}:\n\n");
                    comment_below(&above, plan, around)
                }
                None => format!("{text}\n{}\n", at(around)),
            }
        }
    }
}

/// What is left, and how to go on. The plan from before has another digest by now.
fn in_part(
    directory: &str,
    head: String,
    left: &[LeftChange],
    around: &Circumstances<'_>,
) -> String {
    let next = command("plan", directory, "");
    let tail = format!("\n{}\n\nThe plan of what is left: {next}\n", at(around));
    let mut page = Page::new(PageLimit::COMMENT, head, &tail);
    let row = |one: &LeftChange| {
        let name = Phrase::of(&short_name(one.kind, &one.name));
        Row::new([name, Phrase::values(&one.after), Phrase::prose(&one.why)])
    };
    let columns = ["object", "to", "why"].map(page_column);
    page.listing(
        Listing::new(Phrase::new("left"), "change", &columns)
            .counted(count(left.len(), "change"))
            .form(Form::Open, WHOLE)
            .first_rows(left.iter().collect(), LEFT, row),
    );
    page.finish()
}

/// Why changes were not made: the first causes, each with its first object.
fn causes(left: &[LeftChange]) -> String {
    let causes = grouped(left.iter().map(|one| (&*one.why, one)));
    let line = |(why, changes): &(&str, Vec<&LeftChange>)| {
        let more = match changes.len() - 1 {
            0 => String::new(),
            more => format!(" and {} more", grouped_digits(more)),
        };
        let name = code(&short_name(changes[0].kind, &changes[0].name));
        format!("\n- {name}{more}: {}", prose(&cut(why)))
    };
    let mut text: String = causes.iter().take(CAUSES).map(line).collect();
    let further = causes.iter().skip(CAUSES);
    let further: usize = further.map(|(_, changes)| changes.len()).sum();
    if further > 0 {
        text += &format!("\n- … and {}", count(further, "further change"));
    }
    match text.is_empty() {
        true => text,
        false => text + "\n",
    }
}

/// The agents that must restart, without those of the changes that are left; empty without any.
fn restarts(plan: Option<&PlanDocument>, left: &[LeftChange]) -> String {
    let left: BTreeSet<(TargetKind, &str)> =
        left.iter().map(|one| (one.kind, &*one.name)).collect();
    let changes = plan.into_iter().flat_map(|plan| &plan.changes);
    let late = changes.filter(|one| one.is_of_node() && one.is_disruptive());
    let late = late.filter(|one| !left.contains(&(one.kind, &*one.name)));
    let names = by_name(late, |change| &change.name);
    if names.is_empty() {
        return String::new();
    }
    let names = names.iter().map(|change| Phrase::of(&change.name));
    let names = Phrase::listed(names, " ", Detail::Short).markdown();
    format!(
        "\n**To do:** restart the Cilium agents of {names}. They read the new blocks only then.\n"
    )
}

fn reason(why: &str) -> String {
    let cut = cut(why);
    let upper = cut.chars().next().map(|c| c.to_uppercase().to_string());
    let rest = cut.chars().skip(1).collect::<String>();
    prose(&(upper.unwrap_or_default() + &rest)).to_string()
}

/// A reason on one line, cut to a limited length.
fn cut(why: &str) -> String {
    let line = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(REASON).collect();
    match cut.len() < line.len() {
        true => cut + " …",
        false => cut,
    }
}

fn at(around: &Circumstances<'_>) -> String {
    let Circumstances {
        commit,
        cluster,
        time,
        occasion: _,
        unattended: _,
        check: _,
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

/// Text of the drift issue when cluster and files agree again.
pub fn drift_is_gone(plan: &PlanDocument, around: &Circumstances<'_>) -> String {
    let who = match plan.selection {
        None => "The cluster".to_owned(),
        Some(_) => format!(
            "The cluster, {},",
            prose(&headlines::by(plan.selection.as_ref()))
        ),
    };
    format!(
        "{who} matches the files in {}. {}\n\n{}\n",
        code(&plan.source.directory),
        prose(&plan.verdict().line()),
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
        unattended: None,
        check: None,
    };

    #[test]
    fn a_reason_stays_text_and_short() {
        let why = format!("node `@team` in\n# way {}", "x".repeat(500));
        let verdict = Verdict::NotApplied {
            why: &why,
            left: &[],
        };
        let text = apply_comment("pools", verdict, None, &AROUND);
        assert!(
            text.starts_with("### `pools`: **not applied**\n\nNode `@team` in "),
            "{text}"
        );
        assert!(!text.contains("\n# way"), "{text}");
        assert!(text.contains('…') && text.len() < 600, "{text}");
    }

    #[test]
    fn refused_writes_are_told_by_cause() {
        let change = |name: &str, why: &str| LeftChange {
            kind: TargetKind::Node,
            name: name.to_owned(),
            after: Vec::new(),
            why: why.to_owned(),
        };
        let mut left = vec![change("a@x", "forbidden"), change("b", "forbidden")];
        left.extend(["c", "d", "e"].map(|name| change(name, name)));
        let verdict = Verdict::NotApplied {
            why: "5 of 5 changes not applied",
            left: &left,
        };
        let text = apply_comment("pools", verdict, None, &AROUND);
        let causes = "5 of 5 changes not applied\n\n- `a@x` and 1 more: forbidden\n- `c`: c\n- `d`: d\n- … and 1 further change\n\ncommit";
        assert!(text.contains(causes), "{text}");
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

    /// An old digest would be refused, and no applied change is to be applied again.
    #[test]
    fn a_part_is_told_with_what_is_left_and_without_the_plan_from_before() {
        let left: Vec<LeftChange> = (0..30)
            .map(|number| LeftChange {
                kind: TargetKind::Node,
                name: format!("n{number}@x"),
                after: vec!["10.20.0.0/24".to_owned()],
                why: "superseded: another `client` wrote it".to_owned(),
            })
            .collect();
        let verdict = Verdict::InPart {
            why: "30 of 31 changes not applied",
            counts: "Applied 1 change.",
            left: &left,
        };
        let text = apply_comment("pools", verdict, None, &AROUND);
        for part in [
            "### `pools`: **applied in part**\n\nApplied 1 change. 30 of 31 changes not applied\n",
            "<details open><summary>left, 30 changes</summary>",
            "| `n0@x` | `10.20.0.0/24` | superseded: another `client` wrote it |",
            "| … and 10 more |",
            "The plan of what is left: `cilium-ipam plan pools`\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("digest"), "{text}");
    }
}
