//! Keeps a cluster as its files specify. Changed files, changed objects and elapsed time all wake
//! the same loop, which goes the same way as `apply`. What it reports is only data: the terminal,
//! the metrics and the writer of statuses decide what to show.
//!
//! Files with errors never act: the last valid ones still apply. What exceeds the Policy's limits
//! waits for approval.

mod departed;
mod reconcile;
mod worker;
mod write_backoff;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use self::worker::Worker;
use super::apply::Outcome;
use super::{Loaded, OpenStack, Parallelism};
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterCache, Follow, Role, Rollback, Trouble};
use ipam_config::source::{DirectoryEvents, Stillness};
use ipam_core::model::{Hazard, Waiver};
use ipam_desired::Activity;
use ipam_plan::plan::{Change, Plan, Refusal, Target, UnapprovedBlock, VersionRules};

/// A source of configuration files, such as a directory.
pub trait Source: Send {
    /// Waits until the files may have changed and no longer change; then reads and checks them.
    fn next(&mut self) -> impl Future<Output = Loaded> + Send;
}

/// How a cluster is watched.
pub struct Watch<S> {
    /// Source of the configuration files.
    pub source: S,
    /// Limits that may be exceeded.
    pub waivers: BTreeSet<Waiver>,
    /// Longest time between two plans.
    pub interval: Duration,
    /// Limit of the writes in flight at the same time.
    pub parallelism: Parallelism,
    /// Identity of this process in the lock.
    pub holder: String,
    /// OpenStack client that reads subnets and ports.
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

/// A directory of files.
pub struct Directory {
    load: Arc<dyn Fn() -> Loaded + Send + Sync>,
    events: DirectoryEvents,
    /// The last result, if the directory may have changed during the read.
    doubtful: Option<Loaded>,
}

impl Directory {
    /// Watches the directory from now on, so no later change is missed. `load` reads and checks the
    /// files.
    pub fn new(directory: &Path, load: impl Fn() -> Loaded + Send + Sync + 'static) -> Directory {
        Directory {
            load: Arc::new(load),
            events: DirectoryEvents::new(directory),
            doubtful: None,
        }
    }

    /// Reads the files now.
    pub fn load(&self) -> Loaded {
        (self.load)()
    }
}

impl Source for Directory {
    async fn next(&mut self) -> Loaded {
        loop {
            self.events.changed().await;
            let load = self.load.clone();
            // In a thread of its own: a file system may hang.
            let Ok(loaded) = tokio::task::spawn_blocking(move || load()).await else {
                continue;
            };
            let is_still = match self.events.stillness().await {
                Stillness::Still => true,
                // Two equal results mean that the directory no longer changes.
                Stillness::Moved | Stillness::Unknown => self
                    .doubtful
                    .as_ref()
                    .is_some_and(|last| is_same(last, &loaded)),
            };
            if is_still {
                self.doubtful = None;
                return loaded;
            }
            self.doubtful = Some(loaded);
        }
    }
}

/// A report of the controller.
#[derive(Debug)]
pub enum ControllerEvent<'n> {
    /// The files apply from now on.
    ConfigApplied(&'n Loaded),
    /// The files have errors; the last valid files still apply.
    Invalid(&'n Loaded),
    /// Number of changes that are about to be sent; 0 at the end.
    Sending(usize),
    /// The outcome of a change is known.
    Finished {
        change: &'n Change,
        /// Outcome of the change.
        outcome: &'n Outcome,
        /// Time since the event that led to the change.
        waited: Duration,
    },
    /// A plan was made.
    Planned(&'n Planned<'n>),
    /// What is not done, reported whenever it differs from the last report.
    Waiting(&'n Waiting),
    /// Another process changed the object first; the change is planned again.
    Conflict(&'n Target),
    /// Another process keeps undoing a write to the object, which is left alone for this long.
    Undone(&'n Target, Duration),
    /// The cluster went back in time, as after a restored backup. The blocks that it forgot are
    /// quarantined.
    RolledBack(&'n Rollback),
    /// The controller cannot work, and why.
    Unhealthy(&'n Trouble),
    /// The controller works again.
    Recovered,
    /// This process leads from now on.
    Leading,
    /// Another process leads, or may lead, for this reason.
    Standby(&'n str),
}

/// Called with each report.
pub type OnEvent<'n> = dyn FnMut(ControllerEvent<'_>) + Send + 'n;

/// A plan with the files and the cluster that it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'n> {
    pub plan: &'n Plan,
    pub loaded: &'n Loaded,
    pub observed: &'n Observed,
}

/// A change that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingChange {
    /// The object that the change is about.
    pub target: Target,
    /// What the change means for workloads.
    pub hazard: Hazard,
    /// Blocks of the change that a person must approve.
    pub needs_approval: Vec<UnapprovedBlock>,
    /// Whether the change waits because it depends on unknown rules of the running release.
    pub rules: VersionRules,
}

impl WaitingChange {
    /// A change that waits in a cluster whose release has these rules.
    pub fn new(change: &Change, rules: VersionRules) -> WaitingChange {
        let (target, hazard) = (change.target(), change.hazard());
        WaitingChange {
            target,
            hazard,
            needs_approval: change.needs_approval().to_vec(),
            rules: match rules.hold_back(change) {
                true => VersionRules::Unknown,
                false => VersionRules::Known,
            },
        }
    }
}

/// What is not done, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Number of nodes in the cluster.
    pub nodes: usize,
    /// Whether the Policy pauses all writes.
    pub activity: Activity,
    /// Changes that wait for approval because of their hazard.
    pub for_a_person: Vec<WaitingChange>,
    /// Limits and protections that refuse changes.
    pub refusals: Vec<Refusal>,
    /// Findings that tell how far the plan can be trusted: code and message.
    pub warnings: Vec<(&'static str, String)>,
    /// Blocked changes of the plan, with the reason.
    pub blocked: Vec<(Target, String)>,
}

/// The last valid files, shared between the task that reads them and the task that plans.
#[derive(Debug)]
pub(super) struct Files {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    applied: Arc<Loaded>,
    is_new: bool,
    /// The newest files that were read, if they have errors.
    newest_invalid: Option<Arc<Loaded>>,
    /// Whether the errors of the newest files are not reported yet.
    is_unreported: bool,
}

/// Whether two reads found the same files with the same findings.
pub(super) fn is_same(one: &Loaded, other: &Loaded) -> bool {
    let Loaded {
        documents,
        findings,
        revision,
        desired: _,
    } = one;
    documents.files == other.documents.files
        && *findings == other.findings
        && *revision == other.revision
}

impl Files {
    pub(super) fn new(first: Loaded) -> Files {
        let state = State {
            applied: Arc::new(first),
            is_new: false,
            newest_invalid: None,
            is_unreported: false,
        };
        Files {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Takes files that were just read. They apply from now on, unless they have errors.
    pub(super) fn offer(&self, loaded: Loaded) {
        let mut state = self.lock();
        let newest = state.newest_invalid.as_ref().unwrap_or(&state.applied);
        if is_same(newest, &loaded) {
            return;
        }
        if loaded.has_errors() {
            if state.applied.desired.policy.activity == Activity::Active
                && let Some(paused) = state.applied.paused_by(&loaded)
            {
                state.applied = Arc::new(paused);
                state.is_new = true;
            }
            state.newest_invalid = Some(Arc::new(loaded));
            state.is_unreported = true;
        } else {
            state.applied = Arc::new(loaded);
            state.newest_invalid = None;
            state.is_unreported = false;
            state.is_new = true;
        }
        self.changed.notify_one();
    }

    pub(super) fn applied_config(&self) -> Arc<Loaded> {
        self.lock().applied.clone()
    }

    /// Files with errors that are not reported yet.
    pub(super) fn take_invalid(&self) -> Option<Arc<Loaded>> {
        let mut state = self.lock();
        let is_unreported = std::mem::take(&mut state.is_unreported);
        state.newest_invalid.clone().filter(|_| is_unreported)
    }

    /// Whether the files that apply have changed since the last call.
    pub(super) fn take_is_new(&self) -> bool {
        std::mem::take(&mut self.lock().is_new)
    }

    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
