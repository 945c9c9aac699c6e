//! Returns NICs to the node, wherever the last run ended.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::cni::{CniError, ErrorCode};
use crate::kernel::namespace::{self, Namespace};
use crate::kernel::{dump, kernel_error};
use crate::nic::{Kind, Next, Pod, Record, Step, find, give_back};
use crate::vm_nic::change::Namespaces;
use crate::vm_nic::records::{Held, Records, TryHold};
use private_files::boot;

/// Attempts after a name was taken or a link moved in between.
const LOOKS: usize = 8;

/// Interval between looks for a NIC that the kernel returns.
const PAUSE: Duration = Duration::from_millis(20);

/// How long to wait for it. The kernel removes namespaces one after the other.
const PATIENCE: Duration = Duration::from_secs(8);

/// The node during this boot.
pub(super) struct Node {
    pub(super) namespace: Namespace,
    pub(super) boot: String,
}

impl Node {
    pub(super) fn open() -> Result<Node, CniError> {
        let boot = boot::id().map_err(|why| kernel_error("the boot id", &why))?;
        let namespace =
            Namespace::own().map_err(|why| kernel_error("the node's network namespace", &why))?;
        Ok(Node { namespace, boot })
    }

    /// Undoes everything that was done to the NIC of a record, and removes the record. `requested`
    /// is the path of the Pod's namespace in this request.
    pub(super) fn give_back(
        &self,
        held: Held,
        requested: Option<&Path>,
        until: Instant,
    ) -> Result<(), CniError> {
        let until = until.min(Instant::now() + PATIENCE);
        let mut looks = 0;
        loop {
            let record = &held.record;
            let failed = |why: &io::Error| {
                kernel_error(&format!("{} on its way back", record.nic.name), why)
            };
            let pod = namespace_of(record, requested).map_err(|why| failed(&why))?;
            let links = dump::links(&self.namespace.netlink).map_err(|why| failed(&why))?;
            let in_pod = pod
                .as_ref()
                .map(|pod| dump::links(&pod.netlink))
                .transpose()
                .map_err(|why| failed(&why))?;
            let namespaces = Namespaces {
                node: &self.namespace,
                pod: pod.as_ref(),
            };
            match give_back(
                record,
                &links,
                in_pod.as_deref().map_or(Pod::Gone, Pod::Links),
                &self.boot,
            ) {
                Next::Forget => return held.forget(),
                Next::Last(steps) => match execute(&namespaces, &steps) {
                    Ok(()) => return held.forget(),
                    Err(why) => again(&mut looks, why).map_err(|why| failed(&why))?,
                },
                Next::Steps(steps) => {
                    if let Err(why) = execute(&namespaces, &steps) {
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
        let links = dump::links(&self.namespace.netlink)
            .map_err(|why| kernel_error("the links of the node", &why))?;
        Ok(find(record, &links).is_some())
    }

    /// Restores the NICs on the node that no run holds: their run was killed, or their Pod's
    /// namespace was removed. An error with one does not stop the others.
    pub(super) fn restore_all(&self, records: &Records, until: Instant) -> Result<(), CniError> {
        let all = records.all()?.records;
        if all.is_empty() {
            return Ok(());
        }
        let links = dump::links(&self.namespace.netlink)
            .map_err(|why| kernel_error("the links of the node", &why))?;
        for (path, record) in all {
            if (record.boot != self.boot || find(&record, &links).is_some())
                && let Ok(TryHold::Held(held)) = records.try_hold(&path)
                // The run that held the record may have moved the NIC to the Pod before it released
                // the record.
                && (record.boot != self.boot || self.has(&record)?)
            {
                let _ = self.give_back(*held, None, until);
            }
        }
        Ok(())
    }
}

/// The Pod's namespace, if it is still the recorded one. Fails if a path cannot be read.
fn namespace_of(record: &Record, requested: Option<&Path>) -> io::Result<Option<Namespace>> {
    let mut unseen = Ok(None);
    for path in record.netns_paths(requested) {
        match Namespace::of_pod_if_there(path) {
            Ok(Some(namespace)) if namespace.netns.is(&record.netns) => return Ok(Some(namespace)),
            Ok(_) => {}
            Err(why) => unseen = Err(why),
        }
    }
    unseen
}

/// Executes the steps. A name, an address or a route that the kernel refuses is logged and skipped,
/// so that it does not block the deletion of a Pod.
fn execute(namespaces: &Namespaces<'_>, steps: &[Step]) -> io::Result<()> {
    for step in steps {
        match (namespaces.execute(step), step) {
            (Ok(()), _) => {}
            (Err(why), Step::Change(..)) => return Err(why),
            (Err(why), Step::Name(_, _, name) | Step::Unname(_, _, name)) => {
                eprintln!("the alternative name {name} is unchanged: {why}")
            }
            (Err(why), Step::Address(_, _, address)) => {
                eprintln!("the address {} was not restored: {why}", address.address)
            }
            (Err(why), Step::Route(_, _, route)) => {
                eprintln!("the route to {} was not restored: {why}", route.destination)
            }
        }
    }
    Ok(())
}

/// Allows another attempt if a name was taken or a link moved in between.
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

/// `ENODEV` of Linux: the device does not exist.
const NO_DEVICE: i32 = 19;

fn is_unplugged(record: &Record) -> bool {
    record.nic.kind == Kind::Physical
        && record
            .nic
            .device
            .as_ref()
            .is_some_and(namespace::is_link_gone)
}

fn not_back(record: &Record, has_pod: bool) -> CniError {
    let nic = &record.nic.name;
    let (message, details) = if has_pod {
        let message = format!("{nic} is neither in the Pod nor on the node");
        (
            message,
            "the runtime will retry; the Pod may have moved it to a namespace of its own, which ends with the Pod",
        )
    } else {
        let message =
            format!("the Pod's namespace is gone, and {nic} has not returned to the node yet");
        (
            message,
            "the runtime will retry; the kernel returns it to the machine's first namespace, which must be the node's",
        )
    };
    CniError::new(ErrorCode::TryAgainLater, message, details)
}
