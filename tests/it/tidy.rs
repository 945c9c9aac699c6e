//! Rules of the repository as tests: form and size of modules, early returns in tests, where
//! addresses are parsed, and where the program prints.

use std::path::{Path, PathBuf};

use super::support::repository;

/// Folders of the product's sources.
const PRODUCT: [&str; 3] = ["src", "crates", "plugins"];

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

pub(super) fn without_tests(text: &str) -> &str {
    const TESTS: &str = "\n#[cfg(test)]\nmod ";
    let is_here = |at: &usize| {
        text[at + TESTS.len()..]
            .lines()
            .next()
            .unwrap()
            .ends_with('{')
    };
    let mut places = text.match_indices(TESTS).map(|(at, _)| at);
    &text[..places.find(is_here).unwrap_or(text.len())]
}

pub(super) fn product() -> Vec<PathBuf> {
    let folders = PRODUCT.map(|folder| repository().join(folder));
    folders.iter().flat_map(|folder| sources(folder)).collect()
}

/// `.ci/expected-skips` allows them by this word.
#[test]
fn every_ignored_test_says_that_it_is_slow() {
    let folders =
        ["src", "crates", "plugins", "ci", "tests"].map(|folder| repository().join(folder));
    let mut ignored = 0;
    for file in folders.iter().flat_map(|folder| sources(folder)) {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text
            .lines()
            .filter(|line| line.trim().starts_with("#[ignore"))
        {
            assert!(
                line.contains("#[ignore = \"slow: "),
                "{}: {line}",
                file.display()
            );
            ignored += 1;
        }
    }
    assert!(ignored > 0, "no test is ignored");
}

#[test]
fn every_module_says_what_it_is_for_and_stays_small() {
    let folders =
        ["src", "crates", "plugins", "ci", "tests"].map(|folder| repository().join(folder));
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
        // Tests of a module may be a file or a folder beside it.
        let is_test = file.ends_with("tests.rs") || file.iter().any(|part| part == "tests");
        let limit = if is_product && !is_test { 400 } else { 600 };
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
    let folders =
        ["src", "crates", "plugins", "ci", "tests"].map(|folder| repository().join(folder));
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

/// The standard types of addresses. They read IPv4-mapped IPv6 as IPv6.
const ADDRESS_TYPES: [&str; 6] = [
    "IpAddr", "Ipv4Addr", "Ipv6Addr", "IpNet", "Ipv4Net", "Ipv6Net",
];

fn has_word(text: &str, word: &str) -> bool {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .any(|part| part == word)
}

/// Whether a line makes this type from text: `parse::<T>`, `T::from_str`, or `T = …parse()`.
fn parses(line: &str, kind: &str) -> bool {
    let inferred = line.split_once(" = ").is_some_and(|(left, right)| {
        left.contains("let ") && has_word(left, kind) && right.contains(".parse()")
    });
    inferred
        || line.contains(&format!("parse::<{kind}>"))
        || line.contains(&format!("{kind}::from_str"))
}

/// The bodies of the types that derive `Deserialize`.
fn deserialized(text: &str) -> impl Iterator<Item = &str> {
    let bodies = text.split("#[derive(").skip(1);
    bodies.filter_map(|rest| {
        let (derived, body) = rest.split_once(")]")?;
        has_word(derived, "Deserialize").then(|| body.split("\n}").next().unwrap_or(body))
    })
}

#[test]
fn addresses_are_read_in_one_place() {
    // Address pairs of a port, name servers and `Host` headers are kept as written; no pool gives them
    // out. Settings of Cilium's operator are read as its own libraries read them.
    let exempt = [
        "crates/ipam-cilium/src/observed/go.rs",
        "crates/http-server/src/lib.rs",
        "crates/ipam-core/src/neutron/mod.rs",
        "plugins/neutron-cni/src/cni/outcome.rs",
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
        let text = without_tests(&text);
        // These crates read Neutron's answers and CNI's configuration, which have no pool's text.
        let reads_pools = !["openstack", "neutron-cni", "neutron-node"]
            .iter()
            .any(|name| relative.starts_with(Path::new("plugins").join(name)));
        for kind in ADDRESS_TYPES {
            let parsed = text.lines().any(|line| parses(line, kind));
            let derived = reads_pools && deserialized(text).any(|body| has_word(body, kind));
            assert!(
                !parsed && !derived,
                "{} reads {kind} from text: use net::Address or net::Block",
                relative.display()
            );
        }
    }
}

#[test]
fn every_way_to_read_an_address_is_seen() {
    let lines = [
        "text.parse::<IpAddr>()",
        "IpAddr::from_str(text)",
        "let address: IpAddr = text.parse()?;",
        "let address: Option<IpAddr> = text.parse().ok();",
    ];
    assert!(lines.iter().all(|line| parses(line, "IpAddr")));
    assert!(!parses("let address: Address = text.parse()?;", "IpAddr"));
    let source = "#[derive(Debug, Deserialize)]\nstruct A {\n    ip: Option<IpAddr>,\n}\n\
                  #[derive(Debug)]\nstruct B {\n    ip: Ipv4Addr,\n}\n";
    assert!(deserialized(source).any(|body| has_word(body, "IpAddr")));
    assert!(!deserialized(source).any(|body| has_word(body, "Ipv4Addr")));
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
    // The output of the node's plugins goes to a runtime, not into the log of a CI job.
    let plugins =
        ["neutron-cni", "neutron-node"].map(|name| repository().join("plugins").join(name));
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
