//! `watch`: keeps a cluster as the files say, and tells what it does, a line for each thing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::apply::holder;
use super::duration::duration;
use super::event::Announcer;
use super::failure::Failure;
use super::files::Files;
use super::safety_arguments::SafetyArguments;
use super::target::Target;
use super::{Common, Format, Reached, valid};
use ipam_cluster::{ClusterCache, Opening};
use ipam_controller::{ControllerEvent, Directory, Reach, Server, Telemetry, Watch, load, watch};

/// Keep a cluster as the files say.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    files: Files,
    /// Where `/livez`, `/readyz` and `/metrics` are answered, such as `127.0.0.1:9464`; nowhere
    /// when absent.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How often it is planned when nothing happens, at least `1s`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    interval: Duration,
    /// Writes that are under way at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    parallelism: NonZeroUsize,
    #[command(flatten)]
    safety_arguments: SafetyArguments,
    /// Form of the lines; `json` is an object for each.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    let (location, safety_arguments) = (
        arguments.files.location(),
        arguments.safety_arguments.clone(),
    );
    let listened_to = location.to_listen_to();
    let load = move || {
        let mut loaded = load(&location);
        safety_arguments.amend(&mut loaded.desired.policy);
        loaded
    };
    let source = Directory::new(&listened_to, load);
    let first = valid(source.load(), common)?;
    let Target::Live(cluster) = common.target(Opening::Read).await? else {
        let message = "a cluster in a file tells nobody what happens to it; use apply, or watch an API server";
        return Err(Failure::Failed(message.to_owned()));
    };
    let watching = Watch {
        source,
        waivers: arguments.safety_arguments.waivers(),
        interval: arguments.interval,
        parallelism: arguments.parallelism,
        holder: holder(),
        openstack: common.openstack_for(&first.desired, Reach::Subnets).await?,
    };
    let mut announcer = Announcer::new(arguments.output);
    let told = match arguments.listen {
        Some(address) => Some(Told::listening(address, &mut announcer).await?),
        None => None,
    };
    let nobody_listens = announcer.nobody_listens();
    let ending = async {
        tokio::select! {
            () = asked_to_end() => {}
            () = nobody_listens.notified() => {}
        }
    };
    let mut on_event = |event: ControllerEvent<'_>| {
        told.iter().for_each(|told| told.on_event(&event));
        announcer.on_event(&event);
    };
    let cache = ClusterCache::new(cluster);
    tokio::select! {
        never = cache.keep() => match never {},
        never = serve(told.as_ref()) => match never {},
        () = watch(&cache, watching, first, ending, &mut on_event) => {}
    }
    announcer.finish()
}

/// What machines are told, and where they ask.
struct Told {
    telemetry: Arc<Telemetry>,
    server: Server,
}

impl Told {
    fn on_event(&self, event: &ControllerEvent<'_>) {
        self.telemetry.on_event(event);
        if matches!(event, ControllerEvent::Planned(_)) {
            self.telemetry.ready();
        }
    }

    async fn listening(address: SocketAddr, announcer: &mut Announcer) -> Result<Told, Failure> {
        let server = Server::bind(address).await?;
        announcer.listening(server.address()?);
        let telemetry = Arc::new(Telemetry::default());
        // There is no other one who could do it.
        telemetry.on_event(&ControllerEvent::Leads);
        Ok(Told { telemetry, server })
    }
}

async fn serve(told: Option<&Told>) -> Infallible {
    match told {
        Some(Told { telemetry, server }) => server.serve(telemetry).await,
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

/// SIGINT or SIGTERM, as a terminal and a kubelet send them.
pub(super) async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
