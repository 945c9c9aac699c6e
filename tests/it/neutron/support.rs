//! Runs the plugin as a container runtime does, and looks at what it leaves at Neutron.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::OpenStack;
use testbed::openstack::{self, Borrowed, DOMAIN, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER};

use crate::support::{Ran, node_program};

/// An OpenStack for one test.
pub fn stack(options: &openstack::Options) -> testbed::Result<Borrowed> {
    Borrowed::new(options)
}

/// The plugin on a node, for one network of Neutron.
pub struct Plugin {
    /// The configuration of the network.
    pub configuration: Value,
    state: TempDir,
}

impl Plugin {
    /// As people configured the plugin of 2020, on a node of this name.
    pub fn new(stack: &OpenStack, network: &str, node: &str) -> Plugin {
        let state = tempfile::tempdir().unwrap();
        let openstack = json!({
            "username": MEMBER_USER, "password": MEMBER_PASSWORD, "project": MEMBER_PROJECT, "domain": DOMAIN,
            "authUrl": stack.keystone_url(),
        });
        let ipam = json!({
            "name": "myipam", "type": "ipam-neutron", "openstackConf": openstack, "neutronConf": {"networks": [network]},
            "node": node, "stateDirectory": state.path().join("state"),
        });
        Plugin {
            configuration: json!({"cniVersion": "1.1.0", "name": "examplenet", "ipam": ipam}),
            state,
        }
    }

    /// With another value in `ipam`; null takes the field away.
    pub fn with(mut self, field: &str, value: Value) -> Plugin {
        match value {
            Value::Null => drop(
                self.configuration["ipam"]
                    .as_object_mut()
                    .unwrap()
                    .remove(field),
            ),
            value => self.configuration["ipam"][field] = value,
        }
        self
    }

    /// Of another version of the specification.
    pub fn version(mut self, version: &str) -> Plugin {
        self.configuration["cniVersion"] = version.into();
        self
    }

    /// A folder of its own.
    pub fn folder(&self) -> &Path {
        self.state.path()
    }

    /// Where it keeps what it keeps.
    pub fn state(&self) -> std::path::PathBuf {
        self.folder().join("state")
    }

    /// A run that was started, about `eth0` of a container.
    pub fn start(&self, command: &str, container: &str) -> Child {
        start(
            &self.configuration.to_string(),
            &variables(command, container),
        )
    }

    pub fn run(&self, command: &str, container: &str) -> Ran {
        finish(self.start(command, container))
    }

    /// With more in the configuration, as runtimes add it.
    pub fn run_with(&self, command: &str, container: &str, more: &Value) -> Ran {
        let mut configuration = self.configuration.clone();
        for (key, value) in more.as_object().unwrap() {
            configuration[key] = value.clone();
        }
        finish(start(
            &configuration.to_string(),
            &variables(command, container),
        ))
    }

    /// The addresses that an ADD gives.
    #[track_caller]
    pub fn add(&self, container: &str) -> Vec<String> {
        addresses(&self.run("ADD", container).expect(0).json())
    }

    #[track_caller]
    pub fn del(&self, container: &str) {
        assert_eq!(self.run("DEL", container).expect(0).stdout, "");
    }

    /// The error of a run that must not work: its code and its message.
    #[track_caller]
    pub fn refused(&self, command: &str, container: &str) -> (u64, String) {
        fault(&self.run(command, container))
    }
}

pub fn variables<'v>(command: &'v str, container: &'v str) -> [(&'static str, &'v str); 5] {
    [
        ("CNI_COMMAND", command),
        ("CNI_CONTAINERID", container),
        ("CNI_NETNS", "/dev/null"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "."),
    ]
}

/// The plugin with these variables and nothing else, and with this on standard input.
pub fn start(input: &str, variables: &[(&str, &str)]) -> Child {
    start_of(node_program("cni-ipam-neutron"), input, variables)
}

/// Any plugin, in the same way.
pub fn start_of(program: &Path, input: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(program);
    command.env_clear().envs(variables.iter().copied());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A plugin that refuses early does not read all of it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child
}

pub fn finish(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

#[track_caller]
pub fn fault(ran: &Ran) -> (u64, String) {
    assert_eq!(ran.code, 1, "{}", ran.all());
    assert_eq!(
        ran.stderr, "",
        "standard error is for faults of the plugin itself"
    );
    assert!(!ran.stdout.contains(MEMBER_PASSWORD), "{}", ran.stdout);
    let error = ran.json();
    assert!(
        error["cniVersion"].is_string() && error["details"].is_string(),
        "{error}"
    );
    (
        error["code"].as_u64().unwrap(),
        error["msg"].as_str().unwrap().to_owned(),
    )
}

pub fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"]
        .as_array()
        .unwrap_or_else(|| panic!("{result}"));
    let mut addresses: Vec<String> = ips
        .iter()
        .map(|ip| ip["address"].as_str().unwrap().to_owned())
        .collect();
    addresses.sort();
    addresses
}

/// The ports of a network, by their device.
pub fn ports(stack: &OpenStack, network: &str) -> Vec<String> {
    let ports = stack.ports(&format!("network_id={network}")).unwrap();
    let mut devices: Vec<String> = ports
        .iter()
        .map(|port| port["device_id"].as_str().unwrap().to_owned())
        .collect();
    devices.sort();
    devices
}
