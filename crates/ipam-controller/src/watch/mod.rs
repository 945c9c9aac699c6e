//! Keeps a cluster as its files specify. Changed files, changed objects and elapsed time all wake
//! the same loop, which goes the same way as `apply`.
//!
//! Files with errors never act: the last valid ones still apply. What exceeds the Policy's limits
//! waits for a person.

mod directory;
mod events;
mod files;
mod reconcile;
mod worker;
mod write_backoff;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use self::files::Files;
use self::worker::Worker;
use super::{Loaded, OpenStack, Parallelism};
use ipam_cluster::{ClusterCache, Follow, Role};
use ipam_core::model::Waiver;

pub use directory::Directory;
pub use events::{ControllerEvent, OnEvent, Planned, Waiting, WaitingChange};

/// Where the files come from.
pub trait Source: Send {
    /// Waits until the files may have changed and no longer change; then reads and checks them.
    fn next(&mut self) -> impl Future<Output = Loaded> + Send;
}

/// How a cluster is watched.
pub struct Watch<S> {
    /// Where the files come from.
    pub source: S,
    /// Limits that may be exceeded.
    pub waivers: BTreeSet<Waiver>,
    /// Longest time between two plans.
    pub interval: Duration,
    /// Writes in flight at the same time.
    pub parallelism: Parallelism,
    /// Identity of this process in the lock.
    pub holder: String,
    /// Where subnets are read.
    pub openstack: OpenStack,
}

/// Watches until `ending` is ready. The caller keeps `cache` up to date. `first` are the files at
/// the beginning, without errors.
pub async fn watch<C: Follow, S: Source>(
    cache: &ClusterCache<C>,
    watch: Watch<S>,
    first: Loaded,
    ending: impl Future<Output = ()> + Send,
    on_event: &mut OnEvent<'_>,
) {
    let Watch {
        mut source,
        waivers,
        interval,
        parallelism,
        holder,
        openstack,
    } = watch;
    let files = Files::new(first);
    let worker = Worker::new(
        cache,
        &files,
        &waivers,
        (interval, parallelism),
        holder,
        openstack,
    );
    cache.set_role(Role::Leader);
    // The order is fixed, so that a simulated cluster repeats a history from its seed.
    tokio::select! {
        biased;
        never = keep_files(&files, &mut source) => match never {},
        () = worker.run_until(ending, on_event) => {}
    }
    cache.set_role(Role::Standby);
}

async fn keep_files(files: &Files, source: &mut impl Source) -> Infallible {
    loop {
        files.offer(source.next().await);
    }
}
