//! `operator`: what `watch` does, inside the cluster, from custom resources.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::apply::holder;
use super::event::Announcer;
use super::failure::Failure;
use super::watch::{asked_to_end, interval};
use super::{Common, Format, Reached};
use ipam_cluster::live::LiveCluster;
use ipam_controller::{ControllerEvent, Operator, Reach, Server, Telemetry, operate};

/// How long a sign of life is tried: one that comes late is worth nothing.
const HASTE: SignedDuration = SignedDuration::from_secs(1);

/// Keep the cluster as its IPPools, NodeAssignments, ServiceAssignments and Policy say.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Where `/livez`, `/readyz` and `/metrics` are answered.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Its name among its replicas, such as that of its Pod; made from host, process and chance
    /// when absent.
    #[arg(long, value_name = "NAME", env = "CILIUM_IPAM_IDENTITY")]
    identity: Option<String>,
    /// How often it is planned when nothing happens, at least `1s`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    interval: Duration,
    /// Writes that are under way at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    parallelism: NonZeroUsize,
    /// Form of the lines; `json` is an object for each.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    if common.cluster.is_some() {
        let message =
            "a cluster in a file has no custom resources; use apply, or run it in a cluster";
        return Err(Failure::Failed(message.to_owned()));
    }
    let cluster = LiveCluster::connect(common.connection(common.patience)).await?;
    let hasty = LiveCluster::connect(common.connection(HASTE)).await?;
    let server = Server::bind(arguments.listen).await?;
    let mut announcer = Announcer::new(arguments.output);
    announcer.listening(server.address()?);
    // A Pod that is made anew may have the name of the one before it, and that one may still run.
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
        openstack: common.openstack(Reach::Subnets),
    };
    let nobody_listens = announcer.nobody_listens();
    let ending = async {
        tokio::select! {
            () = asked_to_end() => {}
            () = nobody_listens.notified() => {}
        }
    };
    operate(operator, ending, &mut |event: ControllerEvent<'_>| {
        announcer.on_event(&event)
    })
    .await;
    announcer.finish()
}
