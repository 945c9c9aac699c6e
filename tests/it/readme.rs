//! The README and the pages of `docs/src`: every command runs, every snippet is valid, and generated
//! pages are as the program makes them. `CONTRIBUTING.md` has the conventions.

mod blocks;
mod cli_help;
mod cli_page;
mod exit_codes;
mod fields;
mod generated;
mod json_formats;
pub mod metrics;
mod on_a_server;
mod rule_pages;
mod running;

use std::path::PathBuf;

use self::blocks::{Block, blocks};
use super::support::{Folder, TextAssertions, policy, repository};

/// Every document, relative to the repository.
fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut folders = vec![repository().join("docs/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.strip_prefix(repository()).unwrap();
            let name = name.to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

pub fn read(document: &str) -> String {
    std::fs::read_to_string(repository().join(document)).unwrap()
}

fn all_blocks() -> Vec<Block> {
    documents()
        .iter()
        .flat_map(|document| blocks(document, &read(document)))
        .collect()
}

#[test]
fn every_command_runs_and_prints_what_the_page_shows() {
    let mut ran = 0;
    for document in documents() {
        let mut page = read(&document);
        let blocks = blocks(&document, &page);
        let is_updated = generated::is_update();
        ran += running::run(&blocks, is_updated.then_some(&mut page));
        if is_updated {
            std::fs::write(repository().join(&document), page).unwrap();
        }
    }
    assert!(ran >= 30, "{ran}");
}

/// Commands that need a cluster are not run; the program knows their verbs and flags.
#[test]
fn every_other_command_of_the_program_is_known() {
    let mut known = 0;
    for block in &all_blocks() {
        for command in running::commands_not_run(block) {
            known += usize::from(running::is_known(block, command));
        }
    }
    assert!(known >= 30, "{known}");
}

#[test]
fn the_documents_snippets_are_valid() {
    let mut validated = 0;
    for block in all_blocks() {
        match block.language.as_str() {
            "json" => {
                let read = serde_json::from_str::<serde_json::Value>(&block.text);
                assert!(read.is_ok(), "{}: {read:?}", block.place());
            }
            "yaml" if block.is_for_this_program() => {
                let folder = Folder::new(&[("pools/a.yaml", &block.text)]);
                if block.text.contains("kind: PolicyTest") {
                    // Tests alone are refused, as an empty directory is.
                    folder.write("pools/policy.yaml", policy("{}"));
                }
                let ran = folder.run(&["validate"]);
                assert_eq!(ran.code, 0, "{}: {}", block.place(), ran.stderr);
                validated += 1;
            }
            "yaml" => {
                for document in block.text.split("\n---\n") {
                    let read = serde_yaml::from_str::<serde_json::Value>(document);
                    assert!(read.is_ok(), "{}: {read:?}", block.place());
                }
            }
            // Markdown would show a block without a language as something to run.
            other => assert!(
                [
                    "sh",
                    "console",
                    "text",
                    "toml",
                    "shell",
                    "diff",
                    "dockerfile"
                ]
                .contains(&other),
                "{}: the language `{other}`",
                block.place()
            ),
        }
    }
    assert!(validated >= 6, "{validated}");
}

/// The upgrade page names the formats that the program writes; its make targets exist.
#[test]
fn the_upgrade_page_names_the_formats_that_are_written() {
    let text = read("docs/src/how-to/upgrade.md");
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(&format!("| {name}")))
            .unwrap_or_else(|| panic!("{name}"))
    };
    let format = |name: &str| row(name).split('|').nth(2).unwrap().trim().to_owned();
    assert_eq!(format("claims"), ipam_core::claims::FORMAT_VERSION);
    assert_eq!(format("plan files"), ipam_plan::plan::FORMAT_VERSION);
    for page in ["index.md", "how-to/operator.md"] {
        let text = read(&format!("docs/src/{page}"));
        assert!(text.contains("upgrade.md)"), "{page}");
    }
    text.assert_has("$ make cilium-ipam-upgrade");
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 120, "{lines}");
}
