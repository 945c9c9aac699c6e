//! Rules of the repository as tests: who may import whom, and what every module must have.

use std::path::{Path, PathBuf};

use super::support::repository;

/// Folders of the product's sources.
const PRODUCT: [&str; 2] = ["src", "crates"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn without_tests(text: &str) -> &str {
    text.split("\n#[cfg(test)]\nmod tests {").next().unwrap()
}

fn product() -> Vec<PathBuf> {
    let folders = PRODUCT.map(|folder| repository().join(folder));
    folders.iter().flat_map(|folder| sources(folder)).collect()
}

#[test]
fn every_module_says_what_it_is_for_and_stays_small() {
    let folders = ["src", "crates", "ci", "tests"].map(|folder| repository().join(folder));
    for file in folders.iter().flat_map(|folder| sources(folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("//!"),
            "{} does not open with `//!`",
            file.display()
        );
        let lines = without_tests(&text).lines().count();
        let is_product = PRODUCT
            .iter()
            .any(|folder| file.starts_with(repository().join(folder)));
        let limit = if is_product { 400 } else { 600 };
        assert!(lines <= limit, "{} has {lines} lines", file.display());
        for word in ["TODO", "FIXME", "XXX", "dbg!"] {
            assert!(
                file.ends_with("tidy.rs") || !text.contains(word),
                "{} has {word}",
                file.display()
            );
        }
    }
}

/// The lines of each test function, with their numbers.
fn lines_of_tests(text: &str) -> Vec<(usize, &str)> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    let mut found = Vec::new();
    while let Some((_, line)) = lines.next() {
        let Some(indent) = line.strip_suffix("#[test]") else {
            continue;
        };
        let end = format!("{indent}}}");
        found.extend(lines.by_ref().take_while(|(_, line)| *line != end));
    }
    found
}

#[test]
fn no_test_passes_by_returning_early() {
    let folders = ["src", "crates", "ci", "tests"].map(|folder| repository().join(folder));
    for file in folders.iter().flat_map(|folder| sources(folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        for (number, line) in lines_of_tests(&text) {
            let returns = ["return;", "return }", "return Ok(())"]
                .iter()
                .any(|early| line.contains(early));
            let way_out = "a test that lacks something ends with `testbed::or_skip!`, a case that says nothing with `prop_assume!`";
            assert!(
                file.ends_with("tidy.rs") || !returns,
                "{}:{number} returns early: {way_out}",
                file.display()
            );
        }
    }
    let example = "#[test]\nfn a() {\n    let Some(b) = c() else { return };\n}\nfn d() {}\n";
    assert_eq!(
        lines_of_tests(example)
            .iter()
            .filter(|(_, line)| line.contains("return }"))
            .count(),
        1
    );
}

#[test]
fn addresses_are_read_in_one_place() {
    // Pairs of a port and name servers are kept as they are written; nothing is given from them.
    let exempt = [
        "crates/ipam-core/src/neutron/pairs.rs",
        "crates/neutron-cni/src/cni/outcome.rs",
    ];
    for file in product() {
        let relative = file.strip_prefix(repository()).unwrap();
        if relative.starts_with("crates/ipam-core/src/net")
            || relative.ends_with("tests.rs")
            || exempt.iter().any(|exempt| relative == Path::new(exempt))
        {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for kind in [
            "IpAddr", "Ipv4Addr", "Ipv6Addr", "IpNet", "Ipv4Net", "Ipv6Net",
        ] {
            let reads = without_tests(&text).contains(&format!("parse::<{kind}>"));
            assert!(
                !reads,
                "{} reads {kind} from text: use net::Address or net::Block",
                relative.display()
            );
        }
    }
}

#[test]
fn only_one_file_of_the_terminal_program_prints() {
    let doors = [
        "println!",
        "print!(",
        "io::stdout()",
        "io::stderr()",
        "anstream::",
        ".print()",
    ];
    // What the node's plugins say goes to a runtime, not into the log of a CI job.
    let plugins =
        ["neutron-cni", "neutron-node"].map(|name| repository().join("crates").join(name));
    for file in product() {
        let is_other = plugins.iter().any(|folder| file.starts_with(folder))
            || file.ends_with("cli/output.rs");
        let text = std::fs::read_to_string(&file).unwrap();
        for line in without_tests(&text)
            .lines()
            .filter(|line| !is_other && !line.contains("is_terminal()"))
        {
            assert!(
                !doors.iter().any(|door| line.contains(door)),
                "{}: {line}",
                file.display()
            );
        }
    }
}
