//! The plugin `cni-unnumbered-ptp`: a secondary route into a Pod, behind the plugin that made its
//! interface. Connects links and namespaces with `unnumbered`, which decides what to change. Has no
//! files: the kernel's links are the record.

mod add;
mod change;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::io;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cni::{Arguments, Attachment, CniError, ErrorCode};
use crate::kernel::namespace::Namespace;
use crate::kernel::{dump as links, kernel_error};
use crate::nic::Link;
use crate::plugin::{Plugin, Target, serve};
use crate::unnumbered::{End, PtpSettings, Seen, SeenEnd, WayKey, is_of_network, is_unmarked_end};
use crate::unnumbered_ptp::add::{AddOperation, decide};
use crate::unnumbered_ptp::change::{delete_link, delete_rule};

/// How long ADD and DEL wait for another run in the same Pod. A Pod could hold the lock for ever, so
/// DEL goes on without it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Interval between attempts at the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Runs the plugin once, as a container runtime does.
pub fn main() -> ExitCode {
    serve::<UnnumberedPtpPlugin>()
}

struct UnnumberedPtpPlugin {
    settings: PtpSettings,
}

impl Plugin for UnnumberedPtpPlugin {
    const NAME: &'static str = "cni-unnumbered-ptp";
    type Settings = PtpSettings;

    fn settings(input: &[u8]) -> Result<PtpSettings, CniError> {
        PtpSettings::read(input)
    }

    fn new(settings: PtpSettings, _began: Instant) -> Result<UnnumberedPtpPlugin, CniError> {
        Ok(UnnumberedPtpPlugin { settings })
    }

    fn add(&self, target: &Target<'_>, _arguments: &Arguments) -> Result<String, CniError> {
        target.refuse_name_pattern()?;
        let node = own_namespace()?;
        let pod = node.pod(target.pod_path()?)?;
        let operation = AddOperation {
            settings: &self.settings,
            key: self.key(target.attachment),
            interface: &target.attachment.interface,
            node: &node,
            pod: &pod,
        };
        let _lock = lock(&pod.file)?;
        operation.run()
    }

    fn del(&self, target: &Target<'_>) -> Result<(), CniError> {
        let node = own_namespace()?;
        let pod = match target.netns.map(Namespace::of_pod_if_there) {
            None => None,
            Some(opened) => opened.map_err(|why| kernel_error("CNI_NETNS", &why))?,
        };
        let pod = pod.filter(|pod| !pod.netns.is(&node.netns));
        let _lock = pod.as_ref().and_then(|pod| lock(&pod.file).ok());
        remove(&self.key(target.attachment), &node, pod.as_ref())
    }

    fn check(&self, target: &Target<'_>) -> Result<(), CniError> {
        let interface = &target.attachment.interface;
        let node = own_namespace()?;
        let pod = node.pod(target.pod_path()?)?;
        let key = self.key(target.attachment);
        let previous = self.settings.previous(interface)?;
        let way = decide(&self.settings, &key, interface, &previous, &node, &pod)?;
        let seen = see(&way.pair.pod_end, &key, &interface.to_string(), &node, &pod)
            .map_err(|why| kernel_error("the links of the node and the Pod", &why))?;
        match way.lacks(&seen).first() {
            None => Ok(()),
            Some(lack) => Err(CniError::new(
                ErrorCode::Missing,
                lack.to_string(),
                "delete the Pod, so that it is created again",
            )),
        }
    }

    /// Goes on after an error, and returns the first.
    fn gc(&self, valid: &BTreeSet<Attachment>) -> Result<(), CniError> {
        let node = own_namespace()?;
        let keys: Vec<WayKey> = valid.iter().map(|one| self.key(one)).collect();
        let network = &self.settings.network_name;
        let is_garbage = |link: &Link| {
            (is_of_network(network, link) || is_unmarked_end(link))
                && !keys.iter().any(|key| key.is_node_end(link))
        };
        let mut result = Ok(());
        for link in links_of(&node)?.iter().filter(|link| is_garbage(link)) {
            let done = delete_link(&node, link.index).map_err(|why| kernel_error(&link.name, &why));
            result = result.and(done);
        }
        result
    }

    fn status(&self, _arguments: &Arguments) -> Result<(), CniError> {
        self.settings.wanted()?;
        links_of(&own_namespace()?).map(drop)
    }
}

impl UnnumberedPtpPlugin {
    fn key(&self, attachment: &Attachment) -> WayKey {
        WayKey::new(&self.settings.network_name, attachment)
    }
}

/// Removes everything of an attachment, wherever the last run ended.
fn remove(key: &WayKey, node: &Namespace, pod: Option<&Namespace>) -> Result<(), CniError> {
    for link in links_of(node)?.iter().filter(|link| key.is_node_end(link)) {
        delete_link(node, link.index).map_err(|why| kernel_error(&link.name, &why))?;
    }
    let Some(pod) = pod else { return Ok(()) };
    let failed = |why: io::Error| kernel_error("the rules of the Pod", &why);
    let rules = change::rules(&pod.netlink).map_err(failed)?;
    for rule in rules.iter().filter(|rule| rule.table == key.table()) {
        delete_rule(pod, rule).map_err(failed)?;
    }
    Ok(())
}

/// What a CHECK sees.
fn see(
    pod_end: &str,
    key: &WayKey,
    interface: &str,
    node: &Namespace,
    pod: &Namespace,
) -> io::Result<Seen> {
    let (of_node, of_pod) = (links::links(&node.netlink)?, links::links(&pod.netlink)?);
    let ends = [
        (
            End::Node,
            node,
            of_node.iter().find(|link| key.is_node_end(link)),
        ),
        (
            End::Pod,
            pod,
            of_pod.iter().find(|link| link.name == pod_end),
        ),
    ];
    let mut seen = BTreeMap::new();
    for (end, namespace, link) in ends {
        let Some(link) = link else { continue };
        let of_end = SeenEnd {
            link: link.clone(),
            routes: links::routes(&namespace.netlink, link.index)?,
            neighbours: change::neighbours(&namespace.netlink, link.index)?,
        };
        seen.insert(end, of_end);
    }
    let borrowed = of_pod.iter().find(|link| link.name == interface);
    let addresses = borrowed.into_iter().flat_map(|link| &link.addresses);
    Ok(Seen {
        ends: seen,
        addresses: addresses
            .map(|one| one.address.addr())
            .collect::<BTreeSet<IpAddr>>(),
        rules: change::rules(&pod.netlink)?,
    })
}

fn own_namespace() -> Result<Namespace, CniError> {
    Namespace::own().map_err(|why| kernel_error("the node's network namespace", &why))
}

fn links_of(namespace: &Namespace) -> Result<Vec<Link>, CniError> {
    links::links(&namespace.netlink).map_err(|why| kernel_error("the links of the node", &why))
}

/// The lock of a Pod: its namespace, which every run about it has opened. The kernel releases it when
/// the run ends.
fn lock(namespace: &File) -> Result<File, CniError> {
    let failed = |why: &io::Error| kernel_error("the lock of the Pod's namespace", why);
    let until = Instant::now() + LOCK_PATIENCE;
    let file = namespace.try_clone().map_err(|why| failed(&why))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(why)) => return Err(failed(&why)),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                let message = "another run of the plugin holds the lock of the Pod's namespace";
                return Err(CniError::new(
                    ErrorCode::TryAgainLater,
                    message,
                    "the runtime will retry",
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
}
