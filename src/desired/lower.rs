//! From documents to [`Desired`]: reads every document of every file, and collects what is wrong with each.
//!
//! Faults between documents that are about addresses belong to the checks, not here.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::doubt::Doubt;
use super::schema::{DocumentKind, IpPoolDocument, NodeAssignmentDocument, PolicyDocument, TextList};
use super::tree::{Document, Step};
use super::{Desired, Documents, SourceFile, lower_pin, lower_policy, lower_pool, structure, yaml};
use crate::model::{Finding, Origin, Rule, Severity};
use crate::net::{BlockError, Range, RangeError};

/// Everything that the documents ask for, and everything that is wrong with them. With an error among the findings the
/// [`Desired`] is incomplete and nothing may be planned from it.
pub fn lower(documents: &Documents) -> (Desired, Vec<Finding>) {
    let mut lowering = Lowering::default();
    let mut files: Vec<_> = documents.files.iter().collect();
    files.sort();
    let mut count = 0;
    for file in &files {
        match yaml::parse(file) {
            Ok(documents) => {
                count += documents.len();
                documents.iter().for_each(|document| lowering.document(document));
            }
            Err(finding) => {
                lowering.findings.push(*finding);
                lowering.doubt.note(None);
            }
        }
    }
    if count == 0 && lowering.findings.is_empty() {
        lowering.findings.extend(nothing_in(&files));
    }
    lowering.finish()
}

/// Files without documents ask for as little as a directory without files, which is far more often a slip than a wish.
fn nothing_in(files: &[&SourceFile]) -> Option<Finding> {
    let first = files.first()?;
    let message = match files.len() {
        1 => format!("`{}` holds no document", first.path),
        count => format!("none of the {count} files holds a document"),
    };
    let finding = Finding::new(Severity::Error, Rule("empty-directory"), message);
    let help = "write a pool, or name the directory that holds them; no pools never means that everything should go";
    Some(finding.at(&Origin::whole_file(&first.path), "nothing here").help(help))
}

#[derive(Default)]
struct Lowering {
    desired: Desired,
    pins: Vec<lower_pin::WrittenPin>,
    policy: Option<Origin>,
    names: BTreeMap<(DocumentKind, String), Origin>,
    doubt: Doubt,
    findings: Vec<Finding>,
}

impl Lowering {
    fn document(&mut self, document: &Document) {
        match structure::kind_of(document) {
            Ok(kind) => self.document_of(kind, document),
            Err(finding) => {
                self.findings.push(*finding);
                self.doubt.note(document.text_at(&keys(["metadata", "name"])));
            }
        }
    }

    fn document_of(&mut self, kind: DocumentKind, document: &Document) {
        self.note_name(kind, document);
        let structure::Checked { findings, readable, faulty } = structure::check(document, kind);
        let mut context = Context { document, faulty: &faulty, findings };
        match kind {
            DocumentKind::IpPool => {
                let pool = context.typed::<IpPoolDocument>(readable);
                let pool = pool.and_then(|written| lower_pool::lower(&mut context, written));
                if context.has_errors() {
                    self.doubt.note(document.text_at(&keys(["metadata", "name"])));
                    self.desired.faulty.extend(pool.as_ref().map(|pool| pool.name.clone()));
                }
                if let Some(pool) = pool {
                    self.desired.pools.entry(pool.name.clone()).or_insert(pool);
                }
            }
            DocumentKind::NodeAssignment => {
                let pin = context.typed::<NodeAssignmentDocument>(readable);
                let pin = pin.and_then(|written| lower_pin::lower(&mut context, written));
                self.pins.extend(pin.filter(|_| faulty.is_empty()));
            }
            DocumentKind::Policy => {
                if let Some(spec) = context.typed::<PolicyDocument>(readable).and_then(|written| written.spec) {
                    self.desired.policy = lower_policy::lower(&mut context, &spec);
                }
            }
        }
        let findings = context.findings;
        self.findings.extend(findings);
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
            if kind == DocumentKind::IpPool {
                // Pins may belong to either of the two.
                self.doubt.note(Some(name));
            }
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
            match lower_pin::resolve(pin, &self.desired.pools, &self.doubt) {
                Ok(Some(pin)) => {
                    self.desired.pins.entry(pin.node.clone()).or_insert(pin);
                }
                Ok(None) => {}
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
    /// Places that have a fault of structure, which is told already.
    pub faulty: &'d [Vec<Step>],
    pub findings: Vec<Finding>,
}

impl Context<'_> {
    fn typed<T: DeserializeOwned>(&mut self, value: serde_json::Value) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(typed) => Some(typed),
            Err(_) if !self.faulty.is_empty() => None,
            Err(error) => {
                let message = format!("the document fits its schema and cannot be read: {error}");
                self.fault("internal", message, &self.document.start(), "here", "report it as a bug");
                None
            }
        }
    }

    fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Whether nothing at or below a place has a fault of structure. What is missing there is not told again.
    pub(super) fn is_sound(&self, path: &[Step]) -> bool {
        !self.faulty.iter().any(|faulty| faulty.starts_with(path))
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
    pub(super) fn ranges(&mut self, list: &TextList, path: &[Step]) -> Vec<(Range, Origin)> {
        let mut ranges = Vec::new();
        for (index, text) in list.iter().enumerate() {
            let Some(text) = text else { continue };
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
