//! Joins the rooms: files to [`Desired`], cluster to a plan, plan to outcomes. One path for every command.

mod settle;

use std::path::Path;

use crate::check;
use crate::cluster::{Cluster, ClusterError, observe};
use crate::desired::{Desired, Documents, lower};
use crate::model::{Finding, Severity};
use crate::observed::Observed;
use crate::plan::{Plan, plan};
use crate::source::read_directory;

pub use settle::{Applied, apply_until_settled};

/// What a directory asks for, with everything that is wrong with it.
#[derive(Debug)]
pub struct Loaded {
    /// The files, for diagnostics that show them.
    pub documents: Documents,
    /// What they ask for; incomplete when there are errors.
    pub desired: Desired,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Loaded {
    /// Whether nothing may be planned from it.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// Reads and checks a directory.
pub fn load(directory: &Path) -> Loaded {
    let (documents, mut findings) = read_directory(directory);
    let (desired, lowering) = lower(&documents);
    findings.extend(lowering);
    findings.extend(check::files(&desired));
    findings.sort();
    findings.dedup();
    Loaded { documents, desired, findings }
}

/// Observes the cluster and plans; `loaded` must be without errors.
///
/// # Errors
/// A cluster that cannot be read.
pub async fn observe_and_plan<C: Cluster>(cluster: &C, loaded: &Loaded) -> Result<(Observed, Plan), ClusterError> {
    let observed = observe(cluster).await?;
    let plan = plan(&loaded.desired, &observed, loaded.findings.clone());
    Ok((observed, plan))
}
