//! `bench cni`: how long an ADD of `cni-ipam-neutron` takes against one raw POST of a port with a
//! token, on a real Neutron with MariaDB; how quickly the plugin starts, and how large it is. Then
//! the same with a port of the warm pool.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testbed::OpenStack;
use testbed::openstack::{DOMAIN, Database, MEMBER_PASSWORD, MEMBER_PROJECT, MEMBER_USER, Options};
use xtask::line::Line;

use crate::samples::Samples;

/// Rounds of each.
pub const TURNS: usize = 60;
const RATIO_LIMIT: f64 = 1.15;
const WARM_PORTS: usize = 4;
const WARM_LIMIT: f64 = 0.1;
const START_LIMIT_MS: f64 = 5.0;
const SIZE_LIMIT_MB: f64 = 8.0;

/// The plugin, about `eth0` of one container.
struct Plugin<'p> {
    program: &'p Path,
    configuration: String,
}

impl Plugin<'_> {
    fn run(&self, command: &str) -> Result<String> {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c"),
            ("CNI_NETNS", "/dev/null"),
            ("CNI_IFNAME", "eth0"),
        ];
        let mut plugin = Command::new(self.program);
        plugin
            .env_clear()
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = plugin.spawn().context("the plugin does not start")?;
        child
            .stdin
            .take()
            .context("no standard input")?
            .write_all(self.configuration.as_bytes())?;
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{command}: {said}");
        Ok(said)
    }
}

pub fn run(program: &Path, turns: usize) -> Result<()> {
    let options = Options {
        database: Database::MariaDb,
        ..Options::default()
    };
    let stack = OpenStack::start(&options)?;
    let network = stack.create_network("pods")?;
    stack.create_subnet(&network, "10.0.0.0/16", &json!({}))?;
    let state = tempfile::tempdir()?;
    let plugin = Plugin {
        program,
        configuration: configuration(&stack, &network, state.path()),
    };
    let (mut raw, mut add, mut start) =
        (Samples::default(), Samples::default(), Samples::default());
    plugin.run("ADD")?;
    plugin.run("DEL")?;
    for turn in 0..turns {
        raw.add(raw_post(&stack, &network, turn)?);
        add.add(timed(|| plugin.run("ADD"))?);
        plugin.run("DEL")?;
        start.add(timed(|| plugin.run("VERSION"))?);
    }
    let warm = warm(&stack, &network, program, turns)?;
    println!("raw POST of a port, ms: {}", raw.spread());
    println!("ADD with a port of the warm pool, ms: {}", warm.spread());
    println!(
        "ADD, from the start of the plugin to its end, ms: {}",
        add.spread()
    );
    println!(
        "VERSION, from the start of the plugin to its end, ms: {}",
        start.spread()
    );
    Line::new("cni")
        .with("turns", turns)
        .at_most("ratio", add.median() / raw.median(), "limit", RATIO_LIMIT)
        .at_most(
            "warm_ratio",
            warm.median() / raw.median(),
            "warm_limit",
            WARM_LIMIT,
        )
        .measured("post_ms", raw.median())
        .measured("warm_ms", warm.median())
        .measured("add_ms", add.median())
        .at_most("start_ms", start.median(), "start_limit", START_LIMIT_MS)
        .at_most("size_mb", size_mb(program)?, "size_limit", SIZE_LIMIT_MB)
        .print();
    Ok(())
}

/// ADDs of ports that the daemon has made.
fn warm(stack: &OpenStack, network: &str, program: &Path, turns: usize) -> Result<Samples> {
    let folder = tempfile::tempdir()?;
    let mut configuration: Value =
        serde_json::from_str(&configuration(stack, network, folder.path()))?;
    configuration["ipam"]["warmPool"] = json!({"free": WARM_PORTS});
    let networks = folder.path().join("net.d");
    std::fs::create_dir(&networks)?;
    std::fs::write(networks.join("10.conf"), configuration.to_string())?;
    let mut daemon = Command::new(program.with_file_name("neutron-node"));
    daemon
        .args(["--once", "--networks"])
        .arg(&networks)
        .env_clear();
    ensure!(
        daemon
            .status()
            .context("neutron-node does not start")?
            .success(),
        "neutron-node fills no pool"
    );
    let plugin = Plugin {
        program,
        configuration: configuration.to_string(),
    };
    let faults = stack.neutron().faults();
    let (mut warm, asked) = (Samples::default(), faults.count("*", "/"));
    for _ in 0..turns {
        warm.add(timed(|| plugin.run("ADD"))?);
        plugin.run("DEL")?;
    }
    ensure!(faults.count("*", "/") == asked, "Neutron was asked");
    Ok(warm)
}

fn configuration(stack: &OpenStack, network: &str, state: &Path) -> String {
    let openstack = json!({
        "username": MEMBER_USER, "password": MEMBER_PASSWORD, "project": MEMBER_PROJECT, "domain": DOMAIN,
        "authUrl": stack.keystone_url(),
    });
    let ipam = json!({
        "type": "ipam-neutron", "openstackConf": openstack, "networks": [network], "node": "n",
        "stateDirectory": state.join("state"),
    });
    json!({"cniVersion": "1.1.0", "name": "bench", "ipam": ipam}).to_string()
}

/// The same port, also over a new connection: this server closes each after its answer.
fn raw_post(stack: &OpenStack, network: &str, turn: usize) -> Result<f64> {
    let port = json!({
        "network_id": network, "name": "n/raw", "device_id": "raw/eth0", "device_owner": "cilium-ipam:pod",
        "description": "raw", "admin_state_up": true, "mac_address": format!("02:00:00:00:01:{turn:02x}"),
    });
    let session = stack.as_member();
    session.token()?;
    let mut made = Value::Null;
    let took = timed(|| {
        made = session.post("/v2.0/ports", &json!({"port": port}))?;
        Ok(String::new())
    })?;
    let id = made["port"]["id"]
        .as_str()
        .context("a port without an id")?;
    session.delete(&format!("/v2.0/ports/{id}"))?;
    Ok(took)
}

fn timed(mut work: impl FnMut() -> Result<String>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

fn size_mb(program: &Path) -> Result<f64> {
    let bytes = std::fs::metadata(program)?.len();
    Ok(u32::try_from(bytes / 1000).map_or(f64::INFINITY, f64::from) / 1e3)
}
