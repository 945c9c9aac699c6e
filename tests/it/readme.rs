//! The README's commands, as they stand there.

use super::support::{repository, run};

/// The commands of every `sh` block of a document, without their prompts.
fn commands(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(document)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    blocks
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[test]
fn every_command_runs_and_the_first_prints_the_picture() {
    let commands = commands("README.md");
    assert!(commands.contains(&"cargo xtask test".to_owned()), "{commands:?}");
    let mut ran = 0;
    for command in commands.iter().filter_map(|command| command.strip_prefix("cargo run --quiet -- ")) {
        let arguments: Vec<&str> = command.split(' ').collect();
        let output = run(repository(), &arguments).expect(0);
        if ran == 0 {
            let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
            let picture = readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
            assert_eq!(picture, output.stdout);
        }
        ran += 1;
    }
    assert!(ran >= 3);
}

#[test]
fn the_documents_snippets_are_valid() {
    for document in ["README.md", "OPERATOR.md"] {
        let text = std::fs::read_to_string(repository().join(document)).unwrap();
        for snippet in text.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            let folder = super::support::Folder::new(&[("pools/a.yaml", snippet)]);
            folder.run(&["validate"]).expect(0);
        }
    }
}
