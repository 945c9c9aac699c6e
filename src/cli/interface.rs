//! The command as clap sees it: our flags, spellings of other tools, environment variables, and
//! the flags that a help omits because its command cannot use them.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::Arguments;
use super::foreign_commands;
use super::overview;
use super::spellings::{self, LongFlags, Translated};
use super::undo;
use ipam_core::text::slip_of;

/// Start of the names of our environment variables.
const PREFIX: &str = "CILIUM_IPAM";

/// Flags that select the cluster.
const OF_CLUSTER: [&str; 4] = ["cluster_files", "kubeconfig", "context", "retry_timeout"];

/// Commands that neither read a cluster nor print roles.
const WITHOUT_CILIUM: [&str; 4] = ["validate", "completions", "version", "manual"];

/// Flags that select OpenStack.
const OF_OPENSTACK: [&str; 3] = ["clouds_file", "os_cloud", "neutron_file"];

/// Commands that read no cluster.
const WITHOUT_CLUSTER: [&str; 5] = ["validate", "schema", "completions", "version", "manual"];

/// Commands that read a cluster, but not OpenStack.
const WITHOUT_OPENSTACK: [&str; 3] = ["init", "import", "snapshot"];

/// Reads the arguments of the process; the first one is the program's name.
///
/// # Errors
/// Fails if they are help, the version, or invalid.
pub(super) fn arguments(given: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let Translated {
        arguments: given,
        switched_off,
    } = spellings::translated(given, &long_flags(&command))
        .map_err(|message| command.error(ErrorKind::UnknownArgument, message))?;
    let overridden = Overridden {
        ids: excluded(command.clone(), &given),
        names: switched_off,
    };
    let mut command = complete(command, &overridden);
    let matches = command
        .try_get_matches_from_mut(&given)
        .map_err(|error| with_advice(error, &given, &mut command))?;
    let arguments =
        Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    match arguments.common.cluster_files.len() < named_cluster_files(&given) {
        true => Err(command.error(
            ErrorKind::ArgumentConflict,
            "--cluster-file is given before and after the command: give all of them after it",
        )),
        false => Ok(arguments),
    }
}

/// The number of flags that name a cluster file. Of a global flag, clap keeps only the values on one
/// side of the subcommand.
fn named_cluster_files(given: &[OsString]) -> usize {
    let words = given.iter().take_while(|word| *word != "--");
    let flags = words.filter_map(|word| word.to_str()?.split('=').next());
    flags
        .filter(|flag| ["--cluster-file", "--cluster"].contains(flag))
        .count()
}

/// Flags whose environment variables do not apply, because the command line decides otherwise.
#[derive(Debug, Default)]
struct Overridden {
    /// Ids of flags that a given argument excludes.
    ids: BTreeSet<String>,
    /// Long names of flags that are switched off.
    names: BTreeSet<String>,
}

impl Overridden {
    fn has(&self, flag: &Arg, long: &str) -> bool {
        self.ids.contains(flag.get_id().as_str()) || self.names.contains(long)
    }
}

/// The whole command, for completion scripts and manuals.
pub(super) fn command() -> Command {
    complete(Arguments::command(), &Overridden::default())
}

/// As [`command`], for a line that is not yet complete.
pub(super) fn lenient_command() -> Command {
    let command = Arguments::command().ignore_errors(true);
    complete(command, &Overridden::default())
}

fn complete(command: Command, overridden: &Overridden) -> Command {
    let command = with_environment(command, PREFIX, overridden);
    let command = command.mut_subcommand("undo", undo::adapted);
    let mut command = overview::with_tasks(command);
    // Only a built command has the global flags in its subcommands.
    command.build();
    let of_both = [&OF_CLUSTER[..], &OF_OPENSTACK].concat();
    let without = |command: Command, names: &[&'static str], flags: &[&str]| {
        let hide = |flag: Arg| {
            let is_hidden = flag.is_hide_set() || flags.contains(&flag.get_id().as_str());
            flag.hide(is_hidden)
        };
        names.iter().fold(command, |command, name| {
            // `mut_arg` would move the flag to the end, and a built command keeps places of flags.
            command.mut_subcommand(*name, |subcommand| subcommand.mut_args(hide))
        })
    };
    let command = without(command, &WITHOUT_CLUSTER, &of_both);
    let command = without(command, &WITHOUT_CILIUM, &["cilium_namespace"]);
    without(command, &WITHOUT_OPENSTACK, &OF_OPENSTACK)
}

/// The long flags of all commands. A flag is a switch only if it takes no value in any command.
fn long_flags(command: &Command) -> LongFlags {
    fn collect(command: &Command, long: &mut LongFlags, valued: &mut BTreeSet<String>) {
        for flag in command.get_arguments() {
            let Some(name) = flag.get_long() else {
                continue;
            };
            match flag.get_action() {
                ArgAction::SetTrue => long.switches.insert(name.to_owned()),
                _ => valued.insert(name.to_owned()),
            };
            long.all.insert(name.to_owned());
        }
        for subcommand in command.get_subcommands() {
            collect(subcommand, long, valued);
        }
    }
    let (mut long, mut valued) = (LongFlags::default(), BTreeSet::new());
    collect(command, &mut long, &mut valued);
    long.all.extend(["help", "version"].map(str::to_owned));
    long.switches.retain(|name| !valued.contains(name));
    long
}

/// Ids of the flags that an argument on the command line excludes. Empty without any variable of
/// ours, because only their values could clash.
fn excluded(command: Command, given: &[OsString]) -> BTreeSet<String> {
    let is_ours = |(name, _): (OsString, OsString)| {
        let name = name.to_str();
        name.is_some_and(|name| name.starts_with(&format!("{PREFIX}_")))
    };
    if !std::env::vars_os().any(is_ours) {
        return BTreeSet::new();
    }
    // The second reading, with the variables, reports the errors.
    let mut command = command.ignore_errors(true);
    let Ok(matches) = command.try_get_matches_from_mut(given) else {
        return BTreeSet::new();
    };
    let (mut command, mut matches): (&Command, &ArgMatches) = (&command, &matches);
    while let Some((name, below)) = matches.subcommand() {
        let Some(subcommand) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (subcommand, below);
    }
    let is_given = |flag: &&Arg| {
        let id = flag.get_id().as_str();
        matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let excludes = |one: &Arg, other: &Arg| {
        let conflicts = command.get_arg_conflicts_with(one);
        conflicts.iter().any(|flag| flag.get_id() == other.get_id())
    };
    let flags = || command.get_arguments();
    flags()
        .filter(is_given)
        .flat_map(|given| {
            flags().filter(move |flag| excludes(given, flag) || excludes(flag, given))
        })
        .map(|flag| flag.get_id().to_string())
        .collect()
}

/// Gives each long flag a variable: `CILIUM_IPAM_CONTEXT`, or `CILIUM_IPAM_PLAN_OUT` if it belongs
/// to one command. Kubernetes itself sets `…_PORT` and `…_SERVICE_HOST` for a Service, so that no
/// flag may have such a name.
fn with_environment(command: Command, prefix: &str, overridden: &Overridden) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|subcommand| subcommand.get_name().to_owned())
        .collect();
    // Its flags and its subcommands exclude each other, so a variable would break the latter.
    let command = if command.is_args_conflicts_with_subcommands_set() {
        command
    } else {
        command.mut_args(|flag| with_variable(flag, prefix, overridden))
    };
    names.into_iter().fold(command, |command, name| {
        let prefix = format!("{prefix}_{}", constant(&name));
        command.mut_subcommand(&name, |subcommand| {
            with_environment(subcommand, &prefix, overridden)
        })
    })
}

fn with_variable(flag: Arg, prefix: &str, overridden: &Overridden) -> Arg {
    let Some(long) = flag.get_long() else {
        return flag;
    };
    if flag.get_env().is_some() || overridden.has(&flag, long) {
        return flag;
    }
    let variable: &'static str = format!("{prefix}_{}", constant(long)).leak();
    // CI systems set a variable without a value to empty text.
    if std::env::var_os(variable).is_some_and(|value| value.is_empty()) {
        return flag;
    }
    let flag = match flag.get_action() {
        ArgAction::SetTrue => flag.value_parser(BoolishValueParser::new()),
        _ => flag,
    };
    flag.env(variable).hide_env(true).hide_env_values(true)
}

fn constant(name: &str) -> String {
    name.replace('-', "_").to_ascii_uppercase()
}

/// Adds our command to the error about an unknown one.
fn with_advice(error: clap::Error, given: &[OsString], command: &mut Command) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let words: Vec<&str> = given
        .iter()
        .filter_map(|word| word.to_str())
        .skip_while(|word| word != unknown && *word != foreign_commands::MIGRATE)
        .filter(|word| !word.starts_with('-'))
        .collect();
    match foreign_commands::advice(&words) {
        Some(advice) => command.error(
            ErrorKind::InvalidSubcommand,
            format!("unknown command `{unknown}`; {advice}"),
        ),
        None => with_slips_only(error),
    }
}

/// Keeps only those suggestions of clap of which the unknown command is a slip. Others confuse:
/// clap suggests `map` and `policy` for `aply`.
fn with_slips_only(mut error: clap::Error) -> clap::Error {
    let unknown = error.get(ContextKind::InvalidSubcommand).cloned();
    let suggested = error.remove(ContextKind::SuggestedSubcommand);
    if let (Some(ContextValue::String(unknown)), Some(ContextValue::Strings(suggested))) =
        (unknown, suggested)
        && let Some(meant) = slip_of(&unknown, suggested.iter().map(String::as_str))
    {
        let meant = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
    error
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn of(line: &str) -> Result<Arguments, clap::Error> {
        arguments(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_long_flag_has_a_variable_that_kubernetes_does_not_set() {
        fn check(command: &Command, seen: &mut BTreeSet<String>) {
            for flag in command.get_arguments() {
                let Some(variable) = flag.get_env() else {
                    continue;
                };
                let variable = variable.to_str().unwrap().to_owned();
                for end in ["_PORT", "_SERVICE_HOST", "_SERVICE_PORT"] {
                    assert!(!variable.ends_with(end), "{variable}");
                }
                assert!(flag.is_hide_env_set(), "{variable}");
                seen.insert(variable);
            }
            command
                .get_subcommands()
                .for_each(|subcommand| check(subcommand, seen));
        }
        let mut seen = BTreeSet::new();
        check(&command(), &mut seen);
        for variable in [
            "CILIUM_IPAM_CLUSTER_FILE",
            "CILIUM_IPAM_VERBOSE",
            "CILIUM_IPAM_CILIUM_NAMESPACE",
            "CILIUM_IPAM_PLAN_OUT",
            "CILIUM_IPAM_APPLY_AUTO_APPROVE",
            "CILIUM_IPAM_SHOW_NODES_OUTPUT",
        ] {
            assert!(seen.contains(variable), "{variable}: {seen:?}");
        }
    }

    #[test]
    fn no_flag_of_ours_is_translated_away() {
        let whole = Arguments::command();
        let long = long_flags(&whole);
        let of_all: Vec<&str> = whole.get_arguments().filter_map(Arg::get_long).collect();
        for command in whole.get_subcommands() {
            let own = long_flags(command).all;
            for name in own.iter().map(String::as_str).chain(of_all.iter().copied()) {
                let ours = [command.get_name(), &format!("--{name}")].map(OsString::from);
                let translated = spellings::translated(ours.to_vec(), &long);
                assert_eq!(translated.unwrap().arguments, ours);
            }
        }
    }

    #[test]
    fn the_old_name_of_cluster_file_is_an_alias() {
        for flag in ["--cluster-file", "--cluster", "-cluster-file"] {
            let read = of(&format!("cilium-ipam plan {flag} c.yaml")).unwrap();
            assert_eq!(read.common.cluster_files, [Path::new("c.yaml")]);
        }
    }

    #[test]
    fn cluster_files_stand_on_one_side_of_the_command() {
        let both = "cilium-ipam plan --cluster-file a.yaml --cluster=b.yaml";
        let read = of(both).unwrap().common.cluster_files;
        assert_eq!(read, [Path::new("a.yaml"), Path::new("b.yaml")]);
        let error = of("cilium-ipam --cluster-file a.yaml plan --cluster-file b.yaml").unwrap_err();
        assert!(error.to_string().contains("after the command"), "{error}");
    }

    #[test]
    fn an_unknown_command_of_another_tool_names_ours() {
        let error = of("cilium-ipam --context x state list -A")
            .unwrap_err()
            .to_string();
        assert!(error.contains("no namespace"), "{error}");
        let error = of("cilium-ipam --context x state list")
            .unwrap_err()
            .to_string();
        assert!(error.contains("use `cilium-ipam show nodes`"), "{error}");
    }

    #[test]
    fn an_unknown_command_names_the_one_that_is_meant_or_none() {
        for (typed, meant) in [
            ("aply", Some("'apply'")),
            ("plann", Some("'plan'")),
            ("exlpain", Some("'explain'")),
            ("migrate stauts", Some("'status'")),
            ("foo", None),
            ("stat", None),
        ] {
            let error = of(&format!("cilium-ipam {typed}")).unwrap_err().to_string();
            let tip = error.lines().find(|line| line.contains("tip:"));
            let expected = meant.map(|name| format!("  tip: a similar subcommand exists: {name}"));
            assert_eq!(tip, expected.as_deref(), "{typed}: {error}");
        }
    }

    #[test]
    fn a_command_that_reads_no_cluster_does_not_offer_one() {
        let help = |line: &str| of(line).unwrap_err().to_string();
        assert!(!help("cilium-ipam schema --help").contains("--os-cloud"));
        assert!(!help("cilium-ipam schema --help").contains("--context"));
        assert!(!help("cilium-ipam snapshot --help").contains("--os-cloud"));
        assert!(help("cilium-ipam snapshot --help").contains("--context"));
        assert!(help("cilium-ipam plan --help").contains("--os-cloud"));
    }
}
