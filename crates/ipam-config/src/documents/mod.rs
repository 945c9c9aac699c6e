//! Reads documents: YAML text in, `Desired` and findings out.
//!
//! Reads text, never files, and knows nothing of a cluster. Does not stop at the first fault:
//! reads every document of every file, each in a context with its faults, and reports each fault
//! at its place in the file.

mod lower;
mod lower_address_pool;
mod lower_pin;
mod lower_policy;
mod lower_pool;
mod lower_rules;
mod lower_service_pin;
mod messages;
mod recognition;
mod references;
mod schema;
mod schema_lb;
mod schema_policy;
mod schema_policy_test;
mod structure;
mod templates;
mod tree;
mod validator;
mod yaml;

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use schema::TextList;
use serde::de::DeserializeOwned;
use tree::{Document, Step};

use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::net::{BlockError, Range, RangeError, is_written_as_mapped};
use ipam_core::text::one_line;

pub use lower::lower;
pub use recognition::cilium_manifests;
pub use references::{Named, NamedInFile, Naming, named};
pub(crate) use schema::inline_settings;
pub use schema::{API_VERSION, DocumentKind, editor_schema, json_schema};
pub use yaml::Lines;

/// A YAML file of the configuration directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceFile {
    /// Path of the file as a user writes it, with `/`.
    pub path: Arc<str>,
    /// Content of the file.
    pub text: Arc<str>,
}

/// All files of the directory, in any order.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    pub files: Vec<SourceFile>,
}

struct Context<'d> {
    pub document: &'d Document,
    /// Paths of the structural faults. They are reported already.
    pub faulty: &'d [Vec<Step>],
    pub findings: Vec<Finding>,
}

impl Context<'_> {
    fn typed<T: DeserializeOwned>(&mut self, value: serde_json::Value) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(typed) => Some(typed),
            Err(_) if !self.faulty.is_empty() => None,
            Err(error) => {
                let message =
                    format!("the document matches its schema but cannot be read: {error}");
                self.fault(
                    "internal-error",
                    message,
                    &self.document.start(),
                    "here",
                    "report it as a bug",
                );
                None
            }
        }
    }

    fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Whether nothing at or below a path has a structural fault. Below a faulty path, missing
    /// values are not reported again.
    fn is_sound(&self, path: &[Step]) -> bool {
        !self.faulty.iter().any(|faulty| faulty.starts_with(path))
    }

    fn fault(
        &mut self,
        rule: &'static str,
        message: impl Into<String>,
        origin: &Origin,
        label: &str,
        help: impl Into<String>,
    ) {
        self.findings.push(
            Finding::new(Severity::Error, Rule(rule), message)
                .at(origin, label)
                .help(help),
        );
    }

    /// Parses the name of an object. A name that is not valid becomes a finding.
    fn name<T: FromStr<Err: Display>>(
        &mut self,
        text: &str,
        origin: &Origin,
        label: &str,
        help: &str,
    ) -> Option<T> {
        let read = text.parse::<T>();
        let fault = |error: T::Err| self.fault("bad-name", error.to_string(), origin, label, help);
        read.map_err(fault).ok()
    }

    /// Parses an address, a CIDR or a range. Converts an IPv4-mapped one to IPv4, with a warning.
    ///
    /// # Errors
    /// Fails if the text is not of the type.
    fn addresses<T: FromStr + Display>(
        &mut self,
        text: &str,
        origin: &Origin,
    ) -> Result<T, T::Err> {
        let read = text.trim().parse::<T>()?;
        if is_written_as_mapped(text) {
            let message = format!(
                "`{}` is IPv4-mapped, and is read as {read}",
                one_line(text.trim())
            );
            let finding = Finding::new(Severity::Warning, Rule("mapped-ipv4"), message);
            self.findings.push(
                finding
                    .at(origin, "IPv4-mapped")
                    .help(format!("write {read}")),
            );
        }
        Ok(read)
    }

    /// The valid ranges of a list. Invalid ones become findings.
    fn ranges(&mut self, list: &TextList, path: &[Step]) -> Vec<(Range, Origin)> {
        let mut ranges = Vec::new();
        for (index, text) in list.iter().enumerate() {
            let Some(text) = text else { continue };
            let origin = self
                .document
                .origin(&[path, &[Step::Index(index)]].concat());
            match self.addresses::<Range>(text, &origin) {
                Ok(range) => ranges.push((range, origin)),
                Err(RangeError::Block(error @ BlockError::Everything { .. })) => {
                    let help = "name a part of it; to give no blocks at all, set `disabled: true` on the pool";
                    self.fault(
                        "whole-address-space",
                        error.to_string(),
                        &origin,
                        "everything",
                        help,
                    );
                }
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

    fn block_fault(&mut self, error: &BlockError, origin: &Origin) {
        let message = error.to_string();
        match error {
            BlockError::NotACidr { .. } => self.fault(
                "bad-cidr",
                message,
                origin,
                "not a CIDR",
                "write `address/prefix length`, such as 10.20.0.0/16",
            ),
            BlockError::HostBits { aligned, .. } => self.fault(
                "host-bits",
                message,
                origin,
                "bits behind the prefix",
                format!("write {aligned}"),
            ),
            BlockError::MappedIpv4 { .. } => self.fault(
                "mapped-ipv4",
                message,
                origin,
                "IPv4-mapped",
                "write the IPv4 CIDR, such as 10.20.0.0/16",
            ),
            BlockError::Everything { .. } => self.fault(
                "whole-address-space",
                message,
                origin,
                "everything",
                "name the part that the pool may use",
            ),
        }
    }
}

fn keys<const N: usize>(keys: [&str; N]) -> Vec<Step> {
    keys.into_iter()
        .map(|key| Step::Key(key.to_owned()))
        .collect()
}
