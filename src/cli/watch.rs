//! `watch`: keeps a cluster as the files say, and tells what it does, a line for each thing.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;

use super::apply::holder;
use super::failure::Failure;
use super::news::Announcer;
use super::rails::Rails;
use super::target::Target;
use super::{Common, Format, Reached, valid};
use crate::cluster::Opening;
use crate::run::{Directory, News, Watch, load, watch};

/// Keep a cluster as the files say.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of pools, pins and policy.
    #[arg(value_name = "DIR", default_value = "pools")]
    directory: PathBuf,
    /// How often it is planned when nothing happens, at least `1s`.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = interval)]
    interval: Duration,
    /// Writes that are under way at the same time.
    #[arg(long, value_name = "N", default_value = "16")]
    parallelism: NonZeroUsize,
    #[command(flatten)]
    rails: Rails,
    /// Form of the lines; `json` is an object for each.
    #[arg(long, short, value_enum, default_value = "human")]
    output: Format,
}

pub(super) async fn run(arguments: &Arguments, common: &Common) -> Result<Reached, Failure> {
    let (directory, rails) = (arguments.directory.clone(), arguments.rails.clone());
    let load = move || {
        let mut loaded = load(&directory);
        rails.amend(&mut loaded.desired.policy);
        loaded
    };
    let source = Directory::new(&arguments.directory, load);
    let first = valid(source.load())?;
    let Target::Live(cluster) = common.target(Opening::Read).await? else {
        let message = "a cluster in a file tells nobody what happens to it; use apply, or watch an API server";
        return Err(Failure::Failed(message.to_owned()));
    };
    let watching = Watch {
        source,
        waivers: arguments.rails.waivers(),
        interval: arguments.interval,
        parallelism: arguments.parallelism,
        holder: holder(),
    };
    let mut announcer = Announcer::new(arguments.output);
    let nobody_listens = announcer.nobody_listens();
    let ending = async {
        tokio::select! {
            () = asked_to_end() => {}
            () = nobody_listens.notified() => {}
        }
    };
    watch(cluster, watching, first, ending, &mut |news: News<'_>| announcer.hear(&news)).await;
    announcer.finish()
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text.parse().map_err(|error: jiff::Error| error.to_string())?;
    let long_enough = Duration::try_from(duration).ok().filter(|duration| *duration >= Duration::from_secs(1));
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
