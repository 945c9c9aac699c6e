//! Reads the serialised types from the source files: fields, Rust types and doc comments.
//!
//! The files are formatted by rustfmt, so a field is a line. Knows only the serde attributes that
//! these types use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::support::repository;

/// Folders of the types.
const FOLDERS: [&str; 17] = [
    "crates/ipam-core/src/model",
    "crates/ipam-core/src/rules",
    "crates/ipam-plan/src/capacity",
    "crates/ipam-plan/src/simulate",
    "crates/ipam-plan/src/plan/document",
    "crates/ipam-plan/src/plan",
    "crates/ipam-doctor/src/doctor",
    "crates/ipam-doctor/src/explain",
    "crates/ipam-doctor/src/history",
    "crates/ipam-migrate/src/migration",
    "crates/ipam-doctor/src/upgrade",
    "src/render",
    "src/cli",
    "src/cli/import",
    "src/cli/import/foreign",
    "src/cli/lb",
    "src/cli/migrate",
];

/// Objects whose types are in other folders or, like the fields of a variant, have no name.
const OBJECTS: [&str; 3] = ["AddressPoolManifest", "serde_json::Value", "{}"];

/// What every `format_version` means.
const VERSION: &str = "Version of this format.";

#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// Its type for people. Empty for a text, and for an object whose fields are listed.
    pub kind: String,
    pub about: String,
    rust: String,
    is_flattened: bool,
    /// May be absent.
    is_optional: bool,
}

impl Field {
    /// The name, `[]` after that of a list and `?` after one that may be absent.
    pub fn notation(&self) -> String {
        let is_list = innermost(&self.rust).1 || self.rust.contains("BTreeSet<");
        let list = if is_list { "[]" } else { "" };
        let absent = if self.is_optional { "?" } else { "" };
        format!("`{}{list}{absent}`", self.name)
    }
}

/// The file of a type, and its name.
pub type Key = (String, String);

/// A type that is serialised.
#[derive(Clone, Debug)]
pub struct Shape {
    file: String,
    /// Whether other files can use it.
    is_public: bool,
    pub fields: Vec<Field>,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Object,
    /// An object with one of the fields.
    OneOf,
    /// A text, one of the fields' names.
    Text,
}

impl Shape {
    pub fn is_one_of(&self) -> bool {
        self.what == What::OneOf
    }
}

pub struct Types(BTreeMap<String, Vec<Shape>>);

impl Types {
    pub fn read() -> Types {
        let mut types = Types(BTreeMap::new());
        for folder in FOLDERS {
            let mut files: Vec<_> = std::fs::read_dir(repository().join(folder))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|end| end == "rs"))
                .collect();
            files.sort();
            for path in files {
                types.add_file(&path);
            }
        }
        let all: Vec<(String, usize)> = types
            .0
            .iter()
            .flat_map(|(name, shapes)| (0..shapes.len()).map(move |index| (name.clone(), index)))
            .collect();
        for (name, index) in all {
            let mut shape = types.0[&name][index].clone();
            for field in &mut shape.fields {
                let kind = types.words(&shape.file, &field.rust);
                field.kind = match kind.strip_suffix("or null") {
                    Some(kind) if field.is_optional => kind.trim_end().to_owned(),
                    _ => kind,
                };
            }
            types.0.get_mut(&name).unwrap()[index] = shape;
        }
        types
    }

    fn add_file(&mut self, path: &Path) {
        let source = std::fs::read_to_string(path).unwrap();
        let file = path.strip_prefix(repository()).unwrap();
        let file = file.to_str().unwrap();
        let source = with_constants(&source);
        let mut lines = source.lines().map(str::trim);
        let mut attributes = String::new();
        while let Some(line) = lines.next() {
            if line.starts_with("#[") {
                attributes.push_str(line);
            } else if !line.starts_with("///") {
                let is_ours = attributes.contains("Serialize");
                let declared = declared(line).filter(|_| is_ours);
                if let Some((name, is_enum)) = declared {
                    let body = lines.by_ref().take_while(|line| *line != "}");
                    let mut shape = shape(file, body, is_enum, &attributes);
                    shape.is_public = line.starts_with("pub");
                    self.0.entry(name).or_default().push(shape);
                }
                attributes.clear();
            }
        }
    }

    /// The type of this name that a file means: its own, or one of its folder, or the only one.
    fn find(&self, file: &str, name: &str) -> Option<&Shape> {
        let shapes = self.0.get(name)?;
        let folder = |file: &str| file.rsplit_once('/').unwrap().0.to_owned();
        let only = |is_near: &dyn Fn(&Shape) -> bool| {
            let mut near = shapes.iter().filter(|shape| is_near(shape));
            near.next().filter(|_| near.next().is_none())
        };
        let found = only(&|shape| shape.file == file)
            .or_else(|| only(&|shape| folder(&shape.file) == folder(file) && shape.is_public))
            .or_else(|| only(&|shape| shape.is_public));
        let public = shapes.iter().filter(|shape| shape.is_public).count();
        assert!(
            found.is_some() || public == 0,
            "{file}: several types `{name}`"
        );
        found
    }

    /// The type with the fields of flattened ones.
    pub fn flat(&self, file: &str, name: &str) -> Shape {
        let found = self.find(file, name);
        let mut shape = found
            .unwrap_or_else(|| panic!("{file}: no type `{name}`"))
            .clone();
        let fields = std::mem::take(&mut shape.fields);
        for field in fields {
            if field.is_flattened {
                shape
                    .fields
                    .extend(self.flat(&shape.file, &field.rust).fields);
            } else {
                shape.fields.push(field);
            }
        }
        shape
    }

    /// The type of a field's value or entries, if it is an object.
    pub fn object_in(&self, shape: &Shape, field: &Field) -> Option<Key> {
        let name = innermost(&field.rust).0;
        let inner = self.find(&shape.file, name)?;
        (inner.what != What::Text).then(|| (inner.file.clone(), name.to_owned()))
    }

    /// The types of all objects in a type, itself among them.
    pub fn objects(&self, root: &Key) -> BTreeSet<Key> {
        let mut found = BTreeSet::new();
        let mut open = vec![root.clone()];
        while let Some(key) = open.pop() {
            if found.insert(key.clone()) {
                let shape = self.flat(&key.0, &key.1);
                let inner = shape.fields.iter();
                open.extend(inner.filter_map(|field| self.object_in(&shape, field)));
            }
        }
        found
    }

    /// A Rust type in the words of a person.
    fn words(&self, file: &str, rust: &str) -> String {
        let inside = |outer: &str| rust.strip_prefix(outer)?.strip_suffix('>');
        if let Some(inner) = inside("Option<") {
            let inner = self.words(file, inner);
            return format!("{inner} or null").trim_start().to_owned();
        }
        if let Some(inner) = inside("Vec<").or_else(|| inside("BTreeSet<")) {
            return self.words(file, inner);
        }
        if rust.starts_with("BTreeMap<") || rust == "Labels" {
            return "map of text".to_owned();
        }
        match rust {
            "bool" => "boolean".to_owned(),
            "u8" | "u32" | "i32" | "i64" | "u128" | "usize" | "SignedDuration" => {
                "number".to_owned()
            }
            "()" => "null".to_owned(),
            _ => match self.find(file, rust) {
                Some(shape) if shape.what == What::Text => {
                    let names = shape.fields.iter().map(|field| format!("`{}`", field.name));
                    names.collect::<Vec<_>>().join(", ")
                }
                None if OBJECTS.contains(&rust) => "object".to_owned(),
                // Without fields, it stands in JSON as its text.
                Some(_) | None => String::new(),
            },
        }
    }

    /// Fails if a real value has other fields than its type.
    pub fn check(&self, file: &str, name: &str, value: &Value, place: &str) {
        let shape = self.flat(file, name);
        if shape.what == What::Text {
            let text = value.as_str().unwrap();
            assert!(
                shape.fields.iter().any(|field| field.name == text),
                "{place}: {text}"
            );
            return;
        }
        let object = value
            .as_object()
            .unwrap_or_else(|| panic!("{place}: {value}"));
        for (key, value) in object {
            let field = shape.fields.iter().find(|field| field.name == *key);
            let field = field.unwrap_or_else(|| panic!("{place}: no field `{key}` of {name}"));
            let place = format!("{place}.{key}");
            let (inner, is_list) = innermost(&field.rust);
            let values: Vec<&Value> = match value {
                Value::Array(values) if is_list => values.iter().collect(),
                Value::Null => continue,
                one => vec![one],
            };
            if self.find(&shape.file, inner).is_some() {
                for value in values {
                    self.check(&shape.file, inner, value, &place);
                }
            }
        }
        for field in &shape.fields {
            let may_lack = field.is_optional || shape.what == What::OneOf;
            let is_there = may_lack || object.contains_key(&field.name);
            assert!(
                is_there,
                "{place}: `{}` of {name} is not printed",
                field.name
            );
        }
    }
}

/// The source with numbers in place of links to constants.
fn with_constants(source: &str) -> String {
    let mut text = source.to_owned();
    let declarations = source.split("const ").skip(1);
    for (name, rest) in declarations.filter_map(|rest| rest.split_once(": usize = ")) {
        let value = rest.split(';').next().unwrap();
        text = text.replace(&format!("[`{name}`]"), value);
    }
    text
}

/// The name that a line declares, and whether it is an enum.
fn declared(line: &str) -> Option<(String, bool)> {
    let line = line.strip_prefix("pub(super) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let (kind, rest) = line.split_once(' ')?;
    let name = rest.strip_suffix(" {")?;
    let name = name.split('<').next()?.to_owned();
    match kind {
        "struct" => Some((name, false)),
        "enum" => Some((name, true)),
        _ => None,
    }
}

fn shape<'s>(
    file: &str,
    body: impl Iterator<Item = &'s str>,
    is_enum: bool,
    attributes: &str,
) -> Shape {
    let (mut about, mut serde, mut fields) = (String::new(), String::new(), Vec::new());
    let mut depth = 0_usize;
    for line in body {
        if let Some(doc) = line.strip_prefix("///") {
            let space = if about.is_empty() { "" } else { " " };
            about.push_str(&format!("{space}{}", doc.trim()));
        } else if line.starts_with("#[serde") {
            serde.push_str(line);
        } else if depth > 0 {
            depth -= usize::from(line == "},");
            about.clear();
        } else if !line.is_empty() {
            let field = if is_enum {
                depth += usize::from(line.ends_with('{'));
                variant(line, &serde, attributes)
            } else {
                line.trim_end_matches(',')
                    .split_once(": ")
                    .map(|(name, rust)| {
                        (renamed(&serde).unwrap_or_else(|| bare(name)), owned(rust))
                    })
            };
            if let Some((name, rust)) = field {
                let is_version = name == "format_version";
                let about = if is_version { VERSION } else { &about };
                fields.push(Field {
                    is_flattened: serde.contains("flatten"),
                    is_optional: serde.contains("skip_serializing_if"),
                    about: about.replace("[`", "`").replace("`]", "`"),
                    kind: String::new(),
                    name,
                    rust,
                });
            }
            about.clear();
            serde.clear();
        }
    }
    let is_text = is_enum && fields.iter().all(|field| field.rust.is_empty());
    let what = match (is_enum, is_text) {
        (false, _) => What::Object,
        (true, true) => What::Text,
        (true, false) => What::OneOf,
    };
    Shape {
        file: file.to_owned(),
        is_public: true,
        fields,
        what,
    }
}

/// A field's name without its visibility.
fn bare(name: &str) -> String {
    name.rsplit(' ').next().unwrap().to_owned()
}

/// A type without references and lifetimes.
fn owned(rust: &str) -> String {
    let mut text = rust.replace("<'r>", "");
    for reference in ["&'static ", "&'r "] {
        text = text.replace(reference, "");
    }
    match text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(inner) => format!("Vec<{inner}>"),
        None => text,
    }
}

fn renamed(serde: &str) -> Option<String> {
    let (_, rest) = serde.split_once("rename = \"")?;
    rest.split('"').next().map(str::to_owned)
}

/// The serialised name of a variant, and the type of its content; empty without one.
fn variant(line: &str, serde: &str, attributes: &str) -> Option<(String, String)> {
    let name: String = line
        .chars()
        .take_while(|char| char.is_alphanumeric())
        .collect();
    if name.is_empty() {
        return None;
    }
    let content = line.strip_prefix(&format!("{name}(")).map(|rest| {
        rest.trim_end_matches(',')
            .strip_suffix(')')
            .unwrap()
            .to_owned()
    });
    let content = content.or_else(|| line.ends_with('{').then(|| "{}".to_owned()));
    let mut snake = String::new();
    for char in name.chars() {
        if char.is_uppercase() && !snake.is_empty() && attributes.contains("snake_case") {
            snake.push('_');
        }
        snake.push(char);
    }
    let name = renamed(serde).unwrap_or_else(|| snake.to_lowercase());
    Some((name, content.unwrap_or_default()))
}

/// The type inside of `Option` and `Vec`, and whether it is a list.
fn innermost(rust: &str) -> (&str, bool) {
    let inside = |outer: &str| rust.strip_prefix(outer)?.strip_suffix('>');
    match (inside("Option<"), inside("Vec<")) {
        (Some(inner), _) => innermost(inner),
        (_, Some(inner)) => (innermost(inner).0, true),
        (None, None) => (rust, false),
    }
}
