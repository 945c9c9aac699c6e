//! From documents to [`Desired`]: reads every document of every file, and collects what is wrong with each.
//!
//! Faults between documents that are about addresses belong to the checks, not here.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::schema::{DocumentKind, IpPoolDocument, NodeAssignmentDocument, PolicyDocument};
use super::tree::{Document, Step};
use super::{Desired, Documents, lower_pin, lower_policy, lower_pool, structure, tree};
use crate::model::{Finding, Origin, Rule, Severity};
use crate::net::{BlockError, Range, RangeError};

/// Everything that the documents ask for, and everything that is wrong with them. With an error among the findings the
/// [`Desired`] is incomplete and nothing may be planned from it.
pub fn lower(documents: &Documents) -> (Desired, Vec<Finding>) {
    let mut lowering = Lowering::default();
    let mut files: Vec<_> = documents.files.iter().collect();
    files.sort();
    for file in files {
        match tree::parse(file) {
            Ok(documents) => documents.iter().for_each(|document| lowering.document(document)),
            Err(finding) => lowering.findings.push(*finding),
        }
    }
    lowering.finish()
}

#[derive(Default)]
struct Lowering {
    desired: Desired,
    pins: Vec<lower_pin::WrittenPin>,
    policy: Option<Origin>,
    names: BTreeMap<(DocumentKind, String), Origin>,
    findings: Vec<Finding>,
}

impl Lowering {
    fn document(&mut self, document: &Document) {
        match structure::kind_of(document) {
            Ok(kind) => self.document_of(kind, document),
            Err(finding) => self.findings.push(*finding),
        }
    }

    fn document_of(&mut self, kind: DocumentKind, document: &Document) {
        let value = document.to_json();
        let faults = structure::faults(document, kind, &value);
        if !faults.is_empty() {
            self.findings.extend(faults);
            return;
        }
        self.note_name(kind, document);
        let mut context = Context { document, findings: &mut self.findings };
        match kind {
            DocumentKind::IpPool => {
                let pool = context
                    .typed::<IpPoolDocument>(value)
                    .and_then(|written| lower_pool::lower(&mut context, &written));
                if let Some(pool) = pool {
                    self.desired.pools.entry(pool.name.clone()).or_insert(pool);
                }
            }
            DocumentKind::NodeAssignment => {
                let pin = context
                    .typed::<NodeAssignmentDocument>(value)
                    .and_then(|written| lower_pin::lower(&mut context, &written));
                self.pins.extend(pin);
            }
            DocumentKind::Policy => {
                if let Some(written) = context.typed::<PolicyDocument>(value) {
                    self.desired.policy = lower_policy::lower(&mut context, &written);
                }
            }
        }
    }

    fn note_name(&mut self, kind: DocumentKind, document: &Document) {
        let path = [Step::Key("metadata".into()), Step::Key("name".into())];
        let (Some(name), origin) = (document.text_at(&path), document.origin(&path)) else { return };
        if kind == DocumentKind::Policy {
            if let Some(first) = self.policy.replace(origin.clone()) {
                let finding = Finding::new(Severity::Error, Rule("two-policies"), "there is more than one Policy");
                self.findings.push(
                    finding
                        .at(&origin, "a second one")
                        .and(&first, "the first one")
                        .help("keep one Policy for the whole directory"),
                );
            }
            return;
        }
        if let Some(first) = self.names.insert((kind, name.to_owned()), origin.clone()) {
            let message = format!("{} `{name}` is declared twice", kind.as_str());
            let finding = Finding::new(Severity::Error, Rule("duplicate-name"), message);
            self.findings.push(
                finding
                    .at(&origin, "declared again")
                    .and(&first, "first declared here")
                    .help("rename or remove one of them"),
            );
        }
    }

    fn finish(mut self) -> (Desired, Vec<Finding>) {
        for pin in std::mem::take(&mut self.pins) {
            match lower_pin::resolve(pin, &self.desired.pools) {
                Ok(pin) => {
                    self.desired.pins.entry(pin.node.clone()).or_insert(pin);
                }
                Err(findings) => self.findings.extend(findings),
            }
        }
        self.findings.sort();
        (self.desired, self.findings)
    }
}

/// One document and the place where its faults go.
pub(super) struct Context<'d> {
    pub document: &'d Document,
    pub findings: &'d mut Vec<Finding>,
}

impl Context<'_> {
    fn typed<T: DeserializeOwned>(&mut self, value: serde_json::Value) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(typed) => Some(typed),
            Err(error) => {
                let origin = self.document.start();
                self.fault(
                    "wrong-type",
                    format!("the document cannot be read: {error}"),
                    &origin,
                    "here",
                    "see `cilium-ipam schema`",
                );
                None
            }
        }
    }

    pub(super) fn fault(
        &mut self,
        rule: &'static str,
        message: impl Into<String>,
        origin: &Origin,
        label: &str,
        help: impl Into<String>,
    ) {
        self.findings.push(Finding::new(Severity::Error, Rule(rule), message).at(origin, label).help(help));
    }

    /// The items of a list of ranges that are ranges; the others become findings.
    pub(super) fn ranges(&mut self, list: &[String], path: &[Step]) -> Vec<(Range, Origin)> {
        let mut ranges = Vec::new();
        for (index, text) in list.iter().enumerate() {
            let origin = self.document.origin(&[path, &[Step::Index(index)]].concat());
            match text.trim().parse::<Range>() {
                Ok(range) => ranges.push((range, origin)),
                Err(RangeError::Block(error)) => self.block_fault(&error, &origin),
                Err(error) => {
                    self.fault(
                        "bad-range",
                        error.to_string(),
                        &origin,
                        "not a range",
                        "write a CIDR, an address, or `first-last` with the lower address first",
                    );
                }
            }
        }
        ranges
    }

    pub(super) fn block_fault(&mut self, error: &BlockError, origin: &Origin) {
        let message = error.to_string();
        match error {
            BlockError::NotACidr { .. } => self.fault(
                "bad-cidr",
                message,
                origin,
                "not a CIDR",
                "write `address/prefix length`, such as 10.20.0.0/16",
            ),
            BlockError::HostBits { aligned, .. } => {
                self.fault("host-bits", message, origin, "bits behind the prefix", format!("write {aligned}"))
            }
            BlockError::MappedIpv4 { .. } => {
                self.fault("mapped-ipv4", message, origin, "IPv4-mapped", "write the IPv4 CIDR itself")
            }
            BlockError::Everything { .. } => {
                self.fault("whole-address-space", message, origin, "everything", "name the part that the pool may use")
            }
        }
    }
}

/// A path from keys.
pub(super) fn keys<const N: usize>(keys: [&str; N]) -> Vec<Step> {
    keys.into_iter().map(|key| Step::Key(key.to_owned())).collect()
}
