//! Lowers a `CiliumLoadBalancerIPPool` document to a [`WantedAddressPool`].

use std::collections::BTreeMap;
use std::fmt::Display;

use super::lower_service_pin::{self, check_annotations};
use super::{Context, keys, lower_pool};
use crate::documents::schema::LabelSelector;
use crate::documents::schema_lb::{
    AddressPoolDocument, AddressPoolMetadata, WrittenAddressBlock, YesOrNo,
};
use crate::documents::tree::Step;
use ipam_cilium::lbipam::{
    AddressBlock, AddressPoolManifest, AddressPoolSpec, WrittenRequirement, WrittenSelector,
};
use ipam_core::model::{Finding, OWNER_LABEL, Operator, Origin, Requirement, Rule, Severity};
use ipam_core::net::{
    Address, Block, BlockError, Range, RangeError, is_written_as_mapped, overlapping_pairs,
};
use ipam_core::text::one_line;
use ipam_desired::{AddressPoolRange, WantedAddressPool};

pub(super) fn lower(
    context: &mut Context<'_>,
    written: AddressPoolDocument,
) -> Option<WantedAddressPool> {
    let origin = context.document.origin(&keys(["metadata", "name"]));
    let AddressPoolMetadata {
        name,
        labels,
        annotations,
    } = written.metadata?;
    check_owner(context, &labels);
    check_keys(context, &labels, "labels");
    check_keys(context, &annotations, "annotations");
    check_annotations(context, &annotations);
    let help = "write a name such as `blue-pool`";
    let name = name.and_then(|name| context.name(&name, &origin, "not a name", help));
    let spec = written.spec?;
    let mut ranges = Vec::new();
    let cidrs = blocks(context, &spec.cidrs, "cidrs", &mut ranges);
    let blocks = blocks(context, &spec.blocks, "blocks", &mut ranges);
    if spec.cidrs.is_empty() && spec.blocks.is_empty() && context.is_sound(&keys(["spec"])) {
        let at = context.document.origin(&keys(["spec"]));
        let message = "a pool without addresses";
        context.fault(
            "no-addresses",
            message,
            &at,
            "neither `blocks` nor `cidrs`",
            "add `blocks: [{cidr: …}]`",
        );
    }
    overlaps(context, &ranges);
    if let Some(selector) = &spec.service_selector {
        check_selector(context, selector);
    }
    let spec = AddressPoolSpec {
        cidrs,
        blocks,
        service_selector: spec.service_selector.as_ref().map(selector),
        allow_first_last: spec.allow_first_last.map(|answer| match answer {
            YesOrNo::Yes => "Yes".to_owned(),
            YesOrNo::No => "No".to_owned(),
        }),
        disabled: spec.disabled,
    };
    let manifest = AddressPoolManifest {
        labels,
        annotations,
        spec,
    };
    let ranges = lower_service_pin::without_reserved(context, &manifest, ranges);
    name.map(|name| WantedAddressPool {
        name,
        origin,
        manifest,
        ranges,
    })
}

fn check_owner(context: &mut Context<'_>, labels: &BTreeMap<String, String>) {
    let Some(owner) = labels.get(OWNER_LABEL.0) else {
        return;
    };
    let at = keys(["metadata", "labels", OWNER_LABEL.0]);
    let at = context.document.origin(&at);
    let message = format!(
        "files cannot set the label `{}: {}`",
        OWNER_LABEL.0,
        one_line(owner)
    );
    context.fault(
        "owner-label",
        message,
        &at,
        "set by us",
        "remove it; `apply` sets it",
    );
}

/// Checks labels and annotations like the API server: the keys of both, and the values of labels.
fn check_keys(context: &mut Context<'_>, texts: &BTreeMap<String, String>, field: &str) {
    for (key, value) in texts {
        let operator = if field == "labels" {
            Operator::In([value.clone()].into())
        } else {
            Operator::Exists
        };
        if let Err(error) = Requirement::new(key, operator) {
            let at = context.document.origin(&keys(["metadata", field, key]));
            let help = "write it in a form that the API server accepts";
            context.fault(
                "bad-metadata",
                error.to_string(),
                &at,
                "the API server refuses it",
                help,
            );
        }
    }
}

fn blocks(
    context: &mut Context<'_>,
    written: &[Option<WrittenAddressBlock>],
    key: &str,
    ranges: &mut Vec<AddressPoolRange>,
) -> Vec<AddressBlock> {
    let mut blocks = Vec::new();
    for (index, block) in written.iter().enumerate() {
        let Some(block) = block else { continue };
        let path = [keys(["spec", key]), vec![Step::Index(index)]].concat();
        let Some(range) = range_of(context, block, &path) else {
            continue;
        };
        ranges.push(AddressPoolRange {
            range,
            origin: context.document.origin(&path),
        });
        let trimmed = |text: &Option<String>| text.as_ref().map(|text| text.trim().to_owned());
        let WrittenAddressBlock { cidr, start, stop } = block;
        blocks.push(AddressBlock {
            cidr: trimmed(cidr),
            start: trimmed(start),
            stop: trimmed(stop),
        });
    }
    blocks
}

fn range_of(
    context: &mut Context<'_>,
    block: &WrittenAddressBlock,
    path: &[Step],
) -> Option<Range> {
    let at =
        |context: &Context<'_>, key: &str| context.document.origin(&[path, &keys([key])].concat());
    let here = context.document.origin(path);
    let WrittenAddressBlock { cidr, start, stop } = block;
    match (cidr, start, stop) {
        (Some(cidr), None, None) => {
            let at = at(context, "cidr");
            cidr_range(context, cidr.trim(), &at)
        }
        (Some(_), ..) => {
            let message = "a range is a `cidr`, or a `start` with or without a `stop`, not both";
            context.fault(
                "cidr-and-start",
                message,
                &here,
                "both",
                "keep one of the two; Cilium reads the `cidr` only",
            );
            None
        }
        (None, Some(start), stop) => {
            let first = address(context, start, &at(context, "start"))?;
            let Some(stop) = stop else {
                return Some(first.into());
            };
            let at = at(context, "stop");
            let last = address(context, stop, &at)?;
            match format!("{first}-{last}").parse::<Range>() {
                Ok(range) => Some(range),
                Err(error) => {
                    range_fault(context, &error, &at);
                    None
                }
            }
        }
        (None, None, _) => {
            let message =
                "an empty range: the API server accepts it, but Cilium's operator fails on it";
            context.fault(
                "empty-block",
                message,
                &here,
                "neither `cidr` nor `start`",
                "write `cidr`, or `start`",
            );
            None
        }
    }
}

/// Range of a CIDR. Warns about bits after the prefix, which Cilium ignores.
fn cidr_range(context: &mut Context<'_>, text: &str, at: &Origin) -> Option<Range> {
    match text.parse::<Block>() {
        Ok(block) => is_not_mapped(context, text, &block, at).then(|| block.range()),
        Err(error @ BlockError::HostBits { .. }) => {
            let BlockError::HostBits { aligned, .. } = &error else {
                return None;
            };
            if !is_not_mapped(context, text, aligned, at) {
                return None;
            }
            let finding = Finding::new(Severity::Warning, Rule("host-bits"), error.to_string());
            let help = format!("write {aligned}, which Cilium uses instead");
            context
                .findings
                .push(finding.at(at, "bits behind the prefix").help(help));
            Block::lenient(text).ok().map(Block::range)
        }
        Err(error) => {
            context.block_fault(&error, at);
            None
        }
    }
}

fn address(context: &mut Context<'_>, text: &str, at: &Origin) -> Option<Address> {
    let text = text.trim();
    let Ok(address) = text.parse::<Address>() else {
        let message = format!("`{}` is not an address", one_line(text));
        context.fault(
            "bad-address",
            message,
            at,
            "not an address",
            "write an address such as 20.0.10.1",
        );
        return None;
    };
    is_not_mapped(context, text, &address, at).then_some(address)
}

/// LB-IPAM uses an IPv4-mapped range for IPv6 addresses (`netip.ParseAddr`,
/// `operator/pkg/lbipam/lbipam.go` @ 1.19.3), and everything else for IPv4.
fn is_not_mapped(context: &mut Context<'_>, text: &str, read: &dyn Display, at: &Origin) -> bool {
    if !is_written_as_mapped(text) {
        return true;
    }
    let message = format!(
        "`{}` is IPv4-mapped: LB-IPAM would assign it as IPv6",
        one_line(text)
    );
    context.fault(
        "mapped-ipv4",
        message,
        at,
        "IPv4-mapped",
        format!("write {read}"),
    );
    false
}

fn range_fault(context: &mut Context<'_>, error: &RangeError, at: &Origin) {
    let (label, help) = match error {
        RangeError::TwoFamilies { .. } => (
            "of the other family",
            "keep `start` and `stop` in one address family",
        ),
        _ => ("before `start`", "write the lower address as `start`"),
    };
    context.fault("bad-range", error.to_string(), at, label, help);
}

/// If ranges of one pool overlap, Cilium does not use the pool.
fn overlaps(context: &mut Context<'_>, ranges: &[AddressPoolRange]) {
    let pairs = overlapping_pairs(
        ranges
            .iter()
            .enumerate()
            .map(|(index, range)| (range.range, index)),
    );
    for (one, other) in pairs {
        let (first, second) = (&ranges[one.min(other)], &ranges[one.max(other)]);
        let message = format!(
            "{} overlaps {} of the same pool: Cilium does not use the pool",
            second.range, first.range
        );
        let finding = Finding::new(Severity::Error, Rule("ranges-overlap"), message);
        let finding = finding
            .at(&second.origin, format!("overlaps {}", first.range))
            .and(&first.origin, "this one");
        context
            .findings
            .push(finding.help("remove or shorten one of them"));
    }
}

fn check_selector(context: &mut Context<'_>, written: &LabelSelector) {
    let path = keys(["spec", "serviceSelector"]);
    let lowered = lower_pool::lower_selector(context, written, &path);
    if let Some(key) = lowered.contradiction() {
        let at = context.document.origin(&path);
        let message = format!(
            "no Service can match: the requirements for the label `{}` contradict each other",
            one_line(key)
        );
        context.fault(
            "selector-matches-nothing",
            message,
            &at,
            "matches nothing",
            "fix the selector, or set `disabled: true`",
        );
    }
}

fn selector(written: &LabelSelector) -> WrittenSelector {
    let requirement = |written: &super::schema::LabelSelectorRequirement| WrittenRequirement {
        key: written.key.clone(),
        operator: written.operator.as_str().to_owned(),
        values: written.values.iter().cloned().collect(),
    };
    WrittenSelector {
        match_labels: written.match_labels.clone(),
        match_expressions: written
            .match_expressions
            .iter()
            .flatten()
            .map(requirement)
            .collect(),
    }
}
