//! The settings of `cni-unnumbered-ptp`: `routes`, `interface` and `mtu`.
//!
//! Settings for all requests are read at once. Those of an ADD are read for an ADD only, so that a
//! mistake in them does not block a DEL.

use std::collections::BTreeSet;

use ipam_core::net::{Block, Family};
use serde_json::Value;

use crate::cni::{Attachment, CniError, InterfaceName, SpecVersion};
use crate::plugin::NetworkSettings;
use crate::settings::{Field, network_name, undecodable, valid_attachments, version};
use crate::unnumbered::previous::Previous;
use crate::{invalid, shown};

/// Known fields: fields of CNI, and fields of this plugin.
const FIELDS: [&str; 11] = [
    "cniVersion",
    "name",
    "type",
    "capabilities",
    "runtimeConfig",
    "args",
    "dns",
    "prevResult",
    "routes",
    "interface",
    "mtu",
];

/// Prefix of the fields that runtimes add.
const OF_RUNTIME: &str = "cni.dev/";

/// Limit of the destinations. The Pod has two routes for each.
const MOST_ROUTES: usize = 64;

/// Allowed sizes of a packet, in bytes: the least that IPv4 requires (RFC 791), and the most that a
/// veth takes.
const MTUS: std::ops::RangeInclusive<u64> = 576..=65_535;

/// The least that IPv6 requires (RFC 8200), in bytes.
pub(super) const LEAST_MTU_IPV6: u32 = 1280;

/// Destinations that never lead through the pair: this host, link-local and multicast addresses.
const NEVER: [&str; 7] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "224.0.0.0/3",
    "::/96",
    "fe80::/10",
    "ff00::/8",
    "169.254.1.1/32",
];

/// The configuration of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct PtpSettings {
    /// The version of the specification for the answer.
    pub version: SpecVersion,
    pub network_name: String,
    written: Value,
}

/// The settings of an ADD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Destinations behind the node, in addition to the node's addresses.
    pub routes: Vec<Block>,
    /// The name of the Pod's end; `None` follows from `CNI_IFNAME`.
    pub interface: Option<InterfaceName>,
    /// In bytes; `None` is the smaller one of the Pod's interface and the node's uplink.
    pub mtu: Option<u32>,
}

impl PtpSettings {
    /// Reads standard input.
    ///
    /// # Errors
    /// Fails if it is not a valid configuration of a network.
    pub fn read(input: &[u8]) -> Result<PtpSettings, CniError> {
        let written: Value = serde_json::from_slice(input).map_err(|why| undecodable(&why))?;
        let version = version(&written["cniVersion"])?;
        if written["plugins"].is_array() {
            return Err(invalid(
                "this is a list of plugins: a plugin gets one entry of it, with the `name` and `cniVersion` of the list",
            ));
        }
        let network_name = network_name(&written)?;
        Ok(PtpSettings {
            version,
            network_name,
            written,
        })
    }

    /// The settings of an ADD.
    ///
    /// # Errors
    /// Fails if they are invalid.
    pub fn wanted(&self) -> Result<Wanted, CniError> {
        self.refuse_unknown_fields()?;
        let interface = match &self.written["interface"] {
            Value::Null => None,
            Value::String(text) => Some(interface(text)?),
            _ => return Err(invalid("`interface` must be a string")),
        };
        let configuration = Field::new("", &self.written);
        let routes = routes(&configuration)?;
        let mtu = mtu(&configuration)?;
        let is_too_small = |mtu: &u32| {
            *mtu < LEAST_MTU_IPV6 && routes.iter().any(|route| route.family() == Family::Ipv6)
        };
        match mtu.filter(is_too_small) {
            Some(mtu) => Err(invalid(&format!(
                "`mtu` is {mtu}, and IPv6 requires at least {LEAST_MTU_IPV6}"
            ))),
            None => Ok(Wanted {
                routes,
                interface,
                mtu,
            }),
        }
    }

    /// The result of the earlier plugins for the interface.
    ///
    /// # Errors
    /// Fails if the result is missing or invalid.
    pub fn previous(&self, interface: &InterfaceName) -> Result<Previous, CniError> {
        Previous::read(&self.written["prevResult"], interface)
    }

    fn refuse_unknown_fields(&self) -> Result<(), CniError> {
        let fields = self.written.as_object().into_iter().flatten();
        let mut unknown = fields
            .map(|(key, _)| key)
            .filter(|key| !FIELDS.contains(&key.as_str()) && !key.starts_with(OF_RUNTIME));
        match unknown.next().map(String::as_str) {
            None => Ok(()),
            Some("ipam") => Err(invalid(
                "remove `ipam`: this plugin borrows the addresses of the interface that the plugin before it made",
            )),
            Some(key) => Err(invalid(&format!(
                "unknown field `{}`; expected `routes`, `interface` or `mtu`",
                shown(key)
            ))),
        }
    }
}

impl NetworkSettings for PtpSettings {
    fn version(&self) -> SpecVersion {
        self.version
    }

    fn valid_attachments(&self) -> Result<Option<BTreeSet<Attachment>>, CniError> {
        valid_attachments(self.written.get("cni.dev/valid-attachments"))
    }
}

fn interface(text: &str) -> Result<InterfaceName, CniError> {
    // The kernel takes a name with `%` for a pattern.
    if text.contains('%') {
        return Err(invalid("`interface` has a `%`"));
    }
    text.parse()
        .map_err(|why| invalid(&format!("`interface` is `{}`, {why}", shown(text))))
}

fn mtu(configuration: &Field<'_>) -> Result<Option<u32>, CniError> {
    let Some(field) = configuration.get("mtu") else {
        return Ok(None);
    };
    let expected = format!("a number from {} to {}", MTUS.start(), MTUS.end());
    let mtu: u32 = field.number(&expected)?;
    match MTUS.contains(&u64::from(mtu)) {
        true => Ok(Some(mtu)),
        false => Err(field.wrong(&expected)),
    }
}

fn routes(configuration: &Field<'_>) -> Result<Vec<Block>, CniError> {
    let Some(list) = configuration.get("routes") else {
        return Ok(Vec::new());
    };
    let list = list.items()?;
    if list.len() > MOST_ROUTES {
        return Err(invalid(&format!("`routes` has more than {MOST_ROUTES}")));
    }
    let mut routes: Vec<Block> = Vec::new();
    for route in &list {
        route.only(&["dst"])?;
        let dst = route.get("dst");
        let dst = dst.ok_or_else(|| invalid(&format!("`{route}.dst` is missing")))?;
        let block = destination(&dst)?;
        if let Some(other) = routes.iter().find(|other| other.overlaps(block)) {
            return Err(invalid(&format!(
                "`routes` has {other} and {block}, which overlap: keep the larger one"
            )));
        }
        routes.push(block);
    }
    Ok(routes)
}

fn destination(field: &Field<'_>) -> Result<Block, CniError> {
    let text = field.text()?;
    let wrong =
        |why: &dyn std::fmt::Display| invalid(&format!("`{field}` is `{}`: {why}", shown(text)));
    let block: Block = shown(text).parse().map_err(|why| wrong(&why))?;
    if block.to_string() != text {
        return Err(wrong(&format!("write {block} instead")));
    }
    let is_never = |never: &str| {
        never
            .parse()
            .is_ok_and(|never: Block| never.overlaps(block))
    };
    match NEVER.into_iter().any(is_never) {
        true => Err(wrong(
            &"it holds addresses of this host, of the link or of groups",
        )),
        false => Ok(block),
    }
}
