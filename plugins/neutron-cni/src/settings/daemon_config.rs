//! The settings of a network for the daemon `neutron-node`, which the plugin only checks, and the
//! source of the network's credentials.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use super::text;
use crate::cni::{CniError, InterfaceName};
use crate::settings::invalid;
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    warm_pool: Option<WrittenPool>,
    allowed_address_pairs: Option<WrittenPairs>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPool {
    free: usize,
    most: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPairs {
    port: Option<String>,
    interface: Option<String>,
    ranges: Option<BTreeSet<IpNet>>,
}

impl DaemonConfig {
    pub(super) fn read(ipam: &Value) -> Result<DaemonConfig, CniError> {
        let written =
            Written::deserialize(ipam).map_err(|why| invalid(&format!("`ipam`: {why}")))?;
        let pool = written.warm_pool.map(pool).transpose()?;
        Ok(DaemonConfig {
            pool,
            pairs: written.allowed_address_pairs.map(pairs).transpose()?,
        })
    }
}

fn pool(written: WrittenPool) -> Result<PoolSize, CniError> {
    let WrittenPool { free, most } = written;
    // Several Pods may end at once, before others start.
    let most = most.unwrap_or(free.saturating_mul(2));
    if free > most || most > MOST_FREE {
        return Err(invalid(&format!(
            "`ipam.warmPool` requires `free` ≤ `most` ≤ {MOST_FREE}"
        )));
    }
    Ok(PoolSize { free, most })
}

fn pairs(written: WrittenPairs) -> Result<PairsConfig, CniError> {
    let key = "`ipam.allowedAddressPairs`";
    let on = match (written.port, written.interface) {
        (Some(port), None) => VmInterface::Port(
            port.parse()
                .map_err(|why| invalid(&format!("{key}: `port` is {why}")))?,
        ),
        (None, Some(name)) => VmInterface::Interface(
            name.parse()
                .map_err(|why| invalid(&format!("{key}: `interface` is {why}")))?,
        ),
        _ => {
            return Err(invalid(&format!(
                "{key} requires either `interface` or `port`"
            )));
        }
    };
    let range = |range: IpNet| {
        let range = unmapped(range).ok_or_else(|| {
            invalid(&format!(
                "{key}: `ranges` has {range}, IPv4-mapped and too wide"
            ))
        });
        range.map(|range| range.trunc())
    };
    let ranges = written
        .ranges
        .map(|ranges| ranges.into_iter().map(range).collect::<Result<_, _>>())
        .transpose()?;
    Ok(PairsConfig { on, ranges })
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
}

impl Source {
    pub(super) fn read(ipam: &Value) -> Result<Source, CniError> {
        let (cloud, file) = (text(ipam, "cloud")?, text(ipam, "cloudsFile")?);
        match (&ipam["openstackConf"], cloud, file) {
            (Value::Null, cloud, file) => {
                let path = PathBuf::from(file.unwrap_or_else(|| CLOUDS_FILE.to_owned()));
                if !path.is_absolute() {
                    return Err(invalid("`cloudsFile` must be an absolute path"));
                }
                Ok(Source::File { path, cloud })
            }
            (openstack, None, None) => inline(openstack, ipam),
            (_, _, _) => Err(invalid(
                "`openstackConf` and a clouds file exclude each other",
            )),
        }
    }
}

/// Errors never show a value of `openstackConf`.
fn inline(openstack: &Value, ipam: &Value) -> Result<Source, CniError> {
    let needed = |key: &str| {
        let text = openstack[key].as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned)
            .ok_or_else(|| invalid(&format!("`openstackConf.{key}` is missing or not a string")))
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
    let mut cloud = cloud.map_err(|why| invalid(&format!("`openstackConf`: {why}")))?;
    cloud.region = text(ipam, "region")?;
    if let Some(interface) = text(ipam, "interface")? {
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
