//! The result of the plugins before this one (`prevResult`): the addresses of the Pod's interface,
//! and everything else, which is passed on as it is.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::cni::{CniError, InterfaceName, SpecVersion};
use crate::nic::Mac;
use crate::{invalid, shown};
use ipam_core::net::Address;

/// Most addresses of an interface.
const MOST_ADDRESSES: usize = 16;

/// Most interfaces and addresses in a result.
const MOST_ENTRIES: usize = 256;

/// A result that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Previous {
    /// The addresses of the interface, in the order of the result.
    pub addresses: Vec<IpAddr>,
    whole: Value,
}

/// An end of the pair, as results show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEnd<'e> {
    pub name: &'e str,
    pub mac: Mac,
    /// In bytes.
    pub mtu: u32,
    /// The path of the Pod's namespace; `None` on the node.
    pub sandbox: Option<&'e str>,
}

impl Previous {
    pub(super) fn read(whole: &Value, interface: &InterfaceName) -> Result<Previous, CniError> {
        if !whole.is_object() {
            return Err(invalid(
                "there is no `prevResult`: this plugin comes after `ipvlan`, `macvlan` or `cni-vm-nic` in a list",
            ));
        }
        let [interfaces, ips] = ["interfaces", "ips"].map(|key| list(whole, key));
        let (interfaces, ips) = (interfaces?, ips?);
        let mut addresses = Vec::new();
        for ip in ips {
            if !is_on(ip, interfaces, interface)? {
                continue;
            }
            let address = ip["address"].as_str().and_then(address).ok_or_else(|| {
                invalid(
                    "`prevResult.ips` must contain addresses with the lengths of their prefixes",
                )
            })?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses.len() {
            0 => Err(invalid(&format!(
                "`prevResult` has no address of {interface}: the plugin before this one needs `ipam`"
            ))),
            count if count > MOST_ADDRESSES => Err(invalid(&format!(
                "`prevResult` has more than {MOST_ADDRESSES} addresses of {interface}"
            ))),
            _ => Ok(Previous {
                addresses,
                whole: whole.clone(),
            }),
        }
    }

    /// The result with the two ends. Nothing else changes.
    pub fn with_ends(&self, ends: &[ShownEnd<'_>; 2], version: SpecVersion) -> String {
        let mut whole = self.whole.clone();
        whole["cniVersion"] = version.as_str().into();
        if whole["interfaces"].is_null() {
            whole["interfaces"] = json!([]);
        }
        let shown = ends.iter().map(|end| {
            let mut shown = json!({"name": end.name, "mac": end.mac.to_string()});
            if let Some(sandbox) = end.sandbox {
                shown["sandbox"] = sandbox.into();
            }
            if version >= SpecVersion::V1_1_0 {
                shown["mtu"] = end.mtu.into();
            }
            shown
        });
        if let Some(interfaces) = whole["interfaces"].as_array_mut() {
            interfaces.extend(shown);
        }
        whole.to_string()
    }
}

fn list<'v>(whole: &'v Value, key: &str) -> Result<&'v [Value], CniError> {
    match &whole[key] {
        Value::Null => Ok(&[]),
        Value::Array(list) if list.len() <= MOST_ENTRIES => Ok(list),
        Value::Array(_) => Err(invalid(&format!(
            "`prevResult.{key}` has more than {MOST_ENTRIES} entries"
        ))),
        _ => Err(invalid(&format!("`prevResult.{key}` must be a list"))),
    }
}

/// Whether an address is of the container's interface. One that names no interface is.
fn is_on(ip: &Value, interfaces: &[Value], interface: &InterfaceName) -> Result<bool, CniError> {
    let index = match &ip["interface"] {
        Value::Null => return Ok(true),
        index => index.as_u64().and_then(|index| usize::try_from(index).ok()),
    };
    let named = index
        .and_then(|index| interfaces.get(index))
        .ok_or_else(|| {
            invalid(&format!(
                "`prevResult.ips` names the interface {}, which is not in the result",
                shown(&ip["interface"].to_string())
            ))
        })?;
    let is_in_pod = named["sandbox"]
        .as_str()
        .is_some_and(|path| !path.is_empty());
    Ok(is_in_pod && named["name"].as_str() == Some(interface.to_string().as_str()))
}

/// An address with the length of its prefix.
fn address(text: &str) -> Option<IpAddr> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse::<Address>().ok()?.into();
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let is_host = !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
    (length.parse::<u8>().ok()? <= longest && is_host).then_some(address)
}
