//! The settings of a network for the daemon `neutron-node`, which the plugin only checks, and the
//! source of the network's credentials.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ipnet::IpNet;
use serde_json::Value;

use crate::cni::{CniError, InterfaceName};
use crate::settings::{CIDR, Field, ID, invalid};
use crate::warm_pool::PoolSize;
use ipam_core::net::unmapped;
use ipam_core::neutron::Id;
use openstack::Cloud;

/// Most free ports of a pool: each takes an address and a part of the quota.
const MOST_FREE: usize = 1000;

/// The work of the daemon for a network, apart from garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonConfig {
    /// The size of the warm pool.
    pub pool: Option<PoolSize>,
    /// The pairs to keep on the VM's port.
    pub pairs: Option<PairsConfig>,
}

/// What a port of the VM must allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairsConfig {
    pub on: VmInterface,
    /// Ranges to allow instead of the address of each Pod.
    pub ranges: Option<BTreeSet<IpNet>>,
}

/// A port of the VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VmInterface {
    Port(Id),
    /// The interface of the node with the port's hardware address.
    Interface(InterfaceName),
}

impl DaemonConfig {
    pub(super) fn read(ipam: &Value) -> Result<DaemonConfig, CniError> {
        let ipam = Field::new("ipam", ipam);
        let pool = ipam.get("warmPool").map(|written| pool(&written));
        let pairs = ipam
            .get("allowedAddressPairs")
            .map(|written| pairs(&written));
        Ok(DaemonConfig {
            pool: pool.transpose()?,
            pairs: pairs.transpose()?,
        })
    }
}

fn pool(written: &Field<'_>) -> Result<PoolSize, CniError> {
    written.only(&["free", "most"])?;
    let number = |key| written.number_of(key, "a number of ports");
    let free: usize =
        number("free")?.ok_or_else(|| invalid(&format!("`{written}.free` is missing")))?;
    // Several Pods may end at once, before others start.
    let most = number("most")?.unwrap_or(free.saturating_mul(2));
    if free > most || most > MOST_FREE {
        return Err(invalid(&format!(
            "`{written}` has `free` {free} and `most` {most}; expected `free` ≤ `most` ≤ {MOST_FREE}"
        )));
    }
    Ok(PoolSize { free, most })
}

fn pairs(written: &Field<'_>) -> Result<PairsConfig, CniError> {
    written.only(&["port", "interface", "ranges"])?;
    let port = written.parsed_of("port", ID)?;
    let interface = written.parsed_of("interface", "the name of an interface")?;
    let on = match (port, interface) {
        (Some(port), None) => VmInterface::Port(port),
        (None, Some(name)) => VmInterface::Interface(name),
        _ => {
            return Err(invalid(&format!(
                "`{written}` requires either `interface` or `port`"
            )));
        }
    };
    let range = |range: &Field<'_>| {
        let range = unmapped(range.parsed(CIDR)?)
            .ok_or_else(|| range.wrong("a range that is not IPv4-mapped and too wide"));
        range.map(|range: IpNet| range.trunc())
    };
    let ranges = written.get("ranges").map(|ranges| ranges.items());
    let ranges = ranges.transpose()?;
    let ranges = ranges.map(|ranges| ranges.iter().map(range).collect::<Result<_, _>>());
    Ok(PairsConfig {
        on,
        ranges: ranges.transpose()?,
    })
}

/// The default clouds file.
const CLOUDS_FILE: &str = "/etc/openstack/clouds.yaml";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the configuration itself, which other users of the node may be able to read.
    Inline(Cloud),
    /// In a file like `clouds.yaml`, under a name.
    File {
        path: PathBuf,
        /// The cloud in the file; `None` means the only one.
        cloud: Option<String>,
    },
    /// The section has nothing but its type. Some runtimes send only that to a DEL.
    Unknown,
}

impl Source {
    pub(super) fn read(ipam: &Field<'_>) -> Result<Source, CniError> {
        let (cloud, file) = (ipam.text_of("cloud")?, ipam.path_at("cloudsFile")?);
        match (ipam.get("openstackConf"), cloud, file) {
            (None, cloud, file) => Ok(Source::File {
                path: file.unwrap_or_else(|| CLOUDS_FILE.into()),
                cloud,
            }),
            (Some(openstack), None, None) => inline(&openstack, ipam),
            (Some(openstack), ..) => Err(invalid(&format!(
                "`{openstack}` and a clouds file exclude each other"
            ))),
        }
    }
}

/// Errors never show a value of `openstackConf`.
fn inline(openstack: &Field<'_>, ipam: &Field<'_>) -> Result<Source, CniError> {
    let needed = |key: &str| {
        let text = openstack.get(key).and_then(|field| field.text_of_secret());
        text.ok_or_else(|| invalid(&format!("`{openstack}.{key}` is missing or not a text")))
    };
    let [username, password, project] =
        [needed("username")?, needed("password")?, needed("project")?];
    let cloud = Cloud::with_password(
        &needed("authUrl")?,
        username,
        password,
        project,
        needed("domain")?,
    );
    let mut cloud = cloud.map_err(|why| invalid(&format!("`{openstack}`: {why}")))?;
    cloud.region = ipam.text_of("region")?;
    if let Some(interface) = ipam.text_of("interface")? {
        cloud.interface = interface;
    }
    Ok(Source::Inline(cloud))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_settings_ask_for_nothing() {
        assert_eq!(
            DaemonConfig::read(&json!({"type": "x"})).unwrap(),
            DaemonConfig::default()
        );
        let pool = DaemonConfig::read(&json!({"warmPool": {"free": 4}}))
            .unwrap()
            .pool;
        assert_eq!(pool, Some(PoolSize { free: 4, most: 8 }));
        let pairs = json!({"interface": "eth0", "ranges": ["10.1.2.3/24", "::ffff:10.1.2.0/120"]});
        let pairs = DaemonConfig::read(&json!({"allowedAddressPairs": pairs}))
            .unwrap()
            .pairs
            .unwrap();
        assert_eq!(pairs.ranges, Some(["10.1.2.0/24".parse().unwrap()].into()));
    }

    #[test]
    fn invalid_settings_are_refused() {
        for bad in [
            json!({"warmPool": {"free": 4, "most": 3}}),
            json!({"warmPool": {"free": 1001}}),
            json!({"warmPool": {"free": -1}}),
            json!({"warmPool": 4}),
            json!({"warmPool": {"free": 4, "moist": 5}}),
            json!({"allowedAddressPairs": {}}),
            json!({"allowedAddressPairs": {"interface": "a/b"}}),
            json!({"allowedAddressPairs": {"port": "eth0"}}),
            json!({"allowedAddressPairs": {"interface": "eth0", "ranges": ["10.0.0.7"]}}),
            json!({"allowedAddressPairs": {"interface": "eth0", "ranges": ["::ffff:10.0.0.0/90"]}}),
        ] {
            assert!(DaemonConfig::read(&bad).is_err(), "{bad}");
        }
    }
}
