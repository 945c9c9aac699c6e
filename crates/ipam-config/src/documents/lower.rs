//! Lowers documents to [`Desired`] and collects the findings of each document.
//!
//! Compares names between documents, but never addresses: that is the job of the checks.

use std::collections::BTreeMap;

use super::lower_pin::IncompletePools;
use super::recognition::Ignored;
use super::schema_lb::IpPoolDocument;
use super::{Context, keys, lower_rules};
use crate::documents::lower_pool::{self, AnyPool};
use crate::documents::recognition::{self, Recognition};
use crate::documents::schema::{DocumentKind, NodeAssignmentDocument};
use crate::documents::schema_lb::{AddressPoolDocument, ServiceAssignmentDocument};
use crate::documents::schema_policy::PolicyDocument;
use crate::documents::schema_policy_test::PolicyTestDocument;
use crate::documents::tree::{Document, Step};
use crate::documents::{
    Documents, SourceFile, lower_address_pool, lower_pin, lower_policy, lower_service_pin,
    structure, templates, yaml,
};
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_desired::{Activity, Desired, Policy, ServicePin};

/// Lowers all documents. If a finding is an error, the [`Desired`] is incomplete and must not be
/// planned.
pub fn lower(documents: &Documents) -> (Desired, Vec<Finding>) {
    let mut lowering = Lowering::new();
    let mut files: Vec<_> = documents.files.iter().collect();
    files.sort();
    for file in &files {
        match yaml::parse(file) {
            Ok(documents) => documents
                .into_iter()
                .for_each(|document| lowering.document(document)),
            Err(finding) => {
                lowering.findings.push(*finding);
                lowering.incomplete.add(None);
            }
        }
    }
    if lowering.is_empty && lowering.findings.is_empty() {
        let has_tests = !lowering.desired.rule_cases.is_empty();
        let finding = nothing_in(&files, lowering.ignored.has_documents() || has_tests);
        lowering.findings.extend(finding);
    }
    let (desired, mut findings) = lowering.finish();
    templates::explain(&mut findings, &files);
    (desired, findings)
}

/// Refuses files without documents, like a directory without files: it is more often a mistake than
/// intended.
fn nothing_in(files: &[&SourceFile], has_others: bool) -> Option<Finding> {
    let first = files.first()?;
    let message = match (files.len(), has_others) {
        (1, false) => format!("`{}` has no documents", first.path),
        (1, true) => format!(
            "`{}` has only tests, or documents of other programs",
            first.path
        ),
        (count, false) => format!("none of the {count} files has a document"),
        (count, true) => {
            format!("the {count} files have only tests, or documents of other programs")
        }
    };
    let finding = Finding::new(Severity::Error, Rule("empty-directory"), message);
    let help = "write a pool, or name the directory that has the pools; an empty configuration never deletes everything";
    Some(
        finding
            .at(&Origin::whole_file(&first.path), "nothing here")
            .help(help),
    )
}

struct Lowering {
    /// Whether no document of ours was found, not even a faulty one.
    is_empty: bool,
    ignored: Ignored,
    desired: Desired,
    pins: Vec<lower_pin::WrittenPin>,
    policy: Option<Origin>,
    names: BTreeMap<(DocumentKind, String), Origin>,
    incomplete: IncompletePools,
    findings: Vec<Finding>,
}

impl Lowering {
    fn new() -> Lowering {
        Lowering {
            is_empty: true,
            ignored: Ignored::default(),
            desired: Desired::default(),
            pins: Vec::new(),
            policy: None,
            names: BTreeMap::new(),
            incomplete: IncompletePools::default(),
            findings: Vec::new(),
        }
    }

    fn document(&mut self, document: Document) {
        match recognition::recognise(&document) {
            Ok(Recognition::Ours(kind)) => {
                // Examples ask nothing of a cluster.
                self.is_empty &= kind == DocumentKind::PolicyTest;
                let namespace = keys(["metadata", "namespace"]);
                if document.has(&namespace) {
                    let origin = document.origin(&namespace);
                    self.ignored.namespace(kind, origin);
                }
                self.document_of(kind, &document);
            }
            Ok(Recognition::Foreign(kind)) => self.ignored.document(Some(kind), document.start()),
            Ok(Recognition::NoObject) => self.ignored.document(None, document.start()),
            Ok(Recognition::List) => match document.into_items() {
                Ok(items) => items.into_iter().for_each(|item| self.document(item)),
                Err(list) => {
                    let finding = recognition::no_items(&list);
                    self.unreadable(*finding, None);
                }
            },
            Err(finding) => {
                let name = document.text_at(&keys(["metadata", "name"]));
                self.unreadable(*finding, name);
            }
        }
    }

    /// A document that may be a pool of this name, or of any name.
    fn unreadable(&mut self, finding: Finding, name: Option<&str>) {
        self.is_empty = false;
        self.findings.push(finding);
        self.incomplete.add(name);
    }

    fn document_of(&mut self, kind: DocumentKind, document: &Document) {
        self.note_name(kind, document);
        let structure::Checked {
            findings,
            readable,
            faulty,
        } = structure::check(document, kind);
        let mut context = Context {
            document,
            faulty: &faulty,
            findings,
        };
        match kind {
            DocumentKind::IpPool => {
                let pool = context.typed::<IpPoolDocument>(readable);
                let pool = pool.and_then(|written| lower_pool::lower(&mut context, written));
                self.pool(&context, pool);
            }
            DocumentKind::NodeAssignment => {
                let pin = context.typed::<NodeAssignmentDocument>(readable);
                let pin = pin.and_then(|written| lower_pin::lower(&mut context, written));
                self.pins.extend(pin.filter(|_| faulty.is_empty()));
            }
            DocumentKind::AddressPool => {
                let pool = context.typed::<AddressPoolDocument>(readable);
                let pool =
                    pool.and_then(|written| lower_address_pool::lower(&mut context, written));
                if let Some(pool) = pool.filter(|_| faulty.is_empty()) {
                    self.desired
                        .address_pools
                        .entry(pool.name.clone())
                        .or_insert(pool);
                }
            }
            DocumentKind::ServiceAssignment => {
                let pin = context.typed::<ServiceAssignmentDocument>(readable);
                let pin = pin.and_then(|written| lower_service_pin::lower(&mut context, written));
                if let Some(pin) = pin.filter(|_| faulty.is_empty()) {
                    self.service_pin(pin, &mut context.findings);
                }
            }
            DocumentKind::IpamPolicy => {
                if let Some(spec) = context
                    .typed::<PolicyDocument>(readable)
                    .and_then(|written| written.spec)
                {
                    let policy = lower_policy::lower(&mut context, &spec);
                    self.policy(policy);
                }
            }
            DocumentKind::PolicyTest => {
                if let Some(written) = context.typed::<PolicyTestDocument>(readable) {
                    let cases = lower_rules::lower_policy_test(&mut context, written);
                    self.desired.rule_cases.extend(cases);
                }
            }
        }
        let findings = context.findings;
        self.findings.extend(findings);
    }

    fn pool(&mut self, context: &Context<'_>, pool: Option<AnyPool>) {
        if context.has_errors() {
            self.incomplete
                .add(context.document.text_at(&keys(["metadata", "name"])));
            self.desired
                .faulty
                .extend(pool.as_ref().map(|pool| pool.name().clone()));
        }
        match pool {
            Some(AnyPool::OfNodes(pool)) => {
                self.desired.pools.entry(pool.name.clone()).or_insert(pool);
            }
            Some(AnyPool::OfNeutron(pool)) => {
                self.desired
                    .neutron_pools
                    .entry(pool.name.clone())
                    .or_insert(pool);
            }
            None => {}
        }
    }

    /// Several policies are a fault. If one of them pauses, the pause applies.
    fn policy(&mut self, policy: Policy) {
        let before = self.desired.policy.activity;
        self.desired.policy = policy;
        if before == Activity::Paused {
            self.desired.policy.activity = before;
        }
    }

    fn service_pin(&mut self, pin: ServicePin, findings: &mut Vec<Finding>) {
        match self.desired.service_pins.get(&pin.service) {
            None => {
                self.desired.service_pins.insert(pin.service.clone(), pin);
            }
            Some(first) => {
                let message = format!("Service `{}` is pinned twice", pin.service);
                let finding = Finding::new(Severity::Error, Rule("service-pinned-twice"), message);
                let finding = finding
                    .at(&pin.origin, "pinned again")
                    .and(&first.origin, "first pinned here");
                findings.push(finding.help("list all its addresses in one ServiceAssignment"));
            }
        }
    }

    fn note_name(&mut self, kind: DocumentKind, document: &Document) {
        let path = [Step::Key("metadata".into()), Step::Key("name".into())];
        let (Some(name), origin) = (document.text_at(&path), document.origin(&path)) else {
            return;
        };
        if kind == DocumentKind::IpamPolicy {
            if let Some(first) = self.policy.replace(origin.clone()) {
                let finding = Finding::new(
                    Severity::Error,
                    Rule("multiple-policies"),
                    "there is more than one Policy",
                );
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
                // Pins may belong to either pool.
                self.incomplete.add(Some(name));
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
        let mut pools = lower_pin::Pools::new(&self.desired, &self.incomplete);
        let pins: Vec<_> = std::mem::take(&mut self.pins)
            .into_iter()
            .map(|pin| pools.resolve(pin))
            .collect();
        for pin in pins {
            match pin {
                Ok(Some(pin)) => {
                    self.desired.pins.entry(pin.node.clone()).or_insert(pin);
                }
                Ok(None) => {}
                Err(findings) => self.findings.extend(findings),
            }
        }
        self.findings.extend(self.ignored.findings());
        self.findings.sort();
        (self.desired, self.findings)
    }
}
