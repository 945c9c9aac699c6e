//! The source of a network's credentials.

use std::path::PathBuf;

use serde_json::Value;

use crate::cni::CniError;
use crate::settings::{invalid, text};
use openstack::Cloud;

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
