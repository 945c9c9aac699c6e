//! Foretells an upgrade of Cilium: hop by hop over the minor releases, what changes for Services
//! and nodes, why, and what avoids it.
//!
//! Each hop starts the operator and the agents of the next release on the state that the hop before
//! leaves. It uses the rules by version of `ipam-cilium` and has none of its own for addresses.
//! Never writes. What cannot be read is a blind spot, and never counts as unchanged.

mod addresses;
mod announcing;
mod blind;
mod change;
mod definitions;
mod document;
mod hop;
mod loss;
mod management;
mod manifests;
mod nodes;
mod patches;
mod path;
mod pools;
mod prospects;
mod settings;
#[cfg(test)]
mod tests;
mod write_path;

use ipam_cilium::observed::{Evidence, Observed};
use ipam_cilium::releases::why_unknown;
use ipam_core::model::CiliumVersion;
use ipam_desired::{CiliumManifest, Desired};

use hop::HopView;

pub use blind::Unjudged;
pub use change::{Cause, FileEdit, UpgradeChange, UpgradeCode};
pub use document::{
    FORMAT_VERSION, FileEditDocument, HopDocument, ObjectDocument, UnjudgedDocument,
    UpgradeChangeDocument, UpgradeDocument, UpgradeSummary,
};
pub use path::Refused;

/// The content of the directory, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'d> {
    pub desired: Option<&'d Desired>,
    /// Objects of Cilium's kinds.
    pub manifests: &'d [CiliumManifest],
}

/// What an upgrade changes.
#[derive(Clone, Debug)]
pub struct Upgrade {
    pub from: CiliumVersion,
    /// How the running version is known.
    pub evidence: Evidence,
    pub to: CiliumVersion,
    pub hops: Vec<Hop>,
    /// Parts of the cluster that could not be judged.
    pub unjudged: Vec<Unjudged>,
}

/// One hop.
#[derive(Clone, Debug)]
pub struct Hop {
    pub from: CiliumVersion,
    pub to: CiliumVersion,
    /// The worst first.
    pub changes: Vec<UpgradeChange>,
}

impl Upgrade {
    /// Whether something would change.
    pub fn changes_something(&self) -> bool {
        self.hops.iter().any(|hop| !hop.changes.is_empty())
    }
}

/// Faults of the running release that objects of the cluster meet.
pub(crate) fn faults_of_running(observed: &Observed) -> Vec<UpgradeChange> {
    let Some((version, _)) = observed.cilium.version else {
        return Vec::new();
    };
    let view = HopView::new(
        (Files::default(), &observed.services),
        observed.clone(),
        version,
        version,
    );
    let mut changes = change::Changes::default();
    patches::of_running(&view, &mut changes);
    definitions::of_running(&view, &mut changes);
    changes.finish()
}

/// Everything that changes between the running version and `to`. The files tell which lines to change.
///
/// # Errors
/// Fails if a version is unknown, or `to` is older.
pub fn upgrade(
    files: Files<'_>,
    observed: &Observed,
    to: CiliumVersion,
) -> Result<Upgrade, Refused> {
    let (from, evidence) = observed.cilium.version.ok_or(Refused::UnknownStart)?;
    let mut hops = Vec::new();
    let mut state = observed.clone();
    let mut last = from;
    let mut told = addresses::Told::default();
    for next in path::hops(from, to)? {
        let view = HopView::new((files, &observed.services), state, last, next);
        let (changes, after) = view.judge(&mut told);
        hops.push(Hop {
            from: last,
            to: next,
            changes,
        });
        state = after;
        last = next;
    }
    let unjudged = match hops.is_empty() && why_unknown(to).is_none() {
        true => Vec::new(),
        false => blind::unjudged(observed, to, &hops),
    };
    Ok(Upgrade {
        from,
        evidence,
        to,
        hops,
        unjudged,
    })
}
