//! The commands and snippets of the README, run as they are written.

use super::support::{repository, run};

/// The commands of every `sh` block of a document, without their prompts.
fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(document)).unwrap();
    let blocks = text
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[test]
fn every_command_runs_and_the_first_prints_the_picture() {
    let commands = commands("README.md");
    assert!(
        commands.contains(&"cargo xtask test".to_owned()),
        "{commands:?}"
    );
    let mut ran = 0;
    for command in commands
        .iter()
        .filter_map(|command| command.strip_prefix("cargo run --quiet -- "))
    {
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = run(repository(), &arguments).expect(0);
        if ran == 0 {
            let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
            let picture = readme
                .split("```text\n")
                .nth(1)
                .unwrap()
                .split("```")
                .next()
                .unwrap();
            assert_eq!(picture, output.stdout);
        }
        ran += 1;
    }
    assert!(ran >= 3);
}

#[test]
fn the_documents_snippets_are_valid() {
    for document in ["README.md", "OPERATOR.md", "UPGRADE.md"] {
        let text = std::fs::read_to_string(repository().join(document)).unwrap();
        for snippet in text
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap())
        {
            let folder = super::support::Folder::new(&[("pools/a.yaml", snippet)]);
            folder.run(&["validate"]).expect(0);
        }
    }
}

/// UPGRADE.md names the formats that the program writes; its links and make targets exist.
#[test]
fn the_upgrade_page_names_the_formats_that_are_written() {
    let text = std::fs::read_to_string(repository().join("UPGRADE.md")).unwrap();
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(&format!("| {name}")))
            .unwrap_or_else(|| panic!("{name}"))
    };
    let format = |name: &str| row(name).split('|').nth(2).unwrap().trim().to_owned();
    assert_eq!(format("claims"), ipam_core::claims::FORMAT_VERSION);
    assert_eq!(format("plan files"), ipam_planner::plan::FORMAT_VERSION);
    for page in ["README.md", "OPERATOR.md"] {
        assert!(
            std::fs::read_to_string(repository().join(page))
                .unwrap()
                .contains("(UPGRADE.md)"),
            "{page}"
        );
    }
    let links = text
        .split("](")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap());
    for link in links.filter(|link| !link.starts_with('#')) {
        assert!(repository().join(link).exists(), "{link}");
    }
    let makefile = std::fs::read_to_string(repository().join("Makefile")).unwrap();
    for target in text
        .split("$ make ")
        .skip(1)
        .map(|rest| rest.split(' ').next().unwrap())
    {
        assert!(makefile.contains(&format!("\n{target}:")), "{target}");
    }
}
