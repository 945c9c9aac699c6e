//! The daemon `neutron-node`: looks at the networks of its node again and again. Whatever it was
//! doing when it ends, the next one goes on from the files and from what Neutron says.
#![forbid(unsafe_code)]

mod arguments;
mod evidence;
mod garbage;
mod network;
mod networks;
mod pairs;
mod pod_cidrs;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lexopt::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::{Arguments, HELP, Request, Rounds};
use crate::network::{Memory, Round};
use crate::networks::{forsaken, networks};
use neutron_cni::cni::CniError;
use retry::spread;

/// A request that cannot be understood.
const USAGE: u8 = 2;

/// Runs until it is told to end.
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
    let end = match told_to_end() {
        Ok(end) => end,
        Err(why) => {
            eprintln!("neutron-node: signals: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut daemon = Daemon {
        arguments,
        began: Instant::now(),
        memories: BTreeMap::new(),
        said: BTreeMap::new(),
    };
    loop {
        let faults = daemon.round();
        if daemon.arguments.rounds == Rounds::One {
            return if faults == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        // Nodes that were started together do not ask together for ever.
        let pause = spread(daemon.arguments.interval, &mut fastrand::Rng::new());
        if !matches!(end.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
            return ExitCode::SUCCESS;
        }
    }
}

/// As the first process of a container it would be told in vain otherwise.
fn told_to_end() -> std::io::Result<Receiver<()>> {
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

struct Daemon {
    arguments: Arguments,
    began: Instant,
    memories: BTreeMap<String, Memory>,
    /// The last fault of each network, which is said once.
    said: BTreeMap<String, String>,
}

impl Daemon {
    /// Looks at everything once; how many faults there were.
    fn round(&mut self) -> usize {
        let mut rounds: Vec<(String, Result<Round, CniError>)> = Vec::new();
        let listed = networks(&self.arguments.networks);
        let is_whole = listed
            .as_ref()
            .is_ok_and(|networks| networks.values().all(Result::is_ok));
        match listed {
            Err(fault) => rounds.push(("networks".to_owned(), Err(fault))),
            Ok(networks) => {
                for (name, settings) in forsaken(&networks, &self.arguments.state)
                    .into_iter()
                    .chain(networks)
                {
                    let memory = self.memories.entry(name.clone()).or_default();
                    let kept = settings
                        .and_then(|settings| memory.keep(&settings, &self.arguments, self.began));
                    rounds.push((name, kept));
                }
            }
        }
        if let Some(wanted) = &self.arguments.pod_cidrs {
            let memory = self.memories.entry("pod CIDRs".to_owned()).or_default();
            rounds.push((
                "pod CIDRs".to_owned(),
                pod_cidrs::keep(wanted, memory, self.arguments.look),
            ));
        }
        if !is_whole {
            // Nobody looked at these.
            let unlisted = self
                .said
                .keys()
                .filter(|name| !rounds.iter().any(|(round, _)| round == *name));
            rounds.extend(
                unlisted
                    .map(|name| (name.clone(), Ok(Round::NotDue)))
                    .collect::<Vec<_>>(),
            );
        }
        self.tell(rounds);
        self.said.len()
    }

    /// A fault lasts until a round without it; what was not looked at is no better than before.
    fn tell(&mut self, rounds: Vec<(String, Result<Round, CniError>)>) {
        let said = |(name, round): (String, Result<Round, CniError>)| {
            let fault = match round {
                Ok(Round::Done) => return None,
                Ok(Round::NotDue) => self.said.get(&name).cloned()?,
                Err(CniError {
                    message, details, ..
                }) => format!("{message} ({details})"),
            };
            Some((name, fault))
        };
        let now: BTreeMap<String, String> = rounds.into_iter().filter_map(said).collect();
        for (name, fault) in now
            .iter()
            .filter(|(name, fault)| self.said.get(*name) != Some(fault))
        {
            say(name, fault);
        }
        self.said
            .keys()
            .filter(|name| !now.contains_key(*name))
            .for_each(|name| say(name, "all is well again"));
        self.said = now;
    }
}

/// A line for whoever reads logs.
fn say(network: &str, what: &str) {
    let now = Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap_or_else(|_| Timestamp::now());
    eprintln!("{now} {network}: {what}");
}

/// How long something at Neutron may take in a round, without an end that a configuration sets.
const DEADLINE: Duration = Duration::from_secs(30);
