//! `completions`: prints a completion script for a shell. The script calls `cilium-ipam` with
//! [`VARIABLE`] for each completion, so that names of nodes, pools and Services come from the files
//! and the cluster that the typed line selects. A completion must never print an error.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use clap::{ArgMatches, FromArgMatches};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, Shell,
};

use super::failure::Failure;
use super::files::spelled_one_way;
use super::target::read_cluster;
use super::{Common, ExitStatus, interface, output, runtime, undo_file};
use ipam_cluster::Extent;
use ipam_cluster::live::contexts;
use ipam_config::source::Location;
use ipam_controller::load;
use ipam_core::model::{LimitName, Waiver};
use ipam_core::rules;

/// The name of the command that the scripts complete.
const NAME: &str = "cilium-ipam";

/// The environment variable with which a script asks for a completion. Its value is the shell.
const VARIABLE: &str = "_CILIUM_IPAM_COMPLETE";

/// How long a completion reads the files and the cluster. A person waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let (mut script, shells) = (Vec::new(), Shells::builtins());
    let shell = arguments.shell.to_string();
    let Some(completer) = shells.completer(&shell) else {
        return Err(Failure::Failed(format!("no completion for {shell}")));
    };
    completer.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    output::script(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}

/// Answers the script of a shell. Returns `false` if this is not a completion.
pub(super) fn answered() -> Result<bool, clap::Error> {
    CompleteEnv::with_factory(interface::command)
        .var(VARIABLE)
        .try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref())
}

/// Names of objects.
#[derive(Debug, Default)]
struct Names {
    nodes: Vec<String>,
    pools: Vec<String>,
    services: Vec<String>,
}

impl Names {
    /// The names in the files and in the cluster that the typed line selects. Empty if they cannot
    /// be read.
    fn read() -> Names {
        let (send, received) = channel();
        // A plugin for credentials, or a large file, may block a thread for long.
        std::thread::spawn(move || send.send(Names::of_typed_line()));
        received.recv_timeout(PATIENCE).unwrap_or_default()
    }

    fn of_typed_line() -> Names {
        let Some((mut common, directory)) = typed() else {
            return Names::default();
        };
        common.verbose = false;
        let loaded = load(&Location {
            directory: spelled_one_way(&directory),
            revision: None,
        });
        let pools = loaded.desired.pools.keys();
        let mut names = Names {
            pools: pools.map(ToString::to_string).collect(),
            ..Names::default()
        };
        let Ok(runtime) = runtime() else {
            return names;
        };
        if let Ok(observed) = runtime.block_on(read_cluster(&common, Extent::Plan)) {
            names.nodes = observed.nodes.keys().map(ToString::to_string).collect();
            names.services = observed.services.keys().map(ToString::to_string).collect();
        }
        names
    }

    /// All names with their kinds, as `--target` expects them.
    fn of_kinds(self) -> impl Iterator<Item = String> {
        let with = |kind: &'static str| move |name: String| format!("{kind}/{name}");
        let nodes = self.nodes.into_iter().map(with("node"));
        let pools = self.pools.into_iter().map(with("pool"));
        nodes
            .chain(pools)
            .chain(self.services.into_iter().map(with("service")))
    }
}

/// The global flags and the directory of the typed line, if they can be read.
fn typed() -> Option<(Common, PathBuf)> {
    let matches = typed_matches()?;
    let common = Common::from_arg_matches(&matches).ok()?;
    let directory = ["directory", "what"].into_iter().find_map(|id| {
        let given = matches.try_get_one::<PathBuf>(id).ok()??;
        given.is_dir().then(|| given.clone())
    });
    Some((common, directory.unwrap_or_else(|| PathBuf::from("pools"))))
}

/// The arguments of the last command in the typed line.
fn typed_matches() -> Option<ArgMatches> {
    let line: Vec<OsString> = std::env::args_os()
        .skip_while(|word| word != "--")
        .skip(1)
        .collect();
    let mut command = interface::lenient_command();
    let mut matches = command.try_get_matches_from_mut(line).ok()?;
    while let Some((_, below)) = matches.remove_subcommand() {
        matches = below;
    }
    Some(matches)
}

/// Names that a shell takes as they are. Others could become commands of the typed line.
fn candidates<N: ToString>(names: impl IntoIterator<Item = N>) -> Vec<CompletionCandidate> {
    let is_plain = |name: &String| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._:@/=-".contains(letter);
        name.chars().all(is_plain)
    };
    let names = names.into_iter().map(|name| name.to_string());
    names
        .filter(is_plain)
        .map(CompletionCandidate::new)
        .collect()
}

/// Completes names of nodes.
pub(super) fn nodes() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Names::read().nodes))
}

/// Completes names of pools.
pub(super) fn pools() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Names::read().pools))
}

/// Completes Services as `NAMESPACE/NAME`.
pub(super) fn services() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Names::read().services))
}

/// Completes what `--target` takes.
pub(super) fn targets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(Names::read().of_kinds()))
}

/// Completes the nodes that `migrate --target` takes.
pub(super) fn node_targets() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let targets = Names::read().of_kinds();
        candidates(targets.filter(|target| target.starts_with("node/")))
    })
}

/// Completes names of nodes and pools, and Services as `NAMESPACE/NAME`.
pub(super) fn objects() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let Names {
            nodes,
            pools,
            services,
        } = Names::read();
        let names: BTreeSet<String> = [nodes, pools, services].into_iter().flatten().collect();
        candidates(names)
    })
}

/// Completes what `explain` takes. Codes follow only after the first letter, because there are
/// many.
pub(super) fn explained() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let mut found = objects().candidates();
        if !typed.is_empty() {
            found.extend(rules::pages().map(|page| {
                CompletionCandidate::new(page.code).help(Some(page.summary.clone().into()))
            }));
        }
        found.retain(|one| one.get_value().to_string_lossy().starts_with(&*typed));
        found
    })
}

/// Completes contexts of the kubeconfig.
pub(super) fn of_kubeconfig() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let typed = typed().and_then(|(common, _)| common.kubeconfig);
        candidates(contexts(typed.as_deref()))
    })
}

/// Completes waivers. The number of a `lost-addresses=N` follows.
pub(super) fn waivers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let limits = LimitName::all().map(Waiver::Limit);
        let mut names: Vec<String> = limits.map(|waiver| waiver.to_string()).collect();
        names.extend([
            Waiver::LastAddressPools.to_string(),
            "lost-addresses=".to_owned(),
        ]);
        candidates(names)
    })
}

/// Completes limits. Their number follows.
pub(super) fn limits() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(LimitName::all().map(|name| format!("{name}="))))
}

/// Completes cluster files.
pub(super) fn cluster_files() -> ArgValueCompleter {
    of_types(&["json", "yaml", "yml", "zip"])
}

/// Completes names of undo plans.
pub(super) fn undo_plans() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let plans = undo_file::kept().into_iter();
        let names = plans.filter_map(|plan| plan.file_name().map(OsStr::to_owned));
        let names = names.chain([OsString::from(super::undo::LAST)]);
        let typed = typed.as_encoded_bytes();
        let fits = |name: &OsString| name.as_encoded_bytes().starts_with(typed);
        names.filter(fits).map(CompletionCandidate::new).collect()
    })
}

/// Completes directories, and saved plans.
pub(super) fn directories_and_plans() -> ArgValueCompleter {
    of_types(&["json"])
}

/// Completes files with one of these extensions, and directories.
fn of_types(extensions: &'static [&'static str]) -> ArgValueCompleter {
    let is_of_type = move |path: &Path| {
        let extension = path.extension().and_then(OsStr::to_str);
        path.is_dir() || extension.is_some_and(|extension| extensions.contains(&extension))
    };
    ArgValueCompleter::new(PathCompleter::any().filter(is_of_type))
}
