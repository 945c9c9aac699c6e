//! Collects texts and their findings, from disk or from Git. Knows nothing of their origin.

use std::path::Path;
use std::string::FromUtf8Error;
use std::sync::Arc;

use super::ignored::Ignored;
use crate::documents::{Documents, SourceFile};
use ipam_core::model::{Finding, Origin, Rule, Severity};
use ipam_core::text::one_line;

/// Largest file, in bytes. It is several times the size of ten thousand pools.
pub(super) const LARGEST_FILE: u64 = 8 * 1024 * 1024;

/// Largest size of all files together, in bytes.
pub(super) const LARGEST_TOTAL: u64 = 256 * 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) documents: Documents,
    pub(super) findings: Vec<Finding>,
    pub(super) ignored: Ignored,
    /// Bytes of all files so far.
    total: u64,
}

/// A path as messages show it.
pub(super) fn shown(path: &Path) -> Arc<str> {
    one_line(&path.to_string_lossy().replace('\\', "/")).into()
}

/// Whether a name is that of a YAML file.
pub fn is_yaml(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| {
        ["yaml", "yml"]
            .iter()
            .any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Whether a text has a document of a kind that the files may have. A cluster file may lie beside a
/// pool; its items are indented, and no kind of ours is among them.
pub(super) fn has_document(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let is_pool = |line: &str| {
        let kind = line.strip_prefix("kind:").map(str::trim);
        kind.is_some_and(|kind| kind.trim_matches(['"', '\'']) == "CiliumLoadBalancerIPPool")
    };
    text.contains("cilium-ipam.io/v1alpha1") || text.lines().any(is_pool)
}

impl Collected {
    /// Reads the ignore file of the directory.
    pub(super) fn ignore_file(&mut self, name: &Arc<str>, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) => self.ignored = Ignored::of(name, &text, &mut self.findings),
            Err(error) => self.not_utf8(name, &error),
        }
    }

    /// Removes a file and what was found of it; whether there was one.
    pub(super) fn remove(&mut self, name: &Arc<str>) -> bool {
        let known = self.documents.files.len() + self.findings.len();
        let total = &mut self.total;
        self.documents.files.retain(|file| {
            let is_kept = file.path != *name;
            *total -= if is_kept { 0 } else { file.text.len() as u64 };
            is_kept
        });
        let is_of_it = |finding: &Finding| {
            let origin = finding.origin.as_ref();
            origin.is_some_and(|origin| origin.file == *name)
        };
        self.findings.retain(|finding| !is_of_it(finding));
        self.documents.files.len() + self.findings.len() < known
    }

    /// Whether there is a file of this name, or a finding about it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Whether a file lies in the folder of this name.
    pub(super) fn has_in(&self, folder: &str) -> bool {
        let mut below = self.names().filter_map(|name| name.strip_prefix(folder));
        below.any(|rest| rest.starts_with('/'))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let files = self.documents.files.iter().map(|file| &*file.path);
        let origins = self.findings.iter().filter_map(|one| one.origin.as_ref());
        files.chain(origins.map(|origin| &*origin.file))
    }

    pub(super) fn forget_emptiness(&mut self) {
        let findings = &mut self.findings;
        findings.retain(|finding| finding.rule.0 != "empty-directory");
    }

    pub(super) fn fault(
        &mut self,
        rule: &'static str,
        file: &Arc<str>,
        message: impl Into<String>,
        help: &str,
    ) {
        self.find(Severity::Error, rule, file, message.into(), help);
    }

    /// Reports a file that is skipped without making the documents incomplete.
    pub(super) fn warn(
        &mut self,
        rule: &'static str,
        file: &Arc<str>,
        message: impl Into<String>,
        help: &str,
    ) {
        self.find(Severity::Warning, rule, file, message.into(), help);
    }

    fn find(
        &mut self,
        severity: Severity,
        rule: &'static str,
        file: &Arc<str>,
        message: String,
        help: &str,
    ) {
        let finding = Finding::new(severity, Rule(rule), message);
        self.findings
            .push(finding.at(&Origin::whole_file(file), "").help(help));
    }

    /// Adds a file. `bytes` has at most one byte more than [`LARGEST_FILE`].
    pub(super) fn text(&mut self, name: &Arc<str>, bytes: Vec<u8>) {
        if bytes.len() as u64 > LARGEST_FILE {
            return self.too_large(name);
        }
        let before = self.total;
        self.total += bytes.len() as u64;
        if self.total > LARGEST_TOTAL {
            if before <= LARGEST_TOTAL {
                let message = format!(
                    "with `{name}`, the files are larger than {} MiB together",
                    LARGEST_TOTAL / 1024 / 1024
                );
                self.fault(
                    "directory-too-large",
                    name,
                    message,
                    "name a directory that has only pools",
                );
            }
            return;
        }
        match String::from_utf8(bytes) {
            Ok(text) => self.documents.files.push(SourceFile {
                path: name.clone(),
                text: text.into(),
            }),
            Err(error) => self.not_utf8(name, &error),
        }
    }

    pub(super) fn too_large(&mut self, name: &Arc<str>) {
        let message = format!("`{name}` is larger than {} MiB", LARGEST_FILE / 1024 / 1024);
        self.fault(
            "file-too-large",
            name,
            message,
            "split it; a file of pools is small",
        );
    }

    fn not_utf8(&mut self, name: &Arc<str>, error: &FromUtf8Error) {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        let before = valid
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let column = String::from_utf8_lossy(before).chars().count() + 1;
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let origin = Origin {
            line: number(line),
            column: number(column),
            ..Origin::whole_file(name)
        };
        let message = format!("`{name}` is not UTF-8: line {line}, column {column} is not");
        let finding = Finding::new(Severity::Error, Rule("not-utf8"), message);
        self.findings
            .push(finding.at(&origin, "").help("save the file as UTF-8"));
    }

    /// Refuses a file whose directory has other files with documents: their pools, pins and limits
    /// would count as removed.
    pub(super) fn refuse_one_of_several(&mut self, file: &Path, others: &[Vec<u8>]) {
        if !others.iter().any(|text| has_document(text)) {
            return;
        }
        let name = shown(file);
        let parent = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => shown(parent),
            _ => ".".into(),
        };
        let message = format!(
            "`{name}` is one file of several: without the others in `{parent}`, their pools, pins and limits would count as removed"
        );
        let help = format!("name the directory: `{parent}`");
        self.fault("one-of-several-files", &name, message, &help);
    }

    /// Refuses a directory without documents: it is more often a wrong path than intended.
    pub(super) fn refuse_nothing(&mut self, directory: &Path) {
        let has_errors = self
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Error);
        if self.documents.files.is_empty() && !has_errors {
            let name = shown(directory);
            let message = format!("`{name}` has no YAML files");
            let help = "name the directory that has the pools; an empty directory never deletes everything";
            self.fault("empty-directory", &name, message, help);
        }
        self.findings.extend(self.ignored.remark(directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_too_large_together_are_refused_once() {
        let mut collected = Collected {
            total: LARGEST_TOTAL - 2,
            ..Collected::default()
        };
        for name in ["a.yaml", "b.yaml", "c.yaml"] {
            collected.text(&name.into(), b"x\n".to_vec());
        }
        let kept: Vec<&str> = collected
            .documents
            .files
            .iter()
            .map(|file| &*file.path)
            .collect();
        let findings: Vec<(&str, &str)> = collected
            .findings
            .iter()
            .map(|one| (one.rule.0, one.message.as_str()))
            .collect();
        assert_eq!(kept, ["a.yaml"]);
        assert_eq!(
            findings,
            [(
                "directory-too-large",
                "with `b.yaml`, the files are larger than 256 MiB together"
            )]
        );
    }
}
