//! Reads a file of rule pages: fields as `key: text` over any number of lines, a new page at each
//! line `= CODE`. Must never know what a code means.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{RuleFamily, RulePage};

const KEYS: [&str; 8] = [
    "title", "about", "where", "kind", "summary", "seen", "why", "do",
];

type Fields = BTreeMap<&'static str, String>;

/// A family. A page without `where` has that of the family.
pub(super) fn family(name: &'static str, text: &'static str) -> RuleFamily {
    let mut parts = text.split("\n= ");
    let head = fields(parts.next().unwrap_or_default());
    let page = |part: &'static str| {
        let (code, rest) = part.split_once('\n').unwrap_or((part, ""));
        page(name, code.trim(), fields(rest), &head)
    };
    RuleFamily {
        name,
        title: text_of(&head, "title"),
        about: text_of(&head, "about"),
        pages: parts.map(page).collect(),
    }
}

fn page(family: &'static str, code: &'static str, fields: Fields, head: &Fields) -> RulePage {
    let commands = fields.get("where").or_else(|| head.get("where"));
    RulePage {
        code,
        family,
        kinds: list(fields.get("kind")),
        commands: list(commands),
        summary: text_of(&fields, "summary"),
        seen: text_of(&fields, "seen"),
        why: text_of(&fields, "why"),
        action: text_of(&fields, "do"),
    }
}

/// The fields of a part. A line inside of a code block never begins a field.
fn fields(part: &'static str) -> Fields {
    let mut fields = Fields::new();
    let (mut key, mut is_code) = ("", false);
    for line in part.lines() {
        is_code ^= line.starts_with("```");
        let begins = line
            .split_once(':')
            .filter(|(start, _)| !is_code && KEYS.contains(start));
        let text = match begins {
            Some((start, text)) => {
                key = start;
                text.trim_start()
            }
            None => line,
        };
        let field = fields.entry(key).or_default();
        if !field.is_empty() {
            field.push('\n');
        }
        field.push_str(text);
    }
    fields
}

fn text_of(fields: &Fields, key: &str) -> String {
    fields
        .get(key)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// The known texts of a list. A test of the catalogue finds the others.
fn list<T: FromStr>(text: Option<&String>) -> Vec<T> {
    let texts = text.into_iter().flat_map(|text| text.split(','));
    texts.filter_map(|text| text.trim().parse().ok()).collect()
}
