//! The page about JSON: the formats of each command from its help, and the fields of each output
//! from the types that print it. Real outputs have just these fields.

mod events;
mod outputs;
mod types;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::generated::NOTE;
use outputs::OUTPUTS;
use types::{Field, Key, Types};

const INTRODUCTION: &str = "# JSON formats

The fields of every output with `-o json`. [Output](output.md) says what goes where. Nearly all outputs
have a `format_version`: its first part changes if older readers would misunderstand it, and new fields
only raise the second part. So ignore fields that you do not know. [The command line](cli.md) lists the
formats of each command.

A field is text, or an object with the fields below it, unless its type is in parentheses. `name[]` is
a list, and `name?` may be absent.
";

const SHARED: &str = "
## Objects in several outputs
";

const EVENTS: &str = "
## `watch`, `operator`

Each line is an object. `event` names what happened, and `time` when, as RFC 3339. Lists are cut after
ten entries of a cause, unless `--show-all` is given; the fields that end in `_count` are exact. The
other fields of each event:

";

pub fn page() -> String {
    let types = Types::read();
    let mut lists = Lists {
        shared: shared(&types),
        places: BTreeMap::new(),
        types: &types,
    };
    let mut page = format!("{NOTE}\n\n{INTRODUCTION}");
    for output in OUTPUTS {
        write!(page, "\n## {}\n\n", output.title).unwrap();
        lists.places.clear();
        lists.add(&mut page, &output.key(), &[]);
    }
    page.push_str(EVENTS);
    page.push_str(&events::rows());
    page.push_str(SHARED);
    for (key, title) in lists.shared.clone() {
        write!(page, "\n### {title}\n\n").unwrap();
        lists.places.clear();
        lists.add(&mut page, &key, &[]);
    }
    page
}

/// The types of objects that are in several outputs, with their headings.
fn shared(types: &Types) -> BTreeMap<Key, String> {
    let mut counts: BTreeMap<Key, usize> = BTreeMap::new();
    for output in OUTPUTS {
        for key in types.objects(&output.key()) {
            *counts.entry(key).or_default() += 1;
        }
    }
    let shared: BTreeMap<Key, String> = counts
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(key, _)| {
            let title = key.1.trim_end_matches("Document").to_owned();
            (key, title)
        })
        .collect();
    let mut titles: Vec<&String> = shared.values().collect();
    titles.sort();
    let count = titles.len();
    titles.dedup();
    assert_eq!(
        titles.len(),
        count,
        "two types have one heading: {titles:?}"
    );
    shared
}

/// Writes the fields of types as nested lists, each type once.
struct Lists<'t> {
    types: &'t Types,
    shared: BTreeMap<Key, String>,
    /// Where a type of this list has its fields.
    places: BTreeMap<Key, String>,
}

impl Lists<'_> {
    fn add(&mut self, page: &mut String, key: &Key, place: &[&str]) {
        self.places.insert(key.clone(), place.join("."));
        let shape = self.types.flat(&key.0, &key.1);
        for field in &shape.fields {
            let inner = self.types.object_in(&shape, field);
            let known = inner.as_ref().and_then(|key| self.known(key));
            let one_of = inner
                .as_ref()
                .filter(|key| self.types.flat(&key.0, &key.1).is_one_of())
                .map(|_| "with one of these".to_owned());
            let kind = Some(field.kind.clone()).filter(|kind| !kind.is_empty());
            let is_listed = known.is_none();
            let notes: Vec<String> = [known.or(one_of), kind].into_iter().flatten().collect();
            let indent = "  ".repeat(place.len());
            writeln!(page, "{indent}- {}", line(field, &notes)).unwrap();
            if let Some(inner) = inner.filter(|_| is_listed) {
                self.add(page, &inner, &[place, &[field.name.as_str()]].concat());
            }
        }
    }

    /// Where else the fields of this type are.
    fn known(&self, key: &Key) -> Option<String> {
        if let Some(title) = self.shared.get(key) {
            return Some(format!("[{title}](#{})", title.to_lowercase()));
        }
        let place = self.places.get(key)?;
        Some(format!("as `{place}`"))
    }
}

fn line(field: &Field, notes: &[String]) -> String {
    let mut line = field.notation();
    if !notes.is_empty() {
        write!(line, " ({})", notes.join(" ")).unwrap();
    }
    if adds_to_name(&field.about, &field.name) {
        write!(line, ": {}", field.about).unwrap();
    }
    line
}

/// Whether a description says more than the name of its field.
fn adds_to_name(about: &str, name: &str) -> bool {
    const SMALL: [&str; 8] = ["a", "an", "its", "of", "that", "the", "this", "it"];
    let about = about.to_lowercase();
    let mut words = about.split(|char: char| !char.is_alphanumeric());
    let is_new = |word: &str| {
        let singular = word.trim_end_matches('s');
        let is_in_name = |part: &str| part.trim_end_matches('s') == singular;
        !word.is_empty() && !SMALL.contains(&word) && !name.split('_').any(is_in_name)
    };
    words.any(is_new)
}

#[test]
fn real_outputs_have_the_fields_of_the_page() {
    let types = Types::read();
    for output in OUTPUTS {
        let values = output.values();
        assert!(!values.is_empty(), "{}", output.title);
        for value in values {
            types.check(output.file, output.root, &value, output.title);
        }
    }
}

#[test]
fn a_description_that_repeats_the_name_is_omitted() {
    for (about, name, expected) in [
        ("Version of this format.", "format_version", false),
        ("The write path.", "write_path", false),
        ("Its pools.", "pool", false),
        ("", "path", false),
        ("The pool that is full.", "pool", true),
    ] {
        assert_eq!(adds_to_name(about, name), expected, "{name}: {about}");
    }
}
