//! The configuration of a network on standard input: the form of the plugin of 2020
//! (`openstackConf`, `neutronConf`) and the newer one with credentials in a file. Must never decide
//! about ports.
//!
//! Settings for all requests are read at once. Those of an ADD are read for an ADD only, so that a
//! mistake in them does not block a DEL.

mod daemon_config;
mod fields;
mod request;

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::cni::{Arguments, Attachment, CniError, ErrorCode, SpecVersion, address_of};

pub(crate) use fields::{ADDRESS, CIDR, Field, ID};

pub use daemon_config::{DaemonConfig, PairsConfig, Source, VmInterface};
pub use request::{AttachmentRequest, RouteMtu};

/// The default state folder of plugin and daemon.
pub const STATE_DIRECTORY: &str = "/var/lib/cni/cilium-ipam-neutron";

/// Default time of a request. Kubelet gives up after two minutes.
const DEADLINE: Duration = Duration::from_secs(30);

/// Allowed times of a request, in seconds. The last five are for undoing.
const DEADLINES: std::ops::RangeInclusive<u64> = 10..=110;

/// Fields of `ipam` that leave a configuration incomplete.
const TRIVIAL: [&str; 2] = ["type", "name"];

/// The configuration of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The version of the specification for the answer.
    pub version: SpecVersion,
    pub network_name: String,
    pub source: Source,
    /// The name of the node in its ports; `None` means the id of the machine.
    pub node: Option<String>,
    /// A prefix of the node's name, for clusters that share a project.
    pub cluster: Option<String>,
    /// The folder with the plugin's state on the node.
    pub state: PathBuf,
    /// The time of a request, including the time for undoing.
    pub deadline: Duration,
    /// The whole configuration without credentials.
    written: Redacted,
}

/// A value that debug output hides: a misspelt `openstackConf` still holds a password.
#[derive(Clone, PartialEq)]
struct Redacted(Value);

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Settings {
    /// The version of the input, or the newest one. Errors use it too.
    pub fn version_of(input: &[u8]) -> SpecVersion {
        let written: Value = serde_json::from_slice(input).unwrap_or_default();
        written["cniVersion"]
            .as_str()
            .and_then(|version| version.parse().ok())
            .unwrap_or(SpecVersion::NEWEST)
    }

    /// Reads standard input.
    ///
    /// # Errors
    /// Fails if it is not a valid configuration of a network.
    pub fn read(input: &[u8]) -> Result<Settings, CniError> {
        let mut settings = Settings::read_from(input, "ipam")?;
        let ipam = Field::new("ipam", &settings.written.0["ipam"]);
        if matches!(settings.source, Source::File { .. }) && ipam.only(&TRIVIAL).is_ok() {
            settings.source = Source::Unknown;
        }
        Ok(settings)
    }

    /// Reads standard input of a plugin with cloud, node and state in another section.
    ///
    /// # Errors
    /// Fails if it is not a valid configuration of a network.
    pub fn read_from(input: &[u8], part: &str) -> Result<Settings, CniError> {
        let mut written: Value = serde_json::from_slice(input).map_err(|why| undecodable(&why))?;
        let version = version(&written["cniVersion"])?;
        let ipam = &written[part];
        if written["plugins"].is_array() {
            return Err(invalid(
                "this is a list of plugins: a plugin gets one entry of it, with the `name` and `cniVersion` of the list",
            ));
        }
        if !ipam.is_object() {
            return Err(invalid(&format!("the configuration has no `{part}`")));
        }
        let network_name = network_name(&written)?;
        let ipam = Field::new(part, ipam);
        let [node, cluster] = [ipam.name_of("node")?, ipam.name_of("cluster")?];
        let state = ipam.path_at("stateDirectory")?;
        let state = state.unwrap_or_else(|| STATE_DIRECTORY.into());
        let (source, deadline) = (Source::read(&ipam)?, deadline(&ipam).unwrap_or(DEADLINE));
        if let Some(ipam) = written[part].as_object_mut() {
            ipam.remove("openstackConf");
        }
        Ok(Settings {
            version,
            network_name,
            source,
            node,
            cluster,
            state,
            deadline,
            written: Redacted(written),
        })
    }

    /// The valid attachments of a GC; `None` if the field is absent, which does not mean that there
    /// are none.
    ///
    /// # Errors
    /// Fails if the field is not a list of attachments.
    pub fn valid_attachments(&self) -> Result<Option<BTreeSet<Attachment>>, CniError> {
        valid_attachments(self.written.0.get("cni.dev/valid-attachments"))
    }

    /// The addresses of `prevResult`, which an ADD gave.
    ///
    /// # Errors
    /// Fails if it contains something other than addresses.
    pub fn previous_addresses(&self) -> Result<Option<BTreeSet<IpAddr>>, CniError> {
        previous_addresses(&self.written.0["prevResult"])
    }

    /// The configuration without credentials.
    pub fn written(&self) -> &Value {
        &self.written.0
    }

    /// The request of an ADD, with the arguments of the environment.
    ///
    /// # Errors
    /// Fails if the configuration or the arguments are invalid.
    pub fn request(&self, arguments: &Arguments) -> Result<AttachmentRequest, CniError> {
        AttachmentRequest::read(self.version, &self.written.0, arguments)
    }

    /// The settings for the daemon.
    ///
    /// # Errors
    /// Fails if they are invalid.
    pub fn daemon_config(&self) -> Result<DaemonConfig, CniError> {
        DaemonConfig::read(&self.written.0["ipam"])
    }
}

pub(crate) fn version(written: &Value) -> Result<SpecVersion, CniError> {
    let Some(text) = written.as_str() else {
        return Err(invalid("the configuration has no `cniVersion`"));
    };
    text.parse().map_err(|_| {
        let known = SpecVersion::ALL.map(SpecVersion::as_str).join(", ");
        let message = format!("CNI {} is not supported", shown(text));
        CniError::new(
            ErrorCode::IncompatibleVersion,
            message,
            format!("use one of {known}"),
        )
    })
}

/// The configured time, or the default.
fn deadline(ipam: &Field<'_>) -> Result<Duration, CniError> {
    let Some(field) = ipam.get("deadlineSeconds") else {
        return Ok(DEADLINE);
    };
    let (least, most) = DEADLINES.into_inner();
    let expected = format!("a whole number from {least} to {most}");
    let seconds: u64 = field.number(&expected)?;
    match DEADLINES.contains(&seconds) {
        true => Ok(Duration::from_secs(seconds)),
        false => Err(field.wrong(&expected)),
    }
}

/// The name of the network.
pub(crate) fn network_name(configuration: &Value) -> Result<String, CniError> {
    let name = Field::new("", configuration).name_of("name")?;
    name.ok_or_else(|| invalid("the configuration has no `name`"))
}

/// Interfaces that still exist, from a GC request. Some runtimes write an empty list as null (Go's
/// nil).
pub(crate) fn valid_attachments(
    written: Option<&Value>,
) -> Result<Option<BTreeSet<Attachment>>, CniError> {
    let Some(written) = written else {
        return Ok(None);
    };
    let list = match written {
        Value::Null => &[],
        Value::Array(list) => list.as_slice(),
        _ => return Err(invalid("`cni.dev/valid-attachments` must be a list")),
    };
    let attachment = |one: &Value| {
        let container = one["containerID"].as_str()?.parse().ok()?;
        let interface = one["ifname"].as_str()?.parse().ok()?;
        Some(Attachment {
            container,
            interface,
        })
    };
    let list: Option<BTreeSet<Attachment>> = list.iter().map(attachment).collect();
    // With one unknown attachment, garbage cannot be recognised.
    list.map(Some)
        .ok_or_else(|| invalid("`cni.dev/valid-attachments` must contain attachments only"))
}

fn previous_addresses(previous: &Value) -> Result<Option<BTreeSet<IpAddr>>, CniError> {
    let Some(ips) = previous["ips"].as_array() else {
        return Ok(None);
    };
    let address = |one: &Value| one["address"].as_str().and_then(address_of);
    let given: Option<BTreeSet<IpAddr>> = ips.iter().map(address).collect();
    given
        .map(Some)
        .ok_or_else(|| invalid("`prevResult.ips` must contain addresses only"))
}

pub(crate) fn undecodable(why: &serde_json::Error) -> CniError {
    // The message never quotes the input, which may hold a password.
    let position = format!("line {}, column {}", why.line(), why.column());
    CniError::new(
        ErrorCode::Decoding,
        format!("standard input is not the configuration of a network ({position})"),
        "check the files in /etc/cni/net.d",
    )
}

pub(crate) fn invalid(message: &str) -> CniError {
    CniError::new(
        ErrorCode::InvalidConfiguration,
        message,
        "fix the network's configuration in /etc/cni/net.d",
    )
}

/// An error in the request of a Pod. The configuration of the node is not at fault.
pub(crate) fn of_pod(error: CniError) -> CniError {
    CniError {
        details: "fix the request of the Pod, such as its annotation k8s.v1.cni.cncf.io/networks"
            .to_owned(),
        ..error
    }
}

/// The first characters of a text, for a message.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cni::RouteDetail;
    use openstack::{Access, Cloud};

    const NETWORK: &str = "782ec9ac-44f9-4318-8c67-a2fed2ccca4f";

    fn read(value: &Value) -> Result<Settings, CniError> {
        Settings::read(value.to_string().as_bytes())
    }

    fn old() -> Value {
        let openstack = json!({"username": "u", "password": "hunter2", "project": "k8s", "domain": "default", "authUrl": "http://127.0.0.1:5000/v3"});
        json!({"cniVersion": "0.3.1", "name": "examplenet",
            "ipam": {"name": "myipam", "type": "ipam-neutron", "openstackConf": openstack, "neutronConf": {"networks": [NETWORK]}}})
    }

    fn with(pointer: &str, value: Value) -> Result<Settings, CniError> {
        let mut settings = old();
        match settings.pointer_mut(pointer) {
            Some(entry) => *entry = value,
            None => settings["ipam"][pointer] = value,
        }
        read(&settings)
    }

    #[test]
    fn the_form_of_2020_is_read() {
        let settings = read(&old()).unwrap();
        assert_eq!(settings.version, SpecVersion::V0_3_1);
        let request = settings.request(&Arguments::default()).unwrap();
        assert_eq!(request.networks, [NETWORK.parse().unwrap()]);
        let Source::Inline(Cloud {
            access: Access::Password { username, .. },
            ..
        }) = settings.source
        else {
            panic!()
        };
        assert_eq!(username, "u");
    }

    #[test]
    fn invalid_configurations_are_refused_and_no_secret_is_shown() {
        let code = |pointer: &str, value: Value| with(pointer, value).unwrap_err().code;
        assert_eq!(
            code("/cniVersion", json!("9.9.9")),
            ErrorCode::IncompatibleVersion
        );
        assert_eq!(code("/name", json!("")), ErrorCode::InvalidConfiguration);
        assert_eq!(code("/name", json!("a/b")), ErrorCode::InvalidConfiguration);
        assert_eq!(code("node", json!("a/b")), ErrorCode::InvalidConfiguration);
        assert_eq!(
            code("stateDirectory", json!("here")),
            ErrorCode::InvalidConfiguration
        );
        for secret in [json!(["hunter2"]), json!({"hunter2": 1}), json!(null)] {
            let error = with("/ipam/openstackConf/password", secret).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidConfiguration);
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
        let torn =
            Settings::read(br#"{"ipam": {"openstackConf": {"password": "hunter2""#).unwrap_err();
        assert_eq!(torn.code, ErrorCode::Decoding);
        assert!(!format!("{torn:?}").contains("hunter2"));
        assert!(!format!("{:?}", read(&old()).unwrap()).contains("hunter2"));
        let misspelt = with("openStackConf", json!({"password": "hunter2"})).unwrap();
        assert!(!format!("{misspelt:?}").contains("hunter2"));
        let error = misspelt.request(&Arguments::default()).unwrap_err();
        assert!(
            error.message.contains("unknown field `ipam.openStackConf`")
                && error.message.contains("openstackConf")
        );
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn invalid_settings_of_an_add_do_not_block_a_del() {
        for (pointer, value) in [
            ("/ipam/neutronConf/networks", json!([])),
            ("/ipam/neutronConf/networks", json!(["../ports"])),
            ("gateways", json!(["x"])),
            ("nonsense", json!(1)),
            ("deadlineSeconds", json!(3600)),
            ("routes", json!([{"dst": "0.0.0.0/0", "table": 7}])),
        ] {
            let settings = with(pointer, value).unwrap();
            assert_eq!(
                settings.request(&Arguments::default()).unwrap_err().code,
                ErrorCode::InvalidConfiguration,
                "{pointer}"
            );
        }
    }

    #[test]
    fn routes_have_only_the_fields_of_their_version() {
        let routes = |version: &str, route: Value| {
            let mut settings = old();
            settings["cniVersion"] = version.into();
            settings["ipam"]["routes"] = json!([route]);
            read(&settings)
                .unwrap()
                .request(&Arguments::default())
                .map(|request| request.routes)
        };
        let detailed = json!({"dst": "10.0.0.0/8", "mtu": 1400, "advmss": 1360, "priority": 5, "table": 7, "scope": 253});
        let detail = routes("1.1.0", detailed.clone()).unwrap()[0].detail;
        let all = RouteDetail {
            mtu: Some(1400),
            advmss: Some(1360),
            priority: Some(5),
            table: Some(7),
            scope: Some(253),
        };
        assert_eq!(detail, all);
        assert!(
            routes("1.0.0", detailed)
                .unwrap_err()
                .message
                .contains("before CNI 1.1.0")
        );
        assert!(routes("1.0.0", json!({"dst": "10.0.0.0/8", "gw": "10.0.0.1"})).is_ok());
        for nonsense in [
            json!({"dst": "10.0.0.0/8", "scope": 256}),
            json!({"dst": "10.0.0.0/8", "priority": -1}),
        ] {
            assert_eq!(
                routes("1.1.0", nonsense).unwrap_err().code,
                ErrorCode::InvalidConfiguration
            );
        }
    }

    #[test]
    fn addresses_are_requested_in_three_ways() {
        let mut settings = old();
        settings["runtimeConfig"] = json!({"ips": ["10.0.0.7/24"]});
        settings["args"] = json!({"cni": {"ips": ["fd00::7"]}});
        let arguments = Arguments {
            addresses: vec!["10.0.0.7".parse().unwrap()],
        };
        let request = read(&settings).unwrap().request(&arguments).unwrap();
        assert_eq!(
            request.addresses,
            [
                "10.0.0.7".parse::<IpAddr>().unwrap(),
                "fd00::7".parse().unwrap()
            ]
        );
    }

    #[test]
    fn only_a_list_decides_what_is_garbage() {
        let valid = |value: Value| {
            let mut settings = old();
            settings["cni.dev/valid-attachments"] = value;
            read(&settings).unwrap().valid_attachments()
        };
        assert_eq!(read(&old()).unwrap().valid_attachments().unwrap(), None);
        assert_eq!(valid(Value::Null).unwrap(), Some(BTreeSet::new()));
        assert_eq!(
            valid(json!([{"containerID": "c", "ifname": "eth0"}]))
                .unwrap()
                .unwrap()
                .len(),
            1
        );
        for bad in [
            json!("c"),
            json!([{"containerID": "c"}]),
            json!([["c"]]),
            json!([{"containerID": "", "ifname": "e"}]),
        ] {
            assert!(valid(bad.clone()).is_err(), "{bad}");
        }
    }
}
