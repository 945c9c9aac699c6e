//! Lowers a `ServiceAssignment` document to a [`ServicePin`].

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::documents::context::{Context, keys};
use crate::documents::schema::TextList;
use crate::documents::schema_lb::ServiceAssignmentDocument;
use crate::documents::tree::Step;
use ipam_core::model::{AddressPoolName, ServiceName};
use ipam_core::net::Address;
use ipam_core::text::one_line;
use ipam_desired::{ChosenFrom, PinnedAddress, PinnedTo, ServicePin};

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
    match pool.trim().parse::<AddressPoolName>() {
        Ok(name) => Some(PinnedTo::Chosen(ChosenFrom::Pool(name))),
        Err(error) => {
            let at = context.document.origin(&keys(["spec", "pool"]));
            let help = "write the name of a CiliumLoadBalancerIPPool, or `\"*\"` for the best one";
            context.fault("bad-name", error.to_string(), &at, "not a name", help);
            None
        }
    }
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
