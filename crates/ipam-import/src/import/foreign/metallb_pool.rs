//! One `IPAddressPool` of MetalLB: its addresses, and the Services that it serves.
//!
//! Source: `internal/config/config.go` and `internal/allocator/allocator.go` of MetalLB 0.15.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::metallb_controller::{Controller, EmptyAllocation};
use super::object::{Object, Remark, RemarkName, any_of, selectors, texts};
use super::{ADDRESS_POOL_LABEL, ForeignAddressPool, by_own_label};
use ipam_cilium::lbipam::{AddressBlock, AddressPoolManifest, AddressPoolSpec, WrittenSelector};
use ipam_core::model::{AddressPoolName, Labels, Operator, Requirement, Selector};
use ipam_core::net::{Address, Block, Family, Range};

/// The most ranges of one pool without its addresses `.0` and `.255`, those of a `/12`.
const MOST_RANGES: usize = 4096;

/// A pool of MetalLB.
#[derive(Clone, Debug)]
pub(super) struct MetalPool {
    pub(super) pool: ForeignAddressPool,
    /// Labels of the object, by which advertisements select pools.
    pub(super) labels: Labels,
    /// Services that get addresses of it by themselves; `None` if none do.
    pub(super) automatic: Option<Selector>,
    /// Rank among pools with `serviceAllocation`: lower wins, and 0 comes last. Pools without it
    /// have none, and come after all.
    pub(super) rank: Option<u64>,
}

/// # Errors
/// Fails if no address or not the name can be imported, with the reason.
pub(super) fn read(
    object: &Object<'_>,
    controller: &Controller<'_>,
) -> Result<MetalPool, Box<Remark>> {
    let name: AddressPoolName = object
        .name()
        .parse()
        .map_err(|error| Box::new(object.unreadable(&format!("{error}"))))?;
    let mut remarks = Vec::new();
    let blocks = blocks(object, &mut remarks);
    if blocks.is_empty() {
        return Err(Box::new(object.unreadable("it has no valid address")));
    }
    let automatic = services(object, controller, &mut remarks);
    let mut spec = AddressPoolSpec {
        // MetalLB gives the first and the last address of a CIDR, too.
        allow_first_last: blocks
            .iter()
            .any(|block| block.cidr.is_some())
            .then(|| "Yes".to_owned()),
        blocks,
        ..AddressPoolSpec::default()
    };
    match &automatic {
        Some(selector) if *selector == Selector::default() => {}
        Some(selector) => spec.service_selector = Some(selector.into()),
        None => match by_own_label(ADDRESS_POOL_LABEL, name.as_str()) {
            Some(selector) => spec.service_selector = Some(WrittenSelector::from(&selector)),
            None => spec.disabled = true,
        },
    }
    let written = object.value["metadata"]["labels"].as_object();
    let allocation = object.spec("serviceAllocation");
    Ok(MetalPool {
        pool: ForeignAddressPool {
            name,
            manifest: AddressPoolManifest {
                spec,
                ..AddressPoolManifest::default()
            },
            remarks,
        },
        labels: written
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
        automatic,
        rank: allocation
            .is_object()
            .then(|| allocation["priority"].as_u64().unwrap_or_default()),
    })
}

fn blocks(object: &Object<'_>, remarks: &mut Vec<Remark>) -> Vec<AddressBlock> {
    let avoids_buggy = object.is_set("avoidBuggyIPs");
    let mut blocks = Vec::new();
    for text in texts(object.spec("addresses")) {
        let (range, cidr) = match addresses(text) {
            Ok(found) => found,
            Err(problem) => {
                remarks.push(Remark::left_out(
                    RemarkName::AddressInvalid,
                    object.about(),
                    format!("{problem}: these addresses are not imported"),
                ));
                continue;
            }
        };
        let parts = match avoids_buggy && range.family() == Family::Ipv4 {
            true => without_buggy(&range),
            false => None,
        };
        match (parts, cidr) {
            (Some(parts), _) => {
                remarks.push(Remark::inferred(
                    RemarkName::BuggyAddresses,
                    object.about(),
                    format!(
                        "`avoidBuggyIPs: true`: {text} without the addresses that end in .0 or .255"
                    ),
                ));
                blocks.extend(parts);
            }
            (None, Some(cidr)) => {
                if avoids_buggy && range.family() == Family::Ipv4 {
                    remarks.push(Remark::left_out(
                        RemarkName::BuggyAddresses,
                        object.about(),
                        format!("`avoidBuggyIPs: true`: {text} is too wide to leave out the addresses that end in .0 or .255. Divide it"),
                    ));
                }
                blocks.push(AddressBlock {
                    cidr: Some(cidr.to_string()),
                    ..AddressBlock::default()
                });
            }
            (None, None) => blocks.push(start_stop(range.first(), range.last())),
        }
    }
    blocks
}

/// The addresses of a CIDR or of `first-last`.
fn addresses(text: &str) -> Result<(Range, Option<Block>), String> {
    if text.contains('-') {
        let range: Range = text.parse().map_err(|error| format!("{error}"))?;
        return Ok((range, None));
    }
    // MetalLB refuses an address without a prefix length. The pool means that address.
    let with_length = match text.parse::<Address>().map(IpAddr::from) {
        Ok(IpAddr::V4(_)) => format!("{text}/32"),
        Ok(IpAddr::V6(_)) => format!("{text}/128"),
        Err(_) => text.to_owned(),
    };
    let block = Block::lenient(&with_length).map_err(|error| error.to_string())?;
    Ok((block.range(), Some(block)))
}

/// The range without addresses that end in 0 or 255; `None` if it has too many parts.
fn without_buggy(range: &Range) -> Option<Vec<AddressBlock>> {
    let (IpAddr::V4(first), IpAddr::V4(last)) = (range.first(), range.last()) else {
        return None;
    };
    let (first, last) = (first.to_bits(), last.to_bits());
    let (low, high) = (first >> 8, last >> 8);
    if usize::try_from(high - low).ok()? >= MOST_RANGES {
        return None;
    }
    let parts = (low..=high).filter_map(|group| {
        let start = first.max((group << 8) + 1);
        let stop = last.min((group << 8) + 254);
        let address = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
        (start <= stop).then(|| start_stop(address(start), address(stop)))
    });
    Some(parts.collect())
}

fn start_stop(start: IpAddr, stop: IpAddr) -> AddressBlock {
    AddressBlock {
        cidr: None,
        start: Some(start.to_string()),
        stop: Some(stop.to_string()),
    }
}

/// The Services that get addresses of the pool by themselves; `None` if none shall.
fn services(
    object: &Object<'_>,
    controller: &Controller<'_>,
    remarks: &mut Vec<Remark>,
) -> Option<Selector> {
    let about = object.about();
    let how = format!(
        "only Services with the label {ADDRESS_POOL_LABEL}={} get addresses of it",
        object.name()
    );
    if object.spec("autoAssign").as_bool() == Some(false) {
        remarks.push(Remark::inferred(
            RemarkName::NotAutomatic,
            &about,
            format!("`autoAssign: false`: {how}"),
        ));
        return None;
    }
    let allocation = object.spec("serviceAllocation");
    let has_namespace_selectors = allocation["namespaceSelectors"]
        .as_array()
        .is_some_and(|selectors| !selectors.is_empty());
    if has_namespace_selectors {
        remarks.push(Remark::left_out(
            RemarkName::ServiceAllocation,
            &about,
            format!("`namespaceSelectors`: Cilium knows the name of a Service's namespace, not its labels: {how}"),
        ));
        return None;
    }
    if is_empty(allocation) {
        let text = match controller.empty_allocation() {
            EmptyAllocation::All => return Some(Selector::default()),
            EmptyAllocation::Nothing => {
                remarks.push(Remark::inferred(
                    RemarkName::ServiceAllocation,
                    &about,
                    format!("`serviceAllocation` without selectors serves no Service before MetalLB 0.15.0: {how}"),
                ));
                return None;
            }
            EmptyAllocation::Unknown => {
                "`serviceAllocation` without selectors serves all Services since MetalLB 0.15.0, and none before: the pool serves all"
            }
        };
        remarks.push(Remark::inferred(
            RemarkName::ServiceAllocation,
            &about,
            text.to_owned(),
        ));
        return Some(Selector::default());
    }
    match allocated(allocation) {
        Ok(Some(selector)) => {
            if selector != Selector::default() {
                remarks.push(Remark::inferred(
                    RemarkName::ServiceAllocation,
                    &about,
                    format!("`serviceAllocation` means {selector}"),
                ));
            }
            Some(selector)
        }
        Ok(None) => {
            remarks.push(Remark::inferred(
                RemarkName::ServiceAllocation,
                &about,
                format!("`serviceAllocation` selects no Service: {how}"),
            ));
            None
        }
        Err(problem) => {
            remarks.push(Remark::left_out(
                RemarkName::ServiceAllocation,
                &about,
                format!("no LabelSelector means `serviceAllocation`, because {problem}: {how}"),
            ));
            None
        }
    }
}

/// Whether a `serviceAllocation` exists, and has neither namespaces nor selectors.
fn is_empty(allocation: &serde_json::Value) -> bool {
    let has_items = |key: &str| {
        let items = allocation[key].as_array();
        items.is_some_and(|items| !items.is_empty())
    };
    let keys = ["namespaces", "namespaceSelectors", "serviceSelectors"];
    allocation.is_object() && !keys.into_iter().any(has_items)
}

/// The Services of a `serviceAllocation` without `namespaceSelectors`; `None` if there are none.
fn allocated(allocation: &serde_json::Value) -> Result<Option<Selector>, String> {
    let of_services = selectors(&allocation["serviceSelectors"])?;
    let of_services = match of_services.is_empty() {
        true => Some(Selector::default()),
        false => any_of(of_services).map_err(|error| error.to_string())?,
    };
    let namespaces: BTreeSet<String> = texts(&allocation["namespaces"])
        .map(str::to_owned)
        .collect();
    let (Some(of_services), false) = (&of_services, namespaces.is_empty()) else {
        return Ok(of_services);
    };
    let of_namespaces =
        Requirement::new("io.kubernetes.service.namespace", Operator::In(namespaces))
            .map_err(|error| error.to_string())?;
    let both = of_services.requirements().cloned().chain([of_namespaces]);
    let both = Selector::all_of(both);
    Ok(Some(both).filter(|both| both.contradiction().is_none()))
}
