//! Small parts of text: colour, counts and untrusted names.
//!
//! Tables as `kubectl get` prints them: upper-case headings, columns three spaces apart, no lines.
//!
//! The page of a rule code, the list of all codes, and the line that points to them.
//!
//! Commands that CI systems read from a job's log, such as `::set-output` and `##vso[`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use memchr::memmem;

use ipam_core::rules::{RuleFamily, RulePage};

pub use ipam_core::model::{count, grouped_digits};
pub use ipam_core::text::printable;
pub(super) use ipam_core::text::{has_harmful, is_harmful};

/// Colours of the terminal. The printing code strips them if the stream is no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The colour of additions.
    Green,
    /// The colour of changes.
    Yellow,
    /// Something blocked, removed or wrong.
    Red,
    /// The style of headings.
    Bold,
    /// The style of side notes.
    Dim,
}

impl Paint {
    pub fn on(self, text: &str) -> String {
        let code = match self {
            Paint::Green => "32",
            Paint::Yellow => "33",
            Paint::Red => "31",
            Paint::Bold => "1",
            Paint::Dim => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// `\u0041`, as in JSON.
pub(super) fn unicode_escape(c: char) -> String {
    c.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

/// JSON text with harmful characters as escapes. It means the same, because JSON has such
/// characters in strings only. No part of it is a command of a CI system.
pub fn sanitized_json(json: &str) -> Cow<'_, str> {
    let json = json_without_commands(json);
    if !has_harmful(&json) {
        return json;
    }
    let spell = |c: char| {
        if is_harmful(c) {
            unicode_escape(c)
        } else {
            c.to_string()
        }
    };
    Cow::Owned(json.chars().map(spell).collect())
}

/// Text with each harmful character replaced by `?`s. All bytes keep their places.
pub(super) fn masked(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_harmful(c) {
                "?".repeat(c.len_utf8())
            } else {
                c.to_string()
            }
        })
        .collect()
}

/// A table with a heading row. Cells must not hold colours.
pub fn table<'h>(heading: impl AsRef<[&'h str]>, rows: &[impl AsRef<[String]>]) -> String {
    let heading: Vec<String> = heading.as_ref().iter().map(ToString::to_string).collect();
    let rows = rows.iter().map(AsRef::as_ref);
    let rows: Vec<&[String]> = std::iter::once(&heading[..]).chain(rows).collect();
    let mut widths = vec![0; heading.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(*row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width + 3 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The page of a code for a terminal.
pub fn rule_page(page: &RulePage) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n",
        Paint::Bold.on(page.code),
        page.summary,
        Paint::Dim.on(&page.place())
    );
    for (heading, body) in page.sections() {
        text.push_str(&format!(
            "\n{}\n{}",
            Paint::Bold.on(heading),
            indented(body)
        ));
    }
    text
}

/// Every code of a finding with its summary, by family.
pub fn rule_list(families: &[RuleFamily]) -> String {
    let pages = families.iter().flat_map(|family| &family.pages);
    let width = pages.map(|page| page.code.len()).max().unwrap_or_default();
    let mut text = String::new();
    for RuleFamily { title, pages, .. } in families {
        text.push_str(&format!("{}\n", Paint::Bold.on(title)));
        for RulePage { code, summary, .. } in pages {
            text.push_str(&format!("  {code:width$}  {summary}\n"));
        }
        text.push('\n');
    }
    text + &pointer_to("CODE") + "\n"
}

/// Last line of a list of findings: how to read about their codes.
pub(super) fn pointer<'c>(codes: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let mut codes = codes.into_iter();
    let first = codes.next()?;
    let is_only = codes.all(|code| code == first);
    Some(pointer_to(if is_only { first } else { "CODE" }))
}

/// The line of [`pointer()`] with the codes, for a list that does not show its codes.
pub(super) fn pointer_with_codes<'c>(codes: impl IntoIterator<Item = &'c str>) -> Option<String> {
    let codes: BTreeSet<&str> = codes.into_iter().collect();
    let line = pointer(codes.iter().copied())?;
    Some(match codes.len() {
        1 => line,
        _ => {
            let codes: Vec<&str> = codes.into_iter().collect();
            format!("{line} Codes here: {}.", codes.join(", "))
        }
    })
}

fn pointer_to(code: &str) -> String {
    format!("Run `cilium-ipam explain {code}` for what to do.")
}

/// Lines with two blanks before them. The marks of code blocks become four.
fn indented(body: &str) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for line in body.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if line.is_empty() {
            text.push('\n');
        } else {
            let indent = if is_code { "      " } else { "  " };
            text.push_str(&format!("{indent}{line}\n"));
        }
    }
    text
}

/// Prefixes without `##`: Travis CI's folds and GitLab's sections.
const SECTIONS: [&str; 4] = [
    "travis_fold:",
    "travis_time:",
    "section_start:",
    "section_end:",
];

/// Buildkite's groups, at the start of a line.
const GROUPS: [&str; 4] = ["---", "+++", "~~~", "^^^"];

/// How to escape a character that would be part of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escaping {
    /// `\#`, for text that people read.
    Backslash,
    /// `\u0023`, for JSON strings.
    Json,
    /// `&#35;`, in XML and Markdown.
    Reference,
}

/// Text for people, ready to print: no line of it is a command. Its only control characters are
/// colours, tabs and line feeds.
pub fn log_text(text: &str) -> Cow<'_, str> {
    let safe = escaped(text, &commands(text), Escaping::Backslash);
    if !has_harmful(&safe) {
        return safe;
    }
    let mut printed = String::with_capacity(safe.len());
    let mut rest = &*safe;
    while let Some(c) = rest.chars().next() {
        let length = colour(rest).unwrap_or(c.len_utf8());
        let (head, tail) = rest.split_at(length);
        match is_harmful(c) && length == c.len_utf8() {
            true => printed.push_str(&c.escape_unicode().to_string()),
            false => printed.push_str(head),
        }
        rest = tail;
    }
    Cow::Owned(printed)
}

/// JSON text, or a part of it, with the same meaning and without commands. A line of JSON never
/// starts with one.
pub(super) fn json_without_commands(json: &str) -> Cow<'_, str> {
    escaped(json, &inner_commands(json), Escaping::Json)
}

/// XML with the same meaning, in which CI systems find no commands.
pub(super) fn xml_without_commands(xml: &str) -> Cow<'_, str> {
    escaped(xml, &commands(xml), Escaping::Reference)
}

/// Places of the ASCII characters to escape, one for each command that may stand anywhere in a
/// line.
pub(super) fn inner_commands(text: &str) -> Vec<usize> {
    let mut found = bracketed(text);
    // Rare, and cheap to rule out.
    let has = |part: &str| memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    if has("travis_") || has("section_") {
        found.extend(sections(text));
        found.sort_unstable();
    }
    found
}

/// The colons of Travis CI's folds and GitLab's sections.
fn sections(text: &str) -> Vec<usize> {
    let (places, shown): (Vec<usize>, Vec<char>) = visible(text).unzip();
    let ends = |prefix: &&str, end: usize| {
        let start = (end + 1).checked_sub(prefix.len());
        start.is_some_and(|start| shown[start..=end].iter().copied().eq(prefix.chars()))
    };
    let colons = (0..shown.len()).filter(|end| SECTIONS.iter().any(|prefix| ends(prefix, *end)));
    colons.map(|end| places[end]).collect()
}

/// Places of the characters to escape, including commands that must start a line.
fn commands(text: &str) -> Vec<usize> {
    let mut found = inner_commands(text);
    let mut start = 0;
    for line in text.split('\n') {
        found.extend(line_command(line).map(|at| start + at));
        start += line.len() + 1;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// `##[name …]` of GitHub, `##vso[…]` of Azure, `##teamcity[…]`: the last `#` of each. Some readers
/// compare by collation and ignore characters without a weight. So this ignores all characters
/// beyond ASCII.
fn bracketed(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    // Long texts without one are common, and bytes are looked at many at a time.
    if text.bytes().filter(|byte| *byte == b'#').count() < 2 {
        return found;
    }
    let (mut last, mut hashes) = (0, 0);
    for (at, c) in visible(text) {
        match c {
            '#' => (last, hashes) = (at, hashes + 1),
            '[' if hashes >= 2 => {
                found.push(last);
                hashes = 0;
            }
            _ if hashes >= 2 && (c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) => {}
            _ if c.is_ascii() => hashes = 0,
            _ => {}
        }
    }
    found
}

/// `::name …::` of GitHub, after any white space, and the groups of Buildkite. An IPv6 address
/// alone is neither.
fn line_command(line: &str) -> Option<usize> {
    let mut shown = visible(line)
        .filter(|(_, c)| c.is_ascii())
        .skip_while(|(_, c)| c.is_whitespace());
    if let (Some((at, ':')), Some((_, ':'))) = (shown.next(), shown.next()) {
        let rest: Vec<char> = shown.map(|(_, c)| c).collect();
        return rest.windows(2).any(|pair| pair == [':', ':']).then_some(at);
    }
    let head: Vec<(usize, char)> = visible(line).take(4).collect();
    let marker: String = head.iter().take(3).map(|(_, c)| *c).collect();
    // A bare `---` separates YAML documents; Buildkite wants white space after it.
    let ends = head.get(3).is_some_and(|(_, c)| c.is_whitespace());
    (ends && GROUPS.contains(&&*marker)).then(|| head[0].0)
}

/// Characters of a text outside colour sequences, with their byte positions.
fn visible(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut skipped: Range<usize> = 0..0;
    text.char_indices().filter(move |(at, c)| {
        if *c == '\u{1b}'
            && let Some(length) = colour(&text[*at..])
        {
            skipped = *at..*at + length;
        }
        !skipped.contains(at)
    })
}

/// Length of the colour sequence at the start: `ESC [ … m`, with digits and semicolons.
fn colour(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes[end..].starts_with('m').then_some(end + 3)
}

/// A text with the characters at these byte positions escaped.
fn escaped<'t>(text: &'t str, places: &[usize], escaping: Escaping) -> Cow<'t, str> {
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8 * places.len());
    let mut done = 0;
    for place in places {
        safe.push_str(&text[done..*place]);
        done = place + 1;
        let c = &text[*place..done];
        match escaping {
            Escaping::Backslash => safe.extend(["\\", c]),
            Escaping::Json => c.chars().for_each(|c| safe.push_str(&unicode_escape(c))),
            Escaping::Reference => c
                .chars()
                .for_each(|c| safe.push_str(&format!("&#{};", u32::from(c)))),
        }
    }
    safe.push_str(&text[done..]);
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a": "x\u{202e}y\u{e0041}\u{1b}ä"});
        let json = value.to_string();
        assert!(!sanitized_json(&json).contains(is_harmful));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&sanitized_json(&json)).unwrap(),
            value
        );
    }
}

#[cfg(test)]
mod table_tests {
    use super::*;

    #[test]
    fn as_kubectl_does() {
        let rows = [
            ["a".to_owned(), "10.0.0.0/24".to_owned()],
            ["worker-1".to_owned(), "-".to_owned()],
        ];
        assert_eq!(
            table(["NODE", "CIDR"], &rows),
            "NODE       CIDR\na          10.0.0.0/24\nworker-1   -\n"
        );
    }
}

#[cfg(test)]
mod rule_page_tests {
    use super::*;

    #[test]
    fn a_code_is_named_if_it_is_the_only_one() {
        let line = |codes: &[&'static str]| pointer(codes.iter().copied());
        assert_eq!(line(&[]), None);
        assert_eq!(
            line(&["no-pool", "no-pool"]).unwrap(),
            "Run `cilium-ipam explain no-pool` for what to do."
        );
        assert_eq!(
            line(&["no-pool", "bad-cidr"]).unwrap(),
            "Run `cilium-ipam explain CODE` for what to do."
        );
    }

    #[test]
    fn codes_that_are_not_shown_are_named_once() {
        assert_eq!(
            pointer_with_codes(["no-pool", "node-pools-exhausted", "no-pool"]).unwrap(),
            "Run `cilium-ipam explain CODE` for what to do. Codes here: no-pool, node-pools-exhausted."
        );
        assert_eq!(
            pointer_with_codes(["no-pool"]).unwrap(),
            "Run `cilium-ipam explain no-pool` for what to do."
        );
    }

    #[test]
    fn code_blocks_are_indented_further_and_lose_their_marks() {
        let text = indented("Do this:\n\n```sh\ncilium-ipam plan\n```");
        assert_eq!(text, "  Do this:\n\n      cilium-ipam plan\n");
    }
}

#[cfg(test)]
mod log_command_tests {
    use proptest::prelude::*;

    use super::*;

    /// An independent oracle: the line as a CI system sees it, with and without the characters that
    /// such a system may ignore.
    fn is_command(line: &str) -> bool {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
        let is_group = |rest: &str| rest.starts_with([' ', '\t', '\r']);
        let plain: String = line.chars().filter(char::is_ascii).collect();
        let is_other = |line: &str| {
            let start = line.trim_start();
            start.starts_with("::") && start[2..].contains("::")
                || line.char_indices().any(|(at, _)| {
                    line[at..]
                        .strip_prefix("##")
                        .is_some_and(|rest| rest.trim_start_matches(name).starts_with('['))
                })
        };
        is_other(line)
            || is_other(&plain)
            || SECTIONS.iter().any(|section| line.contains(section))
            || GROUPS
                .iter()
                .any(|group| line.strip_prefix(group).is_some_and(is_group))
    }

    /// As printed to a stream that is not a terminal.
    fn without_colours(text: &str) -> String {
        visible(text).map(|(_, c)| c).collect()
    }

    fn pieces() -> impl Strategy<Value = String> {
        let markers = [
            "#",
            "##",
            "[",
            "]",
            "vso[",
            "teamcity[",
            "set-output name=a",
            ":",
            "::",
            "\n",
            "\r\n",
            " ",
            "\t",
        ];
        let more = [
            "---",
            "+++ ",
            "~~~",
            "^^^ ",
            "travis_fold",
            "section_start",
            "\\",
            "é",
            "\u{fe0f}",
            "\u{34f}",
            "a",
        ];
        let colours = ["\u{1b}[31m", "\u{1b}[0m", "\u{1b}[2K", "\u{1b}]0;", "\u{7}"];
        let all: Vec<&str> = [&markers[..], &more, &colours].concat();
        prop::collection::vec(prop::sample::select(all), 0..16).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_line_is_a_command(text in pieces()) {
            let printed = log_text(&text);
            for shown in [printed.to_string(), without_colours(&printed)] {
                prop_assert!(!shown.lines().any(is_command), "{shown:?}");
                prop_assert!(!without_colours(&shown).contains(is_harmful), "{shown:?}");
            }
            prop_assert_eq!(log_text(&printed), &*printed, "once is enough");
            let harmless = !text.lines().any(is_command) && !without_colours(&text).contains(is_harmful);
            prop_assert!(!harmless || !text.is_ascii() || text.contains('\u{1b}') || printed == text, "left as it is");
        }

        #[test]
        fn json_means_the_same(text in pieces()) {
            let json = crate::render::sanitized_json(&serde_json::to_string(&text).unwrap()).into_owned();
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            prop_assert!(!is_command(&json), "{json}");
            prop_assert_eq!(log_text(&json), &*json);
        }

        #[test]
        fn xml_means_the_same(text in pieces()) {
            let xml = xml_without_commands(&text);
            prop_assert!(!xml.lines().any(|line| is_command(&without_colours(line))), "{xml:?}");
            let references = [("&#35;", "#"), ("&#58;", ":"), ("&#45;", "-"), ("&#43;", "+"), ("&#126;", "~"), ("&#94;", "^")];
            let meant = references.iter().fold(xml.into_owned(), |xml, (from, to)| xml.replace(from, to));
            prop_assert_eq!(meant, text);
        }
    }

    #[test]
    fn commands_are_broken_and_stay_readable() {
        assert_eq!(
            log_text("a ##[set-output name=x]y"),
            "a #\\#[set-output name=x]y"
        );
        assert_eq!(
            log_text("a\n  ::set-output name=x::y"),
            "a\n  \\::set-output name=x::y"
        );
        assert_eq!(log_text("--- x\n---x"), "\\--- x\n---x");
        assert_eq!(log_text("a\n---\nb"), "a\n---\nb");
        assert_eq!(
            log_text("#\u{1b}[1m#\u{1b}[0mvso[x]"),
            "#\u{1b}[1m\\#\u{1b}[0mvso[x]"
        );
        for text in [
            "::1/128\n::/0",
            "fd00:: and fd01::",
            "## a heading [x]",
            "### Plan",
            "│ ::1",
            "\u{1b}[31mred\u{1b}[0m",
        ] {
            assert!(
                matches!(log_text(text), Cow::Borrowed(_)) || log_text(text) == text,
                "{text}"
            );
        }
    }
}
