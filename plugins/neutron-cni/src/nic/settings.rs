//! The settings of `cni-vm-nic`: `nic`, `routes` and `dns`, and the requests of a runtime for one
//! Pod. Credentials and state are in the section `neutron`.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use crate::cni::{CniError, Dns, Route, RouteDetail};
use crate::nic::link::{Mac, PciAddress};
use crate::{invalid, shown};
use ipam_core::neutron::Id;

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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    name: Option<String>,
    mac: Option<Mac>,
    pci: Option<PciAddress>,
    any: Option<WrittenAny>,
    #[serde(default)]
    networks: Vec<Id>,
    take_configured: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAny {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    drivers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRoute {
    dst: IpNet,
    gw: Option<IpAddr>,
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
        only_known_fields(&configuration[NEUTRON])?;
        let written: Written =
            part(configuration, "nic")?.ok_or_else(|| invalid("the configuration has no `nic`"))?;
        let routes: Option<Vec<WrittenRoute>> = part(configuration, "routes")?;
        let route = |route: WrittenRoute| Route {
            destination: route.dst,
            gateway: route.gw,
            detail: RouteDetail::default(),
        };
        let dns = part(configuration, "dns")?;
        let configured = match written.take_configured.as_deref() {
            None | Some("never") => Configured::Never,
            Some("restore") => Configured::Restore,
            Some(other) => {
                return Err(invalid(&format!(
                    "unknown `nic.takeConfigured` `{}`; expected `never` or `restore`",
                    shown(other)
                )));
            }
        };
        let networks = written.networks.clone();
        let which = which(written)?;
        if configured == Configured::Restore && matches!(which, Which::Any { .. }) {
            return Err(invalid(
                "`nic.takeConfigured` requires `name`, `mac` or `pci`, not `any`",
            ));
        }
        let (mac, pci) = requested_nic(configuration)?;
        let selection = Selection {
            which,
            configured,
            mac,
            pci,
        };
        Ok(NicSettings {
            selection,
            networks,
            routes: routes.map(|list| list.into_iter().map(route).collect()),
            dns,
        })
    }
}

fn part<T: serde::de::DeserializeOwned>(
    configuration: &Value,
    key: &str,
) -> Result<Option<T>, CniError> {
    match &configuration[key] {
        Value::Null => Ok(None),
        part => T::deserialize(part)
            .map(Some)
            .map_err(|why| invalid(&format!("`{key}`: {why}"))),
    }
}

fn only_known_fields(neutron: &Value) -> Result<(), CniError> {
    let fields = neutron
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys());
    match fields
        .into_iter()
        .find(|key| !NEUTRON_FIELDS.contains(&key.as_str()))
    {
        None => Ok(()),
        Some(key) => Err(invalid(&format!("unknown field `neutron.{}`", shown(key)))),
    }
}

fn which(written: Written) -> Result<Which, CniError> {
    let Written {
        name,
        mac,
        pci,
        any,
        networks: _,
        take_configured: _,
    } = written;
    let is_name =
        |text: &String| (1..=LONGEST).contains(&text.len()) && !text.contains(['/', '\0']);
    match (name, mac, pci, any) {
        (Some(name), None, None, None) if is_name(&name) => Ok(Which::Name(name)),
        (Some(name), None, None, None) => Err(invalid(&format!(
            "`nic.name` is `{}`, which no link can have",
            shown(&name)
        ))),
        (None, Some(mac), None, None) => Ok(Which::Mac(mac)),
        (None, None, Some(pci), None) => Ok(Which::Pci(pci)),
        (None, None, None, Some(WrittenAny { names, drivers })) => {
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
fn requested_nic(configuration: &Value) -> Result<(Option<Mac>, Option<PciAddress>), CniError> {
    let runtime = &configuration["runtimeConfig"];
    let mac: Option<Mac> = part(runtime, "mac")?;
    let [device, beside]: [Option<PciAddress>; 2] =
        [part(runtime, "deviceID")?, part(configuration, "deviceID")?];
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
