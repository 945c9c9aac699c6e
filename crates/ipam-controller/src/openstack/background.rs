//! The ports of VMs as a background thread last read them, so that no node waits for Neutron.
//!
//! A port may have changed since: whoever writes it must name the revision of the port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use super::Session;
use super::observe::{VMS_PER_REQUEST, ports_of_vms};
use ipam_cilium::observed::SeenPorts;
use ipam_core::neutron::{Id, VmPort};

/// Age at which a failed answer is asked for again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Ports of VMs, and the thread that reads them.
pub(super) struct BackgroundPorts {
    /// Not the session of plans: those must not wait for this one.
    session: Arc<Session>,
    /// Age at which an answer is asked for again. Until then, and until it is read, it counts.
    max_age: Duration,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    known: BTreeMap<Id, Answer>,
    /// VMs to read. The thread ends when there are none.
    queued: BTreeSet<Id>,
    thread: Thread,
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

    /// The ports of those of these VMs that were read, however old. Has the others read, and those
    /// that are due. Forgets all other VMs.
    pub(super) fn of(self: &Arc<Self>, vms: &BTreeSet<Id>) -> SeenPorts {
        let mut state = self.state();
        state.known.retain(|vm, _| vms.contains(vm));
        let due: BTreeSet<Id> = vms
            .iter()
            .filter(|vm| {
                let answer = state.known.get(*vm);
                answer.is_none_or(|answer| answer.is_due(self.max_age))
            })
            .cloned()
            .collect();
        let known = state.known.iter();
        let seen = known
            .map(|(vm, answer)| (vm.clone(), answer.ports.clone()))
            .collect();
        drop(state);
        self.read(due);
        seen
    }

    /// Has the ports of these VMs read, whatever is known of them.
    pub(super) fn read(self: &Arc<Self>, vms: BTreeSet<Id>) {
        let mut state = self.state();
        state.queued.extend(vms);
        if state.queued.is_empty() || state.thread == Thread::Reading {
            return;
        }
        state.thread = Thread::Reading;
        drop(state);
        let this = self.clone();
        spawn_blocking(move || this.read_queued());
    }

    /// Forgets the ports of the VM with this port, and has them read.
    pub(super) fn read_again(self: &Arc<Self>, port: &Id) {
        let mut state = self.state();
        let has_port = |answer: &Answer| {
            let mut ports = answer.ports.iter().flatten();
            ports.any(|one| one.id == *port)
        };
        let of_vm = state.known.extract_if(.., |_, answer| has_port(answer));
        let vms: BTreeSet<Id> = of_vm.map(|(vm, _)| vm).collect();
        drop(state);
        self.read(vms);
    }

    fn read_queued(&self) {
        // Also after a panic.
        let _idle = Idle(self);
        let mut has_changed = false;
        loop {
            let mut state = self.state();
            let vms: Vec<Id> = state.queued.iter().take(VMS_PER_REQUEST).cloned().collect();
            if vms.is_empty() {
                // Under the lock: a later `read` starts another thread.
                state.thread = Thread::Idle;
                break;
            }
            state.queued.retain(|vm| !vms.contains(vm));
            drop(state);
            let answer = self.session.with(|neutron| Ok(ports_of_vms(neutron, &vms)));
            let answer = answer.unwrap_or_else(|fault| Err(fault.why()));
            has_changed |= self.state().store(vms, answer);
        }
        if has_changed {
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns whether anything differs from what was known. After a failure, the rest of the queue
    /// fails likewise.
    fn store(&mut self, vms: Vec<Id>, answer: Result<BTreeMap<Id, Vec<VmPort>>, String>) -> bool {
        let read_at = Instant::now();
        let seen: Vec<(Id, Result<Vec<VmPort>, String>)> = match answer {
            Ok(ports) => ports
                .into_iter()
                .map(|(vm, ports)| (vm, Ok(ports)))
                .collect(),
            Err(why) => {
                let queued = std::mem::take(&mut self.queued);
                let failed = vms.into_iter().chain(queued);
                failed.map(|vm| (vm, Err(why.clone()))).collect()
            }
        };
        let mut has_changed = false;
        for (vm, ports) in seen {
            let before = self.known.get(&vm).map(|answer| &answer.ports);
            has_changed |= before != Some(&ports);
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
            let ports = openstack.with_ports_in_background(max_age).background;
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
        assert_eq!(world.revision(), None, "it was written since");
        world.ports.changed().await;
        assert_eq!(world.revision(), Some(Ok(5)));
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
