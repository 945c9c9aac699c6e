//! Keeps a cluster as its files say: files that change, objects that change, and time are one
//! wake-up into the same path that `apply` goes.
//!
//! Files with a fault never act; the last good ones stay in force. What is worse than the Policy
//! lets pass waits for a person.

mod directory;
mod fast_path;
mod files;
mod reconcile;
mod write_backoff;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::fast_path::Known;
use self::files::Files;
use self::write_backoff::WriteBackoff;
use super::claim_store::quarantine_forgotten;
use super::{Loaded, OpenStack};
use crate::apply::{Outcome, Stop};
pub use directory::Directory;
use ipam_cilium::observed::Observed;
use ipam_cluster::{ClusterCache, Follow, Rollback};
use ipam_core::model::{Hazard, Waiver};
use ipam_desired::Activity;
use ipam_planner::plan::{Change, Plan, Refusal, Target, UnapprovedBlock};
use retry::{Backoff, Retry};

/// Pauses after a round that failed.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// What we wrote is heard of within milliseconds. When it is not for so long, all is read anew.
const DEAF: Duration = Duration::from_secs(10);

/// Where the files come from.
pub trait Source: Send {
    /// Waits until they may have changed, and are at rest; then reads and checks them.
    fn next(&mut self) -> impl Future<Output = Loaded> + Send;
}

/// How a cluster is watched.
pub struct Watch<S> {
    /// Where the files come from.
    pub source: S,
    /// What may be exceeded.
    pub waivers: BTreeSet<Waiver>,
    /// How often it is planned when nothing happens.
    pub interval: Duration,
    /// Writes that are under way at the same time.
    pub parallelism: NonZeroUsize,
    /// Who writes, as others are told.
    pub holder: String,
    /// Who is asked for subnets.
    pub openstack: OpenStack,
}

/// Something that people want to know.
#[derive(Debug)]
pub enum ControllerEvent<'n> {
    /// These files are in force from now on.
    InForce(&'n Loaded),
    /// These have faults; the last good ones stay in force.
    Invalid(&'n Loaded),
    /// So many changes are being sent.
    Sending(usize),
    /// A change has its outcome.
    Finished {
        /// The change.
        change: &'n Change,
        /// Its outcome.
        outcome: &'n Outcome,
        /// Since what led to it was heard of.
        waited: Duration,
    },
    /// All was planned anew.
    Planned(&'n Planned<'n>),
    /// What is not done, whenever that is something else than before.
    Waiting(&'n Waiting),
    /// So many nodes are seen.
    Nodes(usize),
    /// Somebody else was faster; it is planned again.
    Conflict(&'n Target),
    /// Somebody else undoes what we write; it is left alone for so long.
    Undone(&'n Target, Duration),
    /// The cluster went back in time, as after a backup was restored, and what it forgot is
    /// quarantined.
    RolledBack(&'n Rollback),
    /// It does not work at the moment.
    Trouble(&'n str),
    /// It works again.
    Recovered,
    /// This process works from now on.
    Leads,
    /// Another one does, or nobody is known to.
    StandsBy(&'n str),
}

/// A whole plan, and what it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Planned<'n> {
    /// The plan.
    pub plan: &'n Plan,
    /// Its files.
    pub loaded: &'n Loaded,
    /// The cluster.
    pub observed: &'n Observed,
}

/// A change that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingChange {
    /// The object.
    pub target: Target,
    /// What the change means for workloads.
    pub hazard: Hazard,
    /// Blocks of it that a person must approve.
    pub needs_approval: Vec<UnapprovedBlock>,
}

impl From<&Change> for WaitingChange {
    fn from(change: &Change) -> WaitingChange {
        let (target, hazard) = (change.target(), change.hazard());
        WaitingChange {
            target,
            hazard,
            needs_approval: change.needs_approval().to_vec(),
        }
    }
}

/// What is not done, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Nodes that are seen.
    pub nodes: usize,
    /// Whether the Policy says that nothing is done at all.
    pub activity: Activity,
    /// For a person, because of what it does.
    pub for_a_person: Vec<WaitingChange>,
    /// Limits and protections that are in the way.
    pub refusals: Vec<Refusal>,
    /// What the plan calls blocked, with its reason.
    pub blocked: Vec<(Target, String)>,
}

/// Hears the news.
pub type OnEvent<'n> = dyn FnMut(ControllerEvent<'_>) + Send + 'n;

/// Watches until `ending` comes. `cache` is kept in step by the caller, who may know it for
/// longer; `first` are the files at the beginning, without errors.
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
    let work = Work {
        cache,
        files: &files,
        waivers: &waivers,
        interval,
        parallelism,
        holder,
        openstack,
        stop: Arc::default(),
        write_backoff: WriteBackoff::default(),
        told: StatusInput::default(),
        setbacks: 0,
        retry: BACKOFF.retry(fastrand::Rng::new()),
        must_pause: false,
        known: None,
        heard: Instant::now(),
        deaf_since: None,
    };
    cache.begin_term();
    // The order is fixed, so that a simulated cluster repeats a history from its seed.
    tokio::select! {
        biased;
        never = keep_files(&files, &mut source) => match never {},
        () = work.until(ending, on_event) => {}
    }
    cache.end_term();
}

async fn keep_files(files: &Files, source: &mut impl Source) -> Infallible {
    loop {
        files.offer(source.next().await);
    }
}

/// What was told last.
#[derive(Debug, Default)]
struct StatusInput {
    waiting: Option<Waiting>,
    trouble: Option<String>,
}

struct Work<'w, C> {
    cache: &'w ClusterCache<C>,
    files: &'w Files,
    waivers: &'w BTreeSet<Waiver>,
    interval: Duration,
    parallelism: NonZeroUsize,
    holder: String,
    openstack: OpenStack,
    /// Of this round.
    stop: Arc<Stop>,
    write_backoff: WriteBackoff,
    told: StatusInput,
    /// What went wrong since a round that went well.
    setbacks: u32,
    /// The pauses between them.
    retry: Retry,
    /// Nothing is tried before the next pause is over.
    must_pause: bool,
    /// What the last whole plan left, where nodes that join can be served from it.
    known: Option<Known>,
    /// When what led to this round was heard of.
    heard: Instant,
    /// Since when the mirror has not shown what we wrote.
    deaf_since: Option<Instant>,
}

impl<C: Follow> Work<'_, C> {
    async fn until(mut self, ending: impl Future<Output = ()> + Send, on_event: &mut OnEvent<'_>) {
        let mut ending = std::pin::pin!(ending);
        on_event(ControllerEvent::InForce(&self.files.in_force()));
        let mut due = Duration::ZERO;
        loop {
            if std::mem::take(&mut self.must_pause) {
                // What would wake us sooner may be what we did ourselves.
                tokio::select! {
                    biased;
                    () = &mut ending => return,
                    () = tokio::time::sleep(due) => {}
                }
                due = Duration::ZERO;
            }
            tokio::select! {
                biased;
                () = &mut ending => return,
                () = self.cache.moved() => {}
                () = self.files.changed() => {}
                () = tokio::time::sleep(due) => {}
            }
            self.tell_of_files(on_event);
            self.stop = Arc::default();
            let Some(after) = self.round_until(ending.as_mut(), on_event).await else {
                return;
            };
            due = after;
        }
    }

    /// One round; `None` is the end of all. Files that change meanwhile make the next one come at
    /// once, and a pause ends it: writes that are under way are waited for.
    async fn round_until(
        &mut self,
        mut ending: Pin<&mut (impl Future<Output = ()> + Send)>,
        on_event: &mut OnEvent<'_>,
    ) -> Option<Duration> {
        let (files, stop) = (self.files, self.stop.clone());
        let mut has_changed = false;
        let due = {
            let mut round = std::pin::pin!(self.round(on_event));
            loop {
                tokio::select! {
                    biased;
                    due = &mut round => break due,
                    () = files.changed() => {
                        has_changed = true;
                        if files.in_force().desired.policy.activity == Activity::Paused {
                            stop.request();
                        }
                    }
                    () = &mut ending => {
                        stop.request();
                        round.await;
                        return None;
                    }
                }
            }
        };
        Some(if has_changed && !self.must_pause {
            Duration::ZERO
        } else {
            due
        })
    }

    fn tell_of_files(&mut self, on_event: &mut OnEvent<'_>) {
        if self.files.take_is_new() {
            on_event(ControllerEvent::InForce(&self.files.in_force()));
        }
        if let Some(invalid) = self.files.take_invalid() {
            on_event(ControllerEvent::Invalid(&invalid));
        }
    }

    /// Plans and applies once; says when to do it again at the latest.
    async fn round(&mut self, on_event: &mut OnEvent<'_>) -> Duration {
        if let Some(rollback) = self.cache.rollback()
            && let Err(why) = self.quarantine_forgotten(&rollback, on_event).await
        {
            self.tell_of_trouble(Some(why), on_event);
            return self.next_pause();
        }
        if !self.cache.is_in_step() {
            return self.not_in_step(on_event);
        }
        self.deaf_since = None;
        self.heard = self.cache.heard().unwrap_or_else(Instant::now);
        let setbacks = self.setbacks;
        let outcome = match self.join(on_event).await {
            Some(outcome) => outcome.map(Some),
            None => {
                let Some(snapshot) = self.cache.snapshot() else {
                    return self.not_in_step(on_event);
                };
                self.plan_and_apply(&snapshot, on_event).await
            }
        };
        match outcome {
            Ok(due) => {
                if self.setbacks == setbacks {
                    self.setbacks = 0;
                    self.retry.reset();
                }
                let trouble = self.cache.trouble();
                self.tell_of_trouble(trouble, on_event);
                due.unwrap_or(self.interval).min(self.interval)
            }
            Err(error) => {
                self.tell_of_trouble(Some(error.to_string()), on_event);
                self.next_pause()
            }
        }
    }

    /// Before anything else is planned: what the cluster forgot looks free.
    async fn quarantine_forgotten(
        &self,
        rollback: &Rollback,
        on_event: &mut OnEvent<'_>,
    ) -> Result<(), String> {
        let loaded = self.files.in_force();
        if loaded.desired.policy.activity == Activity::Paused {
            let Rollback { from, to, .. } = rollback;
            return Err(format!(
                "the cluster went back from resourceVersion {from} to {to}; the blocks that it forgot will be quarantined as soon as the \
                 Policy is no longer paused"
            ));
        }
        if !rollback.forgotten.is_empty() {
            let quarantined =
                quarantine_forgotten(&self.cache.direct(), &rollback.forgotten, &loaded).await;
            quarantined.map_err(|error| error.to_string())?;
        }
        on_event(ControllerEvent::RolledBack(rollback));
        self.cache.rollback_is_settled(rollback);
        Ok(())
    }

    /// The pause after something went wrong; each further one is longer, until a round goes well.
    fn next_pause(&mut self) -> Duration {
        self.setbacks = self.setbacks.saturating_add(1);
        self.must_pause = true;
        self.retry.pause()
    }

    fn not_in_step(&mut self, on_event: &mut OnEvent<'_>) -> Duration {
        let trouble = self.cache.trouble();
        self.tell_of_trouble(trouble, on_event);
        if !self.cache.is_read() {
            return DEAF;
        }
        if self.deaf_since.get_or_insert_with(Instant::now).elapsed() >= DEAF {
            self.deaf_since = None;
            self.cache.read_anew();
        }
        DEAF
    }

    fn tell_of_trouble(&mut self, trouble: Option<String>, on_event: &mut OnEvent<'_>) {
        match &trouble {
            Some(why) if self.told.trouble.as_ref() != Some(why) => {
                on_event(ControllerEvent::Trouble(why))
            }
            None if self.told.trouble.is_some() => on_event(ControllerEvent::Recovered),
            Some(_) | None => {}
        }
        self.told.trouble = trouble;
    }
}
