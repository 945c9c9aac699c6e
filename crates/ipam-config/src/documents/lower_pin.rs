//! Lowers a `NodeAssignment` document to a [`Pin`] when all pools are known, also those that exist
//! but have faults.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, keys};
use crate::documents::messages::suggestion;
use crate::documents::schema::{NodeAssignmentDocument, TextList};
use crate::documents::tree::Step;
use ipam_core::model::{Finding, NodeName, Origin, PerFamily, PoolName, Rule, Severity};
use ipam_core::net::Block;
use ipam_desired::{Desired, Pin, Pool};

/// A pin whose pool is not looked up yet.
pub(super) struct WrittenPin {
    node: NodeName,
    pool: Option<(String, Origin)>,
    blocks: Vec<(Block, Origin)>,
    origin: Origin,
}

pub(super) fn lower(
    context: &mut Context<'_>,
    written: NodeAssignmentDocument,
) -> Option<WrittenPin> {
    let origin = context.document.origin(&keys(["metadata", "name"]));
    let name = written.metadata.and_then(|metadata| metadata.name);
    let help = "write the name of the Node";
    let node = name.and_then(|name| context.name(&name, &origin, "not a node name", help));
    let spec = written.spec?;
    let pool = spec
        .pool
        .map(|pool| (pool, context.document.origin(&keys(["spec", "pool"]))));
    let blocks = lower_blocks(context, &spec.pod_cidrs.unwrap_or_default());
    node.filter(|_| !blocks.is_empty()).map(|node| WrittenPin {
        node,
        pool,
        blocks,
        origin,
    })
}

fn lower_blocks(context: &mut Context<'_>, cidrs: &TextList) -> Vec<(Block, Origin)> {
    let mut blocks: Vec<(Block, Origin)> = Vec::new();
    for (index, text) in cidrs.iter().enumerate() {
        let Some(text) = text else { continue };
        let origin = context
            .document
            .origin(&[keys(["spec", "podCIDRs"]), vec![Step::Index(index)]].concat());
        match context.addresses::<Block>(text, &origin) {
            Ok(block)
                if blocks
                    .iter()
                    .any(|(other, _)| other.family() == block.family()) =>
            {
                let message = format!("a second {} block for one node", block.family());
                context.fault(
                    "pin-two-blocks",
                    message,
                    &origin,
                    "of a family that is pinned already",
                    "give one block for each family",
                );
            }
            Ok(block) => blocks.push((block, origin)),
            Err(error) => context.block_fault(&error, &origin),
        }
    }
    blocks
}

/// Maximum number of name comparisons for all pins together. Otherwise many wrong names would cost
/// pins times pools.
const COMPARISONS: usize = 200_000;

/// An index of all pools by name and by CIDR.
pub(super) struct Pools<'d> {
    desired: &'d Desired,
    incomplete: &'d IncompletePools,
    /// For each CIDR, the pool that has it; of several, the first by name.
    by_cidr: BTreeMap<Block, &'d Pool>,
    names: Vec<&'d str>,
    /// The help for each unknown pool name.
    suggestions: BTreeMap<String, String>,
}

impl<'d> Pools<'d> {
    pub(super) fn new(desired: &'d Desired, incomplete: &'d IncompletePools) -> Pools<'d> {
        let mut by_cidr = BTreeMap::new();
        for pool in desired.pools.values() {
            for range in &pool.ranges {
                by_cidr.entry(range.block).or_insert(pool);
            }
        }
        let names = desired.pools.keys().map(PoolName::as_str).collect();
        Pools {
            desired,
            incomplete,
            by_cidr,
            names,
            suggestions: BTreeMap::new(),
        }
    }

    /// The pin with its pool; `None` if its pool is incomplete.
    pub(super) fn resolve(&mut self, pin: WrittenPin) -> Result<Option<Pin>, Vec<Finding>> {
        if let Some(finding) = into_neutron(&pin, self.desired) {
            return Err(vec![finding]);
        }
        let Some(pool) = self.find(&pin).map_err(|finding| vec![*finding])? else {
            return Ok(None);
        };
        let fault = |block| fault_of_block(&pin, block, pool, self.incomplete);
        let findings: Vec<Finding> = pin.blocks.iter().filter_map(fault).collect();
        if !findings.is_empty() {
            return Err(findings);
        }
        let blocks: PerFamily<Block> = pin.blocks.iter().map(|(block, _)| *block).collect();
        Ok(Some(Pin {
            node: pin.node,
            pool: pool.name.clone(),
            blocks,
            origin: pin.origin,
        }))
    }

    fn find(&mut self, pin: &WrittenPin) -> Result<Option<&'d Pool>, Box<Finding>> {
        if let Some((name, origin)) = &pin.pool {
            let pool = name
                .parse::<PoolName>()
                .ok()
                .and_then(|name| self.desired.pools.get(&name));
            if pool.is_some() || self.incomplete.may_exist(name) {
                return Ok(pool);
            }
            let message = format!(
                "node `{}` is pinned into pool `{name}`, which does not exist",
                pin.node
            );
            return Err(Box::new(
                error("pin-pool-unknown", message)
                    .at(origin, "no such pool")
                    .help(self.suggest(name)),
            ));
        }
        let (block, origin) = &pin.blocks[0];
        let pool = block
            .enclosing()
            .filter_map(|block| self.by_cidr.get(&block).copied())
            .min_by_key(|pool| &pool.name);
        if pool.is_some() || !self.incomplete.is_empty() {
            return Ok(pool);
        }
        let message = format!(
            "node `{}` is pinned to {block}, which is in no pool",
            pin.node
        );
        let help = "widen a pool's `cidrs`, or pin a block of a pool";
        Err(Box::new(
            error("pin-outside-pool", message)
                .at(origin, "in no pool")
                .help(help),
        ))
    }

    fn suggest(&mut self, name: &str) -> String {
        if self.names.is_empty() {
            return "declare the pool; there are no pools yet".to_owned();
        }
        if let Some(known) = self.suggestions.get(name) {
            return known.clone();
        }
        if self.suggestions.len() >= COMPARISONS / self.names.len() {
            return "declare the pool, or correct the name".to_owned();
        }
        let suggestion = suggestion(name, &self.names);
        self.suggestions.insert(name.to_owned(), suggestion.clone());
        suggestion
    }
}

fn error(rule: &'static str, message: String) -> Finding {
    Finding::new(Severity::Error, Rule(rule), message)
}

/// Refuses a pin into a Neutron subnet: Neutron assigns its addresses per port.
fn into_neutron(pin: &WrittenPin, desired: &Desired) -> Option<Finding> {
    let (name, origin) = pin.pool.as_ref()?;
    let pool = desired.neutron_pools.get(&name.parse::<PoolName>().ok()?)?;
    let message = format!(
        "node `{}` is pinned into pool `{}`, which is a subnet of Neutron and gives no blocks to nodes",
        pin.node, pool.name
    );
    let finding = error("pin-neutron-pool", message)
        .at(origin, "gives no blocks")
        .and(&pool.origin, "the pool");
    Some(finding.help("pin a block of a pool with `cidrs`, or remove the pin"))
}

fn fault_of_block(
    pin: &WrittenPin,
    (block, origin): &(Block, Origin),
    pool: &Pool,
    incomplete: &IncompletePools,
) -> Option<Finding> {
    if !pool.contains(*block) {
        if incomplete.contains(pool.name.as_str()) {
            return None;
        }
        let message = format!(
            "node `{}` is pinned to {block}, which is not in pool `{}`",
            pin.node, pool.name
        );
        let finding = error("pin-outside-pool", message)
            .at(origin, "outside the pool")
            .and(&pool.origin, "the pool");
        return Some(finding.help("pin a block of that pool, or name the pool that has it"));
    }
    let size = pool.block_size.get(block.family())?;
    (block.size() != *size).then(|| {
        let message = format!(
            "node `{}` is pinned to {block}, but pool `{}` gives {size} blocks",
            pin.node, pool.name
        );
        error("pin-size", message)
            .at(origin, format!("not a {size}"))
            .and(&pool.origin, "the pool")
            .help(format!(
                "pin a {size}, or make a pool of its own for this size"
            ))
    })
}

#[derive(Debug, Default)]
pub(super) struct IncompletePools {
    names: BTreeSet<String>,
    unnamed: usize,
}

impl IncompletePools {
    /// Adds a document that is, or may be, a pool. `name` is `None` if it cannot be read.
    pub(super) fn add(&mut self, name: Option<&str>) {
        match name {
            Some(name) => {
                self.names.insert(name.to_owned());
            }
            None => self.unnamed += 1,
        }
    }

    /// Whether parts of the pool with this name are missing.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Whether a pool with this name may exist although it was not read.
    pub(super) fn may_exist(&self, name: &str) -> bool {
        self.unnamed > 0 || self.contains(name)
    }

    /// Whether every pool was read completely.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.unnamed == 0
    }
}
