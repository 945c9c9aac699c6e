//! Lowers a `ServiceAssignment` document to a [`ServicePin`].

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::documents::context::{Context, keys};
use crate::documents::schema::TextList;
use crate::documents::schema_lb::ServiceAssignmentDocument;
use crate::documents::tree::Step;
use ipam_core::model::ServiceName;
use ipam_core::net::Address;
use ipam_core::text::one_line;
use ipam_desired::{PinnedAddress, ServicePin};

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
    let addresses = addresses(context, &spec.ips.unwrap_or_default());
    service
        .filter(|_| !addresses.is_empty())
        .map(|service| ServicePin {
            service,
            addresses,
            origin,
        })
}

fn addresses(context: &mut Context<'_>, ips: &TextList) -> Vec<PinnedAddress> {
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
    addresses
}
