//! What one recorded state of a cluster shows about the subject: the blocks that nodes show, the
//! addresses of machines and of Services.

use std::collections::BTreeMap;

use super::{Fact, Subject};
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
