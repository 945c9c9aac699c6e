//! ClusterCIDRs of node-ipam-controller, as pools of nodes, with the labelled nodes that a
//! `v1.NodeSelector` means.
//!
//! Source: `pkg/apis/clustercidr/v1/types.go` and
//! `pkg/controller/ipam/multi_cidr_priority_queue.go` of node-ipam-controller at aa9996c.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::Value;

use super::calico::{have_common_nodes, ignored};
use super::object::{Alternatives, Object, Remark, RemarkName, any_of, flattened, texts};
use super::{ForeignPool, ForeignPools, POOL_LABEL, by_own_label};
use ipam_core::model::{Operator, PerFamily, PoolName, Requirement, RequirementError, Selector};
use ipam_core::net::{Block, BlockSize, Family, RangeIndex};
use ipam_desired::PoolState;

/// The group of ClusterCIDRs, and that of the alpha version in Kubernetes 1.25 to 1.28.
const GROUPS: [&str; 2] = ["networking.x-k8s.io", "networking.k8s.io"];

/// The least `perNodeHostBits` that the controller accepts.
const LEAST_HOST_BITS: u64 = 4;

/// A ClusterCIDR as a pool, and how nodes come to use it.
#[derive(Clone, Debug)]
struct ClusterCidr {
    pool: ForeignPool,
    nodes: Nodes,
}

/// How nodes come to use a ClusterCIDR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    /// The pool's selector chooses nodes; the number of requirements in its longest term.
    Selected(usize),
    /// A pin, or a label that a user sets, chooses nodes.
    ByPerson,
}

/// Reads ClusterCIDRs of `networking.x-k8s.io/v1`. Lists are opened. Each object may have any form.
pub fn node_ipam_controller(objects: &[Value]) -> ForeignPools {
    let mut remarks = Vec::new();
    let is_known =
        |object: &Object<'_>| GROUPS.contains(&object.group) && object.kind == "ClusterCIDR";
    // Nodes in the input are ignored: those of the cluster are read.
    let is_node = |object: &Object<'_>| object.group.is_empty() && object.kind == "Node";
    let (known, others): (Vec<Object<'_>>, Vec<Object<'_>>) = flattened(objects)
        .into_iter()
        .filter(|object| !is_node(object))
        .partition(is_known);
    remarks.extend(ignored(&others));
    let mut pools: BTreeMap<PoolName, ClusterCidr> = BTreeMap::new();
    for object in &known {
        match read(object) {
            Ok(pool) => {
                pools.entry(pool.pool.name.clone()).or_insert(pool);
            }
            Err(remark) => remarks.push(*remark),
        }
    }
    let mut pools = without_overlaps(pools.into_values().collect(), &mut remarks);
    give_priorities(&mut pools);
    if !pools.is_empty() {
        remarks.push(Remark::to_do(
            RemarkName::OtherAllocator,
            "node-ipam-controller",
            "it gives blocks of the same CIDRs: stop it before the first apply. Its finalizer keeps ClusterCIDRs that you delete"
                .to_owned(),
        ));
    }
    ForeignPools {
        pools: pools.into_iter().map(|one| one.pool).collect(),
        remarks,
        ..ForeignPools::default()
    }
}

/// # Errors
/// Fails with the reason if the controller gives no blocks of the object.
fn read(object: &Object<'_>) -> Result<ClusterCidr, Box<Remark>> {
    let refused = |problem: &str| Box::new(object.unreadable(problem));
    let name: PoolName = object
        .name()
        .parse()
        .map_err(|error| refused(&format!("{error}")))?;
    let host_bits = object
        .spec("perNodeHostBits")
        .as_u64()
        .filter(|bits| *bits >= LEAST_HOST_BITS)
        .ok_or_else(|| refused("`spec.perNodeHostBits` is not a number from 4 on"))?;
    let mut cidrs = Vec::new();
    let mut block_size = PerFamily::NONE;
    for (field, family) in [("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6)] {
        let text = object.spec_text(field);
        if text.is_empty() {
            continue;
        }
        let (cidr, size) = family_of(text, family, host_bits)
            .map_err(|problem| refused(&format!("`spec.{field}`: {problem}")))?;
        cidrs.push(cidr);
        *block_size.get_mut(family) = Some(size);
    }
    if cidrs.is_empty() {
        return Err(refused("it has neither `spec.ipv4` nor `spec.ipv6`"));
    }
    let mut pool = ForeignPool {
        name,
        cidrs,
        block_size,
        selector: Selector::default(),
        priority: 0,
        reserved: Vec::new(),
        state: PoolState::Active,
        remarks: Vec::new(),
    };
    let nodes = select(object, &mut pool);
    if !object.value["metadata"]["deletionTimestamp"].is_null() {
        pool.state = PoolState::Disabled;
        pool.remarks.push(Remark::inferred(
            RemarkName::PoolDisabled,
            object.about(),
            "it is being deleted: nodes keep their blocks and no node gets a new one".to_owned(),
        ));
    }
    Ok(ClusterCidr { pool, nodes })
}

fn family_of(text: &str, family: Family, host_bits: u64) -> Result<(Block, BlockSize), String> {
    let cidr = Block::lenient(text).map_err(|error| error.to_string())?;
    if cidr.family() != family {
        return Err(format!("{cidr} is of the other family"));
    }
    let length = u64::from(family.bits())
        .checked_sub(host_bits)
        .ok_or_else(|| format!("an address has fewer than {host_bits} bits"))?;
    let size = BlockSize::new(family, length).map_err(|error| error.to_string())?;
    match size.prefix_len() < cidr.prefix_len() {
        true => Err(format!("{cidr} is smaller than a block, which is a {size}")),
        false => Ok((cidr, size)),
    }
}

/// Gives the pool its selector. An inexpressible one is never approximated.
fn select(object: &Object<'_>, pool: &mut ForeignPool) -> Nodes {
    let about = object.about();
    let how = format!(
        "only pinned nodes use it, and nodes with the label {POOL_LABEL}={}",
        object.name()
    );
    match selected(object.spec("nodeSelector")) {
        Ok(nodes) => match nodes.selector {
            Some(selector) => {
                if selector != Selector::default() {
                    pool.remarks.push(Remark::inferred(
                        RemarkName::SelectorTranslated,
                        about,
                        format!("`nodeSelector` means {selector}"),
                    ));
                }
                pool.selector = selector;
                return Nodes::Selected(nodes.requirements);
            }
            None => pool.remarks.push(Remark::inferred(
                RemarkName::SelectsNothing,
                about,
                format!("`nodeSelector` selects no node: {how}"),
            )),
        },
        Err(reason) => pool.remarks.push(Remark::left_out(
            RemarkName::SelectorNotExpressible,
            about,
            format!("no LabelSelector means `nodeSelector`, because {reason}: {how}"),
        )),
    }
    match by_own_label(POOL_LABEL, pool.name.as_str()) {
        Some(selector) => pool.selector = selector,
        None => pool.state = PoolState::Disabled,
    }
    Nodes::ByPerson
}

/// Of two pools that overlap, only the first is kept.
fn without_overlaps(pools: Vec<ClusterCidr>, remarks: &mut Vec<Remark>) -> Vec<ClusterCidr> {
    let ranges = pools.iter().enumerate().flat_map(|(place, one)| {
        let cidrs = one.pool.cidrs.iter();
        cidrs.map(move |cidr| (cidr.range(), place))
    });
    let index = RangeIndex::new(ranges);
    let mut is_kept = vec![true; pools.len()];
    for (place, one) in pools.iter().enumerate() {
        let ranges = one.pool.cidrs.iter().map(|cidr| cidr.range());
        let mut others = ranges.flat_map(|range| index.overlapping(&range));
        if let Some((range, other)) = others.find(|(_, other)| *other < place && is_kept[*other]) {
            is_kept[place] = false;
            let other = &pools[*other].pool;
            let fate = match has_all_blocks(other, &one.pool) {
                true => "That pool has all its blocks, so nodes keep them",
                false => "Blocks that nodes hold of it are misplaced until a pool has them",
            };
            remarks.push(Remark::left_out(
                RemarkName::PoolsOverlap,
                format!("ClusterCIDR {}", one.pool.name),
                format!(
                    "it overlaps {range} of `{}`: it is not imported. {fate}",
                    other.name
                ),
            ));
        }
    }
    let kept = pools.into_iter().zip(is_kept);
    kept.filter_map(|(pool, is_kept)| is_kept.then_some(pool))
        .collect()
}

/// Whether each block of a pool is also one of another pool.
fn has_all_blocks(pool: &ForeignPool, of: &ForeignPool) -> bool {
    of.cidrs.iter().all(|cidr| {
        pool.cidrs.iter().any(|around| around.contains(*cidr))
            && pool.block_size.get(cidr.family()) == of.block_size.get(cidr.family())
    })
}

/// Keeps the controller's order of pools with common nodes: most requirements, fewest blocks,
/// smallest blocks, selector, CIDR. Ours is by requirements and name.
fn give_priorities(pools: &mut [ClusterCidr]) {
    let order = |one: &ClusterCidr| {
        let Nodes::Selected(requirements) = one.nodes else {
            return None;
        };
        let pool = &one.pool;
        let blocks = pool.cidrs.iter().filter_map(|cidr| {
            let size = pool.block_size.get(cidr.family())?;
            Some(size.prefix_len() - cidr.prefix_len())
        });
        let host_bits = pool
            .block_size
            .iter()
            .map(|size| size.family().bits() - size.prefix_len());
        Some((
            Reverse(requirements),
            blocks.min(),
            host_bits.min(),
            pool.selector.to_string(),
            pool.cidrs.first().map(ToString::to_string),
        ))
    };
    let mut places: Vec<usize> = (0..pools.len())
        .filter(|place| order(&pools[*place]).is_some())
        .collect();
    places.sort_by_cached_key(|place| order(&pools[*place]));
    let ours = |one: &ForeignPool| {
        (
            Reverse(one.selector.requirements().count()),
            one.name.clone(),
        )
    };
    let differs = places.iter().enumerate().any(|(index, one)| {
        let mut later = places[index + 1..].iter();
        later.any(|two| {
            let (one, two) = (&pools[*one].pool, &pools[*two].pool);
            ours(one) > ours(two) && have_common_nodes(&one.selector, &two.selector)
        })
    });
    if !differs {
        return;
    }
    for (priority, place) in (1..).zip(places.into_iter().rev()) {
        let pool = &mut pools[place].pool;
        pool.priority = priority;
        pool.remarks.push(Remark::inferred(
            RemarkName::PoolOrder,
            format!("ClusterCIDR {}", pool.name),
            "node-ipam-controller prefers most requirements, then fewest blocks, then smallest blocks: the priorities keep its order"
                .to_owned(),
        ));
    }
}

#[cfg(test)]
mod tests;

/// Why a NodeSelector has no LabelSelector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TermError {
    #[error("`matchFields` selects nodes by name, not by label")]
    Fields,
    #[error("`{key}` is compared with a number (`{operator}`)")]
    Number { key: String, operator: String },
    #[error("`{0}` is not an operator of Kubernetes")]
    Operator(String),
    #[error("it is not a NodeSelector")]
    Malformed,
    #[error(transparent)]
    Alternatives(#[from] Alternatives),
    #[error(transparent)]
    Requirement(#[from] RequirementError),
}

/// Nodes of a NodeSelector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SelectedNodes {
    /// The LabelSelector that selects exactly these; `None` if there are none.
    pub(super) selector: Option<Selector>,
    /// Requirements of the longest term.
    pub(super) requirements: usize,
}

/// # Errors
/// Fails if no LabelSelector selects exactly these nodes.
pub(super) fn selected(selector: &Value) -> Result<SelectedNodes, TermError> {
    let terms = match (selector.is_null(), selector["nodeSelectorTerms"].as_array()) {
        (true, _) => {
            return Ok(SelectedNodes {
                selector: Some(Selector::default()),
                requirements: 0,
            });
        }
        (false, Some(terms)) => terms,
        (false, None) => return Err(TermError::Malformed),
    };
    let mut alternatives = Vec::new();
    let mut requirements = 0;
    for term in terms {
        let fields = list(&term["matchFields"])?;
        let expressions = list(&term["matchExpressions"])?;
        if !fields.is_empty() {
            return Err(TermError::Fields);
        }
        // An empty term selects nothing.
        if expressions.is_empty() {
            continue;
        }
        requirements = requirements.max(expressions.len());
        let of_term: Vec<Requirement> = expressions
            .iter()
            .map(requirement)
            .collect::<Result<_, TermError>>()?;
        alternatives.push(Selector::all_of(of_term));
    }
    Ok(SelectedNodes {
        selector: any_of(alternatives)?,
        requirements,
    })
}

fn list(value: &Value) -> Result<&[Value], TermError> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(TermError::Malformed),
    }
}

fn requirement(expression: &Value) -> Result<Requirement, TermError> {
    let key = expression["key"].as_str().ok_or(TermError::Malformed)?;
    let values = || texts(&expression["values"]).map(str::to_owned).collect();
    let operator = match expression["operator"].as_str().unwrap_or_default() {
        "In" => Operator::In(values()),
        "NotIn" => Operator::NotIn(values()),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        operator @ ("Gt" | "Lt") => {
            return Err(TermError::Number {
                key: key.to_owned(),
                operator: operator.to_owned(),
            });
        }
        other => return Err(TermError::Operator(other.to_owned())),
    };
    Ok(Requirement::new(key, operator)?)
}
