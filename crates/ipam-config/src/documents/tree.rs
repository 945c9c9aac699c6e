//! A YAML document as a tree with the position of every key and value, and of the characters of
//! each text. Knows nothing about the kinds of `cilium-ipam` or the limits of the parser.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_yaml::{Location, Spanned};

use crate::documents::{Lines, SourceFile};
use ipam_core::model::Origin;

/// One element of a path: a key of a mapping or an index of a list.
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

#[derive(Debug)]
struct Entry {
    key: Location,
    value: Node,
}

/// A value with its position.
#[derive(Debug)]
pub(super) struct Node(Box<Spanned<NodeKind>>);

#[derive(Debug)]
struct NodeKind(Kind);

#[derive(Debug)]
pub(super) struct Document {
    root: Node,
    spans: Arc<Spans>,
}

/// Converts the parser's lines and columns to positions in a file.
#[derive(Debug)]
pub(super) struct Spans {
    file: Arc<str>,
    lines: Lines,
}

impl Spans {
    pub(super) fn new(file: &SourceFile) -> Spans {
        Spans {
            file: file.path.clone(),
            lines: Lines::new(&file.text),
        }
    }

    /// Place of a value in its file. A span of several lines ends with its first line.
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

    /// Finds the place in the file of a byte range of `text`, a value written at this location.
    fn part(&self, location: Location, text: &str, part: Range<usize>) -> Option<Origin> {
        let line = (location.line().max(1) as usize).min(self.lines.count());
        let start = self.lines.byte(line, location.column().max(1) as usize - 1);
        let written = self.lines.after(start);
        let bytes = written_part(written, text, part)?;
        let (from, to) = (start + bytes.start, start + bytes.end);
        let line = line + written[..bytes.start].matches('\n').count();
        let range = self.lines.range(line);
        let column = 1 + self.lines.between(range.start..from).chars().count();
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Some(Origin {
            file: self.file.clone(),
            line: number(line),
            column: number(column),
            bytes: (from, to.min(range.end)),
        })
    }
}

impl Document {
    /// `None` if the document is empty.
    pub(super) fn new(root: Node, spans: &Arc<Spans>) -> Option<Document> {
        (!matches!(root.kind(), Kind::Null)).then(|| Document {
            root,
            spans: spans.clone(),
        })
    }

    /// The documents of the list `items`, each with its own places. An empty `items` has none.
    ///
    /// # Errors
    /// Fails if `items` is missing or is not a list; returns the document.
    pub(super) fn into_items(mut self) -> Result<Vec<Document>, Document> {
        let items = match &mut self.root.0.value.0 {
            Kind::Mapping(entries) => entries.get_mut("items").map(|entry| &mut entry.value),
            _ => None,
        };
        let items = match items.map(|items| &mut items.0.value.0) {
            Some(Kind::List(items)) => std::mem::take(items),
            Some(Kind::Null) => Vec::new(),
            _ => return Err(self),
        };
        let documents = items
            .into_iter()
            .filter_map(|root| Document::new(root, &self.spans));
        Ok(documents.collect())
    }

    pub(super) fn file(&self) -> &str {
        &self.spans.file
    }

    pub(super) fn to_json(&self) -> Value {
        self.root.to_json()
    }

    /// The text at a path; `None` if the path has no value or a value of another type.
    pub(super) fn text_at(&self, path: &[Step]) -> Option<&str> {
        match self.find(path).0?.kind() {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The keys of the document, or of the items if it is a list.
    pub(super) fn outer_keys(&self) -> Vec<&str> {
        match self.root.kind() {
            Kind::List(items) => items.iter().flat_map(Node::keys).collect(),
            _ => self.root.keys(),
        }
    }

    /// Whether a path has a value of any type.
    pub(super) fn has(&self, path: &[Step]) -> bool {
        self.find(path).0.is_some()
    }

    /// The position of the value at a path. If it does not exist, of its nearest parent.
    pub(super) fn origin(&self, path: &[Step]) -> Origin {
        match self.find(path) {
            (Some(node), _) => self.origin_of(node.0.defined),
            (None, nearest) => self.origin_of(nearest),
        }
    }

    /// The position of some bytes of the text at a path. Of the whole value if its escapes hide
    /// them.
    pub(super) fn origin_of_part(&self, path: &[Step], part: Range<usize>) -> Origin {
        let node = self.find(path).0;
        let found = node.and_then(|node| match node.kind() {
            Kind::Text(text) => self.spans.part(node.0.defined, text, part),
            _ => None,
        });
        found.unwrap_or_else(|| self.origin(path))
    }

    /// The position of a key in the mapping at a path.
    pub(super) fn key_origin(&self, path: &[Step], key: &str) -> Origin {
        let mapping = self.find(path).0.map(Node::kind);
        let found = match mapping {
            Some(Kind::Mapping(entries)) => entries.get(key),
            _ => None,
        };
        found.map_or_else(|| self.origin(path), |entry| self.origin_of(entry.key))
    }

    /// The position of `kind`, or of the document if it has none.
    pub(super) fn start(&self) -> Origin {
        self.origin(&[Step::Key("kind".into())])
    }

    fn origin_of(&self, location: Location) -> Origin {
        self.spans.origin(location)
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
            let Some((location, child)) = child else {
                return (None, nearest);
            };
            (nearest, node) = (location, child);
        }
        (Some(node), nearest)
    }
}

impl Node {
    fn kind(&self) -> &Kind {
        &self.0.value.0
    }

    fn keys(&self) -> Vec<&str> {
        match self.kind() {
            Kind::Mapping(entries) => entries.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
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

/// The bytes of `written`, which begins with a scalar, that stand for bytes of its text. Spaces and
/// line ends do not count: folding changes them. `None` if an escape stands for a character.
pub(super) fn written_part(written: &str, text: &str, part: Range<usize>) -> Option<Range<usize>> {
    let start = match written.chars().next()? {
        '>' | '|' => written.find('\n')? + 1,
        '"' | '\'' => 1,
        _ => 0,
    };
    let mut rest = written.get(start..)?.char_indices().peekable();
    let mut found: Option<Range<usize>> = None;
    for (at, wanted) in text.char_indices() {
        if at >= part.end {
            break;
        }
        if wanted.is_whitespace() {
            continue;
        }
        let is_passed = |one: char| one != wanted && (one.is_whitespace() || escapes(one));
        while rest.next_if(|(_, one)| is_passed(*one)).is_some() {}
        let (byte, _) = rest.next_if(|(_, one)| *one == wanted)?;
        if at >= part.start {
            let from = found.map_or(start + byte, |found| found.start);
            found = Some(from..start + byte + wanted.len_utf8());
        }
    }
    // After the last character: a text that ends too early.
    found.or_else(|| {
        let (byte, one) = rest.next()?;
        Some(start + byte..start + byte + one.len_utf8())
    })
}

/// A backslash, or the first of two quotation marks.
fn escapes(one: char) -> bool {
    matches!(one, '\\' | '\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, text: &str) {
        let start = text.rfind("there").unwrap();
        let part = written_part(written, text, start..start + "there".len());
        assert_eq!(
            part,
            written.rfind("there").map(|at| at..at + 5),
            "{written}"
        );
    }

    #[test]
    fn a_part_is_found_in_every_style() {
        check("a + there\n", "a + there");
        check("a +\n    there", "a + there");
        check(">-\n    a +\n    \"b\" + there\n", "a + \"b\" + there");
        check("|2- # there it is\n      a\n    there", "  a\nthere");
        check("'it''s ''there'''", "it's 'there'");
        check("\"a \\\"b\\\" \\\\ there\"", "a \"b\" \\ there");
        check("\"ä\\\n     there\"", "äthere");
    }

    #[test]
    fn an_escaped_character_hides_a_part() {
        assert_eq!(written_part("\"\\u00e4 there\"", "ä there", 3..8), None);
        assert_eq!(written_part("", "x", 0..1), None);
        assert_eq!(written_part(">", "x", 0..1), None);
    }
}
