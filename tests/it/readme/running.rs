//! Runs the commands of a page, in one folder with a copy of `examples`, and compares what they
//! print with the page.

use std::path::Path;
use std::process::Command;

use super::blocks::Block;
use crate::support::{Folder, Ran, ran, repository};

/// Pages with advice about clusters that a test does not have.
const ADVICE: &str = "docs/src/reference/rules/";

/// What a reader types in the repository, without an installation.
const FROM_SOURCE: &str = "cargo run --quiet -- ";

/// Runs the blocks marked `<!-- run: cluster -->` in a folder; returns the number of commands.
pub fn run_on(folder: &Folder, blocks: &[Block], variables: &[(&str, &str)]) -> usize {
    let mut count = 0;
    for block in blocks {
        if let Some(file) = &block.file {
            folder.write(file, &block.text);
        }
        let on_a_cluster = block.needs_cluster.then(|| prompts(block));
        for (command, expected) in on_a_cluster.into_iter().flatten() {
            let ran = shell(folder, &command, variables);
            let place = block.place();
            assert_eq!(ran.code, 0, "{place}: {command}\n{}", ran.all());
            assert!(
                matches(&expected, &ran.stdout),
                "{place}: {command}\n{}",
                ran.stdout
            );
            count += 1;
        }
    }
    count
}

/// Runs the `sh` blocks and the marked `console` blocks of one page; returns the number of commands.
/// If the page is to be updated, its outputs become what the commands print; those with `…` stay.
pub fn run(blocks: &[Block], mut page: Option<&mut String>) -> usize {
    let folder = Folder::new(&[]);
    copy(&repository().join("examples"), &folder.join("examples"));
    let mut count = 0;
    for block in blocks {
        if let Some(file) = &block.file {
            folder.write(file, &block.text);
        }
        let mut shown = String::new();
        for (command, expected) in commands(block) {
            if is_of_the_repository(&command) {
                continue;
            }
            let ran = shell(&folder, &command, &[]);
            let place = block.place();
            assert_eq!(ran.code, 0, "{place}: {command}\n{}", ran.all());
            if block.is("console") {
                let keeps = page.is_none() || expected.contains('…');
                let output = if keeps { &expected } else { &ran.stdout };
                shown += &format!("$ {command}\n{output}");
                assert!(
                    matches(output, &ran.stdout),
                    "{place}: {command}\nthe page shows:\n{expected}\nthe program prints:\n{}",
                    ran.stdout
                );
            }
            count += 1;
        }
        if let Some(page) = page.as_deref_mut().filter(|_| !shown.is_empty()) {
            *page = page.replacen(&block.text, &shown, 1);
        }
    }
    count
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, target).unwrap();
        }
    }
}

/// The commands of a block, each with the lines that follow it.
fn commands(block: &Block) -> Vec<(String, String)> {
    if block.is("sh") && !block.document.starts_with(ADVICE) {
        let lines = block.text.lines().filter(|line| !line.is_empty());
        return lines.map(|line| (line.to_owned(), String::new())).collect();
    }
    if !(block.runs && block.is("console")) {
        return Vec::new();
    }
    prompts(block)
}

fn prompts(block: &Block) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in block.text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            found.push((command.to_owned(), String::new()));
        } else {
            let (_, expected) = found.last_mut().expect("the block begins with a command");
            expected.push_str(line);
            expected.push('\n');
        }
    }
    found
}

/// Commands that build or test the repository itself; their verb exists.
fn is_of_the_repository(command: &str) -> bool {
    if let Some(rest) = command.strip_prefix("cargo xtask ") {
        let verb = rest.split(' ').next().unwrap();
        let file = format!("ci/xtask/src/commands/{verb}.rs");
        assert!(repository().join(file).exists(), "{command}");
        return true;
    }
    command.starts_with("cargo build ")
        || command.starts_with("cargo install ")
        || command.starts_with("export PATH=")
}

/// Runs a command of a page. The folders in the variable `PATH` come after that of the program.
pub fn shell(folder: &Folder, command: &str, variables: &[(&str, &str)]) -> Ran {
    let command = command.replace(FROM_SOURCE, "cilium-ipam ");
    let program = Path::new(env!("CARGO_BIN_EXE_cilium-ipam"));
    let further = variables.iter().filter(|(name, _)| *name == "PATH");
    let path: String = [("", program.parent().unwrap().to_str().unwrap())]
        .iter()
        .chain(further)
        .map(|(_, folder)| format!("{folder}:"))
        .collect();
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-e", "-c", &command])
        .current_dir(folder.path())
        .env_clear()
        .env("HOME", folder.path())
        .env("COLUMNS", "100")
        .envs(variables.iter().copied())
        .env("PATH", path + "/usr/bin:/bin")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "docs")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "docs@example.org")))
        .stdin(std::process::Stdio::null());
    ran(shell.output().unwrap())
}

/// Whether the page shows this output. A line `…` stands for any number of lines.
fn matches(expected: &str, printed: &str) -> bool {
    if expected.is_empty() {
        return printed.is_empty();
    }
    let mut printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let parts: Vec<Vec<&str>> = expected
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .split(|line| *line == "…")
        .map(<[&str]>::to_vec)
        .collect();
    let last = parts.len() - 1;
    for (index, part) in parts.iter().enumerate() {
        let start = if part.is_empty() {
            0
        } else if index == 0 {
            usize::from(!printed.starts_with(part)) * printed.len()
        } else {
            let found = printed
                .windows(part.len())
                .position(|window| window == &**part);
            found.unwrap_or(printed.len())
        };
        if start + part.len() > printed.len() {
            return false;
        }
        printed = printed.split_off(start + part.len());
        if index == last && !part.is_empty() && !printed.is_empty() {
            return false;
        }
    }
    true
}

/// The commands of a block that [`run`] does not run.
pub fn commands_not_run(block: &Block) -> Vec<&str> {
    let prompt = match block.language.as_str() {
        "console" => "$ ",
        "sh" if block.document.starts_with(ADVICE) => "",
        _ => return Vec::new(),
    };
    let lines = block.text.lines();
    lines
        .filter_map(|line| line.strip_prefix(prompt))
        .filter(|command| !command.ends_with('\\'))
        .collect()
}

/// Fails if the program knows no such verb or flag, or the Makefile no such target. Returns whether
/// the command is one of these.
pub fn is_known(block: &Block, command: &str) -> bool {
    let end = [" #", " | ", " > ", "; ", " < "]
        .iter()
        .filter_map(|end| command.find(end))
        .min();
    let command = command[..end.unwrap_or(command.len())].trim_end();
    if let Some(target) = command.strip_prefix("make ") {
        let target = target.split(' ').next().unwrap();
        let makefile = std::fs::read_to_string(repository().join("Makefile")).unwrap();
        assert!(makefile.contains(&format!("\n{target}:")), "{target}");
    } else if command.starts_with("cilium-ipam ") {
        // The help is printed once everything before it is understood.
        let ran = shell(&Folder::new(&[]), &format!("{command} --help"), &[]);
        assert_eq!(ran.code, 0, "{}: {command}\n{}", block.place(), ran.all());
    } else {
        return false;
    }
    true
}

#[test]
fn an_ellipsis_stands_for_any_lines() {
    assert!(matches("a\nb\n", "a\nb\n"));
    assert!(matches("a\n…\nd\n", "a\nb\nc\nd\n"));
    assert!(matches("…\nb\n…\n", "a\nb\nc\n"));
    assert!(matches("a\n…\n", "a\nb\n"));
    assert!(!matches("a\n", "a\nb\n"));
    assert!(!matches("b\n", "a\nb\n"));
    assert!(!matches("a\n…\nc\n", "a\nb\n"));
    assert!(!matches("", "a\n"));
}
