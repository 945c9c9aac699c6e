//! Reads the long help of a command.

use ipam_core::text::joined;

use super::generated::printed;

/// An argument or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As the help spells it, such as `-o, --output <OUTPUT>`.
    name: String,
    about: String,
    default: Option<String>,
    /// Possible values, each with its meaning, which may be empty.
    values: Vec<(String, String)>,
}

impl Entry {
    /// The long flag, or the name of an argument.
    pub fn flag(&self) -> &str {
        let mut words = self.name.split([' ', ',']);
        let long = words.find(|word| word.starts_with("--"));
        long.unwrap_or(&self.name)
    }

    /// Whether the values are formats, which differ by command.
    pub fn is_format(&self) -> bool {
        self.flag() == "--output" && !self.values.is_empty()
    }

    /// The entry as a definition in Markdown.
    pub fn definition(&self) -> String {
        let is_format = self.is_format();
        let name = if is_format {
            "-o, --output"
        } else {
            &self.name
        };
        let is_plain = is_format && self.about == "Output format.";
        let about = if is_plain { "" } else { &self.about };
        let is_default = |value: &str| self.default.as_deref() == Some(value);
        let shown = |value: &str| match is_default(value) {
            true => format!("`{value}` (default)"),
            false => format!("`{value}`"),
        };
        let mut text = vec![about.to_owned()];
        let mut list = String::new();
        let has_meanings = self.values.iter().any(|(_, meaning)| !meaning.is_empty());
        if has_meanings && !is_format {
            list.push('\n');
            for (value, meaning) in &self.values {
                let meaning = match meaning.as_str() {
                    "" => String::new(),
                    meaning => format!(": {meaning}."),
                };
                list.push_str(&format!("  - {}{meaning}\n", shown(value)));
            }
        } else if !self.values.is_empty() {
            let values = self.values.iter().map(|(value, _)| shown(value));
            text.push(format!("{}.", joined(values, ", ")));
        }
        let is_a_value = self.values.iter().any(|(value, _)| is_default(value));
        if let Some(default) = self.default.as_ref().filter(|_| !is_a_value) {
            text.push(format!("Default: `{default}`."));
        }
        text.retain(|part| !part.is_empty());
        let text = text.join(" ").replace('<', "\\<");
        format!("\n`{name}`\n: {text}\n{list}")
    }
}

#[derive(Debug, Default)]
pub struct Help {
    pub about: String,
    /// Without `Usage:`.
    pub usage: String,
    pub arguments: Vec<Entry>,
    pub options: Vec<Entry>,
    pub example: String,
    pub environment: String,
    /// The commands below this one, by the heading of their list.
    pub commands: Vec<(String, Vec<String>)>,
}

impl Help {
    pub fn of(words: &[&str]) -> Help {
        Help::read(&printed(&[words, &["--help"]].concat()))
    }

    fn read(text: &str) -> Help {
        let (about, rest) = text.split_once("\nUsage: ").unwrap();
        let (usage, rest) = rest.split_once("\n\n").unwrap();
        let trimmed = |text: &str| {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            lines.join("\n").trim().to_owned()
        };
        let mut help = Help {
            about: sentences(&trimmed(about)),
            usage: trimmed(usage),
            ..Help::default()
        };
        for (heading, body) in sections(rest) {
            match heading {
                "Arguments" => help.arguments = entries(&body),
                "Options" => help.options = entries(&body),
                "Example" => help.example = trimmed(&body),
                "Environment" => help.environment = sentences(&body),
                "Exit codes" => {}
                _ => help.commands.push((heading.to_owned(), names(&body))),
            }
        }
        help
    }
}

/// The parts of a help that begin with a heading in the first column.
fn sections(text: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    for line in text.lines() {
        match line.strip_suffix(':').filter(|_| !line.starts_with(' ')) {
            Some(heading) => sections.push((heading, String::new())),
            None => {
                let (_, body) = sections.last_mut().expect("a help begins with a heading");
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    sections
}

/// The names in a list of commands.
fn names(body: &str) -> Vec<String> {
    let starts = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let names = body
        .lines()
        .filter(starts)
        .filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// The arguments or options of a section: a name, and a text beside it or below it.
fn entries(body: &str) -> Vec<Entry> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in body.lines() {
        let word = line.trim();
        let indent = line.len() - line.trim_start().len();
        if indent <= 6 && word.starts_with(['-', '[', '<']) {
            let (name, text) = word.split_once("  ").unwrap_or((word, ""));
            found.push((name.to_owned(), text.trim().to_owned()));
        } else if let Some((_, text)) = found.last_mut() {
            text.push('\n');
            text.push_str(word);
        }
    }
    found
        .into_iter()
        .map(|(name, text)| entry(name, &text))
        .collect()
}

/// Splits `text [default: a] [possible values: a, b]`. Values with a meaning are lines of a list.
fn entry(name: String, text: &str) -> Entry {
    let text = text.replace("\nPossible values:", "\n[possible list]");
    let (text, list) = text
        .split_once("[possible list]")
        .unwrap_or((text.as_str(), ""));
    let inside = |text: &str, label: &str| {
        let (_, rest) = text.split_once(&format!("[{label}: "))?;
        Some(rest.split_once(']')?.0.replace('\n', " "))
    };
    let either = |label: &str| inside(text, label).or_else(|| inside(list, label));
    let default = either("default");
    let of_line = |values: String| -> Vec<(String, String)> {
        let values = values.split(", ");
        values
            .map(|value| (value.to_owned(), String::new()))
            .collect()
    };
    let values = match list.is_empty() {
        true => either("possible values").map(of_line).unwrap_or_default(),
        false => listed_values(list),
    };
    let about = text.split("[default: ").next().unwrap_or_default();
    let about = about.split("[possible values: ").next().unwrap_or_default();
    Entry {
        name,
        about: sentences(about.trim()),
        default,
        values,
    }
}

/// Values with a meaning: `- name: text`, over any number of lines.
fn listed_values(list: &str) -> Vec<(String, String)> {
    let list = list.split("\n[").next().unwrap_or_default();
    let words: Vec<&str> = list.split_whitespace().collect();
    let line = format!(" {}", words.join(" "));
    line.split(" - ")
        .filter(|item| !item.trim().is_empty())
        .map(|item| {
            let (value, meaning) = item.split_once(": ").unwrap_or((item, ""));
            (
                value.trim_end_matches(':').to_owned(),
                meaning.trim_end_matches('.').to_owned(),
            )
        })
        .collect()
}

/// Paragraphs of a help as paragraphs of sentences: clap drops the last full stop.
fn sentences(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|part| !part.trim().is_empty());
    let paragraphs: Vec<String> = paragraphs
        .map(|part| {
            let words: Vec<&str> = part.split_whitespace().collect();
            let text = words.join(" ");
            let end = if text.ends_with(['.', ':', '?']) {
                ""
            } else {
                "."
            };
            format!("{text}{end}")
        })
        .collect();
    paragraphs.join(" ")
}

#[test]
fn both_layouts_of_a_help_are_read() {
    let beside = "  [DIR]  The directory [default: pools]\n";
    let below = "\
      --forge <FORGE>
          The kind of forge.

          Default: that of the CI job.

          Possible values:
          - github
          - gitea:  Gitea and
            Forgejo

          [default: github]

  -o, --output <OUTPUT>
          Output format

          [default: human]
          [possible values: human, json]
";
    let definitions =
        |body: &str| -> String { entries(body).iter().map(Entry::definition).collect() };
    assert_eq!(
        definitions(beside),
        "\n`[DIR]`\n: The directory. Default: `pools`.\n"
    );
    assert_eq!(
        definitions(below),
        "\n`--forge <FORGE>`\n: The kind of forge. Default: that of the CI job.\n\n  - `github` \
         (default)\n  - `gitea`: Gitea and Forgejo.\n\n`-o, --output`\n: `human` (default), `json`.\n"
    );
}
