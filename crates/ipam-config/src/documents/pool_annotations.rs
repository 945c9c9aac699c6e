//! Checks our own annotations on a `CiliumLoadBalancerIPPool`: its priority and the addresses that
//! it reserves.
//!
//! Knows nothing of a cluster, nor of what a plan makes of them.

use std::collections::BTreeMap;

use crate::documents::context::{Context, keys};
use crate::documents::messages::suggestion;
use ipam_cilium::lbipam::{AddressPoolManifest, POOL_ANNOTATIONS, PRIORITY, RESERVED, is_unknown};
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::net::{Range, gaps, is_written_as_mapped, touching};
use ipam_core::text::one_line;
use ipam_desired::AddressPoolRange;

pub(super) fn check_annotations(context: &mut Context<'_>, annotations: &BTreeMap<String, String>) {
    for key in annotations
        .keys()
        .filter(|key| is_unknown(annotations, key))
    {
        let message = format!("`{}` is not an annotation of a pool", one_line(key));
        let at = origin(context, key);
        let help = suggestion(key, &POOL_ANNOTATIONS);
        context.fault("unknown-pool-annotation", message, &at, "unknown", help);
    }
    if let Some(text) = annotations.get(PRIORITY)
        && text.trim().parse::<i32>().is_err()
    {
        let message = format!("`{}` is not a priority", one_line(text));
        let at = origin(context, PRIORITY);
        let help = "write a whole number in quotes, such as \"100\"";
        context.fault("bad-priority", message, &at, "not a number", help);
    }
    let entries = annotations
        .get(RESERVED)
        .map_or("", String::as_str)
        .split(',');
    for entry in entries.map(str::trim).filter(|entry| !entry.is_empty()) {
        let why = match entry.parse::<Range>() {
            Ok(_) if is_written_as_mapped(entry) => {
                format!("`{}` is IPv4-mapped", one_line(entry))
            }
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        let at = origin(context, RESERVED);
        let help = "write CIDRs, `first-last` or addresses, with commas between them";
        context.fault("bad-range", why, &at, "not a range", help);
    }
}

fn origin(context: &Context<'_>, key: &str) -> Origin {
    context
        .document
        .origin(&keys(["metadata", "annotations", key]))
}

/// The ranges that are left for Services.
pub(super) fn without_reserved(
    context: &mut Context<'_>,
    manifest: &AddressPoolManifest,
    ranges: Vec<AddressPoolRange>,
) -> Vec<AddressPoolRange> {
    let reserved = manifest.reserved().unwrap_or_default();
    if reserved.is_empty() || ranges.is_empty() {
        return ranges;
    }
    let is_inside = |reserved: &Range| ranges.iter().any(|own| own.range.overlaps(reserved));
    let at = origin(context, RESERVED);
    for outside in reserved.iter().filter(|reserved| !is_inside(reserved)) {
        let message = format!("{outside} is reserved, and the pool does not have it");
        let finding = Finding::new(Severity::Warning, Rule("reserved-outside-pool"), message);
        context.findings.push(
            finding
                .at(&at, "outside of the pool")
                .help("remove it, or correct the address"),
        );
    }
    let left: Vec<AddressPoolRange> = ranges
        .iter()
        .flat_map(|own| left_of(own, &reserved))
        .collect();
    if left.is_empty() {
        let message = "the pool reserves all of its addresses";
        let help = "reserve fewer addresses, or set `disabled: true`";
        context.fault("no-addresses", message, &at, "all of them", help);
    }
    left
}

fn left_of(own: &AddressPoolRange, reserved: &[Range]) -> Vec<AddressPoolRange> {
    gaps(&own.range, touching(reserved, &own.range))
        .map(|range| AddressPoolRange {
            range,
            origin: own.origin.clone(),
        })
        .collect()
}
