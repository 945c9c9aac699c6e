//! The namespaces of a node: network, mounts and processes. The first process in them ends when its
//! standard input does, and the kernel ends all others with it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::error::{Error, Result};

/// Arguments: the node's folder, and the file of the boot's id. The kubelet sets the kernel settings
/// below, which are the machine's: files with its values stand in for them. `wait` reaps the orphans
/// of all other processes.
const FIRST_PROCESS: &str = r#"
set -e
ip link set lo up
mount -t tmpfs none /run
mkdir -p /run/netns
mount -t tmpfs none /var/log
mount --bind "$1/var-lib" /var/lib
mount --bind "$2" /proc/sys/kernel/random/boot_id
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file="$1/sysctl-$(basename "${setting%=*}")"
    echo "${setting#*=}" > "$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
done
exec 3<&0
cat <&3 >/dev/null &
echo ready
wait
"#;

/// Standard output and error of what has ended, and its exit status; -1 after a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit status.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

#[derive(Debug)]
pub(super) struct Namespaces {
    holder: Child,
    lifeline: Option<ChildStdin>,
    /// The first process in the namespaces, by its number outside.
    first: u32,
    /// Where the dynamic linker finds Debian's libraries.
    libraries: String,
}

impl Namespaces {
    pub(super) fn new(folder: &Path, boot: &Path, libraries: &str) -> Result<Self> {
        let mut holder = Command::new("unshare");
        holder
            .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["--mount-proc", "sh", "-c", FIRST_PROCESS, "sh"])
            .arg(folder)
            .arg(boot)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut holder = holder.spawn().map_err(|why| missing(&why.to_string()))?;
        let lifeline = holder.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = holder.stdout.take() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(Error::file("the output of unshare"))?;
        }
        let mut namespaces = Self {
            first: 0,
            holder,
            lifeline,
            libraries: libraries.to_owned(),
        };
        if line != "ready\n" {
            return Err(namespaces.refused());
        }
        namespaces.first = only_child(namespaces.holder.id())?;
        Ok(namespaces)
    }

    /// Why the first process is not ready: only a refusal of `unshare` itself is the machine's.
    fn refused(&mut self) -> Error {
        drop(self.lifeline.take());
        let mut stderr = String::new();
        if let Some(mut pipe) = self.holder.stderr.take() {
            let _ = pipe.read_to_string(&mut stderr);
        }
        if stderr.starts_with("unshare:") {
            return missing(&stderr);
        }
        Error::Failed {
            program: "the first process of a node".to_owned(),
            stderr,
        }
    }

    pub(super) fn netns(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.first))
    }

    /// A command that runs this line in the namespaces.
    pub(super) fn command(&self, path_variable: &str, line: &[String]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.first))
            .args(["--net", "--mount", "--pid", "--"])
            .args(line)
            .env_clear()
            .env("PATH", path_variable)
            .env("HOME", "/run")
            .env("LD_LIBRARY_PATH", &self.libraries)
            .stdin(Stdio::null());
        command
    }

    pub(super) fn shell(&self, line: &str) -> Result<Output> {
        let line = ["sh", "-c", line].map(str::to_owned);
        let mut command = self.command("/usr/sbin:/usr/bin:/sbin:/bin", &line);
        let output = command.output().map_err(Error::file("nsenter"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Output {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        })
    }

    /// Ends everything, and waits until it has ended.
    pub(super) fn end(&mut self) {
        drop(self.lifeline.take());
        let _ = self.holder.wait();
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.end();
    }
}

fn missing(why: &str) -> Error {
    let needs = "it needs root, and `unshare`, `nsenter` and `ip` of util-linux and iproute2";
    Error::missing("namespaces", format!("{needs}: {why}"))
}

/// The number of the child of a process that has started one.
pub(super) fn only_child(parent: u32) -> Result<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let listed = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    let child = listed.split_whitespace().next();
    let child = child.and_then(|child| child.parse().ok());
    child.ok_or_else(|| Error::unreadable(path, "it has no child"))
}
