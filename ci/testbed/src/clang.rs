//! Compiles for guests: a guest sends a command of clang with the folders that it reads, and the
//! guest's own clang runs on this machine's processor instead of an emulated one.
//!
//! It speaks with `ci/agent-vm/clang.sh`: a line with the archive's size and the command, the
//! archive; back comes a line with the exit code, and the object or the errors. It knows nothing of
//! what is compiled.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::folder::RunFolder;

const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LLVM: &str = "usr/lib/llvm-14";

/// Compiles until it is dropped.
#[derive(Debug)]
pub(crate) struct Clang {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clang {
    /// Listens on loopback, with the clang of the guest's root folder.
    pub(crate) fn start(root: &Path) -> Result<Self> {
        let address = "127.0.0.1:0";
        let listener = TcpListener::bind(address).map_err(Error::file(address))?;
        let port = listener.local_addr().map_err(Error::file(address))?.port();
        let ends = Arc::new(AtomicBool::new(false));
        let (seen, root) = (ends.clone(), root.to_owned());
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                let root = root.clone();
                std::thread::spawn(move || {
                    if let Err(error) = serve(&root, connection) {
                        eprintln!("testbed: the compiler of the guests: {error}");
                    }
                });
            }
        });
        Ok(Self {
            port,
            ends,
            thread: Some(thread),
        })
    }

    /// Where a guest finds it on this machine's loopback.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Clang {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let is_woken = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

fn serve(root: &Path, connection: TcpStream) -> Result<()> {
    let folder = RunFolder::new()?;
    let fault = |source| Error::file(folder.path())(source);
    let mut input = BufReader::new(connection);
    let mut line = String::new();
    input.read_line(&mut line).map_err(fault)?;
    let mut words = line.split_whitespace();
    let size: Option<u64> = words.next().and_then(|word| word.parse().ok());
    let size = size.ok_or_else(|| Error::unreadable("a guest's command", &line))?;
    unpack(&mut (&mut input).take(size), folder.path()).map_err(fault)?;
    let arguments: Vec<&str> = words.collect();
    let object = folder.path().join("object");
    let output = compile(root, folder.path(), &object, &arguments)?;
    let mut guest = input.into_inner();
    let answer = match output.status.code() {
        Some(0) => fs::read(&object).map_err(fault)?,
        _ => output.stderr,
    };
    let code = output.status.code().unwrap_or(1);
    guest
        .write_all(format!("{code}\n").as_bytes())
        .map_err(fault)?;
    guest.write_all(&answer).map_err(fault)?;
    guest.shutdown(Shutdown::Write).map_err(fault)
}

fn unpack(archive: &mut impl Read, folder: &Path) -> io::Result<()> {
    let mut tar = Command::new("tar")
        .arg("-xC")
        .arg(folder)
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = tar.stdin.take() {
        io::copy(archive, &mut input)?;
    }
    match tar.wait()?.success() {
        true => Ok(()),
        false => Err(io::Error::other("tar cannot unpack what the guest sent")),
    }
}

/// The guest's paths lie in `folder` here.
fn compile(root: &Path, folder: &Path, object: &Path, arguments: &[&str]) -> Result<Output> {
    let here = |path: &str| {
        folder
            .join(path.trim_start_matches('/'))
            .display()
            .to_string()
    };
    let mapped = arguments.iter().map(|word| match word.strip_prefix("-I") {
        Some(path) => format!("-I{}", here(path)),
        None if word.starts_with('/') => here(word),
        None if *word == "-" => object.display().to_string(),
        None => (*word).to_owned(),
    });
    let loader: PathBuf = root.join(LIBRARIES).join("ld-linux-x86-64.so.2");
    let libraries = [root.join(LIBRARIES), root.join(LLVM).join("lib")];
    Command::new(&loader)
        .arg("--library-path")
        .arg(libraries.map(|path| path.display().to_string()).join(":"))
        .arg(root.join(LLVM).join("bin/clang"))
        .args(mapped)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::file(loader))
}
