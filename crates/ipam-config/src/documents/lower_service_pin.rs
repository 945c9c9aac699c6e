//! Lowers a `ServiceAssignment` document to a [`ServicePin`], and checks our own annotations on a
//! `CiliumLoadBalancerIPPool`: its priority and the addresses that it reserves. Knows nothing of a
//! cluster, nor of what a plan makes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::messages::suggestion;
use super::{Context, keys};
use crate::documents::schema::TextList;
use crate::documents::schema_lb::ServiceAssignmentDocument;
use crate::documents::tree::Step;
use ipam_cilium::lbipam::{AddressPoolManifest, POOL_ANNOTATIONS, PRIORITY, RESERVED, is_unknown};
use ipam_core::model::{Finding, Origin, Rule, ServiceName, Severity};
use ipam_core::net::{Address, Range, gaps, is_written_as_mapped, touching};
use ipam_core::text::one_line;
use ipam_desired::{AddressPoolRange, ChosenFrom, PinnedAddress, PinnedTo, ServicePin};

/// `pool` for the best pool.
const BEST_POOL: &str = "*";

pub(super) fn lower(
    context: &mut Context<'_>,
    written: ServiceAssignmentDocument,
) -> Option<ServicePin> {
    let spec = written.spec?;
    let origin = context.document.origin(&keys(["spec", "service"]));
    let service = spec
        .service
        .and_then(|text| match text.trim().parse::<ServiceName>() {
            Ok(service) => Some(service),
            Err(_) => {
                let message = format!("`{}` is not the name of a Service", one_line(&text));
                context.fault(
                    "bad-service",
                    message,
                    &origin,
                    "not `namespace/name`",
                    "write it as `shop/web`",
                );
                None
            }
        });
    let to = match (spec.ips, spec.pool) {
        (Some(ips), None) => addresses(context, &ips),
        (None, Some(pool)) => chosen_from(context, &pool),
        (Some(_), Some(_)) => {
            let at = context.document.origin(&keys(["spec", "pool"]));
            let message = "a pin has `ips` or a `pool`, not both";
            let help = "remove `pool` to keep these addresses, or `ips` to let the plan choose";
            context.fault("ips-and-pool", message, &at, "both", help);
            None
        }
        (None, None) => {
            if context.is_sound(&keys(["spec"])) {
                let at = context.document.origin(&keys(["spec"]));
                let help = "add `ips`, or `pool` to let the plan choose";
                context.fault(
                    "missing-field",
                    "`spec` has no `ips`",
                    &at,
                    "`ips` is missing",
                    help,
                );
            }
            None
        }
    };
    Some(ServicePin {
        service: service?,
        to: to?,
        origin,
    })
}

fn chosen_from(context: &mut Context<'_>, pool: &str) -> Option<PinnedTo> {
    if pool.trim() == BEST_POOL {
        return Some(PinnedTo::Chosen(ChosenFrom::BestPool));
    }
    let at = context.document.origin(&keys(["spec", "pool"]));
    let help = "write the name of a CiliumLoadBalancerIPPool, or `\"*\"` for the best one";
    let name = context.name(pool.trim(), &at, "not a name", help)?;
    Some(PinnedTo::Chosen(ChosenFrom::Pool(name)))
}

fn addresses(context: &mut Context<'_>, ips: &TextList) -> Option<PinnedTo> {
    let mut addresses: Vec<PinnedAddress> = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, text) in ips.iter().enumerate() {
        let Some(text) = text else { continue };
        let origin = context
            .document
            .origin(&[keys(["spec", "ips"]), vec![Step::Index(index)]].concat());
        match context
            .addresses::<Address>(text, &origin)
            .map(IpAddr::from)
        {
            Ok(address) if !seen.insert(address) => {
                let message = format!("{address} is listed twice");
                context.fault(
                    "address-pinned-twice",
                    message,
                    &origin,
                    "again",
                    "keep one of the two",
                );
            }
            Ok(address) => addresses.push(PinnedAddress { address, origin }),
            Err(_) => {
                let message = format!("`{}` is not an address", one_line(text));
                context.fault(
                    "bad-address",
                    message,
                    &origin,
                    "not an address",
                    "write an address such as 20.0.10.9",
                );
            }
        }
    }
    (!addresses.is_empty()).then_some(PinnedTo::Addresses(addresses))
}

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
                .at(&at, "outside the pool")
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
