//! A node with a kubelet and containerd, whose Pods have ports of a real Neutron, in a cluster of a
//! real API server.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};
use testbed::{
    CniPlugin, ContainerNode, ControlPlane, OpenStack, Options, Output, PATIENCE, Program, build,
    debian_file, wait_until,
};

use crate::neutron::plugins::secondary_route::ground::{OF_NODE, uplink};
use crate::support::node_program;

/// The Node.
pub const NODE: &str = "n1";
/// What the servers of Pods, of the node and of the router listen on.
pub const PORT: u16 = 8080;
/// Service ranges of both families.
const SERVICES: &str = "10.96.0.0/16,fd00:96::/112";
/// The file in `/var/lib` to which plugins add their commands.
const COMMANDS: &str = "cni-commands";
/// The name of the daemon's process on the node.
pub const DAEMON: &str = "neutron-node";
const PODS: &str = "/api/v1/namespaces/default/pods";

const PLUGINS: [CniPlugin; 3] = [CniPlugin::Macvlan, CniPlugin::Ptp, CniPlugin::HostLocal];
const OWN_PLUGINS: [&str; 3] = ["cni-ipam-neutron", "cni-unnumbered-ptp", "cni-vm-nic"];

/// A container that serves the client's address at `/cgi-bin/client`.
const SERVE: &str = r#"mkdir -p /tmp/cgi-bin
printf '#!/bin/sh\necho\necho "$REMOTE_ADDR"\n' > /tmp/cgi-bin/client
chmod 755 /tmp/cgi-bin/client
exec httpd -f -p 8080 -h /tmp"#;

/// What of the disk is there after a reboot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    Whole,
    /// Without containerd's state.
    WithoutContainerd,
}

/// A machine with one node.
pub struct Machine<'s> {
    pub node: ContainerNode,
    pub plane: ControlPlane,
    stack: &'s OpenStack,
    busybox: String,
    /// How many each Pod is attached to.
    networks: usize,
}

impl<'s> Machine<'s> {
    /// Starts containerd and the kubelet. The networks must be there first: `networks` has the name
    /// of each file, and its text.
    pub fn new(stack: &'s OpenStack, networks: &[(&str, &str)]) -> testbed::Result<Machine<'s>> {
        let mut wanted = vec![Program::KubeApiserver, Program::Etcd, Program::KubeProxy];
        wanted.extend(ContainerNode::PROGRAMS);
        wanted.extend(PLUGINS.map(Program::CniPlugin));
        let programs = build(&wanted)?;
        let node = ContainerNode::new(&programs, NODE)?;
        for plugin in PLUGINS {
            let program = programs.path(Program::CniPlugin(plugin))?;
            symlink(program, node.plugins().join(plugin.name())).unwrap();
        }
        for name in OWN_PLUGINS {
            write_plugin(&node, name);
        }
        for (file, text) in networks {
            std::fs::write(node.networks().join(file), text).unwrap();
        }
        let options = Options {
            service_cluster_ip_range: SERVICES.to_owned(),
            ..Options::default()
        };
        let plane = ControlPlane::start(&programs, options)?;
        let busybox = debian_file("busybox-static", "bin/busybox")?;
        let mut machine = Machine {
            node,
            plane,
            stack,
            busybox: busybox.display().to_string(),
            networks: networks.len(),
        };
        machine.connect();
        let urls = [stack.keystone_url(), stack.neutron_url()];
        for url in urls
            .iter()
            .map(String::as_str)
            .chain([machine.plane.server_url()])
        {
            machine.node.reach(url)?;
        }
        machine.start();
        Ok(machine)
    }

    /// The node's links, and the router's servers.
    fn connect(&mut self) {
        self.shell("ip netns add router && ip -n router link set lo up");
        self.shell(&uplink(std::path::Path::new("/run/netns/router")));
    }

    fn start(&mut self) {
        self.node.start_containerd(self.networks).unwrap();
        let addresses = format!("--node-ip={}", OF_NODE.join(","));
        self.node.start_kubelet(&self.plane, &[&addresses]).unwrap();
    }

    /// The machine loses its power, and everything is started again.
    pub fn reboot(&mut self, disk: Disk) {
        self.node.reboot().unwrap();
        if disk == Disk::WithoutContainerd {
            let state = self.node.var_lib().join("containerd");
            std::fs::remove_dir_all(state).unwrap();
        }
        self.connect();
        self.start();
    }

    /// A server like those of Pods, on the node or in a network namespace of it.
    pub fn serve(&mut self, name: &str, netns: Option<&str>) {
        let script = SERVE.replace("/tmp", &format!("/run/{name}"));
        let script = script
            .replace("httpd", &format!("{} httpd", self.busybox))
            .replace("#!/bin/sh", &format!("#!{} sh", self.busybox));
        let mut line = vec!["sh".to_owned(), "-c".to_owned(), script];
        if let Some(netns) = netns {
            line.splice(0..0, ["ip", "netns", "exec", netns].map(str::to_owned));
        }
        self.node.start(name, &line).unwrap();
    }

    /// What a line of shell prints on the node.
    #[track_caller]
    pub fn shell(&self, line: &str) -> String {
        ok(line, self.node.shell(line).unwrap())
    }

    /// What a line of shell prints in a Pod.
    #[track_caller]
    pub fn exec(&self, pod: &str, line: &str) -> String {
        ok(line, self.node.exec(pod, line).unwrap())
    }

    /// Creates a Pod, with more in its `spec`.
    pub fn create(&self, name: &str, more: &Value) {
        self.plane.create(PODS, &manifest(name, more)).unwrap();
    }

    /// Requests the deletion of a Pod.
    pub fn delete(&self, name: &str) {
        let path = format!("{PODS}/{name}?gracePeriodSeconds=1");
        self.plane.delete(&path).unwrap();
    }

    /// Removes a Pod's object without waiting for its kubelet.
    pub fn delete_at_once(&self, name: &str) {
        let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
        self.plane.delete(&path).unwrap();
    }

    /// Waits until a Pod runs; its addresses, IPv4 first.
    #[track_caller]
    pub fn running(&self, name: &str) -> Vec<String> {
        let mut seen = Value::Null;
        let waited = wait_until(name, PATIENCE, || {
            seen = self.plane.get(&format!("{PODS}/{name}"))?;
            Ok(is_ready(&seen).then_some(()))
        });
        assert!(waited.is_ok(), "{seen:#}\n{}", self.node.log("kubelet"));
        let given = seen["status"]["podIPs"].as_array().unwrap();
        given
            .iter()
            .map(|ip| ip["ip"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A condition of the Node; null without it.
    pub fn node_condition(&self, kind: &str) -> Value {
        let node = self.plane.get(&format!("/api/v1/nodes/{NODE}")).unwrap();
        let mut all = node["status"]["conditions"].as_array().unwrap().iter();
        all.find(|one| one["type"] == kind)
            .cloned()
            .unwrap_or_default()
    }

    pub fn is_ready(&self, name: &str) -> bool {
        is_ready(&self.pod(name))
    }

    /// Kills the plugins that attach or detach Pods on the node, or will soon; whether there were any.
    /// A STATUS is left alone: without its answer the node is not ready for seconds.
    pub fn kill_plugins(&self) -> bool {
        let line = r#"killed=1
            for look in $(seq 100); do
                for process in /proc/[0-9]*; do
                    read -r name < $process/comm || continue
                    case $name in cni-*) ;; *) continue ;; esac
                    grep -aqz 'CNI_COMMAND=[AD]' $process/environ || continue
                    kill -KILL ${process#/proc/} && killed=0
                done 2>/dev/null
                [ $killed = 0 ] && exit
                sleep 0.02
            done
            exit 1"#;
        self.node.shell(line).unwrap().code == 0
    }

    /// The devices of a network's ports, without the free ones of the warm pool.
    pub fn pods_ports(&self, network: &str) -> Vec<String> {
        let ports = self.ports_of(network);
        let free = self
            .node
            .shell("ls /var/lib/cni/cilium-ipam-neutron/pool/*/free");
        let free = free.unwrap().stdout;
        let is_free = |port: &&Value| free.contains(port["id"].as_str().unwrap());
        let device = |port: &Value| port["device_id"].as_str().unwrap().to_owned();
        let of_pods = ports.iter().filter(|port| !is_free(port));
        of_pods.map(device).collect()
    }

    fn ports_of(&self, network: &str) -> Vec<Value> {
        let query = format!("network_id={network}");
        self.stack.ports(&query).unwrap()
    }

    /// The ids of a network's ports.
    pub fn port_ids(&self, network: &str) -> BTreeSet<String> {
        let ports = self.ports_of(network);
        let id = |port: &Value| port["id"].as_str().unwrap().to_owned();
        ports.iter().map(id).collect()
    }

    /// The object of a Pod.
    pub fn pod(&self, name: &str) -> Value {
        self.plane.get(&format!("{PODS}/{name}")).unwrap()
    }

    /// The names of the Pods that the API server has.
    pub fn pods(&self) -> Vec<String> {
        let listed = self.plane.list(PODS).unwrap();
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        listed.iter().map(name).collect()
    }

    /// Which commands of CNI the runtime has sent so far.
    pub fn cni_commands(&self) -> BTreeSet<String> {
        let record = std::fs::read_to_string(self.node.var_lib().join(COMMANDS)).unwrap();
        record.lines().map(str::to_owned).collect()
    }

    /// Waits until the ports of a network are exactly those of these running Pods.
    #[track_caller]
    pub fn wait_for_ports(&self, network: &str, pods: &[&str]) {
        let (mut seen, mut expected) = (Vec::new(), Vec::new());
        let waited = wait_until("the ports", PATIENCE, || {
            expected = pods.iter().map(|pod| self.running(pod)).collect();
            expected
                .iter_mut()
                .for_each(|addresses: &mut Vec<String>| addresses.sort());
            expected.sort();
            seen = self.ports(network);
            Ok((seen == expected).then_some(()))
        });
        let evidence = || format!("{}{}", self.evidence(), self.node.log(DAEMON));
        assert!(
            waited.is_ok(),
            "{seen:?} instead of {expected:?}\n{}",
            evidence()
        );
    }

    /// What the node knows of interfaces: files of the runtime and of the plugins, and namespaces.
    fn evidence(&self) -> String {
        let look = "cd /var/lib/cni && grep -r '' . | cut -c 1-2000; ls /run/netns; ip -o link";
        let known = self.node.shell(look).unwrap().stdout;
        known + &self.node.ctr("containers list").unwrap_or_default()
    }

    /// Starts the node's daemon with this longest interval between syncs (seconds) and a grace period
    /// of 5 s.
    pub fn start_daemon(&mut self, look: u32) {
        let networks = format!("--networks={}", self.node.networks().display());
        let mut line = vec![node_program("neutron-node").display().to_string(), networks];
        line.extend(["--interval=1", "--grace=5"].map(str::to_owned));
        line.push(format!("--look={look}"));
        self.node.start(DAEMON, &line).unwrap();
    }

    #[track_caller]
    pub fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let waited = wait_until(what, PATIENCE, || Ok(is_so().then_some(())));
        assert!(waited.is_ok(), "{what}:\n{}", self.node.log("kubelet"));
    }

    /// The addresses of each port of a network.
    pub fn ports(&self, network: &str) -> Vec<Vec<String>> {
        let ports = self.ports_of(network);
        let addresses = |port: &Value| {
            let fixed = port["fixed_ips"].as_array().unwrap().iter();
            let mut all: Vec<String> = fixed
                .map(|one| one["ip_address"].as_str().unwrap().to_owned())
                .collect();
            all.sort();
            all
        };
        let mut all: Vec<_> = ports.iter().map(addresses).collect();
        all.sort();
        all
    }

    /// The client's address as the server at `to` sees it, from a Pod.
    #[track_caller]
    pub fn client_of(&self, pod: &str, to: &str, port: u16) -> IpAddr {
        client(&self.exec(pod, &requests("wget", &url(to, port))))
    }

    /// The same from the node, or from a network namespace of it.
    #[track_caller]
    pub fn client_of_node(&self, netns: Option<&str>, to: &str, port: u16) -> IpAddr {
        let inside = netns.map_or(String::new(), |netns| format!("ip netns exec {netns} "));
        let wget = format!("{inside}{} wget", self.busybox);
        client(&self.shell(&requests(&wget, &url(to, port))))
    }
}

/// The plugin, which records its commands.
fn write_plugin(node: &ContainerNode, name: &str) {
    let (record, program) = (node.var_lib().join(COMMANDS), node_program(name));
    let (record, program) = (record.display(), program.display());
    let script = format!("#!/bin/sh\necho \"$CNI_COMMAND\" >> {record}\nexec {program}\n");
    let path = node.plugins().join(name);
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
}

/// A Pod of the node, which serves.
pub fn manifest(name: &str, more: &Value) -> Value {
    let container = json!({"name": "main", "image": ContainerNode::IMAGE, "imagePullPolicy": "Never",
        "command": ["sh", "-c", SERVE]});
    let mut spec = json!({"nodeName": NODE, "containers": [container], "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 1, "enableServiceLinks": false});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": spec})
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["containerStatuses"][0]["ready"] == true
}

#[track_caller]
fn ok(line: &str, output: Output) -> String {
    let Output {
        code,
        stdout,
        stderr,
    } = output;
    assert_eq!(code, 0, "{line}: {stdout}{stderr}");
    stdout
}

/// A line of shell that requests this until it is answered: a container runs before its server
/// listens.
fn requests(wget: &str, url: &str) -> String {
    format!(
        "for try in $(seq 30); do timeout 10 {wget} -q -O - {url} && exit; sleep 1; done; exit 1"
    )
}

fn url(to: &str, port: u16) -> String {
    let host = if to.contains(':') {
        format!("[{to}]")
    } else {
        to.to_owned()
    };
    format!("http://{host}:{port}/cgi-bin/client")
}

/// busybox writes IPv6 addresses in brackets, and IPv4 ones as parts of IPv6.
fn client(text: &str) -> IpAddr {
    let address = text.trim().trim_matches(['[', ']']);
    address.parse::<IpAddr>().unwrap().to_canonical()
}
