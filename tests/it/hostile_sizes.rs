//! Large files, and files with very many faults: every form of output stays small, and the counts
//! stay exact.

use serde_json::Value;

use super::support::{Folder, TextAssertions, pin, pool};
use cilium_ipam::render::{
    Detail, PageLimit, diagnostics, finding_documents, findings_in_event, markdown_findings,
};
use ipam_config::documents::{Documents, SourceFile};
use ipam_controller::{Loaded, check_documents};
use ipam_core::model::Severity;

const GOOD: &str = "cidrs: [10.20.0.0/16], blockSize: 24";

/// How often a test repeats something.
fn many(count: usize, one: impl Fn(usize) -> String) -> Vec<String> {
    (0..count).map(one).collect()
}

/// Faulty files with about this many faults, each of another shape.
fn shapes(faults: usize) -> Vec<(&'static str, String)> {
    let of_pool = |fields: String| pool("a", &format!("{{{GOOD}, {fields}}}"));
    let list = |one: &str, between: &str| vec![one; faults].join(between);
    vec![
        (
            "faults of one line",
            of_pool(format!("reserved: [{}]", list("x", ", "))),
        ),
        (
            "faults of one line beyond ASCII",
            of_pool(format!("reserved: [{}]", list("é😀", ", "))),
        ),
        (
            "faults of a line each",
            pool(
                "a",
                &format!(
                    "\n  blockSize: 24\n  reserved:\n  - {}",
                    list("x", "\n  - ")
                ),
            ),
        ),
        ("faulty documents", list("a: 1\n", "---\n")),
        (
            "unknown fields",
            of_pool(many(faults, |n| format!("k{n}: 1")).join(", ")),
        ),
        (
            "faulty labels",
            of_pool(format!(
                "nodeSelector: {{matchLabels: {{{}}}}}",
                many(faults, |n| format!("k{n}: 1")).join(", ")
            )),
        ),
        (
            "names that are taken",
            many(faults, |_| pool("a", &format!("{{{GOOD}}}"))).join("---\n"),
        ),
        ("pins into a pool that is not there", {
            let pools = many(faults, |n| {
                pool(
                    &format!("rack-{n}"),
                    &format!(
                        "{{cidrs: [10.{}.{}.0/24], blockSize: 26}}",
                        n / 256,
                        n % 256
                    ),
                )
            });
            let pin = |n| {
                pin(&format!("n{n}"), "10.20.0.0/24")
                    .replace("{podCIDRs", "{pool: no-such-rack, podCIDRs")
            };
            [pools, many(faults, pin)].concat().join("---\n")
        }),
        (
            "a long value",
            of_pool(format!("reserved: [{}]", "x".repeat(8 * faults))),
        ),
        (
            "a long name of a field",
            of_pool(format!("{}: 1", "x".repeat(8 * faults))),
        ),
    ]
}

fn read(text: &str) -> Loaded {
    let file = SourceFile {
        path: "pools/faulty.yaml".into(),
        text: text.into(),
    };
    check_documents(Documents { files: vec![file] }, Vec::new())
}

#[test]
fn what_is_shown_of_many_faults_is_bounded() {
    // Whole, one of these is 10 to 60 MB as JSON with its lines uncut.
    for (shape, text) in shapes(2_000) {
        let Loaded {
            documents,
            findings,
            ..
        } = read(&text);
        assert!(
            findings
                .iter()
                .any(|finding| finding.severity == Severity::Error),
            "{shape}"
        );
        let human = diagnostics(&findings, &documents, Detail::Short);
        let report =
            serde_json::to_string(&finding_documents(&findings, &documents, Detail::Short))
                .unwrap();
        let news = findings_in_event(&findings).to_string();
        let markdown = markdown_findings(
            &finding_documents(&findings, &documents, Detail::Full).findings,
            Detail::Full,
            PageLimit::COMMENT,
        );
        for (form, text, most) in [
            ("human", &human, 16_000),
            ("JSON", &report, 160_000),
            ("news", &news, 16_000),
            ("Markdown", &markdown, 65_535),
        ] {
            assert!(
                text.len() <= most,
                "{shape}: {form} has {} bytes",
                text.len()
            );
        }
    }
}

#[test]
fn what_is_shown_in_full_grows_with_the_faults_alone() {
    for (shape, text) in shapes(400) {
        let Loaded {
            documents,
            findings,
            ..
        } = read(&text);
        let human = diagnostics(&findings, &documents, Detail::Full);
        let report =
            serde_json::to_string(&finding_documents(&findings, &documents, Detail::Full)).unwrap();
        for (form, text) in [("human", &human), ("JSON", &report)] {
            let each = text.len() / findings.len();
            assert!(
                each <= 3_000,
                "{shape}: {form} has {each} bytes for each of {} findings",
                findings.len()
            );
        }
    }
}

#[test]
fn the_number_of_what_is_left_out_is_exact() {
    let folder = Folder::new(&[]);
    folder.write(
        "pools/a.yaml",
        pool(
            "a",
            &format!("{{{GOOD}, reserved: [{}]}}", vec!["x"; 1_234].join(", ")),
        ),
    );
    let report = |flags: &[&str]| {
        folder
            .run(&[&["validate", "-o", "json"], flags].concat())
            .expect(3)
            .json()
    };
    let (short, full) = (report(&[]), report(&["--show-all"]));
    let count = |report: &Value| report["findings"].as_array().unwrap().len();
    assert_eq!((count(&short), count(&full)), (100, 1_234));
    assert_eq!(
        short["omitted"],
        serde_json::json!([{"severity": "error", "rule": "bad-range", "count": 1_134}])
    );
    assert_eq!(full["omitted"], serde_json::json!([]));
    let snippet = short["findings"][50]["origin"]["snippet"].as_str().unwrap();
    assert!(
        snippet.starts_with('…') && snippet.ends_with('…') && snippet.len() < 250,
        "{snippet}"
    );
    let human = folder.expect("validate", 3).stderr;
    human.assert_has("1,229 further errors of bad-range");
    human.assert_has("--show-all shows all");
}

#[test]
fn a_place_far_into_a_long_line_is_shown_with_what_stands_around_it() {
    let folder = Folder::new(&[]);
    let good: Vec<String> = (0..2_000)
        .map(|n| format!("10.20.{}.{}", n / 256, n % 256))
        .collect();
    let line = format!(
        "{{{GOOD}, reserved: [{}, 10.20.0.300, {}]}}",
        good.join(", "),
        good.join(", ")
    );
    folder.write("pools/a.yaml", pool("a", &line));
    let shown = folder.expect("validate", 3).stderr;
    shown.assert_has("10.20.7.207, 10.20.0.300, 10.20.0.0");
    shown.assert_has("pools/a.yaml:4:");
    assert!(
        shown.lines().all(|line| line.chars().count() < 250),
        "{shown}"
    );
}
