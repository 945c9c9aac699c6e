//! Arguments that several commands share: the files and their revision, names of objects mixed
//! with the directory, as kubectl mixes names and kinds, the objects to which a plan is limited,
//! limits, waivers and protections in addition to the Policy, durations and `--parallelism`.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use clap::ValueHint;
use clap::builder::{PathBufValueParser, TypedValueParser};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::completions;
use super::failure::Failure;
use ipam_cilium::observed::Observed;
use ipam_config::source::Location;
use ipam_controller::Parallelism;
use ipam_core::model::{LimitName, LimitNameError, NodeName, PoolName, Selector, Waiver};
use ipam_core::text::{joined, most_similar};
use ipam_desired::{Desired, Policy};
use ipam_plan::plan::{PlanDocument, Selected, Selection};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Files {
    /// The directory of pools, pins and policy.
    #[arg(value_name = "DIR", default_value = "pools", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    #[command(flatten)]
    revision: Revision,
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct Revision {
    /// Read the files of this Git revision, such as `HEAD~1`.
    ///
    /// The default is the files on disk.
    #[arg(long, value_name = "REV")]
    pub(super) revision: Option<String>,
}

impl Files {
    pub(super) fn location(&self) -> Location {
        self.revision.of(&self.directory)
    }
}

impl Revision {
    /// The given directory; otherwise `pools`, if it exists or may exist in the revision.
    pub(super) fn usual<'d>(&self, given: Option<&'d Path>) -> Option<&'d Path> {
        let usual = Path::new("pools");
        let is_there = usual.is_dir() || self.revision.is_some();
        given.or_else(|| is_there.then_some(usual))
    }

    pub(super) fn of(&self, directory: &Path) -> Location {
        Location {
            directory: spelled_one_way(directory),
            revision: self.revision.clone(),
        }
    }
}

/// The directory relative to the working directory if it lies in it, and otherwise as given. A plan
/// names it, so `pools`, `./pools/` and its absolute path make one digest. Links on the way to it
/// are resolved only outside the working directory; the directory itself may be a link.
pub(super) fn spelled_one_way(directory: &Path) -> PathBuf {
    relative(directory).unwrap_or_else(|| directory.to_owned())
}

fn relative(directory: &Path) -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    // `std::path::absolute` keeps `..`, because it may follow a link.
    let absolute = std::path::absolute(directory).ok()?;
    let absolute: PathBuf = absolute.components().collect();
    let climbs = absolute
        .components()
        .any(|part| part == Component::ParentDir);
    let below = match absolute.strip_prefix(&here) {
        Ok(below) if !climbs => below.to_owned(),
        _ => {
            let parent = absolute.parent()?.canonicalize().ok()?;
            let whole = parent.join(absolute.file_name()?);
            whole
                .strip_prefix(here.canonicalize().ok()?)
                .ok()?
                .to_owned()
        }
    };
    Some(match below.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => below,
    })
}

/// The name of a file to write. Refuses `-`, which means stdout in other programs.
pub(super) fn output_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("`-` is not a file: omit this flag to print to stdout, or name the file `./-`"),
        false => Ok(path),
    })
}

/// Parses a duration that is not negative.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    let read = text
        .parse()
        .ok()
        .filter(|duration: &SignedDuration| !duration.is_negative());
    read.ok_or_else(|| "expected a duration, such as `90s`, `5m` or `1h 30m`".to_owned())
}

/// A day, from its begin in UTC, or a time with its zone.
pub(super) fn date(text: &str) -> Result<Timestamp, String> {
    let day = || {
        let day: Date = text.parse().ok()?;
        Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let time: Option<Timestamp> = text.parse().ok();
    time.or_else(day)
        .ok_or_else(|| "expected a date, such as `2026-03-01` or `2026-03-01T08:00:00Z`".to_owned())
}

pub(super) fn parallelism(text: &str) -> Result<Parallelism, String> {
    if text == "auto" {
        return Ok(Parallelism::Adaptive);
    }
    text.parse()
        .map(Parallelism::Fixed)
        .map_err(|_| "expected a number from 1 on, or `auto`".to_owned())
}

/// The arguments of `show KIND`.
#[derive(Debug)]
pub(super) struct Names<'a> {
    kind: &'static str,
    directories: Vec<&'a str>,
    pub(super) names: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Divides the arguments into names and directories. One with a `/` that is not `KIND/NAME`, or that exists on disk, is a
    /// directory.
    pub(super) fn new(kind: &'static str, arguments: &'a [String]) -> Names<'a> {
        let (mut directories, mut names) = (Vec::new(), Vec::new());
        for argument in arguments.iter().map(String::as_str) {
            let of_kind = argument
                .strip_prefix(kind)
                .and_then(|rest| rest.strip_prefix('/'))
                .filter(|name| !name.is_empty());
            match of_kind {
                Some(name) => names.push(name),
                None if argument.contains('/') || Path::new(argument).exists() => {
                    directories.push(argument);
                }
                None => names.push(argument),
            }
        }
        Names {
            kind,
            directories,
            names,
        }
    }

    /// # Errors
    /// Fails if there are two directories.
    pub(super) fn location(&self, revision: &Revision) -> Result<Location, Failure> {
        match self.directories[..] {
            [] => Ok(revision.of(&PathBuf::from("pools"))),
            [directory] => Ok(revision.of(Path::new(directory))),
            [one, other, ..] => Err(Failure::Failed(format!(
                "`{one}` and `{other}` are two directories; name one"
            ))),
        }
    }

    /// The failure for an unknown name, with the known name that is most similar.
    pub(super) fn unknown<'k>(
        &self,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> Failure {
        let kind = self.kind;
        let advice = match most_similar(name, known) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("`cilium-ipam show {kind}s` lists all"),
        };
        Failure::Failed(format!(
            "there is no {kind} `{name}`, and no such directory; {advice}"
        ))
    }
}

#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SelectionArguments {
    /// Keep only the changes of this object, such as `node/NAME`.
    ///
    /// An object is `node/NAME`, `pool/NAME` with the nodes that use it, `service/NAMESPACE/NAME`, or
    /// `label:SELECTOR` for nodes. Repeatable. Blocks are chosen as in the whole plan, which counts
    /// the changes that it leaves out. A Service comes with the changes of all LoadBalancer pools,
    /// because its address may need them.
    #[arg(long, value_name = "OBJECT", add = completions::targets())]
    target: Vec<Selected>,
    /// Leave out the changes of this object.
    ///
    /// Objects are spelled as for --target. Repeatable.
    #[arg(long, value_name = "OBJECT", add = completions::targets())]
    exclude: Vec<Selected>,
    /// Keep only the changes of nodes with these labels.
    ///
    /// An example is `rack=a,!gpu`. The flag is the same as `--target label:SELECTOR`.
    #[arg(long, short = 'l', value_name = "SELECTOR", conflicts_with = "target")]
    selector: Option<Selector>,
}

impl SelectionArguments {
    fn selection(&self) -> Selection {
        let SelectionArguments {
            target,
            exclude,
            selector,
        } = self;
        let labels = selector.iter().cloned().map(Selected::Labels);
        Selection {
            targets: target.iter().cloned().chain(labels).collect(),
            excluded: exclude.clone(),
        }
    }

    /// The limit of the plan. A saved plan keeps its own.
    pub(super) fn of_plan(&self, saved: Option<&PlanDocument>) -> Result<Selection, Failure> {
        let given = self.selection();
        let Some(saved) = saved else {
            return Ok(given);
        };
        let of_plan = saved.selection.clone().unwrap_or_default();
        if given.is_everything() || given == of_plan {
            return Ok(of_plan);
        }
        let what = match &saved.selection {
            Some(selection) => format!("the plan is limited by {}", selection.flags()),
            None => "the plan is not limited".to_owned(),
        };
        Err(Failure::Unexpected {
            what: format!("{what}, and the flags give another limit"),
            hint: "plan again with these flags, and review that plan",
        })
    }
}

/// Refuses a limit that names an object that does not exist. It is more likely misspelled than
/// gone.
pub(super) fn check_objects(
    selection: &Selection,
    desired: &Desired,
    observed: &Observed,
) -> Result<(), Failure> {
    match selection.unknown(desired, observed).next() {
        None => Ok(()),
        Some(Selected::Labels(selector)) => Err(Failure::Failed(format!(
            "no node has the labels `{selector}`; `cilium-ipam show nodes` lists the nodes"
        ))),
        Some(unknown) => Err(Failure::Failed(format!(
            "`{unknown}` exists neither in the files nor in the cluster; `cilium-ipam show nodes` and `show pools` list the names"
        ))),
    }
}

/// Limits, waivers and protections.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SafetyArguments {
    /// Allow the plan to exceed this limit. Repeatable.
    ///
    /// A waiver is a limit such as `release-percent`, or the number of addresses that Services may
    /// lose, such as `lost-addresses=3`.
    #[arg(long, value_name = "WAIVER", add = completions::waivers())]
    waive: Vec<Waiver>,
    /// Set a limit, such as `disruptive-count=3`, if that of the Policy is higher or missing.
    #[arg(long, hide_short_help = true, value_name = "LIMIT=N", add = completions::limits())]
    limit: Vec<Setting>,
    /// Also protect this node.
    #[arg(long, hide_short_help = true, value_name = "NODE", add = completions::nodes())]
    protect_node: Vec<NodeName>,
    /// Also protect this pool.
    #[arg(long, hide_short_help = true, value_name = "POOL", add = completions::pools())]
    protect_pool: Vec<PoolName>,
}

#[derive(Clone, Debug)]
struct Setting {
    name: LimitName,
    value: u32,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Setting, String> {
        let (name, value) = text.split_once('=').ok_or("write it as LIMIT=N")?;
        let name: LimitName = name
            .parse()
            .map_err(|error: LimitNameError| error.to_string())?;
        let most = name.measure.most();
        match value.parse() {
            Ok(value) if value <= most => Ok(Setting { name, value }),
            _ => Err(format!("N must be a whole number, at most {most}")),
        }
    }
}

impl SafetyArguments {
    /// Adds the flags to the Policy.
    pub(super) fn amend(&self, policy: &mut Policy) {
        let SafetyArguments {
            waive: _,
            limit,
            protect_node,
            protect_pool,
        } = self;
        for Setting { name, value } in limit {
            // A flag only lowers the limit of the Policy. Exceeding it requires a waiver, which the
            // plan records.
            let limit = policy.limits.entry(*name).or_insert(*value);
            *limit = (*limit).min(*value);
        }
        policy.protected.nodes.extend(protect_node.iter().cloned());
        policy.protected.pools.extend(protect_pool.iter().cloned());
    }

    pub(super) fn waivers(&self) -> BTreeSet<Waiver> {
        self.waive.iter().copied().collect()
    }

    /// Checks that the flags, if any, repeat the waivers of a saved plan. The plan's waivers apply.
    pub(super) fn check_waivers(&self, saved: &PlanDocument) -> Result<(), Failure> {
        let given: BTreeSet<String> = self.waive.iter().map(ToString::to_string).collect();
        let of_plan: BTreeSet<String> = saved.waivers.iter().cloned().collect();
        if given.is_empty() || given == of_plan {
            return Ok(());
        }
        let names = |names: &BTreeSet<String>| match names.len() {
            0 => "no waivers".to_owned(),
            1 => format!("the waiver {}", joined(names, "")),
            _ => format!("the waivers {}", joined(names, ", ")),
        };
        let what = format!(
            "the plan has {}, and --waive asks for {}",
            names(&of_plan),
            names(&given)
        );
        Err(Failure::Unexpected {
            what,
            hint: "plan again with these waivers, and review that plan",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_and_is_not_negative() {
        assert_eq!(duration("90s"), Ok(SignedDuration::from_secs(90)));
        for bad in ["", "5", "5x", "x", "-5s"] {
            assert!(
                duration(bad).is_err_and(|why| why.starts_with("expected a duration, such as")),
                "{bad}"
            );
        }
    }
}

#[cfg(test)]
mod parallelism_tests {
    use super::*;

    #[test]
    fn a_number_or_auto() {
        assert_eq!(parallelism("auto"), Ok(Parallelism::Adaptive));
        let eight = std::num::NonZeroUsize::new(8).unwrap();
        assert_eq!(parallelism("8"), Ok(Parallelism::Fixed(eight)));
        assert!(
            ["", "0", "-1", "Auto"]
                .iter()
                .all(|text| parallelism(text).is_err())
        );
    }

    #[test]
    fn a_date_is_a_day_in_utc_or_a_time_with_its_zone() {
        let shown = |text: &str| date(text).map(|time| time.to_string());
        assert_eq!(shown("2026-03-01"), Ok("2026-03-01T00:00:00Z".to_owned()));
        assert_eq!(
            shown("2026-03-01T08:00:00+01:00"),
            Ok("2026-03-01T07:00:00Z".to_owned())
        );
        for bad in ["", "yesterday", "2026-13-01", "1"] {
            assert!(date(bad).is_err(), "{bad}");
        }
    }
}
