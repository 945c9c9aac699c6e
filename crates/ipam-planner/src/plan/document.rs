//! The plan as versioned JSON: what `--output json` prints, what a saved plan is, and what every
//! other output is made of.
//!
//! Readers ignore fields that they do not know and refuse another major version. Addresses are text
//! here, and what is read from a file is only ever compared with a fresh plan, never executed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::document_edit::EditDocument;
use super::document_findings::{
    BlockedDocument, DriftDocument, FindingDocument, MisplacedDocument, RefusalDocument,
};
use super::document_lb::{LbSummary, ServiceEffectDocument};
use super::document_pod_pools::PodPoolSummary;
use super::{Plan, digest};
use ipam_core::model::grouped;

/// Version of this format: the major part changes when a reader would misunderstand.
pub const FORMAT_VERSION: &str = "1.7";

/// A plan as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// What it is made from.
    #[serde(default)]
    pub intent: Intent,
    /// SHA-256 over all that decides what an apply of it does: the changes, the waivers, and which
    /// files it is from, as `source` names them. What may differ harmlessly is left out:
    /// resourceVersions, places, reasons.
    pub digest: String,
    /// The files that it was made from.
    pub source: SourceDocument,
    /// Counts.
    pub summary: Summary,
    /// Limits that it may exceed, and what else it may do.
    #[serde(default)]
    pub waivers: Vec<String>,
    /// Why it may not be applied.
    #[serde(default)]
    pub refusals: Vec<RefusalDocument>,
    /// What would be done.
    pub changes: Vec<ChangeDocument>,
    /// What that does to Services of type LoadBalancer.
    #[serde(default)]
    pub services: Vec<ServiceEffectDocument>,
    /// What must wait.
    pub blocked: Vec<BlockedDocument>,
    /// Held blocks that the files would not give their nodes today.
    #[serde(default)]
    pub misplaced: Vec<MisplacedDocument>,
    /// Where the cluster differs.
    pub drift: Vec<DriftDocument>,
    /// Results of the checks, one entry for each cause.
    pub findings: Vec<FindingDocument>,
}

/// What a plan is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// The files.
    #[default]
    Files,
    /// An earlier apply, which it takes back.
    Undo,
}

/// The files of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceDocument {
    /// The directory as it was given.
    pub directory: String,
    /// The id of the commit of which the files were, where they were read from Git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// SHA-256 over the meaning of the files.
    pub digest: String,
}

/// Counts of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Nodes that get a block.
    pub assign: usize,
    /// Nodes whose block is taken away.
    pub release: usize,
    /// Nodes whose block is written to another field.
    pub update: usize,
    /// Objects that are deleted.
    pub delete: usize,
    /// Held blocks that change.
    pub moved: usize,
    /// Changes that must wait.
    pub blocked: usize,
    /// Nodes that are as the files say: nothing changes or waits, no block is misplaced, no field
    /// drifted, and no check found an error.
    pub unchanged: usize,
    /// Nodes with a block that the files would not give them today.
    #[serde(default)]
    pub misplaced: usize,
    /// All nodes.
    #[serde(default)]
    pub nodes: usize,
    /// Errors that the checks found.
    #[serde(default)]
    pub errors: usize,
    /// Warnings that the checks gave.
    #[serde(default)]
    pub warnings: usize,
    /// Fields that differ from what they should show.
    #[serde(default)]
    pub drifted: usize,
    /// Changes that cannot be taken back.
    #[serde(default)]
    pub irreversible: usize,
    /// LoadBalancer pools and Services.
    #[serde(default)]
    pub load_balancing: LbSummary,
    /// Pools of Pods, and who uses them.
    #[serde(default)]
    pub pod_pools: PodPoolSummary,
    /// Ports of VMs whose pairs change.
    #[serde(default)]
    pub ports: usize,
}

/// A place in the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginDocument {
    /// Path.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The line's text, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// A change as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeDocument {
    /// `assign`, `update` or `release` for a node; `create`, `update`, `adopt`, `delete` or
    /// `restore` for a pool; `pin` or `restore` for a Service.
    pub action: String,
    /// Kind of the object.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The write path.
    pub write_path: String,
    /// CIDRs, ranges or addresses that the written field shows now.
    pub before: Vec<String>,
    /// CIDRs that it will show.
    pub after: Vec<String>,
    /// The pool.
    pub pool: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// `none`, `disruptive` or `destructive`.
    pub hazard: String,
    /// The fields that are set.
    pub edit: EditDocument,
    /// The fields that would be set to take it back; absent where that cannot be done.
    #[serde(default)]
    pub undo: Option<EditDocument>,
    /// The object that was seen.
    pub guard: GuardDocument,
    /// The pin or the pool.
    pub origin: Option<OriginDocument>,
}

/// The object that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardDocument {
    /// UID.
    pub uid: String,
    /// resourceVersion.
    pub resource_version: String,
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
    /// Changed after it was saved.
    #[error(
        "its contents do not match its digest: it was edited or cut off after it was saved, or another version saved it"
    )]
    Digest,
    /// No plan changes one object twice.
    #[error("it changes `{0}` twice, which no plan does")]
    Twice(String),
}

impl PlanDocument {
    /// The plan as a document; `directory` is where the files are, as it was given.
    pub fn new(plan: &Plan, directory: &str) -> PlanDocument {
        // Every field is named, so that a new one cannot be forgotten here.
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
            summary: Summary::new(plan),
            waivers: waivers.iter().map(ToString::to_string).collect(),
            refusals: refused.map(RefusalDocument::from).collect(),
            changes: changes.iter().map(ChangeDocument::from).collect(),
            services: effects
                .services
                .iter()
                .map(ServiceEffectDocument::from)
                .collect(),
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

    /// A plan whose digest is made to fit, whatever it says: for tests of what is done with a
    /// forged one.
    ///
    /// # Errors
    /// A text that is no plan.
    #[doc(hidden)]
    pub fn resealed(json: &str) -> Result<PlanDocument, PlanFileError> {
        Ok(serde_json::from_str::<PlanDocument>(json)?.sealed())
    }

    /// With the digest of what it says.
    pub(super) fn sealed(mut self) -> PlanDocument {
        self.digest = self.own_digest();
        self
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
        text.push_str(&format!("source {:?}\n", (directory, revision, digest)));
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
    /// A file that is no plan, one of another major version, one that was changed since, and one
    /// that changes an object twice.
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
}

impl ChangeDocument {
    /// What is there afterwards, in one line; of pairs what comes and goes. Empty where nothing is.
    pub fn comes(&self) -> String {
        match &self.edit {
            EditDocument::AddressPairs { add, remove } => {
                let signed = |sign, ranges: &[String]| {
                    ranges
                        .iter()
                        .map(move |range| format!("{sign}{range}"))
                        .collect::<Vec<_>>()
                };
                [signed('+', add), signed('-', remove)].concat().join(" ")
            }
            _ => self.after.join(" "),
        }
    }

    /// What makes it this change: everything but what may differ harmlessly between two plans.
    pub fn identity(&self) -> String {
        let ChangeDocument {
            action,
            kind,
            name,
            write_path,
            before,
            after,
            pool,
            reason: _,
            hazard,
            edit,
            undo,
            guard,
            origin: _,
        } = self;
        // A pool that was made again just so is as good.
        let uid = if matches!(edit, EditDocument::AddressPool(_)) {
            ""
        } else {
            &guard.uid
        };
        // What it does to Services is compared Service by Service.
        let hazard = if matches!(edit, EditDocument::AddressPool(_)) || kind == "Service" {
            ""
        } else {
            hazard
        };
        format!(
            "{:?}",
            (
                action, kind, name, write_path, before, after, pool, hazard, edit, undo, uid
            )
        )
    }
}
