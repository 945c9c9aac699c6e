//! Lowers the `IPAMPolicy` document to a [`Policy`].

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use jiff::SignedDuration;

use crate::documents::context::{Context, keys};
use crate::documents::schema::TextList;
use crate::documents::schema_policy::{
    PolicySpec, WrittenAddressPairs, WrittenAutoApply, WrittenLimit, WrittenLimits,
    WrittenProtected, WrittenWritePath,
};
use crate::documents::tree::Step;
use crate::documents::{lower_migration, lower_rules};
use ipam_cilium::observed::KNOWN_ALLOCATORS;
use ipam_core::model::{
    Hazard, LimitName, Limited, Measure, NameError, NearNames, Origin, WritePath, WritePathChoice,
};
use ipam_core::text::one_line;
use ipam_desired::{Activity, AddressPairs, Policy, Protected};

pub(super) fn lower(context: &mut Context<'_>, spec: &PolicySpec) -> Policy {
    let write_path = match spec.write_path {
        WrittenWritePath::Auto => WritePathChoice::Auto,
        WrittenWritePath::NodeSpec => WritePathChoice::Forced(WritePath::NodeSpec),
        WrittenWritePath::NodeAnnotation => WritePathChoice::Forced(WritePath::NodeAnnotation),
        WrittenWritePath::PodIpPool => WritePathChoice::Forced(WritePath::PodIpPool),
        WrittenWritePath::NodeConfig => WritePathChoice::Forced(WritePath::NodeConfig),
        WrittenWritePath::CiliumNode => WritePathChoice::Forced(WritePath::CiliumNode),
    };
    let mut ranges = |list: &TextList, key: &str| -> Vec<ipam_core::net::Range> {
        context
            .ranges(list, &keys(["spec", key]))
            .into_iter()
            .map(|(range, _)| range)
            .collect()
    };
    let excluded = ranges(&spec.excluded, "excluded");
    let own_address_space = ranges(&spec.own_address_space, "ownAddressSpace");
    let failure_domain = spec
        .limits
        .failure_domain
        .clone()
        .unwrap_or_else(|| Policy::FAILURE_DOMAIN.to_owned());
    Policy {
        origin: Some(context.document.start()),
        write_path,
        acknowledged_allocators: acknowledged(context, &spec.acknowledged_allocators),
        excluded,
        own_address_space,
        quarantine: quarantine(context, spec.quarantine.as_deref()),
        limits: limits(&spec.limits),
        failure_domain,
        protected: protected(context, &spec.protected),
        auto_apply: match spec.auto_apply {
            WrittenAutoApply::Safe => Hazard::None,
            WrittenAutoApply::Disruptive => Hazard::Disruptive,
            WrittenAutoApply::Destructive => Hazard::Destructive,
        },
        activity: if spec.paused {
            Activity::Paused
        } else {
            Activity::Active
        },
        address_pairs: match spec.neutron.allowed_address_pairs {
            WrittenAddressPairs::Ignored => AddressPairs::Ignored,
            WrittenAddressPairs::PodCidrs => AddressPairs::PodCidrs,
        },
        migration: lower_migration::lower(context, &spec.migration),
        rules: lower_rules::lower(context, spec.rules.as_deref().unwrap_or_default()),
    }
}

/// Any program may assign pod CIDRs, so only a name that resembles a known one is a fault.
fn acknowledged(context: &mut Context<'_>, list: &TextList) -> BTreeSet<String> {
    let near = NearNames::new(KNOWN_ALLOCATORS);
    let mut names = BTreeSet::new();
    for (index, text) in list.iter().enumerate() {
        let Some(text) = text else { continue };
        let meant = near.of(text);
        let Some(help) = meant.map(|name| format!("did you mean `{name}`?")) else {
            names.insert(text.clone());
            continue;
        };
        let place = [
            keys(["spec", "acknowledgedAllocators"]),
            vec![Step::Index(index)],
        ]
        .concat();
        let origin = context.document.origin(&place);
        let message = format!("unknown allocator `{}`", one_line(text));
        context.fault("bad-name", message, &origin, "unknown", &help);
    }
    names
}

fn quarantine(context: &mut Context<'_>, text: Option<&str>) -> SignedDuration {
    let Some(text) = text else {
        return Policy::QUARANTINE;
    };
    match text.parse::<SignedDuration>() {
        Ok(duration) if !duration.is_negative() => duration,
        _ => {
            let message = format!(
                "`spec.quarantine` is `{}`, expected a duration such as `10m`",
                one_line(text)
            );
            let origin = context.document.origin(&keys(["spec", "quarantine"]));
            context.fault(
                "bad-duration",
                message,
                &origin,
                "not a duration",
                "write a number and a unit, such as `90s`, `10m` or `1h 30m`",
            );
            Policy::QUARANTINE
        }
    }
}

/// The default limits, with those of the document on top.
fn limits(written: &WrittenLimits) -> BTreeMap<LimitName, u32> {
    let WrittenLimits {
        failure_domain: _,
        assign,
        disruptive,
        release,
    } = written;
    let mut limits: BTreeMap<LimitName, u32> = Policy::LIMITS.into();
    let kinds = [
        (Limited::Assign, assign),
        (Limited::Disruptive, disruptive),
        (Limited::Release, release),
    ];
    for (
        limited,
        WrittenLimit {
            count,
            percent,
            domain_count,
            domain_percent,
        },
    ) in kinds
    {
        let measures = [
            (Measure::Count, count),
            (Measure::Percent, percent),
            (Measure::DomainCount, domain_count),
            (Measure::DomainPercent, domain_percent),
        ];
        let given = measures
            .into_iter()
            .filter_map(|(measure, value)| Some((measure, (*value)?)));
        limits.extend(given.map(|(measure, value)| (LimitName { limited, measure }, value)));
    }
    limits
}

fn protected(context: &mut Context<'_>, written: &WrittenProtected) -> Protected {
    let WrittenProtected { nodes, pools } = written;
    let node_origins = names(context, nodes, "nodes");
    let nodes = node_origins.keys().cloned().collect();
    Protected {
        nodes,
        node_origins,
        pools: names(context, pools, "pools").into_keys().collect(),
    }
}

fn names<T: FromStr<Err = NameError> + Ord>(
    context: &mut Context<'_>,
    list: &TextList,
    key: &str,
) -> BTreeMap<T, Origin> {
    let mut names = BTreeMap::new();
    for (index, text) in list.iter().enumerate() {
        let Some(text) = text else { continue };
        let origin = context
            .document
            .origin(&[keys(["spec", "protected", key]), vec![Step::Index(index)]].concat());
        match text.parse::<T>() {
            Ok(name) => {
                names.insert(name, origin);
            }
            Err(error) => {
                context.fault(
                    "bad-name",
                    error.to_string(),
                    &origin,
                    "not a name",
                    "write the object's name",
                );
            }
        }
    }
    names
}
