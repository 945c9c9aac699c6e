//! Fresh nodes for a program that runs: the time until the last one has its block, the requests, and
//! what the program and the server used. It knows no program.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testbed::{ControlPlane, Programs};
use xtask::tool::Tool;

use super::contender::Contender;

/// The shortest limit. The figures of a program count the nodes that it has served by its limit.
pub const LIMIT: Duration = Duration::from_secs(100);
/// More for many nodes: the limits of kube-controller-manager's client allow 20 writes a second.
const LIMIT_FOR_EACH: Duration = Duration::from_millis(60);
const LOOK: Duration = Duration::from_millis(20);
/// Time between two whole lists, for each node: they would be most of the server's work.
const LOOK_AT_ALL_FOR_EACH: Duration = Duration::from_millis(1);
const CONNECTIONS: usize = 32;
const WRITES: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

/// Where the programs are measured.
pub struct Stage<'s> {
    pub tool: &'s Tool,
    pub programs: &'s Programs,
    pub plane: &'s ControlPlane,
    /// Fresh ones for each program.
    pub nodes: usize,
}

/// One measurement.
pub struct Figures {
    pub served: usize,
    /// From the first creation to the last block, or to the limit.
    pub seconds: f64,
    /// Requests of the program that write.
    pub writes: f64,
    pub cpu_seconds: f64,
    /// Of the API server and of etcd, the creation of the nodes included.
    pub server_cpu_seconds: f64,
    pub peak_rss_mib: f64,
}

impl Stage<'_> {
    /// Starts the program, creates the nodes, waits, and deletes them.
    pub fn serve(&self, contender: &Contender) -> Result<Figures> {
        let started = contender.start(self)?;
        let cpu = started.cpu_seconds()?;
        let server_cpu: f64 = self.plane.cpu_seconds()?.iter().sum();
        let writes = self.writes()?;
        let (served, seconds) = self.create_and_wait(contender)?;
        let figures = Figures {
            served,
            seconds,
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            writes: (self.writes()? - writes).saturating_sub(self.nodes) as f64,
            cpu_seconds: started.cpu_seconds()? - cpu,
            server_cpu_seconds: self.plane.cpu_seconds()?.iter().sum::<f64>() - server_cpu,
            peak_rss_mib: started.peak_rss_mib()?,
        };
        drop(started);
        self.plane.delete(contender.collection())?;
        eprintln!(
            "bench peers: {}: {served} of {} nodes in {seconds:.1} s",
            contender.name(),
            self.nodes
        );
        Ok(figures)
    }

    /// Seconds in which the server creates the nodes while no program gives them blocks.
    pub fn create_alone(&self, contender: &Contender) -> Result<f64> {
        let began = self.create(contender)?;
        let seconds = began.elapsed().as_secs_f64();
        self.plane.delete(contender.collection())?;
        Ok(seconds)
    }

    /// Creates the nodes. Returns when the first creation began.
    fn create(&self, contender: &Contender) -> Result<Instant> {
        let objects = (0..self.nodes).map(|index| contender.object(index));
        let all: Vec<_> = objects.collect();
        let began = Instant::now();
        self.plane
            .create_many(contender.collection(), &all, CONNECTIONS)?;
        Ok(began)
    }

    fn create_and_wait(&self, contender: &Contender) -> Result<(usize, f64)> {
        let newest = contender.path(self.nodes - 1);
        let began = self.create(contender)?;
        let mut looked = Instant::now();
        let (limit, pause) = (self.limit(), self.times(LOOK_AT_ALL_FOR_EACH));
        let mut last_has_one = false;
        while began.elapsed() < limit {
            last_has_one = last_has_one || contender.block(&self.plane.get(&newest)?).is_some();
            let due = looked.elapsed() > pause || last_has_one;
            if due && self.served(contender)? == self.nodes {
                return Ok((self.nodes, began.elapsed().as_secs_f64()));
            }
            if due {
                looked = Instant::now();
            }
            std::thread::sleep(LOOK);
        }
        Ok((self.served(contender)?, began.elapsed().as_secs_f64()))
    }

    fn limit(&self) -> Duration {
        LIMIT.max(self.times(LIMIT_FOR_EACH))
    }

    fn times(&self, for_each: Duration) -> Duration {
        for_each.saturating_mul(u32::try_from(self.nodes).unwrap_or(u32::MAX))
    }

    fn served(&self, contender: &Contender) -> Result<usize> {
        let path = format!("{}?resourceVersion=0", contender.collection());
        let objects = self.plane.list(&path)?;
        let blocks: Vec<&str> = objects
            .iter()
            .filter_map(|object| contender.block(object))
            .collect();
        let different: BTreeSet<&&str> = blocks.iter().collect();
        ensure!(different.len() == blocks.len(), "a block was given twice");
        Ok(blocks.len())
    }

    /// Requests so far that write, by all clients.
    fn writes(&self) -> Result<usize> {
        let bytes = self.plane.client().get_bytes("/metrics")?;
        Ok(count_writes(&String::from_utf8_lossy(&bytes)))
    }
}

fn count_writes(metrics: &str) -> usize {
    let of_requests = |line: &&str| line.starts_with("apiserver_request_total{");
    let writes = |line: &&str| {
        let mut verbs = WRITES.iter();
        verbs.any(|verb| line.contains(&format!("verb=\"{verb}\"")))
    };
    let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    let counts = metrics.lines().filter(of_requests).filter(writes);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of requests"
    )]
    counts.filter_map(value).map(|count| count as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_and_reads_are_not() {
        let metrics = "# TYPE apiserver_request_total counter\n\
            apiserver_request_total{code=\"200\",verb=\"PATCH\",resource=\"nodes\"} 12\n\
            apiserver_request_total{code=\"409\",verb=\"PATCH\",resource=\"nodes\"} 1\n\
            apiserver_request_total{code=\"201\",verb=\"POST\",resource=\"nodes\"} 1e+03\n\
            apiserver_request_total{code=\"200\",verb=\"LIST\",resource=\"nodes\"} 7\n\
            apiserver_longrunning_requests{verb=\"PATCH\"} 9\n";
        assert_eq!(count_writes(metrics), 1013);
    }
}
