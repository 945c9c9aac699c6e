//! Groups findings that have one cause, so that a cause is shown once.

use std::collections::BTreeMap;

use super::{Finding, ObjectRef, Origin, Rule, Severity};

/// Findings of one rule with one cause.
#[derive(Clone, Debug)]
pub struct FindingGroup<'f> {
    pub first: &'f Finding,
    pub further: Vec<&'f Finding>,
}

/// Findings have one cause if severity, rule, place and help are equal.
type Cause<'f> = (Severity, Rule, Option<&'f Origin>, &'f str);

/// Groups findings by cause, in the order of each group's first finding.
pub fn grouped(findings: &[Finding]) -> Vec<FindingGroup<'_>> {
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
            finding("b", "x").about_also(node("a")),
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
