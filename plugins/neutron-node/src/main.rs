//! The daemon `neutron-node`: keeps the networks of its node in step with Neutron, for ever. After a
//! kill, the next run goes on from the files and from Neutron.

#![forbid(unsafe_code)]

mod arguments;
mod attachment_definitions;
mod daemon;
mod fill;
mod garbage;
mod gone_node;
mod network_state;
mod networks;
mod pairs;
mod service_account;
mod sync;
mod telemetry;
#[cfg(test)]
mod torn_writes;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use jiff::Timestamp;
use lexopt::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::{Arguments, HELP, Request, RunMode};
use crate::daemon::Daemon;
use crate::telemetry::Telemetry;
use retry::jittered;

/// Exit code for invalid arguments.
const USAGE: u8 = 2;

/// How this program names itself to OpenStack and Kubernetes.
const USER_AGENT: &str = concat!("neutron-node/", env!("CARGO_PKG_VERSION"));

/// Runs until SIGTERM or SIGINT.
fn main() -> ExitCode {
    let arguments = match Arguments::read(Parser::from_env()) {
        Ok(Request::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Request::Version) => {
            println!("neutron-node {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Ok(Request::Gc(None)) => {
            print!("{}", gone_node::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Request::Gc(Some(arguments))) => return gone_node::run(&arguments),
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
    let telemetry = Telemetry::new(arguments.interval);
    if let Some(address) = arguments.listen
        && arguments.run_mode == RunMode::Loop
    {
        match telemetry::serve(address, telemetry.clone()) {
            Ok(address) => log("health", &format!("listening on {address}")),
            Err(why) => {
                eprintln!("neutron-node: --listen {address}: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    run(Daemon::new(arguments, telemetry), &shutdown)
}

/// Syncs until a signal, or once.
fn run(mut daemon: Daemon, shutdown: &Receiver<()>) -> ExitCode {
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

/// Writes one line of the log.
fn log(network: &str, what: &str) {
    let now = Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap_or_else(|_| Timestamp::now());
    eprintln!("{now} {network}: {what}");
}
