//! Reads which objects and addresses the documents of one file name: each with its line. Reads as
//! much as it can, so that a document of another schema, or with a fault, still names what it names.
//!
//! Decides nothing, and knows nothing of other files.

use serde_json::Value;

use super::keys;
use crate::documents::recognition::{self, Recognition};
use crate::documents::schema::DocumentKind;
use crate::documents::tree::{Document, Step};
use crate::documents::{SourceFile, yaml};
use ipam_core::model::Finding;
use ipam_core::net::{Block, Range};
use ipam_core::text::one_line;

/// What a document names at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The document, such as `NodeAssignment/worker-7`.
    pub document: String,
    pub field: &'static str,
    /// Value of the field, as written.
    pub value: String,
    pub naming: Naming,
    /// Addresses of the value, if it has any.
    pub range: Option<Range>,
    pub line: u32,
}

/// The object that a place names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    Node(String),
    /// A Service, as `namespace/name`.
    Service(String),
    /// A pool of any kind.
    Pool(String),
    /// The whole directory, instead of one object.
    Directory,
}

/// What one file names.
#[derive(Clone, Debug, Default)]
pub struct NamedInFile {
    pub named: Vec<Named>,
    /// Places of the file that cannot be read, each with its line.
    pub unread: Vec<String>,
}

/// Reads one file.
///
/// # Errors
/// Fails if the file is not YAML.
pub fn named(file: &SourceFile) -> Result<NamedInFile, Box<Finding>> {
    let mut found = NamedInFile::default();
    for document in yaml::parse(file)? {
        found.document(document);
    }
    Ok(found)
}

impl NamedInFile {
    fn document(&mut self, document: Document) {
        match recognition::recognise(&document) {
            Ok(Recognition::Ours(kind)) => Reading::of(kind, &document, self).all(),
            Ok(Recognition::Foreign(_) | Recognition::NoObject) => {}
            Ok(Recognition::List) => match document.into_items() {
                Ok(items) => items.into_iter().for_each(|item| self.document(item)),
                Err(list) => {
                    let finding = recognition::no_items(&list);
                    self.unread(list.start().line, &finding.message);
                }
            },
            Err(finding) => self.unread(document.start().line, &finding.message),
        }
    }

    fn unread(&mut self, line: u32, why: &str) {
        self.unread.push(format!("line {line}: {why}"));
    }
}

struct Reading<'d> {
    document: &'d Document,
    kind: DocumentKind,
    json: Value,
    /// Title of the document for people.
    title: String,
    naming: Naming,
    found: &'d mut NamedInFile,
}

impl<'d> Reading<'d> {
    fn of(kind: DocumentKind, document: &'d Document, found: &'d mut NamedInFile) -> Reading<'d> {
        let own = match kind {
            DocumentKind::ServiceAssignment => document.text_at(&keys(["spec", "service"])),
            _ => document.text_at(&keys(["metadata", "name"])),
        };
        let own = own.unwrap_or_default().trim().to_owned();
        let title = match kind {
            DocumentKind::IpamPolicy => kind.as_str().to_owned(),
            _ => format!("{}/{}", kind.as_str(), one_line(&own)),
        };
        let naming = match kind {
            DocumentKind::IpPool | DocumentKind::AddressPool => Naming::Pool(own),
            DocumentKind::NodeAssignment => Naming::Node(own),
            DocumentKind::ServiceAssignment => Naming::Service(own),
            DocumentKind::IpamPolicy | DocumentKind::PolicyTest => Naming::Directory,
        };
        Reading {
            document,
            kind,
            json: document.to_json(),
            title,
            naming,
            found,
        }
    }

    fn all(mut self) {
        let before = self.found.named.len();
        let own = self.naming.clone();
        match self.kind {
            DocumentKind::IpPool => {
                self.addresses("spec.cidrs");
                self.addresses("spec.reserved");
                self.texts("spec.neutron.subnet", &|_| own.clone());
            }
            DocumentKind::NodeAssignment => {
                self.addresses("spec.podCIDRs");
                self.texts("spec.pool", &|pool| Naming::Pool(pool.to_owned()));
            }
            DocumentKind::AddressPool => {
                self.address_blocks("spec.blocks");
                self.address_blocks("spec.cidrs");
            }
            DocumentKind::ServiceAssignment => {
                self.addresses("spec.ips");
                self.texts("spec.pool", &|pool| Naming::Pool(pool.to_owned()));
                self.texts("spec.pool", &|_| own.clone());
            }
            DocumentKind::IpamPolicy => {
                self.addresses("spec.excluded");
                self.texts("spec.protected.nodes", &|node| {
                    Naming::Node(node.to_owned())
                });
                self.texts("spec.protected.pools", &|pool| {
                    Naming::Pool(pool.to_owned())
                });
                return;
            }
            // Addresses in a `PolicyTest` are examples, so they name nothing.
            DocumentKind::PolicyTest => return,
        }
        if !self.found.named[before..]
            .iter()
            .any(|named| named.naming == own)
        {
            self.itself(own);
        }
    }

    /// The document names its object, and nothing else about it can be read.
    fn itself(&mut self, own: Naming) {
        let (field, path) = match self.kind {
            DocumentKind::ServiceAssignment => ("spec.service", keys(["spec", "service"])),
            _ => ("metadata.name", keys(["metadata", "name"])),
        };
        let value = self.document.text_at(&path).unwrap_or_default().to_owned();
        let line = self.document.origin(&path).line;
        self.add(field, value, own, None, line);
    }

    fn add(
        &mut self,
        field: &'static str,
        value: String,
        naming: Naming,
        range: Option<Range>,
        line: u32,
    ) {
        self.found.named.push(Named {
            document: self.title.clone(),
            field,
            value,
            naming,
            range,
            line,
        });
    }

    /// The texts of a field, which is a text or a list of texts, each with its line.
    fn texts_at(&self, field: &str) -> Vec<(String, u32)> {
        let path = path(field);
        let line = |path: &[Step]| self.document.origin(path).line;
        match self.value(field) {
            Some(Value::String(text)) => vec![(text.clone(), line(&path))],
            Some(Value::Array(items)) => {
                let texts = items.iter().enumerate();
                texts
                    .filter_map(|(index, item)| {
                        let at = [path.clone(), vec![Step::Index(index)]].concat();
                        Some((item.as_str()?.to_owned(), line(&at)))
                    })
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn value(&self, field: &str) -> Option<&Value> {
        field.split('.').try_fold(&self.json, |at, key| at.get(key))
    }

    fn texts(&mut self, field: &'static str, naming: &dyn Fn(&str) -> Naming) {
        for (text, line) in self.texts_at(field) {
            let naming = naming(text.trim());
            self.add(field, text, naming, None, line);
        }
    }

    fn addresses(&mut self, field: &'static str) {
        for (text, line) in self.texts_at(field) {
            let range = range_of(&text);
            self.ranged(field, text, range, line);
        }
    }

    fn ranged(&mut self, field: &'static str, text: String, range: Option<Range>, line: u32) {
        if range.is_none() {
            let why = format!("`{}` is not an address, CIDR or range", one_line(&text));
            self.found.unread(line, &why);
        }
        let naming = self.naming.clone();
        self.add(field, text, naming, range, line);
    }

    /// Entries with `cidr`, or with `start` and `stop`.
    fn address_blocks(&mut self, field: &'static str) {
        let count = self
            .value(field)
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        for index in 0..count {
            let at = [path(field), vec![Step::Index(index)]].concat();
            let line = self.document.origin(&at).line;
            let text = |key: &str| {
                let at = [at.clone(), keys([key])].concat();
                self.document.text_at(&at).map(str::trim)
            };
            let text = match (text("cidr"), text("start"), text("stop")) {
                (Some(cidr), _, _) => cidr.to_owned(),
                (None, Some(start), Some(stop)) => format!("{start}-{stop}"),
                (None, Some(start), None) => start.to_owned(),
                (None, None, _) => continue,
            };
            let range = range_of(&text);
            self.ranged(field, text, range, line);
        }
    }
}

fn path(field: &str) -> Vec<Step> {
    field
        .split('.')
        .map(|key| Step::Key(key.to_owned()))
        .collect()
}

fn range_of(text: &str) -> Option<Range> {
    let text = text.trim();
    let lenient = || Block::lenient(text).ok().map(Block::range);
    text.parse().ok().or_else(lenient)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_in(text: &str) -> NamedInFile {
        let file = SourceFile {
            path: "f.yaml".into(),
            text: text.into(),
        };
        named(&file).unwrap()
    }

    fn lines(found: &NamedInFile) -> Vec<String> {
        let line = |named: &Named| {
            let Named {
                document,
                field,
                value,
                line,
                ..
            } = named;
            format!("{line} {document} {field} {value}")
        };
        found.named.iter().map(line).collect()
    }

    #[test]
    fn every_kind_names_its_objects_and_addresses() {
        let found = named_in(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: IPPool\nmetadata: {name: a}\nspec:\n  cidrs:\n  - 10.20.0.0/16\n  - \"fd00::/48\"\n  reserved: [10.20.0.0-10.20.0.9]\n\
             ---\napiVersion: cilium-ipam.io/v1alpha1\nkind: NodeAssignment\nmetadata: {name: n1}\nspec: {pool: a, podCIDRs: [10.20.3.0/24]}\n\
             ---\napiVersion: cilium.io/v2\nkind: CiliumLoadBalancerIPPool\nmetadata: {name: lb}\nspec:\n  blocks: [{cidr: 20.0.0.0/24}, {start: 20.0.1.1, stop: 20.0.1.9}]\n\
             ---\napiVersion: cilium-ipam.io/v1alpha1\nkind: ServiceAssignment\nmetadata: {name: w}\nspec: {service: shop/web, ips: [20.0.0.7]}\n\
             ---\napiVersion: cilium-ipam.io/v1alpha1\nkind: IPAMPolicy\nmetadata: {name: p}\nspec: {excluded: [10.20.9.0/24], protected: {nodes: [n1]}}\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n",
        );
        assert_eq!(
            lines(&found),
            [
                "6 IPPool/a spec.cidrs 10.20.0.0/16",
                "7 IPPool/a spec.cidrs fd00::/48",
                "8 IPPool/a spec.reserved 10.20.0.0-10.20.0.9",
                "13 NodeAssignment/n1 spec.podCIDRs 10.20.3.0/24",
                "13 NodeAssignment/n1 spec.pool a",
                "19 CiliumLoadBalancerIPPool/lb spec.blocks 20.0.0.0/24",
                "19 CiliumLoadBalancerIPPool/lb spec.blocks 20.0.1.1-20.0.1.9",
                "24 ServiceAssignment/shop/web spec.ips 20.0.0.7",
                "29 IPAMPolicy spec.excluded 10.20.9.0/24",
                "29 IPAMPolicy spec.protected.nodes n1",
            ]
        );
        assert!(found.unread.is_empty(), "{:?}", found.unread);
    }

    #[test]
    fn a_faulty_document_names_what_can_be_read() {
        let found = named_in(
            "apiVersion: cilium-ipam.io/v1alpha1\nkind: NodeAssignment\nmetadata: {name: n1}\nspec: {oldField: 1, podCIDRs: [10.20.3.5/24, nonsense]}\n\
             ---\napiVersion: cilium-ipam.io/v1alpha1\nkind: NodeAssignmint\nmetadata: {name: n2}\n",
        );
        assert_eq!(
            lines(&found),
            [
                "4 NodeAssignment/n1 spec.podCIDRs 10.20.3.5/24",
                "4 NodeAssignment/n1 spec.podCIDRs nonsense"
            ]
        );
        assert_eq!(
            found.named[0].range.map(|range| range.to_string()),
            Some("10.20.3.0/24".to_owned())
        );
        assert_eq!(found.unread.len(), 2, "{:?}", found.unread);
    }
}
