//! The settings of `cni-vm-nic`: `nic`, `routes` and `dns`, and the requests of a runtime for one
//! Pod. Credentials and state are in the section `neutron`.

use std::fmt;

use serde_json::Value;

use crate::cni::{CniError, Dns, Route};
use crate::nic::link::{Mac, PciAddress};
use crate::settings::{ADDRESS, Field, ID, of_pod};
use crate::{invalid, shown};
use ipam_core::neutron::Id;
use ipam_core::text::joined;

/// The section of the configuration with cloud and state.
const NEUTRON: &str = "neutron";

/// Known fields of that section.
const NEUTRON_FIELDS: [&str; 7] = [
    "cloud",
    "cloudsFile",
    "region",
    "interface",
    "node",
    "stateDirectory",
    "deadlineSeconds",
];

/// Longest pattern or name, in bytes: the limit of alternative names (`ALTIFNAMSIZ` of Linux without
/// the terminating zero).
const LONGEST: usize = 127;

/// The form of a hardware address, for errors.
const MAC: &str = "a hardware address such as fa:16:3e:00:00:01";

/// The form of a PCI address, for errors.
const PCI: &str = "a PCI address such as 0000:00:05.0";

/// How a NIC is selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Its name or an alternative name.
    Name(String),
    Mac(Mac),
    Pci(PciAddress),
    /// Any free NIC that matches.
    Any {
        /// Patterns of names. Empty: all.
        names: Vec<String>,
        /// Drivers. Empty: all. Links without a device have `veth` or `tun`.
        drivers: Vec<String>,
    },
}

/// `takeConfigured`: whether a NIC with addresses of the node may be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Configured {
    #[default]
    Never,
    /// It may be taken. Its addresses and routes are restored later.
    Restore,
}

/// The NIC that an ADD wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub which: Which,
    pub configured: Configured,
    /// The hardware address that the runtime requests for this Pod.
    pub mac: Option<Mac>,
    /// The PCI address that the runtime requests for this Pod.
    pub pci: Option<PciAddress>,
}

/// The settings of an ADD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicSettings {
    pub selection: Selection,
    /// Allowed networks of its port. Empty: all.
    pub networks: Vec<Id>,
    /// Routes that replace the default routes.
    pub routes: Option<Vec<Route>>,
    /// Name servers that replace those of the subnets.
    pub dns: Option<Dns>,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Which::Name(name) => write!(f, "`{name}` (`nic.name`)"),
            Which::Mac(mac) => write!(f, "with the hardware address {mac} (`nic.mac`)"),
            Which::Pci(pci) => write!(f, "at the PCI address {pci} (`nic.pci`)"),
            Which::Any { names, drivers } => {
                let any = [("name", names), ("driver", drivers)];
                let any = any.iter().filter(|(_, list)| !list.is_empty());
                let any = any.map(|(what, list)| format!("{what} {}", joined(*list, " or ")));
                write!(f, "with {} (`nic.any`)", joined(any, " and "))
            }
        }
    }
}

impl NicSettings {
    /// Reads the settings from a configuration without its credentials.
    ///
    /// # Errors
    /// Fails if they are invalid.
    pub fn read(configuration: &Value) -> Result<NicSettings, CniError> {
        if configuration["ipam"]
            .as_object()
            .is_some_and(|ipam| !ipam.is_empty())
        {
            return Err(invalid(
                "remove `ipam`: with this plugin, a NIC has the addresses of its port",
            ));
        }
        let configuration = Field::new("", configuration);
        if let Some(neutron) = configuration.get(NEUTRON) {
            neutron.only(&NEUTRON_FIELDS)?;
        }
        let nic = configuration
            .get("nic")
            .ok_or_else(|| invalid("the configuration has no `nic`"))?;
        nic.only(&["name", "mac", "pci", "any", "networks", "takeConfigured"])?;
        let configured = match nic.text_of("takeConfigured")?.as_deref() {
            None | Some("never") => Configured::Never,
            Some("restore") => Configured::Restore,
            Some(other) => {
                return Err(invalid(&format!(
                    "`nic.takeConfigured` is `{}`; expected `never` or `restore`",
                    shown(other)
                )));
            }
        };
        let which = which(&nic)?;
        if configured == Configured::Restore && matches!(which, Which::Any { .. }) {
            return Err(invalid(
                "`nic.takeConfigured` requires `name`, `mac` or `pci`, not `any`",
            ));
        }
        let (mac, pci) = requested_nic(&configuration)?;
        let selection = Selection {
            which,
            configured,
            mac,
            pci,
        };
        Ok(NicSettings {
            selection,
            networks: nic.list("networks", ID)?,
            routes: routes(&configuration)?,
            dns: configuration
                .get("dns")
                .map(|dns| self::dns(&dns))
                .transpose()?,
        })
    }
}

fn routes(configuration: &Field<'_>) -> Result<Option<Vec<Route>>, CniError> {
    let Some(list) = configuration.get("routes") else {
        return Ok(None);
    };
    let route = |item: &Field<'_>| {
        item.only(&["dst", "gw"])?;
        item.route()
    };
    list.items()?
        .iter()
        .map(route)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn dns(written: &Field<'_>) -> Result<Dns, CniError> {
    written.only(&["nameservers", "domain", "search", "options"])?;
    Ok(Dns {
        nameservers: written.list("nameservers", ADDRESS)?,
        domain: written.text_of("domain")?,
        search: written.list("search", "a text")?,
        options: written.list("options", "a text")?,
    })
}

fn which(nic: &Field<'_>) -> Result<Which, CniError> {
    let is_name =
        |text: &String| (1..=LONGEST).contains(&text.len()) && !text.contains(['/', '\0']);
    let name = nic.text_of("name")?;
    let mac: Option<Mac> = nic.parsed_of("mac", MAC)?;
    let pci: Option<PciAddress> = nic.parsed_of("pci", PCI)?;
    match (name, mac, pci, nic.get("any")) {
        (Some(name), None, None, None) if is_name(&name) => Ok(Which::Name(name)),
        (Some(name), None, None, None) => Err(invalid(&format!(
            "`nic.name` is `{}`, which is not a valid interface name",
            shown(&name)
        ))),
        (None, Some(mac), None, None) => Ok(Which::Mac(mac)),
        (None, None, Some(pci), None) => Ok(Which::Pci(pci)),
        (None, None, None, Some(any)) => {
            any.only(&["names", "drivers"])?;
            let names: Vec<String> = any.list("names", "a text")?;
            let drivers: Vec<String> = any.list("drivers", "a text")?;
            if names.is_empty() && drivers.is_empty() {
                return Err(invalid(
                    "`nic.any` requires `names` or `drivers`: without them it would match every NIC",
                ));
            }
            match names.iter().chain(&drivers).find(|text| !is_name(text)) {
                None => Ok(Which::Any { names, drivers }),
                Some(bad) => Err(invalid(&format!(
                    "`nic.any` has `{}`, which no link can have",
                    shown(bad)
                ))),
            }
        }
        _ => Err(invalid(
            "`nic` requires exactly one of `name`, `mac`, `pci` and `any`",
        )),
    }
}

/// The capabilities `mac` and `deviceID` (CONVENTIONS.md of containernetworking/cni). Multus also
/// writes `deviceID` next to `type`.
fn requested_nic(configuration: &Field<'_>) -> Result<(Option<Mac>, Option<PciAddress>), CniError> {
    let beside = configuration.parsed_of("deviceID", PCI)?;
    let Some(runtime) = configuration.get("runtimeConfig") else {
        return Ok((None, beside));
    };
    let mac = runtime.parsed_of("mac", MAC).map_err(of_pod)?;
    let device = runtime.parsed_of("deviceID", PCI).map_err(of_pod)?;
    Ok((mac, device.or(beside)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cni::ErrorCode;

    fn read(nic: &Value) -> Result<NicSettings, CniError> {
        NicSettings::read(&json!({"neutron": {"cloud": "c"}, "nic": nic}))
    }

    #[test]
    fn a_nic_is_chosen_in_one_way() {
        assert_eq!(
            read(&json!({"name": "eth1"})).unwrap().selection.which,
            Which::Name("eth1".to_owned())
        );
        let pci = read(&json!({"pci": "0000:00:05.0", "takeConfigured": "restore"})).unwrap();
        assert_eq!(pci.selection.configured, Configured::Restore);
        for bad in [
            json!({}),
            json!([]),
            json!({"name": "eth1", "mac": "fa:16:3e:00:00:01"}),
            json!({"name": ""}),
            json!({"name": "../x"}),
            json!({"mac": "x"}),
            json!({"pci": "virtio2"}),
            json!({"any": {}}),
            json!({"any": {"names": ["eth*"]}, "takeConfigured": "restore"}),
            json!({"any": {"names": ["eth*"], "networks": []}}),
            json!({"name": "eth1", "takeConfigured": true}),
            json!({"name": "eth1", "takeConfigured": "yes"}),
            json!({"name": "eth1", "networks": ["../ports"]}),
            json!({"name": "eth1", "nonsense": 1}),
        ] {
            assert_eq!(
                read(&bad).unwrap_err().code,
                ErrorCode::InvalidConfiguration,
                "{bad}"
            );
        }
        let unknown = json!({"neutron": {"hunter2": "c"}, "nic": {"name": "eth1"}});
        assert_eq!(
            NicSettings::read(&unknown).unwrap_err().code,
            ErrorCode::InvalidConfiguration
        );
    }

    #[test]
    fn a_missing_nic_is_named() {
        let which = |nic: &Value| read(nic).unwrap().selection.which.to_string();
        for (nic, named) in [
            (json!({"name": "eth9"}), "`eth9` (`nic.name`)"),
            (
                json!({"mac": "FA:16:3E:00:00:01"}),
                "with the hardware address fa:16:3e:00:00:01 (`nic.mac`)",
            ),
            (
                json!({"any": {"names": ["eth*"], "drivers": ["virtio_net", "tun"]}}),
                "with name eth* and driver virtio_net or tun (`nic.any`)",
            ),
        ] {
            assert_eq!(which(&nic), named);
        }
    }

    #[test]
    fn a_runtime_asks_for_one_of_them() {
        let mut configuration =
            json!({"neutron": {}, "nic": {"any": {"names": ["eth*"]}}, "deviceID": "0000:00:06.0"});
        let selection =
            |configuration: &Value| NicSettings::read(configuration).map(|read| read.selection);
        assert_eq!(
            selection(&configuration).unwrap().pci,
            "0000:00:06.0".parse().ok()
        );
        configuration["runtimeConfig"] =
            json!({"mac": "FA:16:3E:00:00:01", "deviceID": "0000:00:05.0"});
        let selected = selection(&configuration).unwrap();
        assert_eq!(
            (selected.mac, selected.pci),
            (
                "fa:16:3e:00:00:01".parse().ok(),
                "0000:00:05.0".parse().ok()
            )
        );
        configuration["runtimeConfig"] = json!({"mac": 7});
        assert_eq!(
            selection(&configuration).unwrap_err().code,
            ErrorCode::InvalidConfiguration
        );
    }
}
