//! What one recorded state of a cluster shows about the subject: the blocks that nodes show, the
//! addresses of machines and of Services.
//!
//! What an apply changed, from the report that it wrote.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Fact, Subject};
use crate::explain::Relation;
use ipam_cilium::lbipam::LbService;
use ipam_cilium::observed::{Author, HoldingField, Observed};
use ipam_core::net::Range;

/// The facts of one state, each with the program that wrote the field and the time, if the object
/// tells.
pub fn recorded(subject: &Subject, observed: &Observed) -> BTreeMap<Fact, Option<String>> {
    let mut state = State {
        subject,
        facts: BTreeMap::new(),
    };
    state.nodes(observed);
    state.cilium_nodes(observed);
    for (name, service) in &observed.services {
        let named = *subject == Subject::Service(name.to_string());
        for address in &service.ingress {
            let object = format!("Service/{name}");
            let field = "status.loadBalancer.ingress";
            state.add(named, object, field, Range::from(*address), None);
        }
        if named {
            state.hostnames(service);
        }
    }
    state.facts
}

struct State<'s> {
    subject: &'s Subject,
    facts: BTreeMap<Fact, Option<String>>,
}

impl State<'_> {
    /// Adds a fact if its object is the subject, or shares an address with it.
    fn add(
        &mut self,
        is_named: bool,
        object: String,
        field: &str,
        range: Range,
        writer: Option<String>,
    ) {
        let relation = self.subject.relation(&range);
        if is_named || relation.is_some() {
            let value = match range.first() == range.last() {
                true => range.first().to_string(),
                false => range.to_string(),
            };
            let fact = Fact {
                object,
                field: field.to_owned(),
                value,
                relation,
            };
            self.facts.insert(fact, writer);
        }
    }

    /// A hostname shares no address with another subject.
    fn hostnames(&mut self, service: &LbService) {
        for one in &service.hostnames {
            let fact = Fact {
                object: format!("Service/{}", service.name),
                field: "status.loadBalancer.ingress".to_owned(),
                value: one.address().to_string(),
                relation: None,
            };
            self.facts.insert(fact, None);
        }
    }

    fn nodes(&mut self, observed: &Observed) {
        for node in observed.nodes.values() {
            let named = *self.subject == Subject::Node(node.name.to_string());
            let object = || format!("Node/{}", node.name);
            for (field, block) in node.blocks_by_field() {
                let writer = writer(&node.authors, field);
                self.add(named, object(), field.as_str(), block.range(), writer);
            }
            for held in observed.holds(node).iter() {
                if held.field == HoldingField::Setting {
                    let field = held.field.as_str();
                    self.add(named, object(), field, held.block.range(), None);
                }
            }
            for address in &node.addresses {
                let range = Range::from(*address);
                self.add(named, object(), "status.addresses", range, None);
            }
        }
    }

    fn cilium_nodes(&mut self, observed: &Observed) {
        for node in observed.cilium_nodes.values() {
            let named = *self.subject == Subject::Node(node.name.to_string());
            let object = || format!("CiliumNode/{}", node.name);
            for block in &node.pod_cidrs {
                let writer = writer(&node.authors, HoldingField::CiliumNode);
                self.add(named, object(), "spec.ipam.podCIDRs", block.range(), writer);
            }
            for (pool, blocks) in &node.allocated {
                let of_pool = *self.subject == Subject::Pool(pool.clone());
                for block in blocks {
                    let field = format!("spec.ipam.pools.allocated of {pool}");
                    self.add(named || of_pool, object(), &field, block.range(), None);
                }
            }
        }
    }
}

fn writer(authors: &[Author], field: HoldingField) -> Option<String> {
    let author = authors.iter().find(|author| author.field == field)?;
    Some(format!("{} at {}", author.manager, author.time))
}

/// The report of an apply, as `apply -o json` prints it. Other fields are not read.
#[derive(Clone, Debug, Deserialize)]
pub struct ApplyReport {
    /// When the writes began.
    pub began: jiff::Timestamp,
    /// The commit of the files.
    #[serde(default)]
    pub commit: Option<String>,
    applied: Vec<Line>,
    unknown: Vec<Line>,
}

#[derive(Clone, Debug, Deserialize)]
struct Line {
    kind: String,
    name: String,
    action: String,
    before: Vec<String>,
    after: Vec<String>,
}

/// A change that an apply made, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AppliedDocument {
    /// When the apply began to write.
    pub time: String,
    /// Such as `Node/worker-7`.
    pub object: String,
    /// As in the plan, such as `assign`.
    pub action: String,
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// How the nearest of these values lies to the addresses in question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<Relation>,
    /// `unknown` if the server gave no answer to the write.
    pub outcome: &'static str,
    /// The commit of the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The file of the report.
    pub report: String,
}

impl ApplyReport {
    /// Reads a report.
    ///
    /// # Errors
    /// Fails if the text is no report.
    pub fn read(text: &str) -> serde_json::Result<ApplyReport> {
        serde_json::from_str(text)
    }

    /// The changes that are about the subject.
    pub fn about<'r>(
        &'r self,
        subject: &'r Subject,
        report: &'r str,
    ) -> impl Iterator<Item = AppliedDocument> + 'r {
        let applied = self.applied.iter().map(|line| (line, "applied"));
        let unknown = self.unknown.iter().map(|line| (line, "unknown"));
        let of_line = move |(line, outcome): (&Line, &'static str)| {
            let relation = line.relation(subject);
            (relation.is_some() || line.is_of(subject)).then(|| AppliedDocument {
                time: self.began.to_string(),
                object: format!("{}/{}", line.kind, line.name),
                action: line.action.clone(),
                before: line.before.clone(),
                after: line.after.clone(),
                relation,
                outcome,
                commit: self.commit.clone(),
                report: report.to_owned(),
            })
        };
        applied.chain(unknown).filter_map(of_line)
    }
}

impl Line {
    fn relation(&self, subject: &Subject) -> Option<Relation> {
        let values = self.after.iter().chain(&self.before);
        let mut ranges = values.filter_map(|text| text.parse::<Range>().ok());
        ranges.find_map(|range| subject.relation(&range))
    }

    fn is_of(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Node(name) => self.kind == "Node" && self.name == *name,
            Subject::Service(name) => self.kind == "Service" && self.name == *name,
            Subject::Pool(name) => self.kind.ends_with("IPPool") && self.name == *name,
            Subject::Addresses(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_the_changes_of_a_subject_alone() {
        let text = r#"{"format_version": "1.3", "began": "2026-03-05T09:00:00Z", "directory": "pools",
            "applied": [{"kind": "Node", "name": "n1", "action": "assign", "before": [], "after": ["10.20.7.0/24"]},
                {"kind": "Node", "name": "n2", "action": "release", "before": ["10.20.8.0/24"], "after": []}],
            "not_applied": [{"kind": "Node", "name": "n1", "action": "assign", "after": ["10.20.9.0/24"]}],
            "unknown": [{"kind": "Service", "name": "shop/web", "action": "pin", "before": [], "after": ["20.0.10.9"]}],
            "blocked": 0}"#;
        let report = ApplyReport::read(text).unwrap();
        let about = |text: &str| -> Vec<String> {
            let Ok(subject) = text.parse::<Subject>();
            let all = report.about(&subject, "r.json");
            all.map(|one| format!("{} {} {}", one.object, one.action, one.outcome))
                .collect()
        };
        assert_eq!(about("10.20.7.3"), ["Node/n1 assign applied"]);
        assert_eq!(about("n1"), ["Node/n1 assign applied"]);
        assert_eq!(about("10.20.8.0/25"), ["Node/n2 release applied"]);
        assert_eq!(about("shop/web"), ["Service/shop/web pin unknown"]);
        assert_eq!(about("20.0.10.9"), ["Service/shop/web pin unknown"]);
        // It was not written.
        assert!(about("10.20.9.1").is_empty());
        assert!(ApplyReport::read(r#"{"format_version": "1.3", "applied": []}"#).is_err());
    }
}
