//! `watch`: keeps a cluster equal to the files, and prints one line for each event.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::event::EventPrinter;
use super::failure::Failure;
use super::files::{Files, SafetyArguments, duration, parallelism};
use super::interruption::holder;
use super::live_map::{self, MapServer, listen_address};
use super::target::Target;
use super::{Common, ExitStatus, Format, valid};
use ipam_cluster::{ClusterCache, Opening, Role};
use ipam_controller::{
    ControllerEvent, Directory, HttpServer, Parallelism, Scope, Telemetry, Watch, load, watch,
};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Serve `/livez`, `/healthz`, `/readyz` and `/metrics` on this address, such as `127.0.0.1:9464`.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Serve the map of the last plan to browsers on this port of 127.0.0.1, or on this address. It
    /// shows names and addresses of all nodes and Services to each visitor.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    listen_map: Option<SocketAddr>,
    /// Longest time between two plans, at least `1s`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    interval: Duration,
    /// Maximum number of concurrent writes. `auto`: 4 to 64 writes, as many as increase the
    /// server's throughput.
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = parallelism)]
    parallelism: Parallelism,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
    /// Output format. `json` prints one object per line.
    #[arg(long, short, value_parser = Format::plain(), default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<ExitStatus, Failure> {
    let (location, safety_arguments) = (
        arguments.files.location(),
        arguments.safety_arguments.clone(),
    );
    let watched = location.watched_directory();
    let load = move || {
        let mut loaded = load(&location);
        safety_arguments.amend(&mut loaded.desired.policy);
        loaded
    };
    let source = Directory::new(&watched, load);
    let first = valid(source.load(), common).map_err(Failure::unwritten)?;
    let Target::Live(cluster) = common.target(Opening::Read).await? else {
        let message = "a cluster in a file sends no events: use `apply`, or watch an API server";
        return Err(Failure::Failed(message.to_owned()));
    };
    let watching = Watch {
        source,
        waivers: arguments.safety_arguments.waivers(),
        interval: arguments.interval,
        parallelism: arguments.parallelism,
        holder: holder(),
        openstack: common.openstack_for(&first.desired, Scope::Ports).await?,
    };
    let mut printer = EventPrinter::new(arguments.output, common.detail());
    let telemetry = match arguments.listen {
        Some(address) => Some(TelemetryServer::bind(address, &mut printer).await?),
        None => None,
    };
    let map = MapServer::of_plans(arguments.listen_map).await?;
    if let Some(server) = &map {
        printer.listening(server.address()?, "map");
    }
    let ending = printer.ending();
    let mut on_event = |event: ControllerEvent<'_>| {
        telemetry.iter().for_each(|server| server.on_event(&event));
        map.iter().for_each(|server| server.on_event(&event));
        printer.on_event(&event);
    };
    let cache = ClusterCache::new(cluster);
    // So that the cache lists the cluster once.
    cache.set_role(Role::Leader);
    tokio::select! {
        never = cache.keep() => match never {},
        never = serve(telemetry.as_ref()) => match never {},
        never = live_map::serve(map.as_ref()) => match never {},
        () = watch(&cache, watching, first, ending, &mut on_event) => {}
    }
    printer.finish()
}

/// Metrics and health, and the server of `--listen`.
struct TelemetryServer {
    telemetry: Arc<Telemetry>,
    server: HttpServer,
}

impl TelemetryServer {
    async fn bind(
        address: SocketAddr,
        printer: &mut EventPrinter,
    ) -> Result<TelemetryServer, Failure> {
        let server = HttpServer::bind(address).await?;
        printer.listening(server.address()?, "metrics");
        let telemetry = Arc::new(Telemetry::default());
        // `watch` has no replicas, so this process always leads.
        telemetry.on_event(&ControllerEvent::Leading);
        Ok(TelemetryServer { telemetry, server })
    }

    fn on_event(&self, event: &ControllerEvent<'_>) {
        self.telemetry.on_event(event);
        if matches!(event, ControllerEvent::Planned(_)) {
            self.telemetry.set_ready();
        }
    }
}

async fn serve(server: Option<&TelemetryServer>) -> Infallible {
    match server {
        Some(TelemetryServer { telemetry, server }) => server.serve(telemetry).await,
        None => std::future::pending().await,
    }
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    let long_enough = Duration::try_from(duration)
        .ok()
        .filter(|duration| *duration >= Duration::from_secs(1));
    long_enough.ok_or_else(|| "it must be at least 1s".to_owned())
}
