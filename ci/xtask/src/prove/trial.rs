//! Common parts of the proofs on a real control plane: the server, appliers on it, and the two
//! questions of every proof: was a block given twice, and does the cluster converge?

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use anyhow::Result;
use testbed::{ControlPlane, Options, Program, Programs, build};
use xtask::cluster;
use xtask::pools::Pools;
use xtask::tool::Tool;

use crate::applier::{Applier, Courtesy, DONE, Manner};
use crate::holdings::Holdings;

/// The most duplicates that are shown; the rest are counted.
const SHOWN: usize = 10;
/// The tool's default.
pub const PARALLELISM: usize = 16;

/// A control plane with appliers on it.
pub struct Trial<'t> {
    /// The servers.
    pub plane: ControlPlane,
    tool: &'t Tool,
    duplicates: BTreeSet<String>,
    convergence: Convergence,
}

/// Whether an apply without competitors always gave every node a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convergence {
    /// It did in every check so far.
    Yes,
    /// At least once it did not.
    No,
}

impl Display for Convergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Yes => "yes",
            Self::No => "no",
        })
    }
}

impl<'t> Trial<'t> {
    /// Starts the control plane, without any nodes.
    pub fn start(tool: &'t Tool) -> Result<Self> {
        Self::start_with(
            tool,
            &build(&[Program::KubeApiserver, Program::Etcd])?,
            cluster::options(),
        )
    }

    /// The same with programs that are already built, and with the caller's options.
    pub fn start_with(tool: &'t Tool, programs: &Programs, options: Options) -> Result<Self> {
        let plane = cluster::start_with(programs, options)?;
        Ok(Self {
            plane,
            tool,
            duplicates: BTreeSet::new(),
            convergence: Convergence::Yes,
        })
    }

    /// Appliers that run with others, as the administrator.
    pub fn manner(&self) -> Manner<'_> {
        let Self { plane, tool, .. } = self;
        Manner {
            tool,
            kubeconfig: plane.kubeconfig(),
            parallelism: PARALLELISM,
            courtesy: Courtesy::None,
        }
    }

    /// Searches for blocks that two nodes have.
    pub fn look(&mut self) -> Result<Holdings> {
        let holdings = Holdings::read(self.plane.client())?;
        for duplicate in holdings.duplicates() {
            if !self.duplicates.contains(&duplicate) && self.duplicates.len() < SHOWN {
                eprintln!("given twice: {duplicate}");
            }
            self.duplicates.insert(duplicate);
        }
        Ok(holdings)
    }

    /// Runs applies one after the other, without competitors, until one ends with 0, at most for
    /// `limit`; returns their number. Then nothing may be left to plan, and every Node must have a
    /// block.
    pub fn converge(&mut self, pools: &Pools, limit: usize) -> Result<usize> {
        let mut runs = 0;
        loop {
            runs += 1;
            let manner = Manner {
                courtesy: Courtesy::Lease,
                ..self.manner()
            };
            let ended = manner.start(pools)?.wait()?;
            let code = ended.code();
            if code == Some(DONE) {
                break;
            }
            eprintln!(
                "an apply without competitors ended with {code:?}:\n{}",
                ended.end_of_talk()
            );
            if runs == limit {
                self.convergence = Convergence::No;
                break;
            }
        }
        let plan = Manner { ..self.manner() }.plan(pools)?;
        let holdings = self.look()?;
        let without: Vec<&str> = holdings.without_block().collect();
        if plan != Some(DONE) || !without.is_empty() {
            eprintln!(
                "after it, `plan` ends with {plan:?}, and these have no block: {}",
                without.join(" ")
            );
            self.convergence = Convergence::No;
        }
        Ok(runs)
    }

    /// How many pairs were found so far that share an address.
    pub fn duplicates(&self) -> usize {
        self.duplicates.len()
    }

    /// Whether it always converged so far.
    pub fn convergence(&self) -> Convergence {
        self.convergence
    }
}

/// Starts an applier with each of the directories, all at once.
pub fn start_all<'p>(
    manner: &Manner<'_>,
    directories: impl IntoIterator<Item = &'p Pools>,
) -> Result<Vec<Applier>> {
    directories
        .into_iter()
        .map(|pools| manner.start(pools))
        .collect()
}
