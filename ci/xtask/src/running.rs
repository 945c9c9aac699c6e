//! A running `watch` or operator, and the lines that it prints.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use testbed::usage;

#[cfg(feature = "prove")]
use crate::stopping;
use crate::tool::Tool;

/// Far longer than any expected event takes.
const AT_MOST: Duration = Duration::from_secs(120);

/// A running process. Dropping it kills it.
pub struct Running {
    child: Child,
    lines: Receiver<(Instant, Value)>,
}

impl Running {
    /// Starts it with these arguments, as this kubeconfig's user.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub fn start(tool: &Tool, arguments: &[&OsStr], kubeconfig: &Path) -> Result<Self> {
        let [flag, output, json] = ["--kubeconfig", "--output", "json"].map(OsStr::new);
        let mut command = tool.command();
        command
            .args(arguments)
            .args([flag, kubeconfig.as_os_str(), output, json]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("the tool does not start")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let line = (
                    Instant::now(),
                    serde_json::from_str(&line).unwrap_or_default(),
                );
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// An operator that answers machines on a free port.
    ///
    /// # Errors
    /// Fails if it does not start.
    pub fn operator(tool: &Tool, kubeconfig: &Path) -> Result<Self> {
        Self::start(
            tool,
            &["operator", "--listen", "127.0.0.1:0"].map(OsStr::new),
            kubeconfig,
        )
    }

    /// Waits for the next line with this event and this object; returns its time.
    ///
    /// # Errors
    /// Fails if none comes for long.
    pub fn until(&self, event: &str, name: Option<&str>) -> Result<Instant> {
        self.line(event, name).map(|(at, _)| at)
    }

    /// The object and the time of the next line with this event.
    ///
    /// # Errors
    /// Fails if none comes for long.
    pub fn next_of(&self, event: &str) -> Result<(String, Instant)> {
        let (at, line) = self.line(event, None)?;
        let name = line["name"].as_str().context("no name")?.to_owned();
        Ok((name, at))
    }

    /// Where it answers machines.
    ///
    /// # Errors
    /// Fails if it does not say so for long.
    pub fn address(&self) -> Result<String> {
        let (_, line) = self.line("listening", None)?;
        line["address"]
            .as_str()
            .map(str::to_owned)
            .context("no address")
    }

    fn line(&self, event: &str, name: Option<&str>) -> Result<(Instant, Value)> {
        loop {
            let (at, line) = self
                .lines
                .recv_timeout(AT_MOST)
                .with_context(|| format!("no {event} of {name:?}"))?;
            if line["event"] == event && name.is_none_or(|name| line["name"] == name) {
                return Ok((at, line));
            }
        }
    }

    /// The lines that came since this was asked last.
    pub fn said(&self) -> impl Iterator<Item = Value> + '_ {
        self.lines.try_iter().map(|(_, line)| line)
    }

    /// Processor time so far, user and system.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn cpu_ms(&self) -> Result<f64> {
        Ok(usage::cpu_seconds(self.child.id())? * 1e3)
    }

    /// The memory that it has now, in MiB.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn rss_mib(&self) -> Result<f64> {
        Ok(usage::rss_mib(self.child.id())?)
    }

    /// The most memory that it has had so far, in MiB.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn peak_rss_mib(&self) -> Result<f64> {
        Ok(usage::peak_rss_mib(self.child.id())?)
    }
}

#[cfg(feature = "prove")]
impl Running {
    /// Stops it with SIGSTOP; once this returns, it does nothing.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn pause(&self) -> Result<()> {
        stopping::pause(&self.child)
    }

    /// Resumes a stopped one.
    ///
    /// # Errors
    /// Fails if it has ended.
    pub fn resume(&self) -> Result<()> {
        stopping::resume(&self.child)
    }
}

/// The answer to a GET: head and body.
///
/// # Errors
/// Fails if the server does not answer.
pub fn http_get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(AT_MOST))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
