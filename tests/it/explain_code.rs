//! The pages of rule codes: complete, the same in the program and in the reference, and with
//! examples that work.

mod codes;

use std::collections::{BTreeMap, BTreeSet};

use ipam_core::rules;

use super::support::{Folder, TextAssertions, pool, repository, run};

/// The sources of each crate, without their unit tests.
fn crates() -> BTreeMap<String, Vec<String>> {
    let mut crates: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in super::tidy::product() {
        let relative = file.strip_prefix(repository()).unwrap();
        let mut parts = relative.iter().map(|part| part.to_string_lossy());
        let name = match parts.next().unwrap().as_ref() {
            "crates" | "plugins" => parts.next().unwrap().into_owned(),
            root => root.to_owned(),
        };
        if relative.ends_with("tests.rs") || relative.iter().any(|part| part == "tests") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let text = super::tidy::without_tests(&text).to_owned();
        crates.entry(name).or_default().push(text);
    }
    crates
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let mut raised: BTreeSet<String> = crates()
        .values()
        .flat_map(|sources| codes::codes_of_crate(sources))
        .collect();
    let reasons = ipam_plan::plan::reason_codes();
    raised.extend(reasons.into_iter().map(str::to_owned));
    let of_upgrades = ipam_doctor::upgrade::UpgradeCode::ALL;
    raised.extend(of_upgrades.map(|code| code.to_string()));
    let pages: BTreeSet<String> = rules::pages().map(|page| page.code.to_owned()).collect();
    let without_page: Vec<_> = raised.difference(&pages).collect();
    let unused: Vec<_> = pages.difference(&raised).collect();
    assert!(
        without_page.is_empty() && unused.is_empty(),
        "crates/ipam-core/rules has no page of {without_page:?}, and nothing raises {unused:?}"
    );
}

#[test]
fn a_page_is_printed_without_files_and_cluster() {
    let folder = Folder::new(&[]);
    let page = folder.expect("explain pool-overlap", 0);
    let known = rules::page("pool-overlap").unwrap();
    for part in [
        known.code,
        &known.summary,
        "What was seen",
        "Why it matters",
        "What to do",
        "  Give each pool its own addresses.",
    ] {
        assert!(page.stdout.contains(part), "{part}: {}", page.stdout);
    }
    assert_eq!(page.stderr, "");
    // As a diagnostic prints the code.
    let same = folder.run(&["explain", "cilium-ipam::pool-overlap"]);
    assert_eq!(same.expect(0).stdout, page.stdout);
}

#[test]
fn an_unknown_code_names_the_nearest_one() {
    let folder = Folder::new(&[]);
    let ran = folder.expect("explain pool-overlaps", 3);
    ran.stderr
        .assert_has("`cilium-ipam explain pool-overlap` shows its page");
    assert!(ran.stderr.lines().count() < 12, "{}", ran.stderr);
}

#[test]
fn without_a_code_all_are_listed() {
    let folder = Folder::new(&[]);
    let list = folder.expect("explain", 0).stdout;
    let json = folder.json("explain -o json");
    let documents = json.as_array().unwrap();
    assert_eq!(documents.len(), rules::pages().count());
    for document in documents {
        let (code, summary) = (
            document["code"].as_str().unwrap(),
            document["summary"].as_str().unwrap(),
        );
        let is_line = |line: &str| line.trim_start().starts_with(code) && line.ends_with(summary);
        assert!(list.lines().any(is_line), "{code}");
        assert!(!document["action"].as_str().unwrap().is_empty(), "{code}");
    }
}

#[test]
fn every_page_of_the_reference_is_of_a_family() {
    let folder = repository().join("docs/src/reference/rules");
    let entries = std::fs::read_dir(folder).unwrap();
    let kept: BTreeSet<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let names = rules::families().iter().map(|family| family.name);
    let pages = names.chain(["index"]).map(|name| format!("{name}.md"));
    assert_eq!(kept, pages.collect::<BTreeSet<String>>());
}

#[test]
fn an_index_links_every_family_and_a_family_every_code() {
    let folder = repository().join("docs/src/reference/rules");
    let read = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.md"))).unwrap();
    let index = read("index");
    for family in rules::families() {
        index.assert_has(&format!("[{}]({}.md)", family.title, family.name));
        let page = read(family.name);
        for code in family.pages.iter().map(|page| page.code) {
            page.assert_has(&format!("[`{code}`](#{code})"));
            page.assert_has(&format!("\n## {code}\n"));
        }
    }
}

/// The code blocks of all pages, with the code of their page.
fn blocks(language: &str) -> Vec<(&'static str, String)> {
    let start = format!("```{language}\n");
    let of_page = |page: &'static rules::RulePage| {
        let rests = page.action.split(&start).skip(1);
        let blocks: Vec<_> = rests
            .map(|rest| (page.code, rest.split("```").next().unwrap().to_owned()))
            .collect();
        blocks
    };
    rules::pages().flat_map(of_page).collect()
}

/// With `--help`, a command only reads its arguments.
#[test]
fn commands_in_pages_are_those_of_this_program() {
    let folder = Folder::new(&[]);
    let mut tried = 0;
    for (code, block) in blocks("sh") {
        for line in block.lines() {
            let Some((_, command)) = line.split_once("cilium-ipam ") else {
                continue;
            };
            let command = command.split(" | ").next().unwrap();
            let mut arguments: Vec<&str> = command.split(' ').collect();
            arguments.push("--help");
            let ran = folder.run(&arguments);
            assert_eq!(ran.code, 0, "{code}: {line}: {}", ran.stderr);
            tried += 1;
        }
    }
    assert!(tried > 5, "{tried}");
}

#[test]
fn documents_in_pages_are_valid() {
    let mut tried = 0;
    for (code, block) in blocks("yaml") {
        let kind = block.lines().find_map(|line| line.strip_prefix("kind: "));
        if !matches!(kind, Some("IPPool" | "NodeAssignment" | "IPAMPolicy")) {
            continue;
        }
        let name = if block.contains("\nmetadata:") {
            ""
        } else {
            "metadata: {name: policy}\n"
        };
        let document = format!("apiVersion: cilium-ipam.io/v1alpha1\n{name}{block}");
        let other = pool("other", "{cidrs: [10.20.0.0/16], blockSize: 24}");
        let mut files = vec![("pools/a.yaml", document.as_str())];
        if kind == Some("NodeAssignment") {
            files.push(("pools/b.yaml", &other));
        }
        let ran = Folder::new(&files).run(&["validate", "--strict"]);
        assert_eq!(ran.code, 0, "{code}: {}", ran.stderr);
        tried += 1;
    }
    assert!(tried > 5, "{tried}");
}

#[test]
fn findings_point_to_their_page() {
    let pools = format!(
        "{}---\n{}",
        pool("a", "{cidrs: [10.0.0.0/16], blockSize: 24}"),
        pool("b", "{cidrs: [10.0.0.0/20], blockSize: 24, priority: 1}")
    );
    let folder = Folder::new(&[("pools/a.yaml", &pools)]);
    let line = "Run `cilium-ipam explain pool-overlap` for what to do.";
    let human = folder.expect("validate", 3).stderr;
    assert_eq!(human.matches(line).count(), 1, "{human}");
    let cluster = repository().join("examples/racks/cluster.yaml");
    let arguments = ["plan", "-o", "markdown", "--cluster-file"];
    let arguments = [&arguments[..], &[cluster.to_str().unwrap()]].concat();
    let markdown = folder.run(&arguments).expect(3).stdout;
    assert_eq!(markdown.matches(line).count(), 1, "{markdown}");
}

#[test]
fn blocked_changes_and_reports_point_to_their_pages() {
    let example = |name: &str, file: &str| format!("examples/{name}/{file}");
    let plan = run(
        repository(),
        &[
            "plan",
            &example("fall-over", "pools"),
            "--cluster-file",
            &example("fall-over", "cluster.yaml"),
            "--fail-on",
            "never",
        ],
    );
    let plan = plan.expect(0).stdout;
    let line = "Run `cilium-ipam explain node-pools-exhausted` for what to do.";
    assert_eq!(plan.matches(line).count(), 1, "{plan}");
    let cluster = example("wrong-block", "cluster.yaml");
    let doctor = |format: &str| {
        let arguments = ["doctor", "--fail-on", "never", "-o", format];
        let arguments = [&arguments[..], &["--cluster-file", &cluster]].concat();
        run(repository(), &arguments).expect(0)
    };
    let human = doctor("human").stdout;
    assert_eq!(human.matches("explain CODE`").count(), 1, "{human}");
    let sarif = doctor("sarif").json();
    let described = sarif["runs"][0]["tool"]["driver"]["rules"]
        .as_array()
        .unwrap();
    assert!(!described.is_empty());
    for rule in described {
        let page = rules::page(rule["id"].as_str().unwrap()).unwrap();
        assert_eq!(rule["shortDescription"]["text"], page.summary);
        let help = rule["help"]["markdown"].as_str().unwrap();
        help.assert_has(&page.action);
    }
}
