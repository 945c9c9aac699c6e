//! The daemon `neutron-node`: keeps the networks of its node in step with Neutron, for ever. After a
//! kill, the next run goes on from the files and from Neutron.
#![forbid(unsafe_code)]

mod after_boot;
mod arguments;
mod evidence;
mod fill;
mod garbage;
mod network_state;
mod networks;
mod pairs;
mod pod_cidrs;
mod sync;
#[cfg(test)]
mod torn_writes;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lexopt::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::{Arguments, HELP, Request, RunMode};
use crate::network_state::{NetworkState, SyncResult};
use crate::networks::{networks, orphaned_pools};
use neutron_cni::cni::CniError;
use retry::jittered;

/// Exit code for invalid arguments.
const USAGE: u8 = 2;

/// Limit for the requests of one run that no configuration limits.
const DEADLINE: Duration = Duration::from_secs(30);

/// How this program names itself to OpenStack and Kubernetes.
const USER_AGENT: &str = concat!("neutron-node/", env!("CARGO_PKG_VERSION"));

/// Runs until SIGTERM or SIGINT.
fn main() -> ExitCode {
    let arguments = match Arguments::read(Parser::from_env(), std::env::var("NODE_NAME").ok()) {
        Ok(Request::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Request::Version) => {
            println!("neutron-node {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Ok(Request::Run(arguments)) => *arguments,
        Err(why) => {
            eprintln!("neutron-node: {why}\nTry `neutron-node --help`.");
            return ExitCode::from(USAGE);
        }
    };
    let shutdown = match shutdown_signal() {
        Ok(shutdown) => shutdown,
        Err(why) => {
            eprintln!("neutron-node: signals: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut daemon = Daemon {
        arguments,
        began: Instant::now(),
        states: BTreeMap::new(),
        reported: BTreeMap::new(),
    };
    loop {
        let errors = daemon.sync();
        if daemon.arguments.run_mode == RunMode::Once {
            return if errors == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        // Nodes that started together must not ask Neutron together for ever.
        let pause = jittered(daemon.arguments.interval, &mut fastrand::Rng::new());
        if !matches!(shutdown.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            return ExitCode::SUCCESS;
        }
    }
}

/// Receives SIGTERM and SIGINT. The first process of a container ignores them by default.
fn shutdown_signal() -> std::io::Result<Receiver<()>> {
    let (sender, receiver) = channel();
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// The result of one run for a network, by name.
type Results = Vec<(String, Result<SyncResult, CniError>)>;

struct Daemon {
    arguments: Arguments,
    began: Instant,
    states: BTreeMap<String, NetworkState>,
    /// The last error of each network. Each is reported once.
    reported: BTreeMap<String, String>,
}

impl Daemon {
    /// Syncs everything once. Returns the number of networks with an error.
    fn sync(&mut self) -> usize {
        let mut results: Results = Vec::new();
        let listed = networks(&self.arguments.networks);
        let is_complete = listed
            .as_ref()
            .is_ok_and(|networks| networks.values().all(Result::is_ok));
        match listed {
            Err(error) => results.push(("networks".to_owned(), Err(error))),
            Ok(networks) => {
                for (name, settings) in orphaned_pools(&networks, &self.arguments.state)
                    .into_iter()
                    .chain(networks)
                {
                    let state = self.states.entry(name.clone()).or_default();
                    let result = settings
                        .and_then(|settings| state.sync(&settings, &self.arguments, self.began));
                    results.push((name, result));
                }
            }
        }
        if let Some(wanted) = &self.arguments.pod_cidrs {
            let state = self.states.entry("pod CIDRs".to_owned()).or_default();
            let result = pod_cidrs::sync(wanted, state, self.arguments.neutron_interval);
            results.push(("pod CIDRs".to_owned(), result));
        }
        if !is_complete {
            // These networks may be configured in a file that is invalid now.
            let unlisted = self
                .reported
                .keys()
                .filter(|name| !results.iter().any(|(listed, _)| listed == *name));
            let unlisted: Results = unlisted
                .map(|name| (name.clone(), Ok(SyncResult::NotDue)))
                .collect();
            results.extend(unlisted);
        }
        self.report_changes(results);
        self.reported.len()
    }

    /// Reports new errors, and networks that recovered. An error lasts until a sync succeeds.
    fn report_changes(&mut self, results: Results) {
        let error_of = |(name, result): (String, Result<SyncResult, CniError>)| {
            let error = match result {
                Ok(SyncResult::Done) => return None,
                Ok(SyncResult::NotDue) => self.reported.get(&name).cloned()?,
                Err(CniError {
                    code: _,
                    message,
                    details,
                }) => format!("{message} ({details})"),
            };
            Some((name, error))
        };
        let errors: BTreeMap<String, String> = results.into_iter().filter_map(error_of).collect();
        for (name, error) in &errors {
            if self.reported.get(name) != Some(error) {
                log(name, error);
            }
        }
        for name in self.reported.keys() {
            if !errors.contains_key(name) {
                log(name, "recovered");
            }
        }
        self.reported = errors;
    }
}

/// Writes one line of the log.
fn log(network: &str, what: &str) {
    let now = Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap_or_else(|_| Timestamp::now());
    eprintln!("{now} {network}: {what}");
}
