//! `operator`: runs inside the cluster and keeps it as its custom resources say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::event::EventPrinter;
use super::failure::Failure;
use super::files::parallelism;
use super::interruption::holder;
use super::live_map::{self, MapServer, listen_address};
use super::target::live;
use super::watch::interval;
use super::{Common, ExitStatus, Format};
use ipam_controller::{
    ControllerEvent, HttpServer, Operator, Parallelism, Scope, Telemetry, operate,
};

/// How long to retry a renewal of the leader's lease. A late renewal is useless.
const HASTE: SignedDuration = SignedDuration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Serve `/livez`, `/healthz`, `/readyz` and `/metrics` on this address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Serve the map of the last plan to browsers on this port of 127.0.0.1, or on this address. It
    /// shows names and addresses of all nodes and Services to each visitor.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    listen_map: Option<SocketAddr>,
    /// Name among the replicas, such as the name of the Pod, also in `CILIUM_IPAM_IDENTITY`. Default:
    /// host, process and a random number.
    #[arg(
        long,
        value_name = "NAME",
        env = "CILIUM_IPAM_IDENTITY",
        hide_env = true
    )]
    identity: Option<String>,
    /// Longest time between two plans, at least `1s`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    interval: Duration,
    /// Maximum number of concurrent writes. `auto`: as many as the server gains from, 4 to 64.
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = parallelism)]
    parallelism: Parallelism,
    /// Output format. `json` prints one object per line.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    if !common.cluster_files.is_empty() {
        let message = "a cluster in a file has no custom resources: use `apply`, or run the operator in a cluster";
        return Err(Failure::Failed(message.to_owned()));
    }
    let cluster = live(common, common.retry_timeout).await?;
    let hasty = live(common, HASTE).await?;
    let server = HttpServer::bind(arguments.listen).await?;
    let map = MapServer::of_plans(arguments.listen_map).await?;
    let mut printer = EventPrinter::new(arguments.output, common.detail());
    printer.listening(server.address()?, "metrics");
    if let Some(server) = &map {
        printer.listening(server.address()?, "map");
    }
    // A new Pod may have the name of an old one that still runs.
    let identity = match &arguments.identity {
        Some(name) => format!("{name}-{:08x}", fastrand::u32(..)),
        None => format!("{}-{:08x}", holder(), fastrand::u32(..)),
    };
    let operator = Operator {
        cluster,
        hasty,
        identity,
        interval: arguments.interval,
        parallelism: arguments.parallelism,
        telemetry: Arc::new(Telemetry::default()),
        server,
        openstack: common.openstack(Scope::Ports),
    };
    let ending = printer.ending();
    let mut on_event = |event: ControllerEvent<'_>| {
        map.iter().for_each(|server| server.on_event(&event));
        printer.on_event(&event);
    };
    tokio::select! {
        never = live_map::serve(map.as_ref()) => match never {},
        () = operate(operator, ending, &mut on_event) => {}
    }
    printer.finish()
}
