//! CHECK: whether the Pod still has its NIC, and the NIC the addresses of its port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cni::{Attachment, CniError, ErrorCode};
use crate::kernel::namespace::Namespace;
use crate::kernel::{dump, kernel_error};
use crate::nic::{NicSettings, Record, State, port_config, port_of};
use crate::plugin::PluginRun;

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
    // Another plugin of the chain may have added addresses of other networks.
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
