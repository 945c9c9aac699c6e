//! A machine with its own kernel, for features that this machine's kernel lacks: Debian's kernel
//! and a shell in QEMU, which runs one command after the other. It requires Debian's apt, but
//! neither root nor KVM. It knows nothing of what runs in it.

mod initramfs;
mod modules;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::folder::RunFolder;
use crate::process::Server;
use crate::vm::{cache, lock, read, script, scripts};
use crate::wait::PATIENCE;

pub use initramfs::Initramfs;
pub use shell::Answer;
pub(crate) use shell::Shell;

/// The way to this machine's loopback.
const NETWORK: [&str; 2] = ["virtio_pci", "virtio_net"];

/// How a guest starts.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its files, in addition to a busybox in `/bin`.
    pub files: Initramfs,
    /// Kernel modules to load, by name, in addition to those for its own network.
    pub modules: Vec<&'static str>,
    /// The UUID in its firmware.
    pub uuid: String,
    /// Hardware addresses of further NICs, of which the first is 0000:00:10.0 on the PCI bus.
    /// Behind the first is only 10.77.0.1, behind the second only 10.78.0.1.
    pub nics: Vec<String>,
}

/// A running guest. Dropping it ends it. This machine's loopback is 10.0.2.2 to it, through a link
/// of the name `outside`.
#[derive(Debug)]
pub struct Guest {
    // Dropped in this order.
    shell: Shell,
    _folder: RunFolder,
}

impl Guest {
    /// Boots it and waits until it takes commands.
    ///
    /// # Errors
    /// [`Error::Missing`] where QEMU or the kernel cannot be had; otherwise when it does not come
    /// up.
    pub fn start(setup: &Setup) -> Result<Self> {
        let cache = cache();
        // Until it is up: another version of the scripts would make the cache anew.
        let _lock = lock(&cache)?;
        script("prep.sh", &[&cache, Path::new("small")])?;
        let folder = RunFolder::new()?;
        let path = folder.path().join("initramfs.cpio");
        fs::write(&path, files(setup, &cache.join("small"))?.archive())
            .map_err(Error::file(&path))?;
        let run = folder.path();
        let mut arguments = vec![
            cache.display().to_string(),
            run.display().to_string(),
            setup.uuid.clone(),
        ];
        arguments.extend(setup.nics.iter().cloned());
        let qemu = Server::start("guest", &scripts().join("boot-small.sh"), &arguments, run)?;
        let shell = Shell::connect(qemu, &run.join("orders.sock"))?;
        shell.await_ready()?;
        Ok(Self {
            shell,
            _folder: folder,
        })
    }

    /// Runs a line of shell.
    ///
    /// # Errors
    /// Fails if the guest does not answer in time, or ends; with its console output. It is of
    /// no use any more then.
    pub fn run(&self, command: &str) -> Result<Answer> {
        self.run_within(PATIENCE, command)
    }

    fn run_within(&self, limit: Duration, command: &str) -> Result<Answer> {
        self.shell.run_within(limit, command)
    }

    /// What it said on its console so far: its commands with their answers.
    #[must_use]
    pub fn console(&self) -> String {
        self.shell.console()
    }
}

/// The files for the guest; those from Debian are in `small`.
fn files(setup: &Setup, small: &Path) -> Result<Initramfs> {
    let kernels = small.join("usr/lib/modules");
    let mut entries = fs::read_dir(&kernels).map_err(Error::file(&kernels))?;
    let Some(Ok(kernel)) = entries.next() else {
        return Err(Error::unreadable(
            kernels.display().to_string(),
            "no kernel",
        ));
    };
    let kernel: PathBuf = kernel.path();
    let [dependencies, builtin] =
        ["modules.dep", "modules.builtin"].map(|name| read(&kernel.join(name)));
    let wanted = [NETWORK.as_slice(), &setup.modules].concat();
    let modules = modules::load_order(&dependencies?, &builtin?, &wanted)?;
    let busybox = bytes(&small.join("usr/bin/busybox"))?;
    let init = bytes(&scripts().join("small-init.sh"))?;
    let mut files = setup
        .files
        .clone()
        .file("/bin/busybox", 0o755, busybox)
        .file("/init", 0o755, init);
    for module in &modules {
        files = files.file(
            &format!("/modules/{module}"),
            0o644,
            bytes(&kernel.join(module))?,
        );
    }
    let order: String = modules.iter().map(|module| format!("{module}\n")).collect();
    Ok(files.file("/modules/order", 0o644, order))
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::or_skip;

    #[test]
    fn a_guest_does_what_it_is_told_and_is_given_up_when_it_hangs() {
        let files = Initramfs::default().file("/etc/motto", 0o600, "hello\n");
        let uuid = "0f1e2d3c-4b5a-4697-8877-665544332211";
        let setup = Setup {
            files,
            modules: vec!["dummy"],
            uuid: uuid.to_owned(),
            nics: Vec::new(),
        };
        let guest = or_skip!(Guest::start(&setup));
        let answer = guest
            .run("cat /etc/motto; echo 'a fault' >&2; exit 3")
            .unwrap();
        let wanted = Answer {
            code: 3,
            stdout: "hello\n".to_owned(),
            stderr: "a fault\n".to_owned(),
        };
        assert_eq!(answer, wanted);
        assert_eq!(
            guest
                .run("cat /sys/class/dmi/id/product_uuid")
                .unwrap()
                .stdout,
            format!("{uuid}\n")
        );
        let hung = guest
            .run_within(Duration::from_millis(200), "sleep 1000")
            .unwrap_err()
            .to_string();
        assert!(
            hung.contains("`sleep 1000`") && hung.contains("up after"),
            "{hung}"
        );
        drop(guest);
        let ended = Guest::start(&setup)
            .unwrap()
            .run("poweroff -f")
            .unwrap_err()
            .to_string();
        assert!(ended.contains("the guest at `poweroff -f`"), "{ended}");
    }
}
