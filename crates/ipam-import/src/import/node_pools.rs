//! Pools for the modes in which a node holds one block of each family.

use std::collections::BTreeSet;

use super::evidence::{self, RangeSource, add_holders};
use super::{
    ByLabel, Evidence, ImportRequest, Inferred, InferredPin, InferredPool, Obstacle, PinReason,
    shared_blocks,
};
use crate::proposal::{
    CidrSource, PoolNodes, Proposal, ProposalOptions, ProposedPool, Remark, Room, Split,
    Suggestion, held_by, in_other_use, labels, propose_beside, suggest_with,
};
use ipam_cilium::observed::Observed;
use ipam_core::model::{Operator, PerFamily, Requirement, Selector};
use ipam_core::net::{Block, BlockSize, Family, Range};
use ipam_desired::PoolState;

/// Labels that an obstacle names.
const NAMED: usize = 5;

pub(super) fn infer(observed: &Observed, request: &ImportRequest) -> Result<Inferred, Obstacle> {
    let suggestion = suggest_with(observed, Room::None);
    if suggestion.source == CidrSource::Usual {
        return Err(Obstacle::NothingToImport);
    }
    let (split, separated) = split(observed, request)?;
    let (cidrs, source) = match separated {
        Some(cidrs) => (cidrs, RangeSource::HeldBlocks),
        None => (
            suggestion.cidrs.clone(),
            RangeSource::from(suggestion.source),
        ),
    };
    // Settings hold as they are. CIDRs that are only inferred keep clear of other addresses.
    let others: Vec<Range> = match source {
        RangeSource::HeldBlocks => in_other_use(observed, None),
        _ => Vec::new(),
    };
    let unusable = match (&split, &request.by_label) {
        (Split::None, ByLabel::Found) => evidence::unusable(observed),
        _ => None,
    };
    let sizes = sizes(&cidrs, &suggestion);
    let options = ProposalOptions {
        cidrs,
        split,
        sizes,
    };
    let mut proposal = propose_beside(observed, &options, &others);
    let unusable = unusable.map(|(key, nodes)| Remark::UnusableValue(key, nodes));
    proposal.remarks.extend(unusable);
    Ok(inferred(observed, proposal, source, &options.cidrs))
}

/// How nodes are divided into pools, and the CIDRs if the label separates the blocks.
fn split(
    observed: &Observed,
    request: &ImportRequest,
) -> Result<(Split, Option<Vec<Block>>), Obstacle> {
    let separation = match &request.by_label {
        ByLabel::None => return Ok((Split::None, None)),
        ByLabel::Found => match evidence::find(observed) {
            Some(separation) => separation,
            None => return Ok((Split::None, None)),
        },
        ByLabel::Key(key) => {
            let mut nodes = observed.nodes.values();
            if !nodes.any(|node| node.labels.contains_key(key)) {
                let others = labels(observed).into_iter().take(NAMED).collect();
                return Err(Obstacle::UnknownLabel(key.clone(), others));
            }
            match evidence::by_key(observed, key) {
                Some(separation) => separation,
                None => return Ok((by_label(key), None)),
            }
        }
    };
    Ok((by_label(&separation.key), Some(separation.cidrs)))
}

fn by_label(key: &str) -> Split {
    Split::ByLabel {
        key: key.to_owned(),
        values: BTreeSet::new(),
    }
}

/// The suggested block sizes, without families that the CIDRs lack.
fn sizes(cidrs: &[Block], suggestion: &Suggestion) -> PerFamily<BlockSize> {
    let mut sizes = suggestion.sizes;
    for family in Family::BOTH {
        if cidrs.iter().all(|cidr| cidr.family() != family) {
            *sizes.get_mut(family) = None;
        }
    }
    sizes
}

/// `named` are the CIDRs of the source.
fn inferred(
    observed: &Observed,
    proposal: Proposal,
    source: RangeSource,
    named: &[Block],
) -> Inferred {
    let Proposal {
        pools,
        unassigned: _,
        public,
        remarks,
    } = proposal;
    let mut inferred = Inferred {
        pools: pools
            .into_iter()
            .map(|pool| of_proposed(pool, source, named))
            .collect(),
        public,
        remarks,
        ..Inferred::default()
    };
    add_holders(observed, &mut inferred.pools);
    pin_unusual(observed, &mut inferred);
    inferred
}

fn of_proposed(pool: ProposedPool, source: RangeSource, named: &[Block]) -> InferredPool {
    let ProposedPool {
        name,
        selected,
        cidrs,
        sizes,
        priority,
        state,
    } = pool;
    let source = match state {
        PoolState::Active => source,
        PoolState::Disabled => RangeSource::UnusualBlocks,
    };
    let label = match selected {
        PoolNodes::WithLabel { key, value } => Some((key, value)),
        PoolNodes::All | PoolNodes::Fallback => None,
    };
    let is_outside = |cidr: &&Block| !named.iter().any(|named| named.contains(**cidr));
    let outside = match source {
        RangeSource::UnusualBlocks => Vec::new(),
        _ => cidrs.iter().filter(is_outside).copied().collect(),
    };
    InferredPool {
        name,
        cidrs,
        sizes,
        selector: label.as_ref().map(with_label).unwrap_or_default(),
        priority,
        state,
        evidence: Evidence {
            label,
            outside,
            ..Evidence::new(source)
        },
    }
}

fn with_label((key, value): &(String, String)) -> Selector {
    let requirement = Requirement::new(key, Operator::In([value.clone()].into()));
    Selector::all_of(requirement.ok())
}

/// Pins the nodes with blocks of an unusual size, so that they keep them if their labels change.
fn pin_unusual(observed: &Observed, inferred: &mut Inferred) {
    let shared = shared_blocks(observed);
    let unusual = inferred.pools.iter();
    let unusual = unusual.filter(|pool| pool.evidence.source == RangeSource::UnusualBlocks);
    for pool in unusual {
        for name in &pool.evidence.nodes {
            let Some(node) = observed.nodes.get(name) else {
                continue;
            };
            let blocks = held_by(observed, node);
            if blocks.iter().any(|block| shared.contains(block)) {
                continue;
            }
            let pin = InferredPin {
                pool: pool.name.clone(),
                blocks,
                reason: PinReason::UnusualSize,
            };
            inferred.pins.insert(name.clone(), pin);
        }
    }
}
