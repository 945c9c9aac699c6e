//! Results of checks, with their place in the files.
//!
//! Groups findings that have one cause, so that a cause is shown once.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::ObjectRef;

crate::text_enum! {
    /// Severity of a finding. The text is printed and stands in JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// An error in the files, from which no plan is made.
        Error = "error",
        /// Probably a mistake; planning continues.
        Warning = "warning",
        /// Information that needs no action.
        Info = "info",
    }
}

crate::serde_as_text! { Severity: "severity" }

/// Stable code of a rule, in kebab-case. CI of users refers to it, so it never gets another
/// meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule(pub &'static str);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// A place in a file. Lines and columns count from 1; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Path as the user gave it, with `/`.
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
    pub bytes: ByteSpan,
}

/// Start and end as byte offsets. A tuple, because ranges have no order.
pub type ByteSpan = (usize, usize);

impl Origin {
    /// Start of a file that could not be parsed.
    pub fn whole_file(file: &Arc<str>) -> Origin {
        Origin {
            file: file.clone(),
            line: 1,
            column: 1,
            bytes: (0, 0),
        }
    }

    pub fn byte_range(&self) -> Range<usize> {
        self.bytes.0..self.bytes.1
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A further place in the files that belongs to a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    pub origin: Origin,
    pub text: String,
}

/// Result of a check. Ordered by severity, place and rule, so that lists are stable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    pub severity: Severity,
    /// Place of the fault, if it is in the files.
    pub origin: Option<Origin>,
    pub rule: Rule,
    pub subject: Option<ObjectRef>,
    pub other_subjects: Vec<ObjectRef>,
    /// The fault, as a sentence without a full stop.
    pub message: String,
    /// Explains the marked text at `origin`.
    pub label: String,
    /// How to fix the fault.
    pub help: String,
    pub related: Vec<Label>,
    /// Observations that prove it, each an object's field and its value.
    pub evidence: Vec<String>,
    /// Effect of the fault on the cluster.
    pub consequence: String,
}

impl Finding {
    /// A finding with a message. The other functions add the rest. Debug builds refuse a rule
    /// without a page in the catalogue.
    pub fn new(severity: Severity, rule: Rule, message: impl Into<String>) -> Finding {
        debug_assert!(
            crate::rules::page(rule.0).is_some(),
            "`{rule}` has no page in crates/ipam-core/rules"
        );
        Finding {
            severity,
            rule,
            message: message.into(),
            origin: None,
            subject: None,
            other_subjects: Vec::new(),
            label: String::new(),
            help: String::new(),
            related: Vec::new(),
            evidence: Vec::new(),
            consequence: String::new(),
        }
    }

    /// Sets the place of the finding, and the label at that place.
    #[must_use]
    pub fn at(mut self, origin: &Origin, label: impl Into<String>) -> Finding {
        self.origin = Some(origin.clone());
        self.label = label.into();
        self
    }

    /// Sets the subject: the object that the finding is about.
    #[must_use]
    pub fn about(mut self, subject: ObjectRef) -> Finding {
        self.subject = Some(subject);
        self
    }

    /// Adds subjects. The first becomes the main subject unless one is set. The renderer cuts a
    /// long list.
    #[must_use]
    pub fn about_all(mut self, subjects: impl IntoIterator<Item = ObjectRef>) -> Finding {
        let mut subjects = subjects.into_iter();
        if self.subject.is_none() {
            self.subject = subjects.next();
        }
        self.other_subjects.extend(subjects);
        self
    }

    pub fn subjects(&self) -> impl Iterator<Item = &ObjectRef> {
        self.subject.iter().chain(&self.other_subjects)
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Finding {
        self.help = help.into();
        self
    }

    /// Adds evidence to the finding.
    #[must_use]
    pub fn seen(mut self, evidence: impl IntoIterator<Item = String>) -> Finding {
        self.evidence.extend(evidence);
        self
    }

    /// Sets the consequence of the fault.
    #[must_use]
    pub fn causes(mut self, consequence: impl Into<String>) -> Finding {
        self.consequence = consequence.into();
        self
    }

    /// Adds a related place with its label to the finding.
    #[must_use]
    pub fn and(mut self, origin: &Origin, text: impl Into<String>) -> Finding {
        self.related.push(Label {
            origin: origin.clone(),
            text: text.into(),
        });
        self
    }
}

/// Findings of one rule with one cause.
#[derive(Clone, Debug)]
pub struct FindingGroup<'f> {
    pub first: &'f Finding,
    pub further: Vec<&'f Finding>,
}

/// Findings have one cause if severity, rule, place and help are equal.
type Cause<'f> = (Severity, Rule, Option<&'f Origin>, &'f str);

/// Groups findings by cause, in the order of each group's first finding.
pub fn grouped<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Vec<FindingGroup<'f>> {
    let mut groups: Vec<FindingGroup<'_>> = Vec::new();
    let mut places: BTreeMap<Cause<'_>, usize> = BTreeMap::new();
    for finding in findings {
        let cause = (
            finding.severity,
            finding.rule,
            finding.origin.as_ref(),
            finding.help.as_str(),
        );
        match places.get(&cause) {
            Some(place) => groups[*place].further.push(finding),
            None => {
                places.insert(cause, groups.len());
                groups.push(FindingGroup {
                    first: finding,
                    further: Vec::new(),
                });
            }
        }
    }
    groups
}

impl<'f> FindingGroup<'f> {
    pub fn findings(&self) -> impl Iterator<Item = &'f Finding> {
        std::iter::once(self.first).chain(self.further.iter().copied())
    }

    pub fn count(&self) -> usize {
        1 + self.further.len()
    }

    /// The subjects, each once, in order.
    pub fn subjects(&self) -> Vec<&'f ObjectRef> {
        let mut seen = std::collections::BTreeSet::new();
        self.findings()
            .flat_map(Finding::subjects)
            .filter(|subject| seen.insert(*subject))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cause_is_one_group_and_a_place_is_a_cause() {
        let node = |name: &str| ObjectRef::node(&name.parse().unwrap());
        let finding = |name: &str, help: &str| {
            Finding::new(
                Severity::Error,
                Rule("pool-overlap"),
                format!("about {name}"),
            )
            .about(node(name))
            .help(help)
        };
        let place = |line: u32| Origin {
            file: "a.yaml".into(),
            line,
            column: 1,
            bytes: (0, 1),
        };
        let findings = [
            finding("a", "x"),
            finding("b", "x").about_all([node("a")]),
            finding("c", "y"),
            finding("d", "x").at(&place(1), ""),
            finding("e", "x").at(&place(2), ""),
            finding("f", "x"),
        ];
        let groups = grouped(&findings);
        let names = |group: &FindingGroup<'_>| {
            group
                .subjects()
                .iter()
                .map(|subject| subject.name.clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            groups.iter().map(names).collect::<Vec<_>>(),
            ["a b f", "c", "d", "e"]
        );
        assert_eq!(
            groups.iter().map(FindingGroup::count).collect::<Vec<_>>(),
            [3, 1, 1, 1]
        );
    }
}
