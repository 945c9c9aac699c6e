//! Finds the rule codes that sources raise: string literals where a rule is expected. It reads Rust
//! as text, and knows nothing of what a code means.

use std::collections::BTreeSet;

/// A function or closure with a parameter `rule`: its name, and which argument the rule is.
type Maker = (String, usize);

/// The codes that the sources of one crate raise.
pub fn codes_of_crate(sources: &[String]) -> BTreeSet<String> {
    let sources: Vec<String> = sources.iter().map(|text| without_comments(text)).collect();
    let makers: BTreeSet<Maker> = sources.iter().flat_map(|text| makers(text)).collect();
    let of_source = |text: &String| {
        let mut codes = after(text, "Rule(", |_| true);
        codes.extend(after(text, "let rule = ", |_| true));
        codes.extend(after(text, "let rule = (", |_| true));
        // `let (rule, help) = match … { … => ("code", …) }`
        if text.contains("let (rule, ") {
            codes.extend(after(text, "(", |before| before.ends_with(['>', '{'])));
        }
        for (name, place) in &makers {
            codes.extend(calls(text, name).filter_map(|call| literal(call.get(*place)?)));
        }
        codes
    };
    sources.iter().flat_map(of_source).collect()
}

fn without_comments(text: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let lines: Vec<&str> = text.lines().filter(|line| !is_comment(line)).collect();
    lines.join("\n")
}

/// The literals that follow these words, where the text before them is accepted.
fn after(text: &str, words: &str, accepts: fn(&str) -> bool) -> BTreeSet<String> {
    let places = text.match_indices(words);
    let places = places.filter(|(place, _)| accepts(text[..*place].trim_end()));
    let rests = places.map(|(place, _)| text[place + words.len()..].trim_start());
    rests
        .filter_map(|rest| literal(rest.split([',', ')']).next()?))
        .collect()
}

/// The code, if the whole argument is one in quotes.
fn literal(argument: &str) -> Option<String> {
    let code = argument.trim().strip_prefix('"')?.strip_suffix('"')?;
    let is_code = code.starts_with(|c: char| c.is_ascii_lowercase())
        && code
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_code.then(|| code.to_owned())
}

fn makers(text: &str) -> Vec<Maker> {
    let functions = text.split("fn ").skip(1).filter_map(|rest| {
        let (head, parameters) = rest.split_once('(')?;
        let name = head.split('<').next()?;
        Some((name, split(parameters, ')')))
    });
    let closures = text.split("let ").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once(" = ")?;
        let parameters = rest
            .strip_prefix("move ")
            .unwrap_or(rest)
            .strip_prefix('|')?;
        Some((name, split(parameters, '|')))
    });
    let place = |parameters: &[&str]| {
        let is_rule = |parameter: &&str| matches!(parameter.split(':').next(), Some("rule"));
        let own = parameters.iter().map(|one| one.trim());
        let mut own = own.filter(|one| !one.ends_with("self"));
        own.position(|one| is_rule(&one))
    };
    functions
        .chain(closures)
        .filter_map(|(name, parameters)| Some((name.trim().to_owned(), place(&parameters)?)))
        .collect()
}

/// The arguments of every call of a name.
fn calls<'t>(text: &'t str, name: &str) -> impl Iterator<Item = Vec<&'t str>> {
    let start = format!("{name}(");
    let places: Vec<usize> = text
        .match_indices(&start)
        .filter(|(place, _)| {
            let before = &text[..*place];
            !before.ends_with(|c: char| c.is_alphanumeric() || c == '_') && !before.ends_with("fn ")
        })
        .map(|(place, _)| place + start.len())
        .collect();
    places.into_iter().map(|place| split(&text[place..], ')'))
}

/// The parts between commas, up to the end of the list. Commas in brackets and in literals do not
/// count.
fn split(text: &str, end: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let mut rest = text.char_indices();
    while let Some((place, c)) = rest.next() {
        match c {
            _ if c == end && depth == 0 => {
                parts.push(&text[start..place]);
                return parts;
            }
            '"' => {
                while rest
                    .next()
                    .is_some_and(|(place, c)| c != '"' || is_escaped(text, place))
                {}
            }
            '\'' if text[place + 1..].chars().nth(1) == Some('\'') => {
                rest.nth(1);
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..place]);
                start = place + 1;
            }
            _ => {}
        }
    }
    parts
}

fn is_escaped(text: &str, place: usize) -> bool {
    let slashes = text[..place].chars().rev().take_while(|c| *c == '\\');
    slashes.count() % 2 == 1
}

#[test]
fn every_way_to_raise_a_code_is_found() {
    let source = r#"
        // finding(Severity::Error, "in-a-comment", message)
        const SYNTAX: Rule = Rule("of-a-constant");
        fn finding(severity: Severity, rule: &'static str, message: String) -> Finding {}
        fn fault<T: Display>(&mut self, rule: Rule, label: &str) {}
        fn other(name: &str) {}
        fn raise() {
            Finding::new(Severity::Error, Rule("direct"), "a, \"b\"".to_owned());
            finding(
                Severity::Error,
                "of-a-function",
                format!("({})", ','),
            );
            context.fault("of-a-method", "not-a-code");
            let short = |severity, rule, help: &str| 1;
            short(f(1, 2), "of-a-closure", "not-a-code");
            other("not-a-code");
            let rule = ("of-a-pair", "not-a-code");
            let (rule, help) = match fault {
                A => ("of-a-tuple", "not-a-code"),
            };
        }
    "#;
    let found = codes_of_crate(&[source.to_owned()]);
    let expected = [
        "direct",
        "of-a-closure",
        "of-a-constant",
        "of-a-function",
        "of-a-method",
        "of-a-pair",
        "of-a-tuple",
    ];
    assert_eq!(
        found.iter().collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
}
