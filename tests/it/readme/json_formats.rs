//! The page about JSON: the formats of each command from its help, and the fields of each output
//! from the types that print it. Real outputs have just these fields.

mod events;
mod outputs;
mod types;

use std::fmt::Write as _;

use super::generated::{NOTE, all_verbs, printed};
use outputs::OUTPUTS;
use types::{Shape, Types};

const INTRODUCTION: &str = "# JSON formats

Every field of every output with `-o json`. [Output](output.md) says what goes where. Nearly all outputs
have a `format_version`: its first part changes if older readers would misunderstand it, and new fields
only raise the second part. So ignore fields that you do not know.

## Formats of each command

| command | `--output`, `-o` |
|---|---|
";

const EVENTS: &str = "
## `watch`, `operator`

Each line is an object. `event` names what happened, and `time` when, as RFC 3339. Lists are cut after
ten entries of a cause, unless `--show-all` is given; the fields that end in `_count` are exact.

| `event` | further fields |
|---|---|
";

pub fn page() -> String {
    let mut page = format!("{NOTE}\n\n{INTRODUCTION}");
    for verbs in all_verbs() {
        let words: Vec<&str> = verbs.iter().map(String::as_str).collect();
        if let Some(formats) = formats(&printed(&[&words, &["-h"][..]].concat())) {
            writeln!(page, "| `{}` | {formats} |", verbs.join(" ")).unwrap();
        }
    }
    let types = Types::read();
    for output in OUTPUTS {
        write!(page, "\n## {}\n", output.title).unwrap();
        for (places, shape) in types.below(output.file, output.root) {
            page.push_str(&section(&places, &shape));
        }
    }
    page + EVENTS + &events::rows()
}

/// The values of `--output` in a short help text, the default first; `None` if there is no choice.
fn formats(help: &str) -> Option<String> {
    let (_, flag) = help.split_once("--output <")?;
    let is_next = |line: &&str| line.trim_start().starts_with('-') && line.contains("--");
    let lines = flag.lines().take_while(|line| !is_next(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let flag = words.join(" ");
    let between = |before: &str, after: char| {
        let (_, rest) = flag.split_once(before)?;
        Some(rest.split_once(after)?.0.to_owned())
    };
    let default = between("[default: ", ']')?;
    let values = between("[possible values: ", ']')?;
    let others = values.split(", ").filter(|value| *value != default);
    let others: Vec<String> = others.map(|value| format!("`{value}`")).collect();
    Some(format!("`{default}` (default), {}", others.join(", ")))
}

fn section(places: &[String], shape: &Shape) -> String {
    let mut text = String::new();
    if places.iter().any(|place| !place.is_empty()) {
        let places: Vec<String> = places.iter().map(|place| format!("`{place}`")).collect();
        write!(text, "\n**{}**\n", places.join(", ")).unwrap();
    }
    text.push_str("\n| field | type | meaning |\n|---|---|---|\n");
    for field in &shape.fields {
        let about = field.about.replace('|', "\\|");
        writeln!(text, "| `{}` | {} | {about} |", field.name, field.kind).unwrap();
    }
    text
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
