//! The plugin `cni-vm-nic`: environment and standard input in, one JSON object out; and in between
//! links, namespaces and records. What is done is decided in `nic`; files, logins and HTTP are
//! those of `plugin`.

mod add;
mod back;
mod change;
mod look;
mod namespace;
mod netlink;
mod records;
mod sysfs;

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::Settings;
use crate::cni::{Attachment, CniError, Command, Environment, ErrorCode};
use crate::nic::{Mark, NicSettings, State, given, port_of};
use crate::plugin::{FOR_STATUS, FOR_TAKING_BACK, answer, cloud, environment, is_of_its_version};
use crate::vm_nic::add::{Adding, pod};
use crate::vm_nic::back::Node;
use crate::vm_nic::records::{Records, Tried};
use openstack::{HttpNeutron, Keeping, NeutronError};

/// The part of the configuration with cloud and state.
const NEUTRON: &str = "neutron";

/// Runs once, as a runtime runs it.
pub fn main() -> ExitCode {
    answer("cni-vm-nic", run)
}

/// The answer; empty where there is nothing to say.
fn run(input: &[u8], began: Instant) -> Result<String, CniError> {
    let environment = environment()?;
    if environment.command == Command::Version {
        return Ok(Settings::version_of(input).supported().to_string());
    }
    let settings = Settings::read_from(input, NEUTRON)?;
    is_of_its_version(environment.command, &settings)?;
    let last = began + settings.deadline;
    let running = Running {
        until: last - FOR_TAKING_BACK,
        last,
        settings,
    };
    match environment.command {
        Command::Add => running.add(&environment),
        Command::Del => running.delete(&environment).map(|()| String::new()),
        Command::Check => running.check(&environment).map(|()| String::new()),
        Command::Gc => running.collect_garbage().map(|()| String::new()),
        Command::Status => running.status().map(|()| String::new()),
        Command::Version => Ok(String::new()),
    }
}

/// A request that is being answered.
struct Running {
    settings: Settings,
    /// For what is asked.
    until: Instant,
    /// For giving back what was taken.
    last: Instant,
}

impl Running {
    fn add(&self, environment: &Environment) -> Result<String, CniError> {
        let wanted = NicSettings::read(self.settings.written())?;
        let (attachment, netns) = (attachment(environment)?, netns(environment)?);
        is_a_name(attachment)?;
        let node = Node::open()?;
        let pod = pod(netns, &node)?;
        let (neutron, records) = (self.neutron()?, Records::open(&self.settings.state)?);
        let adding = Adding {
            network: &self.settings.network_name,
            attachment,
            wanted: &wanted,
            neutron: &neutron,
            node: &node,
            pod: &pod,
            records: &records,
            until: self.until,
            last: self.last,
        };
        let (given, interface) = adding.run()?;
        Ok(given
            .outcome
            .on_interface(&interface, self.settings.version))
    }

    /// Needs no OpenStack: the NIC comes back whatever becomes of its port.
    fn delete(&self, environment: &Environment) -> Result<(), CniError> {
        let mark = Mark::new(&self.settings.network_name, attachment(environment)?);
        let records = Records::open(&self.settings.state)?;
        // Without it, as on a full disk, the record's own lock is enough.
        let _lock = records.about(&mark, self.until).ok();
        match records.hold(&mark, self.until)? {
            None => Ok(()),
            Some(held) => Node::open()?.take_back(held, environment.netns.as_deref(), self.last),
        }
    }

    fn check(&self, environment: &Environment) -> Result<(), CniError> {
        let wanted = NicSettings::read(self.settings.written())?;
        let (attachment, netns) = (attachment(environment)?, netns(environment)?);
        let node = Node::open()?;
        let pod = pod(netns, &node)?;
        let records = Records::open(&self.settings.state)?;
        let wrong = |message: String| {
            Err(CniError::new(
                ErrorCode::Missing,
                message,
                "delete the Pod, so that it is made anew",
            ))
        };
        let Some(record) = records.of(&Mark::new(&self.settings.network_name, attachment))? else {
            return wrong(format!("{attachment} has no NIC"));
        };
        let links =
            look::links(&pod.netlink).map_err(|why| kernel_fault("the links of the Pod", &why))?;
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
        let has: BTreeSet<IpAddr> = link
            .addresses
            .iter()
            .map(|address| address.address.addr())
            .collect();
        let neutron = self.neutron()?;
        let port = port_of(&neutron, record.nic.mac, &wanted.networks)?;
        let nets = given(&neutron, &port, &wanted)?.outcome.addresses;
        let of_port: BTreeSet<IpAddr> = nets.iter().map(|address| address.address.addr()).collect();
        let mut told = self.settings.given()?.unwrap_or_default();
        // Another plugin of the chain may have given more.
        told.retain(|told| nets.iter().any(|net| net.address.contains(told)));
        match (
            told.difference(&of_port).next(),
            of_port.difference(&has).next(),
        ) {
            (Some(missing), _) => wrong(format!("the port {} has not {missing} any more", port.id)),
            (None, Some(missing)) => {
                wrong(format!("{interface} has not {missing}, which its port has"))
            }
            (None, None) => Ok(()),
        }
    }

    /// Those of this network whose attachment is not among the valid ones. It goes on after a
    /// fault, and tells the first.
    fn collect_garbage(&self) -> Result<(), CniError> {
        let Some(valid) = self.settings.valid()? else {
            return Ok(());
        };
        let records = Records::open(&self.settings.state)?;
        let node = Node::open()?;
        let kept = records.all()?;
        let in_use: BTreeSet<Mark> = valid
            .iter()
            .map(|attachment| Mark::new(&self.settings.network_name, attachment))
            .collect();
        let mut unreadable = kept
            .unreadable
            .into_iter()
            .filter(|(mark, _)| !in_use.contains(mark));
        let mut fault = unreadable.next().map_or(Ok(()), |(_, why)| Err(why));
        for (path, record) in kept.records {
            let is_valid = record
                .attachment()
                .is_none_or(|attachment| valid.contains(&attachment));
            if record.network != self.settings.network_name || is_valid {
                continue;
            }
            // What somebody holds is not garbage yet.
            let done = match records.try_hold(&path) {
                Ok(Tried::Held(held)) => node.take_back(*held, None, self.last),
                Ok(Tried::Busy | Tried::Gone) => Ok(()),
                Err(why) => Err(why),
            };
            fault = fault.and(done);
        }
        fault
    }

    /// Whether an ADD could work, as far as this node knows; that no NIC is free is no fault of the
    /// node's, nor that OpenStack does not answer.
    fn status(&self) -> Result<(), CniError> {
        NicSettings::read(self.settings.written())?;
        Records::open(&self.settings.state)?.are_possible()?;
        match self.neutron()?.until(Instant::now() + FOR_STATUS).log_in() {
            Ok(()) | Err(NeutronError::Unavailable(_) | NeutronError::Unreachable(_)) => Ok(()),
            Err(fault) => {
                let CniError {
                    message, details, ..
                } = fault.into();
                Err(CniError::new(ErrorCode::NotAvailable, message, details))
            }
        }
    }

    fn neutron(&self) -> Result<HttpNeutron, CniError> {
        let cloud = cloud(&self.settings.source)?;
        Ok(HttpNeutron::new(
            cloud,
            Keeping::In(self.settings.state.clone()),
            self.until,
        )?)
    }
}

fn attachment(environment: &Environment) -> Result<&Attachment, CniError> {
    let missing = || CniError::new(ErrorCode::InvalidEnvironment, "no attachment is named", "");
    environment.attachment.as_ref().ok_or_else(missing)
}

/// A name with `%` is a pattern to the kernel, and would become another one.
fn is_a_name(attachment: &Attachment) -> Result<(), CniError> {
    if attachment.interface.to_string().contains('%') {
        let message = "CNI_IFNAME has a `%`";
        return Err(CniError::new(
            ErrorCode::InvalidEnvironment,
            message,
            "choose another name",
        ));
    }
    Ok(())
}

fn netns(environment: &Environment) -> Result<&Path, CniError> {
    let missing = || CniError::new(ErrorCode::InvalidEnvironment, "CNI_NETNS is not set", "");
    environment.netns.as_deref().ok_or_else(missing)
}

/// What the kernel refuses. A name in use may be free in a moment; a right that lacks, never.
fn kernel_fault(what: &str, why: &io::Error) -> CniError {
    let details = match why.kind() {
        io::ErrorKind::PermissionDenied => "the plugin needs CAP_NET_ADMIN and CAP_SYS_ADMIN",
        _ => "see `ip link` on the node and in the Pod, and the kernel's log",
    };
    CniError::new(ErrorCode::Io, format!("{what}: {why}"), details)
}
