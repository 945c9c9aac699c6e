//! The way to a guest that runs one command after the other: a line of shell goes in, and a line of
//! three numbers comes out, the exit code and the sizes of both outputs, and then the outputs. It
//! knows nothing of what runs in the guest.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::process::Server;
use crate::vm::read;
use crate::wait::PATIENCE;

const READY: &str = "ready\n";

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A guest's QEMU, and the port by which the guest takes commands. Dropping it ends the guest.
#[derive(Debug)]
pub(crate) struct Shell {
    // Dropped in this order.
    orders: Mutex<BufReader<UnixStream>>,
    qemu: Server,
}

impl Shell {
    /// Connects to the port, which starts the guest.
    pub(crate) fn connect(mut qemu: Server, socket: &Path) -> Result<Self> {
        let mut orders = None;
        qemu.wait_ready(PATIENCE, || {
            orders = UnixStream::connect(socket).ok();
            orders.is_some()
        })?;
        let orders = orders
            .ok_or_else(|| Error::unreadable(socket.display().to_string(), "nobody is there"))?;
        Ok(Self {
            orders: Mutex::new(BufReader::new(orders)),
            qemu,
        })
    }

    /// Waits until the guest takes commands.
    pub(crate) fn await_ready(&self) -> Result<()> {
        let mut orders = self.orders();
        orders
            .get_ref()
            .set_read_timeout(Some(PATIENCE))
            .map_err(|source| self.failed("its start", PATIENCE, &source))?;
        let first = self.line(&mut orders, PATIENCE, "its start")?;
        if first == READY {
            return Ok(());
        }
        Err(Error::unreadable(
            "the guest's first word",
            format!("{first:?}"),
        ))
    }

    /// Runs a line of shell. The guest is of no use any more when it does not answer in time.
    pub(crate) fn run_within(&self, limit: Duration, command: &str) -> Result<Answer> {
        let mut orders = self.orders();
        let failed = |source| self.failed(command, limit, &source);
        orders
            .get_ref()
            .set_read_timeout(Some(limit))
            .map_err(failed)?;
        if command.contains('\n') {
            return Err(Error::unreadable(command, "a command is one line"));
        }
        orders
            .get_mut()
            .write_all(format!("{command}\n").as_bytes())
            .map_err(failed)?;
        let head = self.line(&mut orders, limit, command)?;
        let numbers: Vec<usize> = head
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        let [code, stdout, stderr] = numbers[..] else {
            return Err(Error::unreadable("the guest's answer", format!("{head:?}")));
        };
        let mut text = |size: usize| {
            let mut bytes = vec![0; size];
            orders.read_exact(&mut bytes).map_err(failed)?;
            Ok::<_, Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (stdout, stderr) = (text(stdout)?, text(stderr)?);
        Ok(Answer {
            code: i32::try_from(code).unwrap_or(-1),
            stdout,
            stderr,
        })
    }

    /// What the guest said on its console so far.
    pub(crate) fn console(&self) -> String {
        read(self.qemu.log()).unwrap_or_default()
    }

    fn orders(&self) -> MutexGuard<'_, BufReader<UnixStream>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(
        &self,
        orders: &mut BufReader<UnixStream>,
        limit: Duration,
        what: &str,
    ) -> Result<String> {
        let mut line = String::new();
        match orders.read_line(&mut line) {
            Ok(0) => Err(self.failed(what, limit, &ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(line),
            Err(source) => Err(self.failed(what, limit, &source)),
        }
    }

    /// A fault of the way to the guest.
    fn failed(&self, what: &str, limit: Duration, source: &std::io::Error) -> Error {
        let console = self.console();
        match source.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout {
                what: format!("the guest to be done with `{what}`"),
                waited: limit,
                detail: format!("; its console:\n{console}"),
            },
            _ => Error::Ended {
                program: format!("the guest at `{what}` ({source})"),
                log: console,
            },
        }
    }
}
