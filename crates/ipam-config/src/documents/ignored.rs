//! Counts the ignored parts of the files, and reports each sort once.
//!
//! Never decides to ignore anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::documents::recognition::ForeignKind;
use crate::documents::schema::{API_VERSION, DocumentKind};
use ipam_core::model::{Finding, Origin, Rule, Severity, count};
use ipam_core::text::one_line;

#[derive(Debug, Default)]
pub(super) struct Ignored {
    kinds: BTreeMap<ForeignKind, Places>,
    namespaces: BTreeMap<DocumentKind, Places>,
}

#[derive(Debug)]
struct Places {
    count: usize,
    first: Origin,
    files: BTreeSet<Arc<str>>,
}

impl Places {
    fn note<K: Ord>(places: &mut BTreeMap<K, Places>, key: K, origin: Origin) {
        let file = origin.file.clone();
        let places = places.entry(key).or_insert_with(|| Places {
            count: 0,
            first: origin,
            files: BTreeSet::new(),
        });
        places.count += 1;
        places.files.insert(file);
    }

    /// `3 documents`, and the number of files if there are several.
    fn documents(&self) -> String {
        let documents = count(self.count, "document");
        match self.files.len() {
            0 | 1 => documents,
            files => format!("{documents} in {}", count(files, "file")),
        }
    }
}

impl Ignored {
    pub(super) fn document(&mut self, kind: ForeignKind, origin: Origin) {
        Places::note(&mut self.kinds, kind, origin);
    }

    /// `metadata.namespace` of a kind that has no namespace.
    pub(super) fn namespace(&mut self, kind: DocumentKind, origin: Origin) {
        Places::note(&mut self.namespaces, kind, origin);
    }

    pub(super) fn has_documents(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(super) fn findings(&self) -> impl Iterator<Item = Finding> {
        let kinds = self.kinds.iter().map(|(foreign, places)| {
            let ForeignKind { api_version, kind } = foreign;
            let (api_version, kind) = (one_line(api_version), one_line(kind));
            let message = format!(
                "ignored {} of kind `{kind}` of `{api_version}`",
                places.documents()
            );
            let help = format!(
                "if this program should read it, write `apiVersion: {API_VERSION}` and one of its kinds"
            );
            remark("foreign-kind", message, &places.first).help(help)
        });
        let namespaces = self.namespaces.iter().map(|(kind, places)| {
            let kind = kind.as_str();
            let documents = places.documents();
            let message = format!("ignored `metadata.namespace` of {documents} of kind `{kind}`");
            let help = "remove it; objects of this kind have no namespace";
            remark("ignored-namespace", message, &places.first).help(help)
        });
        kinds.chain(namespaces)
    }
}

fn remark(rule: &'static str, message: String, first: &Origin) -> Finding {
    Finding::new(Severity::Info, Rule(rule), message).at(first, "ignored")
}
