//! Runs the program in its own folder, without the user's environment.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use ipam_cluster::live::Connection;
use serde_json::Value;
use tempfile::TempDir;

pub use worlds::documents::{address_pool, pin, policy, pool};
pub use worlds::objects::{KUBERNETES, cilium_node, cluster, holds, node, operator};

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
    pub fn json(&self) -> Value {
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

    /// A cluster with Cilium 1.19.3 in ipam kubernetes and these items, and these files.
    pub fn with_cluster(items: &[String], files: &[(&str, &str)]) -> Folder {
        let folder = Folder::new(files);
        folder.write("cluster.json", cluster("1.19.3", KUBERNETES, items));
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

    /// Runs a command line without quotes. Fails if the exit code is another one.
    #[track_caller]
    pub fn expect(&self, line: &str, code: i32) -> Ran {
        self.run(&args(line)).expect(code)
    }

    /// What a command that succeeds prints, as JSON.
    #[track_caller]
    pub fn json(&self, line: &str) -> Value {
        self.expect(line, 0).json()
    }

    /// The plan of `pools` and `cluster.json`, whatever it finds.
    #[track_caller]
    pub fn plan(&self) -> Value {
        self.json("plan --cluster cluster.json -o json --fail-on never")
    }
}

/// The documents of a YAML file.
#[track_caller]
pub fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // A node may be called `n`, which is a boolean in YAML 1.1.
    let options = serde_yaml::options! { strict_booleans: true };
    serde_yaml::from_multiple_with_options(&text, options)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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

/// The arguments of a command, as a line that is typed without quotes.
pub fn args(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Assertions that show the whole text when they fail.
pub trait TextAssertions {
    /// Fails unless the text contains the part.
    fn assert_has(&self, part: &str);
    /// Fails if the text contains the part.
    fn assert_lacks(&self, part: &str);
}

impl TextAssertions for str {
    #[track_caller]
    fn assert_has(&self, part: &str) {
        assert!(self.contains(part), "{part:?} is missing in:\n{self}");
    }

    #[track_caller]
    fn assert_lacks(&self, part: &str) {
        assert!(!self.contains(part), "{part:?} is in:\n{self}");
    }
}
