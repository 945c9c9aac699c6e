//! The ports of VMs as a background thread last read them, so that no node waits for Neutron.
//!
//! A port may have changed since then, so a write must name the revision of the port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::Session;
use super::observe::{VMS_PER_REQUEST, ports_of_vms};
use ipam_cilium::observed::SeenPorts;
use ipam_core::neutron::{Id, VmPort};

/// Age at which a failed request is repeated.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Ports of VMs, and the thread that reads them.
pub(super) struct BackgroundPorts {
    /// A separate session: plans must not wait for requests of the background thread.
    session: Arc<Session>,
    /// Age at which the ports of a VM are read again. The old answer is used until the new one
    /// arrives.
    max_age: Duration,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    known: BTreeMap<Id, Answer>,
    /// The VM of each port that was read.
    vm_of: BTreeMap<Id, Id>,
    /// VMs to read. The thread ends when there are none.
    queued: BTreeSet<(Urgency, Id)>,
    /// VMs whose ports were written while the thread read them.
    outdated: BTreeSet<Id>,
    thread: Thread,
}

/// VMs whose ports are unknown are read before VMs whose ports may have changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    Unknown,
    Due,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Thread {
    #[default]
    Idle,
    Reading,
}

struct Answer {
    ports: Result<Vec<VmPort>, String>,
    read_at: Instant,
}

impl Answer {
    fn is_due(&self, max_age: Duration) -> bool {
        let due_after = match &self.ports {
            Ok(_) => max_age,
            Err(_) => max_age.min(RETRY_AFTER),
        };
        self.read_at.elapsed() >= due_after
    }
}

impl BackgroundPorts {
    pub(super) fn new(session: Arc<Session>, max_age: Duration) -> Arc<BackgroundPorts> {
        Arc::new(BackgroundPorts {
            session,
            max_age,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Waits until the ports of some VM differ from those that were returned before.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The known ports of these VMs, however old. Queues VMs whose ports are unknown or due to be
    /// read, and forgets all other VMs.
    pub(super) fn of(self: &Arc<Self>, vms: &BTreeSet<Id>) -> SeenPorts {
        let mut state = self.state();
        state.known.retain(|vm, _| vms.contains(vm));
        state.vm_of.retain(|_, vm| vms.contains(vm));
        let to_read = vms.iter().filter_map(|vm| match state.known.get(vm) {
            None => Some((Urgency::Unknown, vm.clone())),
            Some(answer) if answer.is_due(self.max_age) => Some((Urgency::Due, vm.clone())),
            Some(_) => None,
        });
        let to_read: BTreeSet<(Urgency, Id)> = to_read.collect();
        let known = state.known.iter();
        let seen = known
            .map(|(vm, answer)| (vm.clone(), answer.ports.clone()))
            .collect();
        self.enqueue(state, to_read);
        seen
    }

    /// Forgets the ports of the VM with this port, and queues the VM to be read again.
    pub(super) fn read_again(self: &Arc<Self>, port: &Id) {
        let mut state = self.state();
        let Some(vm) = state.vm_of.get(port).cloned() else {
            return;
        };
        state.known.remove(&vm);
        state.outdated.insert(vm.clone());
        self.enqueue(state, [(Urgency::Unknown, vm)].into());
    }

    /// Forgets all ports that were read, and the queue.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.known.clear();
        state.queued.clear();
    }

    fn enqueue(self: &Arc<Self>, mut state: MutexGuard<'_, State>, vms: BTreeSet<(Urgency, Id)>) {
        state.queued.extend(vms);
        if state.queued.is_empty() || state.thread == Thread::Reading {
            return;
        }
        state.thread = Thread::Reading;
        drop(state);
        let this = self.clone();
        spawn_blocking(move || this.read_queued());
    }

    fn read_queued(self: Arc<Self>) {
        // `Idle` marks the thread as idle, also after a panic.
        let _idle = Idle(&self);
        while let Some(vms) = self.next_batch() {
            let answer = self.session.with(|neutron| Ok(ports_of_vms(neutron, &vms)));
            let answer = answer.unwrap_or_else(|fault| Err(fault.why()));
            if self.state().store(vms, answer) {
                self.changed.notify_one();
            }
        }
    }

    /// The VMs that are read next. `None` ends the thread: nothing is left, or no plan is made any
    /// more.
    fn next_batch(self: &Arc<Self>) -> Option<Vec<Id>> {
        let mut state = self.state();
        let batch = || state.queued.pop_first().map(|(_, vm)| vm);
        let vms: BTreeSet<Id> = std::iter::from_fn(batch).take(VMS_PER_REQUEST).collect();
        if vms.is_empty() || Arc::strong_count(self) == 1 {
            // Under the lock: a later `enqueue` starts another thread.
            state.thread = Thread::Idle;
            return None;
        }
        state.outdated.retain(|vm| !vms.contains(vm));
        Some(vms.into_iter().collect())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns whether anything differs from what was known. After a failure, the rest of the queue
    /// fails likewise. Answers that are older than a write are dropped.
    fn store(&mut self, vms: Vec<Id>, answer: Result<BTreeMap<Id, Vec<VmPort>>, String>) -> bool {
        let read_at = Instant::now();
        let seen: Vec<(Id, Result<Vec<VmPort>, String>)> = match answer {
            Ok(ports) => ports
                .into_iter()
                .map(|(vm, ports)| (vm, Ok(ports)))
                .collect(),
            Err(why) => {
                let queued = std::mem::take(&mut self.queued);
                let failed = vms.into_iter().chain(queued.into_iter().map(|(_, vm)| vm));
                failed.map(|vm| (vm, Err(why.clone()))).collect()
            }
        };
        let mut has_changed = false;
        for (vm, ports) in seen {
            if ports.is_ok() && self.outdated.remove(&vm) {
                continue;
            }
            let before = self.known.get(&vm).map(|answer| &answer.ports);
            has_changed |= before != Some(&ports);
            let ids = ports.iter().flatten().map(|port| port.id.clone());
            self.vm_of.extend(ids.map(|id| (id, vm.clone())));
            self.known.insert(vm, Answer { ports, read_at });
        }
        has_changed
    }
}

/// Marks the thread as ended.
struct Idle<'b>(&'b BackgroundPorts);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.state().thread = Thread::Idle;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::openstack::{OpenStack, Scope};

    const VM: &str = "11111111-9d65-4b7e-8d1e-6f0c1d5a9b11";
    const PORT: &str = "10000000-44f9-4318-8c67-a2fed2ccca4f";

    struct World {
        folder: tempfile::TempDir,
        ports: Arc<BackgroundPorts>,
    }

    impl World {
        fn new(max_age: Duration) -> World {
            let folder = tempfile::tempdir().unwrap();
            let recording = folder.path().join("neutron.json");
            let openstack = OpenStack::recorded(recording, Scope::Ports);
            let ports = openstack.for_many_plans(max_age).background;
            World {
                folder,
                ports: ports.unwrap(),
            }
        }

        fn record(&self, revision: u64) {
            let recording = json!({"subnets": [], "ports": [{
                "id": PORT, "device_id": VM, "device_owner": "compute:nova",
                "mac_address": "fa:16:3e:00:00:01", "revision_number": revision,
            }]});
            let path = self.folder.path().join("neutron.json");
            fs::write(path, recording.to_string()).unwrap();
        }

        fn revision(&self) -> Option<Result<u64, String>> {
            let vm: Id = VM.parse().unwrap();
            let seen = self.ports.of(&[vm.clone()].into());
            let of_vm = seen.get(&vm).cloned()?;
            Some(of_vm.map(|ports| ports[0].revision))
        }

        async fn idle(&self) {
            while self.ports.state().thread == Thread::Reading {
                tokio::task::yield_now().await;
            }
        }

        fn has_news(&self) -> bool {
            self.ports.changed().now_or_never().is_some()
        }
    }

    #[tokio::test]
    async fn no_plan_waits_and_the_next_one_has_the_ports() {
        let world = World::new(Duration::from_hours(1));
        world.record(4);
        assert_eq!(world.revision(), None);
        world.ports.changed().await;
        assert_eq!(world.revision(), Some(Ok(4)));
        world.record(5);
        assert_eq!(world.revision(), Some(Ok(4)), "it is not due");
        world.ports.read_again(&PORT.parse().unwrap());
        assert_ne!(world.revision(), Some(Ok(4)), "it was written since");
        world.ports.changed().await;
        assert_eq!(world.revision(), Some(Ok(5)));
    }

    /// An answer that is older than a write does not count.
    #[tokio::test]
    async fn a_write_during_the_read_makes_it_read_again() {
        let world = World::new(Duration::from_hours(1));
        world.record(4);
        world.revision();
        world.ports.changed().await;
        world.idle().await;
        let vm: Id = VM.parse().unwrap();
        let older = world.ports.state().known[&vm].ports.clone().unwrap();
        {
            let mut state = world.ports.state();
            state.known.remove(&vm);
            state.outdated.insert(vm.clone());
            let answer = BTreeMap::from([(vm.clone(), older)]);
            assert!(!state.store(vec![vm], Ok(answer)));
        }
        assert_eq!(world.revision(), None);
    }

    #[tokio::test]
    async fn it_tells_only_of_changes() {
        let world = World::new(Duration::ZERO);
        world.record(4);
        world.revision();
        world.ports.changed().await;
        world.revision();
        world.idle().await;
        assert!(!world.has_news());
        world.record(5);
        world.revision();
        world.idle().await;
        assert!(world.has_news());
    }

    #[tokio::test]
    async fn a_failure_is_kept_and_asked_for_again() {
        let world = World::new(Duration::ZERO);
        world.revision();
        world.ports.changed().await;
        assert!(matches!(world.revision(), Some(Err(_))));
        world.idle().await;
        assert!(!world.has_news(), "the same failure is no news");
        world.record(4);
        world.revision();
        world.idle().await;
        assert!(world.has_news());
        assert_eq!(world.revision(), Some(Ok(4)));
    }
}
