//! The page about the command line, from the help of each command. An option that several commands
//! have is described once.

use std::fmt::Write as _;

use super::cli_help::{Entry, Help};
use super::exit_codes::with_code;
use super::generated::NOTE;

const HEAD: &str = "# Command line

`cilium-ipam COMMAND --help` explains one command. [Exit codes](exit-codes.md) and [output
formats](output.md) have their own pages.
";

/// Flags of every command that only matter for OpenStack.
const OPENSTACK: [&str; 3] = ["--clouds-file", "--os-cloud", "--neutron-file"];

/// A command with its own options.
struct Command {
    /// Heading of its group, such as `Start`.
    task: String,
    words: Vec<String>,
    help: Help,
}

impl Command {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.help.arguments.iter().chain(&self.help.options)
    }
}

pub fn page() -> String {
    let whole = Help::of(&[]);
    let mut commands = Vec::new();
    for (task, names) in &whole.commands {
        for name in names {
            add_commands(&mut commands, task, &[name], &whole.options);
        }
    }
    let shared = shared(&commands);
    let mut page = format!("{NOTE}\n\n{HEAD}");
    let (openstack, general): (Vec<&Entry>, Vec<&Entry>) = whole
        .options
        .iter()
        .partition(|entry| OPENSTACK.contains(&entry.flag()));
    assert_eq!(openstack.len(), OPENSTACK.len());
    page.push_str(&section("## Options of every command", &general));
    page.push_str(&section("## Options for OpenStack", &openstack));
    let listed: Vec<&Entry> = shared.iter().collect();
    page.push_str(&section("## Options of several commands", &listed));
    let environment = with_code(&whole.environment);
    write!(page, "\n## Environment variables\n\n{environment}\n").unwrap();
    let mut task = "";
    for command in &commands {
        if command.task != task {
            task = &command.task;
            write!(page, "\n## {task}\n").unwrap();
        }
        page.push_str(&entry(command, &shared));
    }
    page
}

/// Adds a command and those below it, without the options of every command.
fn add_commands(commands: &mut Vec<Command>, task: &str, words: &[&str], general: &[Entry]) {
    let mut help = Help::of(words);
    help.options
        .retain(|entry| !general.contains(entry) && entry.flag() != "--help");
    let below = help.commands.clone();
    commands.push(Command {
        task: task.to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        help,
    });
    for name in below.iter().flat_map(|(_, names)| names) {
        add_commands(commands, task, &[words, &[name.as_str()]].concat(), general);
    }
}

/// What at least two commands describe with the same words, in the order of the commands. Of two
/// descriptions of one name, the more frequent one.
fn shared(commands: &[Command]) -> Vec<Entry> {
    let all: Vec<&Entry> = commands.iter().flat_map(Command::entries).collect();
    let count = |entry: &Entry| all.iter().filter(|other| **other == entry).count();
    let mut shared: Vec<Entry> = Vec::new();
    for entry in all.iter().filter(|entry| !entry.is_format()) {
        let known = shared.iter_mut().find(|one| one.flag() == entry.flag());
        match known {
            Some(known) if count(entry) > count(known) => *known = (*entry).clone(),
            None if count(entry) > 1 => shared.push((*entry).clone()),
            _ => {}
        }
    }
    shared
}

fn section(heading: &str, entries: &[&Entry]) -> String {
    let entries: String = entries.iter().map(|entry| entry.definition()).collect();
    format!("\n{heading}\n{entries}")
}

fn entry(command: &Command, shared: &[Entry]) -> String {
    let Help {
        about,
        usage,
        example,
        ..
    } = &command.help;
    let mut text = format!("\n### {}\n\n{about}\n", command.words.join(" "));
    write!(text, "\n```text\n{usage}\n").unwrap();
    if !example.is_empty() {
        write!(text, "\n{example}\n").unwrap();
    }
    text.push_str("```\n");
    let (known, own): (Vec<&Entry>, Vec<&Entry>) =
        command.entries().partition(|entry| shared.contains(entry));
    let flags: Vec<String> = known
        .iter()
        .filter(|entry| entry.flag().starts_with("--"))
        .map(|entry| format!("`{}`", entry.flag()))
        .collect();
    if !flags.is_empty() {
        let flags = flags.join(", ");
        write!(
            text,
            "\n[Shared options](#options-of-several-commands): {flags}\n"
        )
        .unwrap();
    }
    text.extend(own.iter().map(|entry| entry.definition()));
    text
}

#[test]
fn an_option_of_several_commands_is_described_once() {
    let page = page();
    let (shared, _) = page.split_once("\n## Environment variables\n").unwrap();
    let definitions = shared.split("\n\n").filter(|part| part.starts_with('`'));
    let mut count = 0;
    for definition in definitions
        .map(str::trim_end)
        .filter(|one| one.contains("\n: "))
    {
        let same = page.matches(&format!("{definition}\n")).count();
        assert_eq!(same, 1, "{definition}");
        count += 1;
    }
    assert!(count > 30, "{shared}");
}
