//! Explains an address or a CIDR: its users, and the fields that show them.

use serde::Serialize;

use super::{FORMAT_VERSION, answers, requested_addresses};
use ipam_cilium::observed::operator_settings::ranges_key;
use ipam_cilium::observed::{HoldingField, Node, Observed};
use ipam_core::claims::{DepartedPart, Departure};
use ipam_core::net::{Family, Range};
use ipam_desired::Desired;
use ipam_plan::openstack::SubnetPools;
use ipam_plan::plan::{Plan, node_changes};

/// Meaning of a quarantine.
const QUARANTINED: &str = "available to other nodes later";

/// All objects that share an address with the range in question.
#[derive(Debug, Serialize)]
pub struct RangeExplanation {
    format_version: &'static str,
    /// The address or CIDR as given.
    pub subject: String,
    /// Objects that use it, may assign it, or exclude it.
    pub uses: Vec<Use>,
    /// Of an address of a LoadBalancer Service: who answers for it, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
}

/// A use of the range, or of a part of it.
#[derive(Debug, Serialize)]
pub struct Use {
    /// Such as `Node/worker-7`.
    pub object: String,
    /// The field of the object.
    pub field: String,
    pub range: String,
    pub relation: Relation,
    /// The effect of the field.
    pub meaning: &'static str,
}

ipam_core::text_enum! {
    /// How the range of a use lies to the range in question. The text is printed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Relation {
        /// The same range.
        Equal = "is it",
        /// A wider range.
        Contains = "contains it",
        /// A part of the range.
        Within = "lies in it",
        /// Neither contains the other.
        Overlaps = "overlaps it",
    }
}

impl Relation {
    /// How a range lies to the range in question, with which it shares an address.
    pub(crate) fn of(range: &Range, asked: &Range) -> Relation {
        match (range.contains(asked), asked.contains(range)) {
            (true, true) => Relation::Equal,
            (true, false) => Relation::Contains,
            (false, true) => Relation::Within,
            (false, false) => Relation::Overlaps,
        }
    }
}

impl RangeExplanation {
    /// Whether every use is of LoadBalancer pools and Services, and so none of nodes.
    pub(super) fn is_about_services(&self) -> bool {
        const OF_SERVICES: [&str; 3] = ["CiliumLoadBalancerIPPool", "Service", "ServiceAssignment"];
        let is_of_services = |one: &Use| {
            let (kind, _) = one.object.split_once('/').unwrap_or_default();
            OF_SERVICES.contains(&kind)
        };
        !self.uses.is_empty() && self.uses.iter().all(is_of_services)
    }
}

struct Search {
    range: Range,
    uses: Vec<Use>,
}

pub(super) fn explain(
    subject: &str,
    range: Range,
    desired: &Desired,
    observed: &Observed,
    plan: &Plan,
) -> RangeExplanation {
    let mut search = Search {
        range,
        uses: Vec::new(),
    };
    search.nodes(observed);
    search.cluster(observed);
    search.files(desired, observed);
    for requested in requested_addresses::all(desired, observed, plan) {
        search.add(
            requested.range,
            requested.object,
            requested.field,
            requested.meaning,
        );
    }
    for change in node_changes(&plan.changes) {
        for block in change
            .after
            .iter()
            .filter(|block| !change.before.contains(block))
        {
            search.add(
                block.range(),
                format!("Node/{}", change.node),
                change.edit.write_path().field(),
                "planned, not written yet",
            );
        }
    }
    RangeExplanation {
        format_version: FORMAT_VERSION,
        subject: subject.to_owned(),
        uses: search.uses,
        answers: answers::explain(range, observed),
    }
}

impl Search {
    fn add(&mut self, range: Range, object: String, field: impl ToString, meaning: &'static str) {
        if !range.overlaps(&self.range) {
            return;
        }
        let relation = Relation::of(&range, &self.range);
        self.uses.push(Use {
            object,
            field: field.to_string(),
            range: range.to_string(),
            relation,
            meaning,
        });
    }

    fn nodes(&mut self, observed: &Observed) {
        for node in observed.nodes.values() {
            self.node(node, observed);
        }
        let is_chained = observed.chaining_mode().is_some();
        for node in observed.cilium_nodes.values() {
            let lives = observed.pod_blocks_of(&node.name);
            let allocated = node.allocated.iter().flat_map(|(_, blocks)| blocks);
            for (block, field) in node
                .pod_cidrs
                .iter()
                .map(|block| (block, HoldingField::CiliumNode.as_str()))
                .chain(allocated.map(|block| (block, "spec.ipam.pools.allocated")))
            {
                let meaning = match (observed.knows_pod_blocks(), lives.contains(block)) {
                    (false, _) => "unknown whether Pods live here",
                    (true, true) if is_chained => "Cilium's own addresses of this node",
                    (true, true) => "Pods of this node live here",
                    (true, false) => "not used by this IPAM mode",
                };
                self.add(
                    block.range(),
                    format!("CiliumNode/{}", node.name),
                    field,
                    meaning,
                );
            }
        }
    }

    fn node(&mut self, node: &Node, observed: &Observed) {
        let object = || format!("Node/{}", node.name);
        let announced = observed
            .announces(node)
            .filter(|what| what.field == HoldingField::NodeSpec);
        let read = observed.read_from_node(node);
        for (field, block) in node.blocks_by_field() {
            let is_announced = announced.as_ref().is_some_and(|what| {
                field == HoldingField::NodeSpec && what.blocks.contains(&block)
            });
            let meaning = match (read.contains(&block), is_announced) {
                _ if !observed.knows_pod_blocks() => "unknown whether its agent uses it",
                (true, true) => "its agent uses it, and announces it",
                (true, false) => "its agent uses it",
                (false, true) => "announced by BGP, although its agent does not use it",
                (false, false) => "not read by its agent",
            };
            self.add(block.range(), object(), field, meaning);
        }
        for address in &node.addresses {
            self.add(
                Range::from(*address),
                object(),
                "status.addresses",
                "an address of the machine",
            );
        }
    }

    fn cluster(&mut self, observed: &Observed) {
        for range in &observed.service_ranges {
            self.add(
                *range,
                "ServiceCIDR".to_owned(),
                "spec.cidrs",
                "addresses of Services",
            );
        }
        for (name, range) in observed.load_balancer_ranges() {
            self.add(
                range,
                format!("CiliumLoadBalancerIPPool/{name}"),
                "spec.blocks",
                "given to Services of type LoadBalancer",
            );
        }
        for (name, service) in &observed.services {
            for address in &service.ingress {
                self.add(
                    Range::from(*address),
                    format!("Service/{name}"),
                    "status.loadBalancer.ingress",
                    "address of this Service",
                );
            }
        }
        for family in Family::BOTH {
            for block in observed.operator_ranges(family) {
                self.add(
                    block.range(),
                    "ConfigMap/cilium-config".to_owned(),
                    ranges_key(family),
                    "given to nodes by Cilium's operator",
                );
            }
        }
    }

    fn files(&mut self, desired: &Desired, observed: &Observed) {
        for pool in desired.pools.values() {
            for range in &pool.ranges {
                self.add(
                    range.block.range(),
                    format!("IPPool/{}", pool.name),
                    format!("spec.cidrs ({})", range.origin),
                    "given to nodes",
                );
            }
            for range in &pool.reserved {
                self.add(
                    *range,
                    format!("IPPool/{}", pool.name),
                    format!("spec.reserved ({})", pool.origin),
                    "reserved",
                );
            }
            for range in &pool.retiring {
                self.add(
                    range.block.range(),
                    format!("IPPool/{}", pool.name),
                    format!("spec.retiring ({})", range.origin),
                    "retiring: nodes keep their blocks, and no node gets another one",
                );
            }
        }
        for (pool, range) in SubnetPools::resolve(desired, observed).ranges() {
            self.add(
                range.range(),
                format!("IPPool/{}", pool.name),
                format!("spec.neutron.subnet ({})", pool.subnet_origin),
                "given to ports by Neutron",
            );
        }
        for pin in desired.pins.values() {
            for block in pin.blocks.iter() {
                self.add(
                    block.range(),
                    format!("NodeAssignment/{}", pin.node),
                    format!("spec.podCIDRs ({})", pin.origin),
                    "pinned to this node",
                );
            }
        }
        for pin in desired.service_pins.values() {
            for pinned in pin.addresses() {
                let field = format!("spec.ips ({})", pinned.origin);
                self.add(
                    Range::from(pinned.address),
                    format!("ServiceAssignment/{}", pin.service),
                    field,
                    "pinned to this Service",
                );
            }
        }
        for range in &desired.policy.excluded {
            self.add(
                *range,
                "Policy".to_owned(),
                "spec.excluded",
                "never assigned",
            );
        }
        self.claims(desired, observed);
    }

    fn claims(&mut self, desired: &Desired, observed: &Observed) {
        let claims = observed.claims_to_store(desired.policy.quarantine);
        for (block, claim) in &claims.in_flight {
            self.add(
                block.range(),
                format!("claim of node {}", claim.node),
                "ConfigMap/cilium-ipam-claims",
                "about to be written",
            );
        }
        for (block, quarantined) in &claims.quarantined {
            self.add(
                block.range(),
                format!("quarantined after node {}", quarantined.node),
                "ConfigMap/cilium-ipam-claims",
                QUARANTINED,
            );
        }
        let live = observed.live_claims(desired.policy.quarantine).quarantined;
        for (block, Departure { node, at }) in observed.departed.departed.blocks() {
            let is_quarantined = live.get(&block).is_some_and(|one| one.node == *node);
            self.add(
                block.range(),
                format!("deleted node {node}, gone since {at}"),
                format!("ConfigMap/{}", DepartedPart::of(block)),
                match is_quarantined {
                    true => QUARANTINED,
                    false => "the node used it before",
                },
            );
        }
    }
}
