//! What a running process has used so far, as Linux counts it. It knows nothing of which process it
//! is.

use std::fs;

use crate::error::{Error, Result};

/// USER_HZ is 100 on every architecture that Linux is built for today.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time, user and system, in seconds.
///
/// # Errors
/// Fails if the process has ended.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
    // User and system time are the 12th and 13th field behind the name in parentheses.
    let behind = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = behind.split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_A_SECOND)
}

/// The memory that it has now, in MiB.
///
/// # Errors
/// Fails if the process has ended.
pub fn rss_mib(pid: u32) -> Result<f64> {
    memory(pid, "VmRSS:")
}

/// The most memory that it has had so far, in MiB.
///
/// # Errors
/// Fails if the process has ended.
pub fn peak_rss_mib(pid: u32) -> Result<f64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, field: &'static str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kib.ok_or_else(|| Error::unreadable(path, field))? / 1024.0)
}
