//! What every lowering needs: the document, and the place where its faults go.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;

use crate::documents::schema::TextList;
use crate::documents::tree::{Document, Step};
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::net::{BlockError, Range, RangeError, is_written_as_mapped};

/// One document and the place where its faults go.
pub(super) struct Context<'d> {
    pub document: &'d Document,
    /// Places that have a fault of structure, which is told already.
    pub faulty: &'d [Vec<Step>],
    pub findings: Vec<Finding>,
}

impl Context<'_> {
    pub(super) fn typed<T: DeserializeOwned>(&mut self, value: serde_json::Value) -> Option<T> {
        match serde_json::from_value(value) {
            Ok(typed) => Some(typed),
            Err(_) if !self.faulty.is_empty() => None,
            Err(error) => {
                let message = format!("the document fits its schema and cannot be read: {error}");
                self.fault(
                    "internal",
                    message,
                    &self.document.start(),
                    "here",
                    "report it as a bug",
                );
                None
            }
        }
    }

    pub(super) fn has_errors(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Whether nothing at or below a place has a fault of structure. What is missing there is not
    /// told again.
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
        self.findings.push(
            Finding::new(Severity::Error, Rule(rule), message)
                .at(origin, label)
                .help(help),
        );
    }

    /// Reads an address, a CIDR or a range. One that is written as IPv4-mapped is read as IPv4,
    /// with a warning.
    ///
    /// # Errors
    /// As of the type that is read.
    pub(super) fn addresses<T: FromStr + Display>(
        &mut self,
        text: &str,
        origin: &Origin,
    ) -> Result<T, T::Err> {
        let read = text.trim().parse::<T>()?;
        if is_written_as_mapped(text) {
            let message = format!(
                "`{}` is IPv4-mapped, and is read as {read}",
                text.trim().escape_debug()
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

    /// The items of a list of ranges that are ranges; the others become findings.
    pub(super) fn ranges(&mut self, list: &TextList, path: &[Step]) -> Vec<(Range, Origin)> {
        let mut ranges = Vec::new();
        for (index, text) in list.iter().enumerate() {
            let Some(text) = text else { continue };
            let origin = self
                .document
                .origin(&[path, &[Step::Index(index)]].concat());
            match self.addresses::<Range>(text, &origin) {
                Ok(range) => ranges.push((range, origin)),
                Err(RangeError::Block(error @ BlockError::Everything { .. })) => {
                    let help = "name the part that is meant; to give nothing at all, set `disabled: true` on the pool";
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

/// A path from keys.
pub(super) fn keys<const N: usize>(keys: [&str; N]) -> Vec<Step> {
    keys.into_iter()
        .map(|key| Step::Key(key.to_owned()))
        .collect()
}
