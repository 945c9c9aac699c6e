//! A `NodeAssignment` document becomes a [`Pin`], once all pools are known.

use std::collections::BTreeMap;

use super::lower::{Context, keys};
use super::schema::NodeAssignmentDocument;
use super::structure::suggestion;
use super::tree::Step;
use super::{Pin, Pool};
use crate::model::{Finding, NodeName, Origin, PerFamily, PoolName, Rule, Severity};
use crate::net::Block;

/// A pin whose pool has not been looked up yet.
pub(super) struct WrittenPin {
    node: NodeName,
    pool: Option<(String, Origin)>,
    blocks: Vec<(Block, Origin)>,
    origin: Origin,
}

pub(super) fn lower(context: &mut Context<'_>, written: &NodeAssignmentDocument) -> Option<WrittenPin> {
    let origin = context.document.origin(&keys(["metadata", "name"]));
    let node = match written.metadata.name.parse::<NodeName>() {
        Ok(node) => Some(node),
        Err(error) => {
            context.fault("bad-name", error.to_string(), &origin, "not a node name", "write the name of the Node");
            None
        }
    };
    let pool = written.spec.pool.clone().map(|pool| (pool, context.document.origin(&keys(["spec", "pool"]))));
    let mut blocks: Vec<(Block, Origin)> = Vec::new();
    for (index, text) in written.spec.pod_cidrs.iter().enumerate() {
        let origin = context.document.origin(&[keys(["spec", "podCIDRs"]), vec![Step::Index(index)]].concat());
        match text.trim().parse::<Block>() {
            Ok(block) if blocks.iter().any(|(other, _)| other.family() == block.family()) => {
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
    node.filter(|_| !blocks.is_empty()).map(|node| WrittenPin { node, pool, blocks, origin })
}

/// The pin with its pool.
pub(super) fn resolve(pin: WrittenPin, pools: &BTreeMap<PoolName, Pool>) -> Result<Pin, Vec<Finding>> {
    let pool = find_pool(&pin, pools).map_err(|finding| vec![*finding])?;
    let findings: Vec<Finding> = pin.blocks.iter().filter_map(|block| fault_of_block(&pin, block, pool)).collect();
    if !findings.is_empty() {
        return Err(findings);
    }
    let blocks: PerFamily<Block> = pin.blocks.iter().map(|(block, _)| *block).collect();
    Ok(Pin { node: pin.node, pool: pool.name.clone(), blocks, origin: pin.origin })
}

fn error(rule: &'static str, message: String) -> Finding {
    Finding::new(Severity::Error, Rule(rule), message)
}

fn find_pool<'p>(pin: &WrittenPin, pools: &'p BTreeMap<PoolName, Pool>) -> Result<&'p Pool, Box<Finding>> {
    if let Some((name, origin)) = &pin.pool {
        let named = name.parse::<PoolName>().ok().and_then(|name| pools.get(&name));
        return named.ok_or_else(|| {
            let known: Vec<&str> = pools.keys().map(PoolName::as_str).collect();
            let message = format!("node `{}` is pinned into pool `{name}`, which does not exist", pin.node);
            Box::new(error("pin-pool-unknown", message).at(origin, "no such pool").help(suggestion(name, &known)))
        });
    }
    let (block, origin) = &pin.blocks[0];
    pools.values().find(|pool| pool.contains(*block)).ok_or_else(|| {
        let message = format!("node `{}` is pinned to {block}, which lies in no pool", pin.node);
        Box::new(
            error("pin-outside-pool", message)
                .at(origin, "in no pool")
                .help("widen a pool's `cidrs`, or pin a block of a pool"),
        )
    })
}

fn fault_of_block(pin: &WrittenPin, (block, origin): &(Block, Origin), pool: &Pool) -> Option<Finding> {
    if !pool.contains(*block) {
        let message = format!("node `{}` is pinned to {block}, which is not in pool `{}`", pin.node, pool.name);
        let finding = error("pin-outside-pool", message).at(origin, "outside the pool").and(&pool.origin, "the pool");
        return Some(finding.help("pin a block of that pool, or name the pool that has it"));
    }
    let size = pool.block_size.get(block.family())?;
    (block.size() != *size).then(|| {
        let message = format!("node `{}` is pinned to {block}, but pool `{}` gives {size} blocks", pin.node, pool.name);
        error("pin-size", message)
            .at(origin, format!("not a {size}"))
            .and(&pool.origin, "the pool")
            .help(format!("pin a {size}, or make a pool of its own for this size"))
    })
}
