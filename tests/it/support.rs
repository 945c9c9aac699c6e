//! Runs the program in its own folder, without the user's environment.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use ipam_cluster::live::Connection;
use tempfile::TempDir;

/// The programs that run on nodes.
const NODE_PROGRAMS: [&str; 4] = [
    "cni-ipam-neutron",
    "cni-unnumbered-ptp",
    "cni-vm-nic",
    "neutron-node",
];

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A program that runs on nodes, built once with the profile of these tests.
pub fn node_program(name: &str) -> &'static Path {
    static BUILT: OnceLock<BTreeMap<&str, PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"))
            .parent()
            .unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--package",
            "neutron-cni",
            "--package",
            "neutron-node",
            "--bins",
        ]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let target = folder.parent().unwrap();
        let status = cargo
            .current_dir(repository())
            .env("CARGO_TARGET_DIR", target)
            .status();
        assert!(
            status.unwrap().success(),
            "the programs of nodes do not build"
        );
        NODE_PROGRAMS.map(|name| (name, folder.join(name))).into()
    });
    &built[name]
}

/// The result of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Fails if the exit code is another one.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// Exit code, stdout and stderr, for a snapshot.
    pub fn all(&self) -> String {
        format!(
            "exit {}\n--- stdout\n{}--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }
}

/// A command that runs the program in `folder`.
pub fn program(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cilium-ipam"));
    command
        .current_dir(folder)
        .args(arguments)
        .env_clear()
        .env("HOME", folder)
        .env("COLUMNS", "100");
    command.stdin(Stdio::null());
    command
}

/// Runs the program in `folder`.
pub fn run(folder: &Path, arguments: &[&str]) -> Ran {
    ran(program(folder, arguments).output().unwrap())
}

/// Turns the output of a process into a [`Ran`].
pub fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A temporary folder with files in it.
pub struct Folder(TempDir);

impl Folder {
    pub fn new(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(TempDir::new().unwrap());
        for (name, content) in files {
            folder.write(name, content);
        }
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        if path.ends_with("clouds.yaml") {
            // The programs refuse one that other users can read.
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.join(name)).unwrap()
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        run(self.path(), arguments)
    }
}

/// The API server of a kubeconfig, for our client.
pub fn api_server(kubeconfig: &Path, patience: Duration) -> Connection {
    Connection {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
        cilium_namespace: None,
        patience,
    }
}

/// A pool document.
pub fn pool(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

/// A pin document.
pub fn pin(node: &str, cidr: &str) -> String {
    format!(
        "apiVersion: cilium-ipam.io/v1alpha1\nkind: NodeAssignment\nmetadata: {{name: {node}}}\nspec: {{podCIDRs: [\"{cidr}\"]}}\n"
    )
}

/// A cluster file with Cilium in `ipam: kubernetes` and these further items, as JSON objects.
pub fn cluster(version: &str, settings: &str, items: &[String]) -> String {
    let config = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"cilium-config","namespace":"kube-system"}},"data":{{{settings}}}}}"#
    );
    let daemon_set = format!(
        r#"{{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{{"name":"cilium","namespace":"kube-system","labels":{{"k8s-app":"cilium"}}}},"spec":{{"template":{{"spec":{{"containers":[{{"name":"cilium-agent","image":"quay.io/cilium/cilium:v{version}"}}]}}}}}}}}"#
    );
    let controller = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"kube-controller-manager-cp","namespace":"kube-system","labels":{"component":"kube-controller-manager"}},"spec":{"containers":[{"name":"c","command":["kube-controller-manager","--allocate-node-cidrs=false"]}]}}"#;
    let services = r#"{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.96.0.0/16"]}}"#;
    let all: Vec<&str> = [config.as_str(), daemon_set.as_str(), controller, services]
        .into_iter()
        .chain(items.iter().map(String::as_str))
        .collect();
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{}\n]}}\n",
        all.join(",\n")
    )
}

/// Cilium's setting that takes pod CIDRs from Nodes.
pub const KUBERNETES: &str = r#""ipam":"kubernetes""#;

/// A Node with a label `rack` and these fields of its spec.
pub fn node(name: &str, rack: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","uid":"uid-{name}","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"rack":"{rack}"}}}},"spec":{{{spec}}}}}"#
    )
}

/// The spec of a Node that holds one block.
pub fn holds(cidr: &str) -> String {
    format!(r#""podCIDR":"{cidr}","podCIDRs":["{cidr}"]"#)
}
