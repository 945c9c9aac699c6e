//! Lowers the `IPAMPolicy` document to a [`Policy`], and its `spec.migration` to a
//! [`MigrationPolicy`].

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::tz::TimeZone;

use super::messages::nearest;
use super::schema_policy::{WrittenMigration, WrittenWindow};
use super::{Context, keys};
use crate::documents::lower_rules;
use crate::documents::schema::TextList;
use crate::documents::schema_policy::{
    PolicySpec, WrittenAddressPairs, WrittenAutoApply, WrittenLimit, WrittenLimits,
    WrittenProtected, WrittenWritePath,
};
use crate::documents::tree::Step;
use ipam_cilium::observed::KNOWN_ALLOCATORS;
use ipam_core::model::{
    Hazard, LimitName, Limited, Measure, NameError, NearNames, Origin, WritePath, WritePathChoice,
};
use ipam_core::text::one_line;
use ipam_desired::{
    Activity, AddressPairs, MaintenanceWindow, MigrationPolicy, Policy, Protected, Schedule,
    ScheduleError, time_zone, time_zone_names,
};

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
        migration: lower_migration(context, &spec.migration),
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

/// The default limits, overridden by the limits of the document.
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
        let name = context.name(text, &origin, "not a name", "write the object's name");
        names.extend(name.map(|name: T| (name, origin)));
    }
    names
}

pub(super) fn lower_migration(
    context: &mut Context<'_>,
    written: &WrittenMigration,
) -> MigrationPolicy {
    let WrittenMigration {
        windows,
        max_unavailable,
    } = written;
    let windows = windows.iter().flatten().enumerate();
    let windows = windows
        .filter_map(|(index, window)| self::window(context, index, window.as_ref()?))
        .collect();
    let max_unavailable = max_unavailable
        .and_then(|most| NonZeroUsize::try_from(most).ok())
        .unwrap_or(MigrationPolicy::default().max_unavailable);
    MigrationPolicy {
        windows,
        max_unavailable,
    }
}

/// The window, or `None` with a fault for each wrong field.
fn window(
    context: &mut Context<'_>,
    index: usize,
    written: &WrittenWindow,
) -> Option<MaintenanceWindow> {
    let WrittenWindow {
        schedule,
        duration,
        time_zone,
    } = written;
    let mut here = keys(["spec", "migration", "windows"]);
    here.push(Step::Index(index));
    let field = |key, text| Field::new(&here, index, key, text);
    let schedule =
        (schedule.as_deref()).and_then(|text| self::schedule(context, &field("schedule", text)));
    let duration =
        (duration.as_deref()).and_then(|text| self::duration(context, &field("duration", text)));
    let time_zone = match time_zone {
        Some(name) => zone(context, &field("timeZone", name)),
        None => Some(TimeZone::UTC),
    };
    Some(MaintenanceWindow {
        schedule: schedule?,
        duration: duration?,
        time_zone: time_zone?,
        origin: context.document.origin(&here),
    })
}

/// A field of a maintenance window, with its text.
struct Field<'t> {
    path: Vec<Step>,
    name: String,
    text: &'t str,
}

impl<'t> Field<'t> {
    fn new(window: &[Step], index: usize, key: &str, text: &'t str) -> Field<'t> {
        Field {
            path: [window, &keys([key])].concat(),
            name: format!("spec.migration.windows[{index}].{key}"),
            text,
        }
    }

    fn fault(
        &self,
        context: &mut Context<'_>,
        rule: &'static str,
        [why, label]: [&str; 2],
        help: impl Into<String>,
    ) {
        let message = format!(
            "`{}` is `{}`, {}",
            self.name,
            one_line(self.text),
            one_line(why)
        );
        let origin = context.document.origin(&self.path);
        context.fault(rule, message, &origin, label, help);
    }
}

fn schedule(context: &mut Context<'_>, field: &Field<'_>) -> Option<Schedule> {
    let error = match field.text.parse::<Schedule>() {
        Ok(schedule) => return Some(schedule),
        Err(error) => error,
    };
    let [label, help] = match error {
        ScheduleError::NotCron { .. } => [
            "not a schedule",
            "write minute, hour, day of the month, month and day of the week, such as `0 22 * * 1-5`",
        ],
        ScheduleError::Never => [
            "never occurs",
            "write a day that exists, such as `0 22 28 2 *`",
        ],
    };
    field.fault(context, "bad-schedule", [&error.to_string(), label], help);
    None
}

/// A write needs several requests, and schedules count in minutes.
const SHORTEST_WINDOW: SignedDuration = SignedDuration::from_mins(1);

fn duration(context: &mut Context<'_>, field: &Field<'_>) -> Option<SignedDuration> {
    match field.text.parse::<SignedDuration>() {
        Ok(duration) if duration >= SHORTEST_WINDOW => return Some(duration),
        Ok(_) => field.fault(
            context,
            "bad-duration",
            ["too short for a write", "less than a minute"],
            "write a duration of at least `1m`, such as `4h`",
        ),
        Err(_) => field.fault(
            context,
            "bad-duration",
            ["expected a duration such as `4h`", "not a duration"],
            "write a number and a unit, such as `30m`, `4h` or `1h 30m`",
        ),
    }
    None
}

fn zone(context: &mut Context<'_>, field: &Field<'_>) -> Option<TimeZone> {
    match time_zone(field.text) {
        Ok(zone) => Some(zone),
        Err(error) => {
            let why = error.to_string();
            field.fault(
                context,
                "bad-time-zone",
                [&why, "unknown time zone"],
                similar_zone(field.text),
            );
            None
        }
    }
}

/// Suggests the zone of a city, or the one with nearly the same name.
fn similar_zone(given: &str) -> String {
    let names = time_zone_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let city = given.trim().replace(' ', "_");
    let of_city = |name: &&&str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        last.eq_ignore_ascii_case(&city)
    };
    let similar = names.iter().find(of_city).copied();
    similar.or_else(|| nearest(given, &names)).map_or_else(
        || "write an IANA name, such as `Europe/Berlin` or `UTC`".to_owned(),
        |name| format!("did you mean `{name}`?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{Documents, SourceFile, lower};
    use ipam_core::model::Finding;

    fn migration(spec: &str) -> (MigrationPolicy, Vec<Finding>) {
        let text = format!(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {{name: p}}\nspec:\n  migration:\n{spec}"
        );
        let file = SourceFile {
            path: "p.yaml".into(),
            text: text.into(),
        };
        let (desired, findings) = lower(&Documents { files: vec![file] });
        (desired.policy.migration, findings)
    }

    #[test]
    fn windows_are_read_with_their_defaults() {
        let (migration, findings) = migration(
            "    windows:\n    - {schedule: 0 22 * * 1-5, duration: 4h, timeZone: Europe/Berlin}\n    - schedule: \"@weekly\"\n      duration: 1h 30m\n    maxUnavailable: 3\n",
        );
        assert!(findings.is_empty(), "{findings:?}");
        let windows: Vec<String> = (migration.windows.iter())
            .map(|window| {
                let zone = window.time_zone.iana_name().unwrap();
                let line = window.origin.line;
                format!("{line}: {} {} {zone}", window.schedule, window.duration)
            })
            .collect();
        assert_eq!(
            windows,
            [
                "7: 0 22 * * 1-5 PT4H Europe/Berlin",
                "8: @weekly PT1H30M UTC"
            ]
        );
        assert_eq!(migration.max_unavailable.get(), 3);
        assert_eq!(self::migration("    {}\n").0, MigrationPolicy::default());
    }

    #[test]
    fn each_fault_of_each_window_is_reported_at_its_place() {
        let (_, findings) = migration(
            "    windows:\n    - schedule: 0 22 * *\n      duration: -1h\n      timeZone: Berlin\n    - schedule: 0 0 31 2 *\n      duration: soon\n    - duration: 1h\n    - {schedule: '@daily', duration: 1ns}\n    - {schedule: '@daily', duration: 1m}\n    maxUnavailable: 0\n",
        );
        let found: Vec<String> = (findings.iter())
            .map(|finding| {
                format!(
                    "{} {}",
                    finding.origin.as_ref().unwrap().line,
                    finding.rule.0
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                "7 bad-schedule",
                "8 bad-duration",
                "9 bad-time-zone",
                "10 bad-schedule",
                "11 bad-duration",
                "12 missing-field",
                "13 bad-duration",
                "15 out-of-range",
            ]
        );
    }

    #[test]
    fn a_similar_time_zone_is_suggested() {
        for (given, help) in [
            ("Berlin", "did you mean `Europe/Berlin`?"),
            ("new york", "did you mean `America/New_York`?"),
            ("Europe/Berln", "did you mean `Europe/Berlin`?"),
            (
                "somewhere far away",
                "write an IANA name, such as `Europe/Berlin` or `UTC`",
            ),
        ] {
            assert_eq!(similar_zone(given), help, "{given}");
        }
    }
}
