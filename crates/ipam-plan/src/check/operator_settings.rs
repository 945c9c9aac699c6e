//! Settings of ipam `cluster-pool` with which Cilium's operator does not start, and ranges of which it
//! gives no block. Must never know the files.

use ipam_cilium::observed::operator_settings::{
    MOST_BITS_OF_IPV6, OperatorPool, Rejection, SettingFault, Written, mask_key, ranges_key,
    switch_key,
};
use ipam_cilium::observed::{Observed, ObservedKind, OperatorComplaint};
use ipam_cilium::releases::{NEWEST, OLDEST};
use ipam_core::model::{CiliumVersion, Finding, Rule, Severity, first_of};
use ipam_core::net::{Block, Family};
use ipam_core::text::joined;
use ipam_desired::Desired;

const REJECTED: Rule = Rule("operator-setting-rejected");
const WITHOUT_BLOCKS: Rule = Rule("operator-range-without-blocks");

/// CiliumNodes that the evidence lists.
const LISTED: usize = 10;

/// One finding for each fault of the settings.
pub fn faults(_: &Desired, observed: &Observed) -> Vec<Finding> {
    let rejections = rejections(observed);
    let rejected = rejections
        .iter()
        .map(|(release, rejection)| rejected(observed, *release, rejection));
    let pools = pools(observed);
    let empty = pools
        .iter()
        .filter_map(|(family, pool)| without_blocks(observed, *family, pool));
    rejected.chain(empty).collect()
}

/// Whether an operator would not start with its settings.
pub fn keep_it_from_starting(observed: &Observed) -> bool {
    !rejections(observed).is_empty()
}

/// Whether an operator that starts has no block of this family, which is on.
pub fn give_no_block(observed: &Observed, family: Family) -> bool {
    pools(observed).iter().any(|(of, pool)| {
        let mut ranges = pool.ranges.iter();
        *of == family && ranges.all(|range| range.is_without_blocks(pool.mask))
    })
}

/// Why operators do not start, each with the release that says so.
fn rejections(observed: &Observed) -> Vec<(Option<CiliumVersion>, Rejection)> {
    let mut all: Vec<(Option<CiliumVersion>, Rejection)> = Vec::new();
    // Of several operators, that of the latest release tells a fault.
    for release in observed.operator_releases().into_iter().rev() {
        let of = |release| {
            let settings = observed.operator_settings(release);
            settings
                .map(|settings| settings.rejections)
                .unwrap_or_default()
        };
        let mut rejections = of(release.unwrap_or(NEWEST));
        // Of an unknown release, only what every release rejects is certain.
        let oldest = release.is_none().then(|| of(OLDEST));
        rejections.retain(|rejection| {
            let is_same = |other: &Rejection| other.fault == rejection.fault;
            oldest
                .as_ref()
                .is_none_or(|oldest| oldest.iter().any(is_same))
                && !all
                    .iter()
                    .any(|(_, told)| told.family == rejection.family && is_same(told))
                && is_written(observed, rejection)
        });
        all.extend(rejections.into_iter().map(|rejection| (release, rejection)));
    }
    all
}

/// Whether the switch of the family is written: a part of `cilium-config` proves no lack.
fn is_written(observed: &Observed, rejection: &Rejection) -> bool {
    match rejection.fault {
        SettingFault::NoRange => {
            let switch = switch_key(rejection.family);
            observed.cilium.operator_setting(switch).is_some()
        }
        _ => true,
    }
}

/// The pools with which every operator starts.
fn pools(observed: &Observed) -> Vec<(Family, OperatorPool)> {
    let latest = observed.operator_releases().into_iter().next_back();
    let settings = observed.operator_settings(latest.flatten().unwrap_or(NEWEST));
    settings.map(|settings| settings.pools).unwrap_or_default()
}

fn rejected(observed: &Observed, release: Option<CiliumVersion>, rejection: &Rejection) -> Finding {
    let Rejection {
        family,
        fault,
        words,
    } = rejection;
    let of_release = release.map(|release| format!(" {release}"));
    let message = format!(
        "Cilium's operator{} does not start with its settings: {}",
        of_release.unwrap_or_default(),
        what(*family, fault)
    );
    let (severity, unless) = certainty(observed);
    let evidence = evidence(observed, *family);
    Finding::new(severity, REJECTED, message)
        .seen(evidence)
        .seen([format!("the operator logs: {words}")])
        .causes(format!(
            "{unless}after its next start no node gets a block, and no Service an address"
        ))
        .help(fix(observed, *family, fault, release))
}

/// Arguments that are not visible may override `cilium-config`.
fn certainty(observed: &Observed) -> (Severity, &'static str) {
    let is_seen = observed.cilium.operator_arguments.is_some()
        && observed.blind_spot(ObservedKind::CiliumOperator).is_none();
    match is_seen {
        true => (Severity::Error, ""),
        false => (
            Severity::Warning,
            "unless arguments of the operator, which is not visible, override them: ",
        ),
    }
}

/// A clause about the fault.
fn what(family: Family, fault: &SettingFault) -> String {
    let key = fault.key(family);
    match fault {
        SettingFault::Switch(text) => format!("{key} is {text:?}, which is not a boolean"),
        SettingFault::Mask(text) => format!("{key} is {text:?}, which is not a number"),
        SettingFault::MaskTooLong(mask) => format!(
            "{key} is {mask}, and an {family} address has {} bits",
            family.bits()
        ),
        SettingFault::NoRange => format!("{family} is enabled, and {key} has no range"),
        SettingFault::RangeWithoutFamily => {
            format!("{family} is disabled, and {key} has a range")
        }
        SettingFault::Range(text) => format!("{text:?} of {key} is not a CIDR"),
        SettingFault::OtherFamily(text) => format!("{text} of {key} is not an {family} range"),
        SettingFault::Overlap { earlier, later } => {
            format!("{later} of {key} overlaps {earlier}")
        }
        SettingFault::TooManyBlocks {
            range,
            length,
            mask,
        } => format!(
            "{range} of {key} and {} {mask} are {} bits apart, and at most {MOST_BITS_OF_IPV6} are allowed",
            mask_key(family),
            mask - i64::from(*length)
        ),
    }
}

fn fix(
    observed: &Observed,
    family: Family,
    fault: &SettingFault,
    release: Option<CiliumVersion>,
) -> String {
    let key = fault.key(family);
    let first = match fault {
        SettingFault::Switch(_) => format!("set {key} to \"true\" or \"false\""),
        SettingFault::Mask(_) | SettingFault::MaskTooLong(_) => {
            match held_sizes(observed, family)[..] {
                [] => format!("set {key} to the prefix length of the blocks that nodes shall get"),
                [.., longest] => {
                    format!("set {key} to {longest}, the size of the blocks that nodes hold")
                }
            }
        }
        SettingFault::NoRange => format!(
            "set {key} to the range of the {family} blocks, or {} to \"false\"",
            switch_key(family)
        ),
        SettingFault::RangeWithoutFamily => {
            format!("remove {key}, or set {} to \"true\"", switch_key(family))
        }
        SettingFault::Range(text) if text.contains(',') => format!(
            "write a space between two CIDRs of {key}, and nothing else{}",
            release
                .map(|release| format!(": Cilium {release} does not read this list"))
                .unwrap_or_default()
        ),
        SettingFault::Range(_) => {
            format!("write {family} CIDRs into {key}, with a space between two")
        }
        SettingFault::OtherFamily(text) => {
            format!(
                "remove {text} from {key}: it belongs into {}",
                ranges_key(other(family))
            )
        }
        SettingFault::Overlap { earlier, later } => {
            let inner = inner(earlier, later);
            format!("remove {inner} from {key}: the other range has its addresses")
        }
        SettingFault::TooManyBlocks { length, mask, .. } => apart(observed, family, *length, *mask),
    };
    format!("{first}; the operator reads it when it starts")
}

/// The range inside of the other one.
fn inner<'t>(earlier: &'t str, later: &'t str) -> &'t str {
    let length = |text: &str| {
        Block::lenient(text)
            .map(Block::prefix_len)
            .unwrap_or_default()
    };
    match length(earlier) > length(later) {
        true => earlier,
        false => later,
    }
}

/// What to do about a range and a mask that are too far apart.
fn apart(observed: &Observed, family: Family, length: u8, mask: i64) -> String {
    let (ranges, masks) = (ranges_key(family), mask_key(family));
    let shortest = mask - MOST_BITS_OF_IPV6;
    let ranges = format!("set {ranges} to ranges of /{shortest} or longer");
    match held_sizes(observed, family).is_empty() {
        true => format!(
            "{ranges}, or {masks} to {} or less",
            i64::from(length) + MOST_BITS_OF_IPV6
        ),
        // Cilium does not support another mask on a live cluster.
        false => format!("{ranges}, with the blocks that nodes hold"),
    }
}

fn other(family: Family) -> Family {
    match family {
        Family::Ipv4 => Family::Ipv6,
        Family::Ipv6 => Family::Ipv4,
    }
}

/// The sizes of the blocks that nodes hold, sorted.
fn held_sizes(observed: &Observed, family: Family) -> Vec<u8> {
    let nodes = observed.cilium_nodes.values();
    let blocks = nodes.flat_map(|node| &node.pod_cidrs);
    let of_family = blocks.filter(|block| block.family() == family);
    let sizes = of_family.map(|block| block.prefix_len());
    sizes
        .collect::<std::collections::BTreeSet<u8>>()
        .into_iter()
        .collect()
}

/// The settings of the family, and where they are written.
fn evidence(observed: &Observed, family: Family) -> Vec<String> {
    let pools = observed.written_pools();
    let pool = pools.into_iter().filter(|pool| pool.family == family);
    let settings = pool.flat_map(|pool| {
        [
            (switch_key(family), pool.switch),
            (ranges_key(family), pool.ranges),
            (mask_key(family), pool.mask),
        ]
    });
    let shown = settings.flat_map(|(key, written)| {
        let Written {
            config,
            variable,
            argument,
        } = written;
        let of = |source, text: Option<&str>| text.map(|text| format!("{source}: {key} {text:?}"));
        [
            of("cilium-config", config),
            of("environment of the operator", variable),
            of("arguments of the operator", argument),
        ]
    });
    shown.flatten().collect()
}

fn is_full(error: &str) -> bool {
    OperatorComplaint::all_of(error).contains(&OperatorComplaint::Full)
}

/// Ranges that are smaller than a block.
fn without_blocks(observed: &Observed, family: Family, pool: &OperatorPool) -> Option<Finding> {
    let OperatorPool { ranges, mask } = pool;
    let empty: Vec<&str> = ranges
        .iter()
        .filter(|range| range.is_without_blocks(*mask))
        .map(|range| range.text.as_str())
        .collect();
    if empty.is_empty() {
        return None;
    }
    let key = mask_key(family);
    let listed = joined(&empty, ", ");
    let (worst, rest) = match empty.len() == ranges.len() {
        true => (Severity::Error, format!("no {family} block to give")),
        false => (Severity::Warning, format!("no block of {listed} to give")),
    };
    let message = format!(
        "{key} {mask} is shorter than {listed} of {}: Cilium's operator has {rest}",
        ranges_key(family)
    );
    let consequence = match worst {
        Severity::Error => "new nodes get no block, and their agents wait",
        _ => "new nodes get blocks of the other ranges only",
    };
    let (certain, unless) = certainty(observed);
    let first = ranges.iter().find(|range| range.is_without_blocks(*mask));
    let words = first.map(|range| {
        format!(
            "the operator sets the error of a CiliumNode: allocator clusterCIDR: {}, nodeMask: {mask} full",
            range.net.trunc()
        )
    });
    let nodes = observed.cilium_nodes.values();
    let errors = nodes.filter(|node| node.operator_error.as_deref().is_some_and(is_full));
    let names: Vec<String> = errors.map(|node| format!("`{}`", node.name)).collect();
    let shown = (!names.is_empty()).then(|| {
        format!(
            "CiliumNodes with such an error: {}",
            first_of(LISTED, names)
        )
    });
    let help = match held_sizes(observed, family)[..] {
        [] => format!(
            "set {key} to the prefix length of the blocks that nodes shall get, longer than those of the ranges"
        ),
        [.., longest] => format!(
            "set {key} to {longest}, the size of the blocks that nodes hold: Cilium does not support another mask on a live cluster"
        ),
    };
    let finding = Finding::new(worst.max(certain), WITHOUT_BLOCKS, message)
        .seen(evidence(observed, family))
        .seen(words)
        .seen(shown)
        .causes(format!("{unless}{consequence}"));
    Some(finding.help(format!("{help}; the operator reads it when it starts")))
}
