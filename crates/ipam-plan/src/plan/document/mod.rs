//! The plan as versioned JSON: the output of `--output json`, the format of saved plans, and the
//! source of every other output.
//!
//! Readers ignore unknown fields and refuse another major version. Addresses are text here. A saved
//! plan is only compared with a fresh plan, and never executed.

mod change;
mod describe;
mod findings;
mod load_balancing;
mod pod_pools;
mod service_effects;
mod summary;
mod verdict;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::selection::{Selected, Selection};
use super::{Plan, digest};
use ipam_core::model::grouped;

pub use change::{
    ChangeDocument, EditDocument, OriginDocument, UnapprovedBlockDocument, WriterDocument,
};
pub use findings::{
    BlockedDocument, DriftDocument, FindingDocument, MisplacedDocument, RefusalDocument,
};
pub use load_balancing::{LbSummary, Losing};
pub use pod_pools::PodPoolSummary;
pub(super) use pod_pools::{is_gone, shows};
pub(super) use service_effects::service_effects;
pub use service_effects::{LostAddressDocument, ServiceEffectDocument};
pub use summary::Summary;
pub use verdict::{PlanOutcome, Verdict};

/// Version of this format: the major part changes when a reader would misunderstand.
pub const FORMAT_VERSION: &str = "1.13";

/// A plan as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// What it is made from.
    pub intent: Intent,
    /// SHA-256 over everything that decides what an apply does: the changes, the waivers, and
    /// `source`. It omits values that may differ harmlessly: resourceVersions, places, reasons.
    pub digest: String,
    /// The files that it was made from.
    pub source: SourceDocument,
    /// The objects to which it is limited; absent for a whole plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// Counts.
    pub summary: Summary,
    /// Limits and checks that the plan waives.
    pub waivers: Vec<String>,
    /// Why it may not be applied.
    pub refusals: Vec<RefusalDocument>,
    /// What the Policy of the files allows and that of the base revision does not, if the plan was
    /// compared with one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened: Vec<String>,
    /// What would be done.
    pub changes: Vec<ChangeDocument>,
    /// Effects on Services of type LoadBalancer.
    pub services: Vec<ServiceEffectDocument>,
    /// What must wait.
    pub blocked: Vec<BlockedDocument>,
    /// Held blocks that the files would not give their nodes today.
    pub misplaced: Vec<MisplacedDocument>,
    /// Where the cluster differs.
    pub drift: Vec<DriftDocument>,
    /// Results of the checks, one entry for each cause.
    pub findings: Vec<FindingDocument>,
}

/// The purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// Bring the cluster to the files.
    Files,
    /// Undo an earlier apply.
    Undo,
}

/// The files of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDocument {
    /// The directory, relative to the working directory if it lies in it.
    pub directory: String,
    /// The commit from which the files were read, if they were read from Git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// SHA-256 over the meaning of the files.
    pub digest: String,
}

/// Why a saved plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// Not JSON, or not a plan.
    #[error("it is not a saved plan: {0}")]
    NotAPlan(#[from] serde_json::Error),
    /// Written by an incompatible version.
    #[error("it has format version {0}, and this program reads {FORMAT_VERSION}")]
    Version(String),
    /// The file was changed after it was saved.
    #[error(
        "its contents do not match its digest: it was edited or cut off after it was saved, or another version saved it"
    )]
    Digest,
    /// The summary counts no change, although the plan has changes.
    #[error("its summary counts no change, although it has changes")]
    Summary,
    /// No plan changes one object twice.
    #[error("it changes `{0}` twice, which no plan does")]
    Twice(String),
    /// Only blocks of nodes are taken back; everything else follows the files.
    #[error("it takes back `{0}`, and an undo plan has only nodes")]
    NotANode(String),
    /// Every change of a plan sets something.
    #[error("its change of `{0}` sets nothing, which no plan does")]
    Empty(String),
}

impl PlanDocument {
    /// The plan as a document; `directory` is where the files are, as it was given.
    pub fn new(plan: &Plan, directory: &str) -> PlanDocument {
        // Every field is named, so that a new one breaks the build.
        let Plan {
            changes,
            effects,
            waivers,
            refusals,
            blocked,
            misplaced,
            drift,
            findings,
            unchanged: _,
            desired_digest,
            selection,
            left_out: _,
        } = plan;
        let refused = refusals
            .iter()
            .filter(|refusal| !refusal.is_waived(waivers));
        PlanDocument {
            format_version: FORMAT_VERSION.to_owned(),
            intent: Intent::Files,
            digest: String::new(),
            source: SourceDocument {
                directory: directory.to_owned(),
                revision: None,
                digest: desired_digest.clone(),
            },
            selection: (!selection.is_everything()).then(|| selection.clone()),
            summary: Summary::new(plan),
            waivers: waivers.iter().map(ToString::to_string).collect(),
            refusals: refused.map(RefusalDocument::from).collect(),
            weakened: Vec::new(),
            changes: changes.iter().map(ChangeDocument::from).collect(),
            services: service_effects(&effects.services, changes),
            blocked: blocked.iter().map(BlockedDocument::from).collect(),
            misplaced: misplaced.iter().map(MisplacedDocument::from).collect(),
            drift: drift.iter().map(DriftDocument::from).collect(),
            findings: grouped(findings)
                .iter()
                .map(FindingDocument::from)
                .collect(),
        }
        .sealed()
    }

    /// The plan compared with the Policy of its base, which refuses it too.
    #[must_use]
    pub fn judged_by_base(
        mut self,
        weakened: Vec<String>,
        refusals: Vec<RefusalDocument>,
    ) -> PlanDocument {
        self.weakened = weakened;
        let is_new = |one: &RefusalDocument| !self.refusals.contains(one);
        let novel: Vec<RefusalDocument> = refusals.into_iter().filter(is_new).collect();
        self.refusals.extend(novel);
        self.sealed()
    }

    /// With the first few subjects of each finding only.
    #[must_use]
    pub fn cut(mut self) -> PlanDocument {
        self.findings = self
            .findings
            .into_iter()
            .map(FindingDocument::cut)
            .collect();
        self
    }

    /// A plan with a recomputed digest, for tests with forged plans.
    ///
    /// # Errors
    /// Fails if the text is not a plan.
    #[doc(hidden)]
    pub fn resealed(json: &str) -> Result<PlanDocument, PlanFileError> {
        Ok(serde_json::from_str::<PlanDocument>(json)?.sealed())
    }

    /// The plan with its digest recomputed.
    pub(super) fn sealed(mut self) -> PlanDocument {
        self.digest = self.own_digest();
        self
    }

    /// The digest of what the plan does, and of the files' meaning: equal for another commit or
    /// directory with the same ones, such as before and after a merge.
    #[must_use]
    pub fn substance(&self) -> String {
        let mut plan = self.clone();
        plan.source.directory.clear();
        plan.source.revision = None;
        plan.own_digest()
    }

    fn own_digest(&self) -> String {
        let mut text = match self.intent {
            Intent::Files => String::new(),
            Intent::Undo => "undo\n".to_owned(),
        };
        let SourceDocument {
            directory,
            revision,
            digest,
        } = &self.source;
        // Where the directory lies depends on the working directory. The meaning of its files counts.
        let name = directory.trim_end_matches('/').rsplit('/').next();
        text.push_str(&format!(
            "source {:?}\n",
            (name.unwrap_or_default(), revision, digest)
        ));
        if let Some(Selection { targets, excluded }) = &self.selection {
            let texts = |all: &[Selected]| all.iter().map(Selected::to_string).collect::<Vec<_>>();
            let all = (texts(targets), texts(excluded));
            text.push_str(&format!("selection {all:?}\n"));
        }
        for waiver in &self.waivers {
            text.push_str(&format!("waiver {waiver:?}\n"));
        }
        for refusal in &self.refusals {
            text.push_str(&format!("refusal {:?}\n", refusal.message));
        }
        for change in &self.changes {
            text.push_str(&change.identity());
            text.push('\n');
        }
        for lost in self.services.iter().flat_map(ServiceEffectDocument::lost) {
            text.push_str(&format!("lost {lost:?}\n"));
        }
        digest::of_text(&text)
    }

    /// Reads a saved plan.
    ///
    /// # Errors
    /// Fails if the file is not a plan, has another major version, was changed after it was saved,
    /// changes an object twice, or has a change without an edit.
    pub fn parse(json: &str) -> Result<PlanDocument, PlanFileError> {
        #[derive(Deserialize)]
        struct Version {
            format_version: String,
        }
        let Version { format_version } = serde_json::from_str(json)?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&format_version) != major(FORMAT_VERSION) {
            return Err(PlanFileError::Version(
                format_version.escape_debug().to_string(),
            ));
        }
        let document: PlanDocument = serde_json::from_str(json)?;
        if document.own_digest() != document.digest {
            return Err(PlanFileError::Digest);
        }
        // The verdict is made of the counts.
        if !document.changes.is_empty() && document.summary.changes_nothing() {
            return Err(PlanFileError::Summary);
        }
        document.check_kinds()?;
        document.check_edits()?;
        let mut names = BTreeSet::new();
        match document
            .changes
            .iter()
            .find(|change| !names.insert((&change.kind, &change.name)))
        {
            Some(twice) => Err(PlanFileError::Twice(twice.name.escape_debug().to_string())),
            None => Ok(document),
        }
    }

    fn check_kinds(&self) -> Result<(), PlanFileError> {
        let is_foreign = |change: &&ChangeDocument| !change.is_of_node();
        match self.changes.iter().find(is_foreign) {
            Some(change) if self.intent == Intent::Undo => {
                let target = change.target().escape_debug().to_string();
                Err(PlanFileError::NotANode(target))
            }
            _ => Ok(()),
        }
    }

    fn check_edits(&self) -> Result<(), PlanFileError> {
        let is_empty = |change: &&ChangeDocument| change.edit.is_empty(self.intent);
        match self.changes.iter().find(is_empty) {
            Some(empty) => Err(PlanFileError::Empty(empty.name.escape_debug().to_string())),
            None => Ok(()),
        }
    }
}
