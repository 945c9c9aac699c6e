//! The open connections of a server. If there are too many, the oldest idle one is closed, so that a
//! client that opens connections and sends nothing delays no probe. Must never know requests.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::AbortHandle;

/// Connections of one peer at the same time, as a share of all.
const SHARE_OF_PEER: usize = 4;

/// Whether a connection has sent a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<AtomicBool>);

impl Activity {
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    activity: Activity,
    task: AbortHandle,
}

/// The connections, the oldest first.
#[derive(Debug)]
pub(crate) struct Connections {
    limit: usize,
    open: VecDeque<Open>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Connections {
        Connections {
            limit,
            open: VecDeque::new(),
        }
    }

    /// Closes what is too much before a new connection of this peer.
    pub(crate) fn make_room(&mut self, peer: IpAddr) {
        self.open.retain(|one| !one.task.is_finished());
        let of_peer = self.open.iter().filter(|one| one.peer == peer).count();
        if of_peer >= (self.limit / SHARE_OF_PEER).max(1) {
            self.close_oldest(|one| one.peer == peer);
        } else if self.open.len() >= self.limit {
            self.close_oldest(|_| true);
        }
    }

    pub(crate) fn add(&mut self, peer: IpAddr, activity: Activity, task: AbortHandle) {
        self.open.push_back(Open {
            peer,
            activity,
            task,
        });
    }

    /// The oldest idle one, or else the oldest.
    fn close_oldest(&mut self, is_meant: impl Fn(&Open) -> bool) {
        let idle = |one: &Open| is_meant(one) && one.activity.is_idle();
        let place = self.open.iter().position(idle);
        let place = place.or_else(|| self.open.iter().position(&is_meant));
        if let Some(closed) = place.and_then(|place| self.open.remove(place)) {
            closed.task.abort();
        }
    }
}
