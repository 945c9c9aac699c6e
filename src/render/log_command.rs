//! Commands that CI systems read from a job's log, such as `::set-output` and `##vso[`. Finds them
//! in text and escapes one character of each. Knows no stream: text for a terminal may reach a log,
//! too.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use super::text::{has_harmful, is_harmful, unicode_escape};

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
    /// `\#`, for people.
    Backslash,
    /// `\u0023`, in JSON strings.
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

/// XML text with the same meaning and without commands.
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

/// The characters outside of colour sequences, with their places.
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

/// The text with the characters at these places escaped.
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
            let json = super::super::sanitized_json(&serde_json::to_string(&text).unwrap()).into_owned();
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
