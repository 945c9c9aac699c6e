//! A YAML document as a tree in which every key and value knows its place in the file.
//!
//! Knows nothing of our kinds, and nothing of the limits of the parser.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_yaml::{Location, Spanned};

use crate::documents::{Lines, SourceFile};
use ipam_core::model::Origin;

/// A step from a mapping or a list to one of its children.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

#[derive(Debug)]
enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Mapping(BTreeMap<String, Entry>),
}

/// A key's place and its value.
#[derive(Debug)]
struct Entry {
    key: Location,
    value: Node,
}

/// A value with its place.
#[derive(Debug)]
pub(super) struct Node(Box<Spanned<NodeKind>>);

#[derive(Debug)]
struct NodeKind(Kind);

/// One document of a file.
#[derive(Debug)]
pub(super) struct Document {
    root: Node,
    places: Arc<Places>,
}

/// Turns the parser's lines and columns into places of a file.
#[derive(Debug)]
pub(super) struct Places {
    file: Arc<str>,
    lines: Lines,
}

impl Places {
    pub(super) fn new(file: &SourceFile) -> Places {
        Places {
            file: file.path.clone(),
            lines: Lines::new(&file.text),
        }
    }

    /// What spans several lines is marked to the end of its first one.
    pub(super) fn origin(&self, location: Location) -> Origin {
        let line = (location.line().max(1) as usize).min(self.lines.count());
        let column = location.column().max(1) as usize;
        let length = (location.span().len() as usize).max(1);
        let bytes = (
            self.lines.byte(line, column - 1),
            self.lines.byte(line, column - 1 + length),
        );
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Origin {
            file: self.file.clone(),
            line: number(line),
            column: number(column),
            bytes,
        }
    }
}

impl Document {
    /// A document from the parser; nothing when there is no value in it.
    pub(super) fn new(root: Node, places: &Arc<Places>) -> Option<Document> {
        (!matches!(root.kind(), Kind::Null)).then(|| Document {
            root,
            places: places.clone(),
        })
    }

    pub(super) fn to_json(&self) -> Value {
        self.root.to_json()
    }

    /// The text at the end of a path, when it is text.
    pub(super) fn text_at(&self, path: &[Step]) -> Option<&str> {
        match self.find(path).0?.kind() {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether there is a value at the end of a path, of any type.
    pub(super) fn has(&self, path: &[Step]) -> bool {
        self.find(path).0.is_some()
    }

    /// The place of the value at the end of a path; of the last part that exists when it does not.
    pub(super) fn origin(&self, path: &[Step]) -> Origin {
        match self.find(path) {
            (Some(node), _) => self.place(node.0.defined),
            (None, nearest) => self.place(nearest),
        }
    }

    /// The place of a key in the mapping at the end of a path.
    pub(super) fn key_origin(&self, path: &[Step], key: &str) -> Origin {
        let mapping = self.find(path).0.map(Node::kind);
        let found = match mapping {
            Some(Kind::Mapping(entries)) => entries.get(key),
            _ => None,
        };
        found.map_or_else(|| self.origin(path), |entry| self.place(entry.key))
    }

    /// Where the document starts, marked by its `kind` when it has one.
    pub(super) fn start(&self) -> Origin {
        self.origin(&[Step::Key("kind".into())])
    }

    fn place(&self, location: Location) -> Origin {
        self.places.origin(location)
    }

    fn find(&self, path: &[Step]) -> (Option<&Node>, Location) {
        let mut node = &self.root;
        let mut nearest = node.0.defined;
        for step in path {
            let child = match (node.kind(), step) {
                (Kind::Mapping(entries), Step::Key(key)) => {
                    entries.get(key).map(|entry| (entry.key, &entry.value))
                }
                (Kind::List(items), Step::Index(index)) => {
                    items.get(*index).map(|child| (child.0.defined, child))
                }
                _ => None,
            };
            let Some((place, child)) = child else {
                return (None, nearest);
            };
            (nearest, node) = (place, child);
        }
        (Some(node), nearest)
    }
}

impl Node {
    fn kind(&self) -> &Kind {
        &self.0.value.0
    }

    fn to_json(&self) -> Value {
        match self.kind() {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(value) => Value::Number(value.clone()),
            Kind::Text(value) => Value::String(value.clone()),
            Kind::List(items) => items.iter().map(Node::to_json).collect(),
            Kind::Mapping(entries) => {
                let pairs = entries
                    .iter()
                    .map(|(key, entry)| (key.clone(), entry.value.to_json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        Spanned::deserialize(deserializer).map(|spanned| Node(Box::new(spanned)))
    }
}

impl<'de> Deserialize<'de> for NodeKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NodeKind, D::Error> {
        deserializer.deserialize_any(AnyValue).map(NodeKind)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_none<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(Kind::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(Kind::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Kind, E> {
        Ok(Number::from_f64(value).map_or(Kind::Null, Kind::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Kind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Kind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Kind, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = mapping.next_entry::<Spanned<String>, Node>()? {
            entries.insert(
                key.value,
                Entry {
                    key: key.defined,
                    value,
                },
            );
        }
        Ok(Kind::Mapping(entries))
    }
}
