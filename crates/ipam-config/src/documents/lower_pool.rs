//! Lowers an `IPPool` document to a [`Pool`] with its [`Selector`], or, with `spec.neutron`, to a
//! [`NeutronPool`].

use super::schema::{LabelSelector, SelectorOperator};
use super::schema_lb::{BlockSizes, IpPoolDocument, IpPoolSpec, NeutronSubnet, WrittenWhenFull};
use super::{Context, keys};
use crate::documents::schema::TextList;
use crate::documents::tree::Step;
use ipam_core::alloc::WhenFull;
use ipam_core::model::{
    Finding, Operator, Origin, PerFamily, PoolName, Requirement, Rule, Selector, Severity,
};
use ipam_core::net::{Block, BlockSize, Family, RangeIndex};
use ipam_core::neutron::Id;
use ipam_desired::{NeutronPool, Pool, PoolRange, PoolState};

pub(super) enum AnyPool {
    /// A pool that gives blocks to nodes.
    OfNodes(Pool),
    /// A pool that is a subnet of Neutron.
    OfNeutron(NeutronPool),
}

impl AnyPool {
    pub(super) fn name(&self) -> &PoolName {
        match self {
            AnyPool::OfNodes(pool) => &pool.name,
            AnyPool::OfNeutron(pool) => &pool.name,
        }
    }
}

pub(super) fn lower(context: &mut Context<'_>, written: IpPoolDocument) -> Option<AnyPool> {
    let origin = context.document.origin(&keys(["metadata", "name"]));
    let name = written.metadata.and_then(|metadata| metadata.name);
    let help = "write a name such as `rack-a`";
    let name = name.and_then(|name| context.name(&name, &origin, "not a name", help));
    let spec = written.spec?;
    // Even with faults in `spec.neutron`, the document is not a pool for nodes.
    if context.document.has(&keys(["spec", "neutron"])) {
        return lower_neutron_pool(context, name, origin, spec.neutron?).map(AnyPool::OfNeutron);
    }
    lower_of_nodes(context, name, origin, spec).map(AnyPool::OfNodes)
}

fn lower_of_nodes(
    context: &mut Context<'_>,
    name: Option<PoolName>,
    origin: Origin,
    spec: IpPoolSpec,
) -> Option<Pool> {
    let ranges = pool_ranges(context, "cidrs", &spec.cidrs.unwrap_or_default());
    let block_size = spec
        .block_size
        .map(|written| block_sizes(context, &written, &ranges))
        .unwrap_or(PerFamily::NONE);
    check_sizes(context, &ranges.read, &block_size);
    let selector = spec
        .node_selector
        .as_ref()
        .map(|selector| lower_selector(context, selector, &keys(["spec", "nodeSelector"])));
    let selector = selector.unwrap_or_default();
    let reserved = reserved_ranges(context, &spec.reserved, &ranges);
    let retiring = pool_ranges(context, "retiring", &spec.retiring).read;
    check_retiring(context, &retiring, &ranges);
    check_sizes(context, &retiring, &block_size);
    let state = if spec.disabled {
        PoolState::Disabled
    } else {
        PoolState::Active
    };
    let ranges = ranges.read;
    name.map(|name| Pool {
        name,
        origin,
        ranges,
        block_size,
        selector,
        priority: spec.priority,
        reserved,
        retiring,
        state,
        when_full: match spec.when_full {
            WrittenWhenFull::NextPool => WhenFull::NextPool,
            WrittenWhenFull::Wait => WhenFull::Wait,
        },
    })
}

/// The valid CIDRs of a pool.
struct Ranges {
    read: Vec<PoolRange>,
    completeness: Completeness,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Completeness {
    Complete,
    /// A CIDR is invalid, so a seemingly missing address may be in it.
    Incomplete,
}

fn pool_ranges(context: &mut Context<'_>, field: &str, cidrs: &TextList) -> Ranges {
    let path = keys(["spec", field]);
    let mut read = Vec::new();
    for (index, text) in cidrs.iter().enumerate() {
        let Some(text) = text else { continue };
        let origin = context
            .document
            .origin(&[path.clone(), vec![Step::Index(index)]].concat());
        match context.addresses::<Block>(text, &origin) {
            Ok(block) => read.push(PoolRange { block, origin }),
            Err(error) => context.block_fault(&error, &origin),
        }
    }
    let is_complete = context.is_sound(&path) && read.len() == cidrs.len();
    Ranges {
        read,
        completeness: if is_complete {
            Completeness::Complete
        } else {
            Completeness::Incomplete
        },
    }
}

fn block_sizes(
    context: &mut Context<'_>,
    written: &BlockSizes,
    ranges: &Ranges,
) -> PerFamily<BlockSize> {
    let path = keys(["spec", "blockSize"]);
    let origin = context.document.origin(&path);
    let mut sizes = PerFamily::NONE;
    for family in Family::BOTH {
        let length = match family {
            Family::Ipv4 => written.ipv4,
            Family::Ipv6 => written.ipv6,
        };
        let used = ranges
            .read
            .iter()
            .find(|range| range.block.family() == family);
        match (length, used) {
            (None, Some(range)) if context.is_sound(&path) => {
                let key = family.to_string().to_lowercase();
                let message = format!(
                    "`spec.cidrs` has {family}, but `spec.blockSize` gives no {family} block size"
                );
                let finding = Finding::new(Severity::Error, Rule("missing-block-size"), message)
                    .at(&origin, "no size for this family");
                context.findings.push(
                    finding
                        .and(&range.origin, "of this family")
                        .help(format!("add `{key}:` to `blockSize`")),
                );
            }
            (Some(length), _) => match BlockSize::new(family, length) {
                Ok(size) if used.is_some() => *sizes.get_mut(family) = Some(size),
                Ok(_) if ranges.completeness == Completeness::Incomplete => {}
                Ok(_) => context.fault(
                    "unused-block-size",
                    format!("a block size for {family}, but no {family} CIDR"),
                    &origin,
                    "unused",
                    "remove it, or add a CIDR of that family",
                ),
                Err(error) => context.fault(
                    "bad-block-size",
                    error.to_string(),
                    &origin,
                    "no such prefix length",
                    "write a prefix length such as 24",
                ),
            },
            (None, _) => {}
        }
    }
    sizes
}

fn check_sizes(context: &mut Context<'_>, ranges: &[PoolRange], sizes: &PerFamily<BlockSize>) {
    for range in ranges {
        let Some(size) = sizes.get(range.block.family()) else {
            continue;
        };
        if size.prefix_len() < range.block.prefix_len() {
            let message = format!("a {size} block is larger than {}", range.block);
            let help = format!(
                "use a block size of /{} or longer, or a wider CIDR",
                range.block.prefix_len()
            );
            context.fault(
                "block-larger-than-range",
                message,
                &range.origin,
                "no block fits",
                help,
            );
        }
    }
}

fn reserved_ranges(
    context: &mut Context<'_>,
    reserved: &TextList,
    ranges: &Ranges,
) -> Vec<ipam_core::net::Range> {
    let written = context.ranges(reserved, &keys(["spec", "reserved"]));
    let of_pool = RangeIndex::new(ranges.read.iter().map(|pool| (pool.block.range(), ())));
    for (range, origin) in &written {
        if ranges.completeness == Completeness::Complete
            && of_pool.overlapping(range).next().is_none()
        {
            let message = format!("`{range}` is reserved, but lies in no CIDR of the pool");
            let finding = Finding::new(Severity::Warning, Rule("reserved-outside-pool"), message);
            context.findings.push(
                finding
                    .at(origin, "outside the pool")
                    .help("remove it, or fix the address"),
            );
        }
    }
    written.into_iter().map(|(range, _)| range).collect()
}

fn check_retiring(context: &mut Context<'_>, retiring: &[PoolRange], ranges: &Ranges) {
    if ranges.completeness == Completeness::Incomplete {
        return;
    }
    let cidrs = RangeIndex::new(ranges.read.iter().map(|range| (range.block.range(), ())));
    for PoolRange { block, origin } in retiring {
        let range = block.range();
        let mut around = cidrs.overlapping(&range);
        if !around.any(|(cidr, ())| cidr.contains(&range)) {
            let message = format!("`{block}` is retiring, but lies in no CIDR of the pool");
            let help = "fix the address; if the pool does not have the range any more, remove it";
            context.fault(
                "retiring-outside-pool",
                message,
                origin,
                "outside the pool",
                help,
            );
        }
    }
}

/// Fields of pools for nodes, and why a Neutron pool must not have them.
const NODE_POOL_FIELDS: [(&str, &str); 8] = [
    ("cidrs", "its range is that of the subnet in Neutron"),
    (
        "blockSize",
        "Neutron assigns its addresses per port, so no node gets a block",
    ),
    (
        "nodeSelector",
        "no node gets a block of it, so there is nothing to select",
    ),
    (
        "priority",
        "no node gets a block of it, so its order does not matter",
    ),
    (
        "reserved",
        "no node gets a block of it, so all of it is kept free",
    ),
    ("retiring", "a Neutron pool assigns no blocks to nodes"),
    ("disabled", "it gives no blocks to nodes anyway"),
    ("whenFull", "a Neutron pool assigns no blocks to nodes"),
];

pub(super) fn lower_neutron_pool(
    context: &mut Context<'_>,
    name: Option<PoolName>,
    origin: Origin,
    written: NeutronSubnet,
) -> Option<NeutronPool> {
    for (field, why) in NODE_POOL_FIELDS {
        let path = keys(["spec", field]);
        if context.document.has(&path) {
            let message = format!("a pool with `spec.neutron` has no `spec.{field}`: {why}");
            let at = context.document.origin(&path);
            context.fault(
                "neutron-pool-field",
                message,
                &at,
                "not allowed here",
                format!("remove `{field}`"),
            );
        }
    }
    let network = id(context, "network", written.network);
    let subnet = id(context, "subnet", written.subnet);
    let subnet_origin = context.document.origin(&field_path("subnet"));
    Some(NeutronPool {
        name: name?,
        origin,
        network: network?,
        subnet: subnet?,
        subnet_origin,
    })
}

fn field_path(field: &str) -> Vec<Step> {
    keys(["spec", "neutron", field])
}

fn id(context: &mut Context<'_>, field: &'static str, text: Option<String>) -> Option<Id> {
    let text = text?;
    match text.trim().parse::<Id>() {
        Ok(id) => Some(id),
        Err(error) => {
            let message = format!("`spec.neutron.{field}` is {error}");
            let help = format!(
                "see `openstack {field} list`; a name is not accepted, because its meaning can change"
            );
            let origin = context.document.origin(&field_path(field));
            context.fault("bad-neutron-id", message, &origin, "not an id", help);
            None
        }
    }
}

pub(super) fn lower_selector(
    context: &mut Context<'_>,
    written: &LabelSelector,
    at: &[Step],
) -> Selector {
    let mut requirements = Vec::new();
    for (key, value) in &written.match_labels {
        let path = [at, &keys(["matchLabels", key])].concat();
        let operator = Operator::In([value.clone()].into());
        requirements.extend(requirement(context, key, operator, &path));
    }
    for (index, expression) in written.match_expressions.iter().enumerate() {
        let Some(expression) = expression else {
            continue;
        };
        let path = [at, &keys(["matchExpressions"]), &[Step::Index(index)]].concat();
        let values = expression.values.iter().cloned().collect();
        let operator = match expression.operator {
            SelectorOperator::In => Operator::In(values),
            SelectorOperator::NotIn => Operator::NotIn(values),
            SelectorOperator::Exists => Operator::Exists,
            SelectorOperator::DoesNotExist => Operator::DoesNotExist,
        };
        if matches!(operator, Operator::Exists | Operator::DoesNotExist)
            && !expression.values.is_empty()
        {
            let origin = context.document.origin(&[path, keys(["values"])].concat());
            let message = format!("`{}` takes no values", expression.operator.as_str());
            context.fault(
                "bad-selector",
                message,
                &origin,
                "values",
                "remove `values`",
            );
            continue;
        }
        requirements.extend(requirement(context, &expression.key, operator, &path));
    }
    Selector::all_of(requirements)
}

fn requirement(
    context: &mut Context<'_>,
    key: &str,
    operator: Operator,
    path: &[Step],
) -> Option<Requirement> {
    let help = "write it as in a Kubernetes label selector";
    match Requirement::new(key, operator) {
        Ok(requirement) => Some(requirement),
        Err(error) => {
            let origin = context.document.origin(path);
            context.fault(
                "bad-selector",
                error.to_string(),
                &origin,
                "cannot match a label",
                help,
            );
            None
        }
    }
}
