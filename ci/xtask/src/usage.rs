//! What a running process has used so far, as Linux counts it. It knows nothing of which process it is.

use anyhow::{Context, Result};

/// Processor time, user and system.
///
/// # Errors
/// Fails if the process has ended.
pub fn cpu_ms(pid: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("no such process")?;
    let ticks: u32 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u32>().ok())
        .sum();
    // USER_HZ is 100 on every architecture that Linux is built for today.
    Ok(f64::from(ticks) * 10.0)
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
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .context(field)?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
