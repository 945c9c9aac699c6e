//! Gives NICs back, from wherever the last run ended.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cni::{CniError, ErrorCode};
use crate::nic::{Kind, Next, Pod, Record, Step, find, take_back};
use crate::vm_nic::change::Places;
use crate::vm_nic::namespace::Namespace;
use crate::vm_nic::records::{Held, Records, Tried};
use crate::vm_nic::{kernel_fault, look, sysfs};

/// How often it is looked again: once for each move and each name that somebody else was quicker to
/// take.
const LOOKS: usize = 8;

/// How often it is looked for a NIC that the kernel gives back.
const PAUSE: Duration = Duration::from_millis(20);

/// How long it is waited for one. The kernel clears namespaces away one after the other, which
/// takes a moment.
const PATIENCE: Duration = Duration::from_secs(8);

/// The node, in this run of its system.
pub(super) struct Node {
    pub(super) namespace: Namespace,
    pub(super) boot: String,
}

impl Node {
    /// That on which the plugin runs.
    pub(super) fn open() -> Result<Node, CniError> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let boot = boot
            .map_err(|why| kernel_fault("the run of the system", &why))?
            .trim()
            .to_owned();
        let namespace =
            Namespace::own().map_err(|why| kernel_fault("the node's network namespace", &why))?;
        Ok(Node { namespace, boot })
    }

    /// Undoes all that was done to the NIC of a record, and forgets it. `said` is where the Pod's
    /// namespace is said to be now.
    pub(super) fn take_back(
        &self,
        held: Held,
        said: Option<&Path>,
        until: Instant,
    ) -> Result<(), CniError> {
        let until = until.min(Instant::now() + PATIENCE);
        let mut looks = 0;
        loop {
            let record = &held.record;
            let failed = |why: &io::Error| {
                kernel_fault(&format!("{} on its way back", record.nic.name), why)
            };
            let pod = namespace_of(record, said).map_err(|why| failed(&why))?;
            let links = look::links(&self.namespace.netlink).map_err(|why| failed(&why))?;
            let in_pod = pod
                .as_ref()
                .map(|pod| look::links(&pod.netlink))
                .transpose()
                .map_err(|why| failed(&why))?;
            let places = Places {
                node: &self.namespace,
                pod: pod.as_ref(),
            };
            match take_back(
                record,
                &links,
                in_pod.as_deref().map_or(Pod::Gone, Pod::Links),
                &self.boot,
            ) {
                Next::Forget => return held.forget(),
                Next::Last(steps) => match execute(&places, &steps) {
                    Ok(()) => return held.forget(),
                    Err(why) => again(&mut looks, why).map_err(|why| failed(&why))?,
                },
                Next::Steps(steps) => {
                    if let Err(why) = execute(&places, &steps) {
                        again(&mut looks, why).map_err(|why| failed(&why))?;
                    }
                }
                Next::Wait if is_unplugged(record) => return held.forget(),
                Next::Wait if Instant::now() >= until => {
                    return Err(not_back(record, in_pod.is_some()));
                }
                Next::Wait => std::thread::sleep(PAUSE),
            }
        }
    }

    fn has(&self, record: &Record) -> Result<bool, CniError> {
        let links = look::links(&self.namespace.netlink)
            .map_err(|why| kernel_fault("the links of the node", &why))?;
        Ok(find(record, &links).is_some())
    }

    /// Gives those back that nobody holds and that are on the node already: their run was killed,
    /// or their Pod's namespace vanished. Whatever goes wrong with one of them keeps only that one.
    pub(super) fn mend(&self, records: &Records, until: Instant) -> Result<(), CniError> {
        let all = records.all()?.records;
        if all.is_empty() {
            return Ok(());
        }
        let links = look::links(&self.namespace.netlink)
            .map_err(|why| kernel_fault("the links of the node", &why))?;
        for (path, record) in all {
            if (record.boot != self.boot || find(&record, &links).is_some())
                && let Ok(Tried::Held(held)) = records.try_hold(&path)
                // Its run may have gone on until it let go, and the NIC be in its Pod now.
                && (record.boot != self.boot || self.has(&record)?)
            {
                let _ = self.take_back(*held, None, until);
            }
        }
        Ok(())
    }
}

/// The Pod's namespace, if it is still the one that the record names. Where one of the paths cannot
/// be looked at, nobody knows.
fn namespace_of(record: &Record, said: Option<&Path>) -> io::Result<Option<Namespace>> {
    let mut unseen = Ok(None);
    for path in record.netns_paths(said) {
        match Namespace::of_pod_if_there(path) {
            Ok(Some(namespace)) if namespace.netns.is(&record.netns) => return Ok(Some(namespace)),
            Ok(_) => {}
            Err(why) => unseen = Err(why),
        }
    }
    unseen
}

/// A name, an address or a route of the node that the kernel does not take keeps no Pod from going;
/// it is told, and the others come back.
fn execute(places: &Places<'_>, steps: &[Step]) -> io::Result<()> {
    for step in steps {
        match (places.execute(step), step) {
            (Ok(()), _) => {}
            (Err(why), Step::Change(..)) => return Err(why),
            (Err(why), Step::Name(_, _, name) | Step::Unname(_, _, name)) => {
                eprintln!("the other name {name} stays as it is: {why}")
            }
            (Err(why), Step::Address(_, _, address)) => {
                eprintln!("the address {} does not come back: {why}", address.address)
            }
            (Err(why), Step::Route(_, _, route)) => {
                eprintln!(
                    "the route to {} does not come back: {why}",
                    route.destination
                )
            }
        }
    }
    Ok(())
}

/// A name that was taken, or a link that went, since it was looked at.
fn again(looks: &mut usize, why: io::Error) -> io::Result<()> {
    *looks += 1;
    let is_passing = matches!(
        why.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
    ) || why.raw_os_error() == Some(NO_DEVICE);
    if *looks < LOOKS && is_passing {
        Ok(())
    } else {
        Err(why)
    }
}

/// `ENODEV`.
const NO_DEVICE: i32 = 19;

fn is_unplugged(record: &Record) -> bool {
    record.nic.kind == Kind::Physical && record.nic.device.as_ref().is_some_and(sysfs::is_gone)
}

fn not_back(record: &Record, has_pod: bool) -> CniError {
    let nic = &record.nic.name;
    let (message, details) = if has_pod {
        let message = format!("{nic} is neither in the Pod nor on the node");
        (
            message,
            "it will be tried again; the Pod may have put it into a namespace of its own, which ends with the Pod",
        )
    } else {
        let message = format!("the Pod's namespace is gone, and {nic} is not back on the node yet");
        (
            message,
            "it will be tried again; the kernel gives it to the machine's first namespace, and elsewhere nobody finds it",
        )
    };
    CniError::new(ErrorCode::TryAgainLater, message, details)
}
