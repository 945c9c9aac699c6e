//! A YAML document as a tree in which every key and value knows its place in the file.
//!
//! Knows nothing of our kinds. Anchors are resolved by the parser, whose budget stops alias bombs.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_yaml::{Location, Spanned};

use super::SourceFile;
use crate::model::{Finding, Origin, Rule, Severity};

/// A step from a mapping or a list to one of its children.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    Mapping(Vec<(Spanned<String>, Node)>),
}

#[derive(Debug)]
struct Node(Box<Spanned<NodeKind>>);

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
struct Places {
    file: Arc<str>,
    text: Arc<str>,
    line_starts: Vec<usize>,
}

impl Places {
    fn new(file: &SourceFile) -> Places {
        let newlines = file.text.match_indices('\n').map(|(at, _)| at + 1);
        Places {
            file: file.path.clone(),
            text: file.text.clone(),
            line_starts: std::iter::once(0).chain(newlines).collect(),
        }
    }

    fn origin(&self, location: Location) -> Origin {
        let line = (location.line().max(1) as usize).min(self.line_starts.len());
        let column = location.column().max(1) as usize;
        let start = self.line_starts[line - 1];
        let mut rest =
            self.text[start..].lines().next().unwrap_or_default().char_indices().map(|(at, _)| at).skip(column - 1);
        let end_of_line = start + self.text[start..].lines().next().map_or(0, str::len);
        let first = rest.next().map_or(end_of_line, |at| start + at);
        let length = (location.span().len() as usize).max(1);
        let last = rest.nth(length - 1).map_or(end_of_line, |at| start + at);
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Origin { file: self.file.clone(), line: number(line), column: number(column), bytes: (first, last.max(first)) }
    }
}

const SYNTAX: Rule = Rule("yaml-syntax");
const TOO_LARGE: Rule = Rule("yaml-too-large");

/// Every document of a file, or the one reason why it is not YAML.
pub(super) fn parse(file: &SourceFile) -> Result<Vec<Document>, Box<Finding>> {
    let places = Arc::new(Places::new(file));
    let roots: Vec<Node> =
        serde_yaml::from_multiple(&file.text).map_err(|error| Box::new(syntax_finding(&places, &error)))?;
    let documents = roots.into_iter().map(|root| Document { root, places: places.clone() });
    Ok(documents.filter(|document| !matches!(document.root.kind(), Kind::Null)).collect())
}

fn syntax_finding(places: &Places, error: &serde_yaml::Error) -> Finding {
    let plain = error.without_snippet().to_string();
    let message = plain.strip_prefix("error: ").unwrap_or(&plain).to_owned();
    let message = message.lines().next().unwrap_or_default().to_owned();
    let (rule, help) = if message.contains("budget") {
        (TOO_LARGE, "keep aliases and nesting small; a file of pools needs neither")
    } else {
        (SYNTAX, "mend the YAML; nothing of this file was read")
    };
    let origin = error.location().map_or_else(|| Origin::whole_file(&places.file), |location| places.origin(location));
    Finding::new(Severity::Error, rule, format!("not readable as YAML: {message}")).at(&origin, "here").help(help)
}

impl Document {
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
            Some(Kind::Mapping(entries)) => entries.iter().find(|(name, _)| name.value == key),
            _ => None,
        };
        found.map_or_else(|| self.origin(path), |(name, _)| self.place(name.defined))
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
                    entries.iter().find(|(name, _)| name.value == *key).map(|(name, child)| (name.defined, child))
                }
                (Kind::Mapping(entries), Step::Index(index)) => entries
                    .iter()
                    .find(|(name, _)| name.value == index.to_string())
                    .map(|(name, child)| (name.defined, child)),
                (Kind::List(items), Step::Index(index)) => items.get(*index).map(|child| (child.0.defined, child)),
                _ => None,
            };
            let Some((place, child)) = child else { return (None, nearest) };
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
                let pairs = entries.iter().map(|(key, value)| (key.value.clone(), value.to_json()));
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
        let mut entries = Vec::new();
        while let Some(entry) = mapping.next_entry()? {
            entries.push(entry);
        }
        Ok(Kind::Mapping(entries))
    }
}
