//! The command as clap sees it: our flags, spellings of other tools, environment variables, and
//! the flags that a help omits because its command cannot use them.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};

use super::Arguments;
use super::{foreign_commands, spellings};

/// Flags that select the cluster.
const OF_CLUSTER: [&str; 4] = ["cluster_file", "kubeconfig", "context", "patience"];

/// Flags that select OpenStack's cloud.
const OF_OPENSTACK: [&str; 2] = ["clouds_file", "os_cloud"];

/// Commands that read no cluster.
const WITHOUT_CLUSTER: [&str; 6] = [
    "validate",
    "explain-rule",
    "schema",
    "completions",
    "version",
    "manual",
];

/// Commands that read a cluster, but not OpenStack.
const WITHOUT_OPENSTACK: [&str; 2] = ["init", "snapshot"];

/// Reads the arguments of the process; the first one is the program's name.
///
/// # Errors
/// Fails if they are help, the version, or invalid.
pub(super) fn arguments(given: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let given = spellings::translated(given, &long_flags(&command))
        .map_err(|message| command.error(ErrorKind::UnknownArgument, message))?;
    let mut command = complete(command, &overridden(&given));
    let matches = command
        .try_get_matches_from_mut(&given)
        .map_err(|error| with_advice(error, &given, &mut command))?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The whole command, for completion scripts and manuals.
pub(super) fn command() -> Command {
    complete(Arguments::command(), &BTreeSet::new())
}

fn complete(command: Command, overridden: &BTreeSet<&str>) -> Command {
    let mut command = with_environment(command, "CILIUM_IPAM", overridden);
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
    without(command, &WITHOUT_OPENSTACK, &OF_OPENSTACK)
}

/// The names of all long flags of all commands, without dashes.
fn long_flags(command: &Command) -> BTreeSet<String> {
    let own = command
        .get_arguments()
        .filter_map(|flag| flag.get_long().map(str::to_owned));
    let further = command.get_subcommands().flat_map(long_flags);
    let built_in = ["help", "version"].map(str::to_owned);
    own.chain(further).chain(built_in).collect()
}

/// Flags whose environment variables do not apply: a flag that excludes them is given.
fn overridden(given: &[OsString]) -> BTreeSet<&'static str> {
    let has = |flags: &[&str]| {
        given.iter().filter_map(|word| word.to_str()).any(|word| {
            let name = word.split_once('=').map_or(word, |(name, _)| name);
            flags.contains(&name)
        })
    };
    if has(&["--cluster-file", "--cluster"]) {
        return ["kubeconfig", "context"].into();
    }
    if has(&["--kubeconfig", "--context"]) {
        return ["cluster_file"].into();
    }
    BTreeSet::new()
}

/// Gives each long flag a variable: `CILIUM_IPAM_CONTEXT`, or `CILIUM_IPAM_PLAN_OUT` if it belongs
/// to one command. Kubernetes itself sets `…_PORT` and `…_SERVICE_HOST` for a Service, so that no
/// flag may have such a name.
fn with_environment(command: Command, prefix: &str, overridden: &BTreeSet<&str>) -> Command {
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

fn with_variable(flag: Arg, prefix: &str, overridden: &BTreeSet<&str>) -> Arg {
    let Some(long) = flag.get_long() else {
        return flag;
    };
    if flag.get_env().is_some() || overridden.contains(flag.get_id().as_str()) {
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
    flag.env(variable).hide_env_values(true)
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
        .skip_while(|word| word != unknown)
        .filter(|word| !word.starts_with('-'))
        .collect();
    match foreign_commands::advice(&words) {
        Some(advice) => command.error(
            ErrorKind::InvalidSubcommand,
            format!("unknown command `{unknown}`; {advice}"),
        ),
        None => error,
    }
}

#[cfg(test)]
mod tests {
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
                assert!(flag.is_hide_env_values_set() || variable == "CILIUM_IPAM_IDENTITY");
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
            "CILIUM_IPAM_PLAN_OUT",
            "CILIUM_IPAM_APPLY_AUTO_APPROVE",
            "CILIUM_IPAM_SHOW_NODES_OUTPUT",
        ] {
            assert!(seen.contains(variable), "{variable}: {seen:?}");
        }
    }

    #[test]
    fn no_flag_of_ours_is_translated_away() {
        let long: Vec<String> = long_flags(&Arguments::command()).into_iter().collect();
        for name in long {
            let ours = format!("--{name}");
            let translated = spellings::translated(
                vec![OsString::from(&ours)],
                &long_flags(&Arguments::command()),
            );
            assert_eq!(translated, Ok(vec![OsString::from(&ours)]), "{ours}");
        }
    }

    #[test]
    fn the_old_name_of_cluster_file_is_an_alias() {
        for flag in ["--cluster-file", "--cluster", "-cluster-file"] {
            let read = of(&format!("cilium-ipam plan {flag} c.yaml")).unwrap();
            assert_eq!(read.common.cluster_file.unwrap().to_str(), Some("c.yaml"));
        }
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
    fn a_command_that_reads_no_cluster_does_not_offer_one() {
        let help = |line: &str| of(line).unwrap_err().to_string();
        assert!(!help("cilium-ipam schema --help").contains("--os-cloud"));
        assert!(!help("cilium-ipam schema --help").contains("--context"));
        assert!(!help("cilium-ipam snapshot --help").contains("--os-cloud"));
        assert!(help("cilium-ipam snapshot --help").contains("--context"));
        assert!(help("cilium-ipam plan --help").contains("--os-cloud"));
    }
}
