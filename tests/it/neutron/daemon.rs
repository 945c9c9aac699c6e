//! The daemon of a node, as a DaemonSet runs it, with the runtime's records of attachments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::wait_until;

use super::support::Plugin;
use crate::support::node_program;

/// The node's folders.
pub struct DaemonSet {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
}

/// A running daemon. Dropping it kills it.
pub struct Daemon<'d> {
    child: Child,
    set: &'d DaemonSet,
}

impl DaemonSet {
    /// For the networks of these plugins; the runtime has no records yet.
    pub fn new(plugins: &[&Plugin]) -> DaemonSet {
        let folder = tempfile::tempdir().unwrap();
        for part in ["net.d", "results"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        for (number, plugin) in plugins.iter().enumerate() {
            let text = plugin.configuration.to_string();
            fs::write(folder.path().join(format!("net.d/{number}.conf")), text).unwrap();
        }
        DaemonSet {
            folder,
            environment: Vec::new(),
        }
    }

    /// With this environment variable.
    pub fn with(mut self, name: &'static str, value: &str) -> DaemonSet {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Another configuration.
    pub fn add_network(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join("net.d").join(file), text).unwrap();
    }

    /// The runtime's records, in the format of libcni.
    pub fn remember(&self, container: &str, addresses: &[String]) {
        let ips: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"address": address}))
            .collect();
        let cached = json!({"kind": "cniCacheV1", "containerId": container, "ifName": "eth0", "networkName": "examplenet", "result": {"ips": ips}});
        fs::write(
            self.results().join(format!("examplenet-{container}-eth0")),
            cached.to_string(),
        )
        .unwrap();
    }

    pub fn forget(&self, container: &str) {
        fs::remove_file(self.results().join(format!("examplenet-{container}-eth0"))).unwrap();
    }

    pub fn results(&self) -> PathBuf {
        self.folder.path().join("results")
    }

    /// The state directory of the daemon.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The output of the daemons so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Starts one that looks every second, with a grace of one second.
    pub fn start(&self) -> Daemon<'_> {
        self.start_with(&["--grace", "1"])
    }

    pub fn start_with(&self, arguments: &[&str]) -> Daemon<'_> {
        Daemon {
            child: self.command(arguments).spawn().unwrap(),
            set: self,
        }
    }

    /// One round.
    pub fn once(&self) -> i32 {
        self.ends_with(&["--once"])
    }

    /// The exit status of a daemon that ends by itself.
    pub fn ends_with(&self, arguments: &[&str]) -> i32 {
        self.command(arguments).status().unwrap().code().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .unwrap();
        // It ends with the thread that started it, also if the test is killed.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(node_program("neutron-node"))
            .arg("--networks")
            .arg(self.folder.path().join("net.d"))
            .arg("--results")
            .arg(self.results());
        command.arg("--state-directory").arg(self.state());
        command
            .args(["--interval", "1", "--look", "1"])
            .args(arguments);
        command
            .env_clear()
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }
}

impl Daemon<'_> {
    /// Waits for something that the daemon does.
    #[track_caller]
    pub fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let so = wait_until(what, testbed::PATIENCE, || Ok(is_so().then_some(())));
        assert!(so.is_ok(), "{what} did not come about:\n{}", self.set.log());
    }

    /// Ends it as Kubernetes does; returns its exit status.
    pub fn end(mut self) -> i32 {
        let terminated = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(terminated.success());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number of files in a folder of the pool.
pub fn in_pool(plugin: &Plugin, part: &str) -> usize {
    let folder: &Path = &plugin.state().join("pool/examplenet").join(part);
    let whole = |name: &str| !name.starts_with('.');
    fs::read_dir(folder).map_or(0, |entries| {
        entries
            .flatten()
            .filter(|entry| whole(&entry.file_name().to_string_lossy()))
            .count()
    })
}
