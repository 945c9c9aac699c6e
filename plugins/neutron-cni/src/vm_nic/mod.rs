//! The plugin `cni-vm-nic`: a NIC of the machine moves to a Pod, with the addresses of its port,
//! and CHECK finds whether both are still there. Connects links, namespaces and records with
//! `nic`, which decides what to change.

mod add;
mod change;
mod records;
mod restore;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Instant;

use super::cni::ErrorCode;
use super::kernel::namespace::Namespace;
use super::kernel::{dump, kernel_error};
use super::nic::{Record, State, port_config, port_of};
use crate::cni::{Arguments, Attachment, CniError};
use crate::nic::{AttachmentKey, NicSettings};
use crate::plugin::{Plugin, PluginRun, Target, serve};
use crate::settings::Settings;
use crate::vm_nic::add::AddOperation;
use crate::vm_nic::records::{Records, TryHold};
use crate::vm_nic::restore::Node;

/// Runs the plugin once, as a container runtime does.
pub fn main() -> ExitCode {
    serve::<VmNicPlugin>()
}

/// How the program names itself to OpenStack.
const USER_AGENT: &str = concat!("cni-vm-nic/", env!("CARGO_PKG_VERSION"));

struct VmNicPlugin {
    run: PluginRun,
}

impl Plugin for VmNicPlugin {
    const NAME: &'static str = "cni-vm-nic";
    type Settings = Settings;

    fn settings(input: &[u8]) -> Result<Settings, CniError> {
        Settings::read_from(input, "neutron")
    }

    fn new(settings: Settings, began: Instant) -> Result<VmNicPlugin, CniError> {
        let run = PluginRun::new(settings, began, USER_AGENT);
        Ok(VmNicPlugin { run })
    }

    fn add(&self, target: &Target<'_>, _arguments: &Arguments) -> Result<String, CniError> {
        let settings = &self.run.settings;
        let wanted = NicSettings::read(settings.written())?;
        let path = target.pod_path()?;
        target.refuse_name_pattern()?;
        let node = Node::open()?;
        let pod = node.namespace.pod(path)?;
        let (neutron, records) = (self.run.neutron()?, Records::open(&settings.state)?);
        let operation = AddOperation {
            network: &settings.network_name,
            attachment: target.attachment,
            wanted: &wanted,
            neutron: &neutron,
            node: &node,
            pod: &pod,
            records: &records,
            until: self.run.until,
            deadline: self.run.deadline,
        };
        let (config, interface) = operation.run()?;
        Ok(config.outcome.on_interface(&interface, settings.version))
    }

    /// Needs no OpenStack: the NIC returns whatever happens to its port.
    fn del(&self, target: &Target<'_>) -> Result<(), CniError> {
        let key = self.key(target.attachment);
        let records = Records::open(&self.run.settings.state)?;
        // On a full disk there is no such lock. The record's own lock is enough.
        let _lock = records.lock_attachment(&key, self.run.until).ok();
        match records.hold(&key, self.run.until)? {
            None => Ok(()),
            Some(held) => Node::open()?.give_back(held, target.netns, self.run.deadline),
        }
    }

    fn check(&self, target: &Target<'_>) -> Result<(), CniError> {
        let settings = &self.run.settings;
        let wanted = NicSettings::read(settings.written())?;
        let pod = Node::open()?.namespace.pod(target.pod_path()?)?;
        let record = Records::open(&settings.state)?.of(&self.key(target.attachment))?;
        check(&self.run, target.attachment, &wanted, &pod, record)
    }

    /// Goes on after an error, and returns the first.
    fn gc(&self, valid: &BTreeSet<Attachment>) -> Result<(), CniError> {
        let records = Records::open(&self.run.settings.state)?;
        let node = Node::open()?;
        let stored = records.all()?;
        let in_use: BTreeSet<AttachmentKey> = valid
            .iter()
            .map(|attachment| self.key(attachment))
            .collect();
        let mut unreadable = stored
            .unreadable
            .into_iter()
            .filter(|(key, _)| !in_use.contains(key));
        let mut result = unreadable.next().map_or(Ok(()), |(_, why)| Err(why));
        for (path, record) in stored.records {
            let is_valid = record
                .attachment()
                .is_none_or(|attachment| valid.contains(&attachment));
            if record.network != self.run.settings.network_name || is_valid {
                continue;
            }
            // A record that another run holds is not garbage yet.
            let done = match records.try_hold(&path) {
                Ok(TryHold::Held(held)) => node.give_back(*held, None, self.run.deadline),
                Ok(TryHold::Busy | TryHold::Gone) => Ok(()),
                Err(why) => Err(why),
            };
            result = result.and(done);
        }
        result
    }

    /// A node without a free NIC still passes.
    fn status(&self, _arguments: &Arguments) -> Result<(), CniError> {
        NicSettings::read(self.run.settings.written())?;
        Records::open(&self.run.settings.state)?.can_be_locked()?;
        self.run.can_log_in()
    }
}

impl VmNicPlugin {
    fn key(&self, attachment: &Attachment) -> AttachmentKey {
        AttachmentKey::new(&self.run.settings.network_name, attachment)
    }
}

/// Compares the link in the Pod with its record and its port.
///
/// # Errors
/// Fails if the link is missing, down or lacks an address, or if Neutron does not answer.
pub(super) fn check(
    run: &PluginRun,
    attachment: &Attachment,
    wanted: &NicSettings,
    pod: &Namespace,
    record: Option<Record>,
) -> Result<(), CniError> {
    let wrong = |message: String| {
        Err(CniError::new(
            ErrorCode::Missing,
            message,
            "delete the Pod, so that it is created again",
        ))
    };
    let Some(record) = record else {
        return wrong(format!("{attachment} has no NIC"));
    };
    let links =
        dump::links(&pod.netlink).map_err(|why| kernel_error("the links of the Pod", &why))?;
    let interface = attachment.interface.to_string();
    let Some(link) = links
        .iter()
        .find(|link| link.name == interface && link.mac == Some(record.nic.mac))
    else {
        return wrong(format!(
            "the Pod has no {interface} with the hardware address {}",
            record.nic.mac
        ));
    };
    if link.state == State::Down {
        return wrong(format!("{interface} is switched off"));
    }
    let present: BTreeSet<IpAddr> = link
        .addresses
        .iter()
        .map(|address| address.address.addr())
        .collect();
    let neutron = run.neutron()?;
    let port = port_of(&neutron, record.nic.mac, &wanted.networks)?;
    let nets = port_config(&neutron, &port, wanted)?.outcome.addresses;
    let of_port: BTreeSet<IpAddr> = nets.iter().map(|net| net.address.addr()).collect();
    let mut reported = run.settings.previous_addresses()?.unwrap_or_default();
    // Another plugin of the chain may have added addresses outside the port's networks.
    reported.retain(|address| nets.iter().any(|net| net.address.contains(address)));
    match (
        reported.difference(&of_port).next(),
        of_port.difference(&present).next(),
    ) {
        (Some(missing), _) => wrong(format!("the port {} no longer has {missing}", port.id)),
        (None, Some(missing)) => wrong(format!(
            "{interface} lacks {missing}, an address of its port"
        )),
        (None, None) => Ok(()),
    }
}
