//! Stopping a child without its knowledge, and letting it go on.

use std::process::Child;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// Stops it with SIGSTOP; once this returns, it does nothing.
///
/// # Errors
/// Fails if it has ended.
pub fn pause(child: &Child) -> Result<()> {
    let pid = pid(child)?;
    signal::kill(pid, Signal::SIGSTOP).context("the tool cannot be stopped")?;
    // Its end stays to be waited for.
    let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(pid), flags).context("the tool cannot be watched")? {
        WaitStatus::Stopped(..) => Ok(()),
        status => bail!("the tool ended before it was stopped: {status:?}"),
    }
}

/// Resumes a stopped one.
///
/// # Errors
/// Fails if it has ended.
pub fn resume(child: &Child) -> Result<()> {
    signal::kill(pid(child)?, Signal::SIGCONT).context("the tool cannot be continued")
}

/// No other process has this ID until the child has been waited for.
fn pid(child: &Child) -> Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(child.id())?))
}
