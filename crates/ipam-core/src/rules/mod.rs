//! The page of each rule code: the observation, its effect and the remedy. The texts are in the
//! folder `rules` of this crate. Must never know which check raises a code, or a terminal.

pub mod markdown;
mod parse;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;

use super::text::{joined, most_similar};

crate::text_enum! {
    /// The meaning of a code. The text is printed, and is a value in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RuleKind {
        /// A finding that blocks planning, or proves a fault.
        Error = "error",
        /// A finding that is probably a mistake.
        Warning = "warning",
        /// A finding that needs no action.
        Info = "info",
        /// The plan may not be applied as a whole.
        Refusal = "refusal",
        /// One change of a plan must wait.
        Blocked = "blocked",
        /// A node holds a block that the files would not give it.
        Misplaced = "misplaced",
        /// An upgrade of Cilium changes something for an object.
        Upgrade = "upgrade",
    }
}

crate::text_enum! {
    /// A command that reports codes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RuleCommand {
        Validate = "validate",
        Plan = "plan",
        Apply = "apply",
        Watch = "watch",
        Operator = "operator",
        Doctor = "doctor",
        Show = "show",
        Upgrade = "upgrade",
        PolicyTest = "policy test",
    }
}

crate::serde_as_text! {
    RuleKind: "kind of a rule",
    RuleCommand: "command",
}

/// The page of one code. The texts are Markdown, in lines of at most 98 columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RulePage {
    pub code: &'static str,
    /// The name of its family.
    pub family: &'static str,
    pub kinds: Vec<RuleKind>,
    /// The commands that report it.
    pub commands: Vec<RuleCommand>,
    /// One sentence, in one line.
    pub summary: String,
    pub seen: String,
    pub why: String,
    pub action: String,
}

impl RulePage {
    /// The parts of the page, each with its heading.
    pub fn sections(&self) -> [(&'static str, &str); 3] {
        [
            ("What was seen", &self.seen),
            ("Why it matters", &self.why),
            ("What to do", &self.action),
        ]
    }

    /// `error, warning; reported by plan, doctor`.
    pub fn place(&self) -> String {
        format!(
            "{}; reported by {}",
            joined(&self.kinds, ", "),
            joined(&self.commands, ", ")
        )
    }
}

/// Rules about one subject. In the reference, a family is one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFamily {
    /// Name of the family's text file.
    pub name: &'static str,
    pub title: String,
    pub about: String,
    /// Pages of the family, by code.
    pub pages: Vec<RulePage>,
}

/// The files of the families, in the order of the reference.
const FAMILIES: [(&str, &str); 12] = [
    ("reading", include_str!("../../rules/reading.txt")),
    ("documents", include_str!("../../rules/documents.txt")),
    ("pools", include_str!("../../rules/pools.txt")),
    ("cluster", include_str!("../../rules/cluster.txt")),
    ("doctor", include_str!("../../rules/doctor.txt")),
    ("refusals", include_str!("../../rules/refusals.txt")),
    ("policy-test", include_str!("../../rules/policy-test.txt")),
    ("blocked", include_str!("../../rules/blocked.txt")),
    ("misplaced", include_str!("../../rules/misplaced.txt")),
    (
        "load-balancer",
        include_str!("../../rules/load-balancer.txt"),
    ),
    ("openstack", include_str!("../../rules/openstack.txt")),
    ("upgrade", include_str!("../../rules/upgrade.txt")),
];

static CATALOGUE: LazyLock<Vec<RuleFamily>> = LazyLock::new(|| {
    FAMILIES
        .iter()
        .map(|(name, text)| parse::family(name, text))
        .collect()
});

static BY_CODE: LazyLock<BTreeMap<&'static str, &'static RulePage>> = LazyLock::new(|| {
    let pages = families().iter().flat_map(|family| &family.pages);
    pages.map(|page| (page.code, page)).collect()
});

/// Every family, in the order of the reference.
pub fn families() -> &'static [RuleFamily] {
    &CATALOGUE
}

/// Every page, by code.
pub fn pages() -> impl Iterator<Item = &'static RulePage> {
    BY_CODE.values().copied()
}

pub fn page(code: &str) -> Option<&'static RulePage> {
    BY_CODE.get(code).copied()
}

/// The code that a misspelt one probably means.
pub fn nearest(given: &str) -> Option<&'static str> {
    most_similar(given, BY_CODE.keys().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_is_complete() {
        for page in families().iter().flat_map(|family| &family.pages) {
            let RulePage {
                code,
                family: _,
                kinds,
                commands,
                summary,
                seen,
                why,
                action,
            } = page;
            assert!(!kinds.is_empty(), "{code} has no valid kind");
            assert!(!commands.is_empty(), "{code} has no command");
            for text in [summary, seen, why, action] {
                assert!(text.ends_with(['.', '`']), "{code}: `{text}`");
            }
            assert_eq!(summary.lines().count(), 1, "{code}: {summary}");
            assert_eq!(action.matches("```").count() % 2, 0, "{code}: {action}");
            let all = [summary, seen, why, action];
            let lines = all.iter().flat_map(|text| text.lines());
            // A row of a table has no second line.
            let lines = lines.filter(|line| !line.starts_with('|'));
            let longest = lines.map(|line| line.chars().count()).max();
            assert!(longest <= Some(98), "{code} has a line of {longest:?}");
        }
    }

    #[test]
    fn every_kind_and_command_is_known() {
        let items = |key: &str| {
            let lines = FAMILIES.iter().flat_map(|(_, text)| text.lines());
            let lists: Vec<&str> = lines.filter_map(|line| line.strip_prefix(key)).collect();
            let items = lists.into_iter().flat_map(|list| list.split(','));
            items.map(str::trim).collect::<BTreeSet<&str>>()
        };
        for command in items("where:") {
            assert!(command.parse::<RuleCommand>().is_ok(), "{command}");
        }
        // A YAML example has `kind: IPPool`, so its fields do not count.
        let is_document = |kind: &&str| kind.starts_with(char::is_uppercase);
        for kind in items("kind:").iter().filter(|kind| !is_document(kind)) {
            assert!(kind.parse::<RuleKind>().is_ok(), "{kind}");
        }
    }

    #[test]
    fn every_family_is_sorted_and_no_code_is_in_two() {
        let mut seen = BTreeSet::new();
        for family in families() {
            assert!(!family.title.is_empty(), "{}", family.name);
            assert!(family.about.ends_with('.'), "{}", family.name);
            assert!(!family.pages.is_empty(), "{}", family.name);
            assert!(
                family.pages.is_sorted_by_key(|page| page.code),
                "{}",
                family.name
            );
            for page in &family.pages {
                assert!(seen.insert(page.code), "{} has two pages", page.code);
            }
        }
    }

    #[test]
    fn a_slip_of_a_code_is_understood() {
        for (given, meant) in [
            ("pool-overlaps", "pool-overlap"),
            ("Pool-Overlap", "pool-overlap"),
            ("bad-cird", "bad-cidr"),
            ("wrong-typ", "wrong-type"),
        ] {
            assert_eq!(nearest(given), Some(meant), "{given}");
        }
        assert_eq!(nearest("zzz"), None);
        assert_eq!(nearest(""), None);
    }
}
