//! Faulty files: each gives a diagnostic with its rule, file and line, exit 3, and nothing is
//! written.
//!
//! The files in `faulty` have a case after each line that begins with `###`. Its marks are exactly
//! the errors and warnings of `validate`, in its order; remarks are not compared.
//!
//! ```text
//! ### a description
//! spec: {blocksize: 24}  #! unknown-field, missing-field      errors on this line
//! metadata: {name: a}  #? pool-without-blocks                 warnings
//! #: the message of the mark above
//! #: its help
//! ```

mod empty_fields;
mod faults;
mod messages;
mod places;
mod several_faults;
mod warnings;

use serde_json::Value;

use crate::support::{Folder, args, node, repository};

const GOOD: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";

fn folder() -> Folder {
    Folder::with_cluster(&[node("n", "a", "")], &[])
}

/// What `validate` must find.
#[derive(Debug)]
struct Mark {
    severity: &'static str,
    rule: String,
    line: usize,
    /// Message and help, where the case has them.
    told: Vec<String>,
}

/// A file and what `validate` must find in it.
struct Case {
    what: String,
    text: String,
    /// Errors before warnings, each by line.
    marks: Vec<Mark>,
}

impl Case {
    fn new(what: &str, text: &str) -> Case {
        let mut marks: Vec<Mark> = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            if let Some(told) = content.strip_prefix("#: ") {
                marks.last_mut().unwrap().told.push(told.to_owned());
            }
            for (sign, severity) in [("#! ", "error"), ("#? ", "warning")] {
                let rules = content.split_once(sign).map(|(_, rest)| rest);
                let rules = rules.and_then(|rest| rest.split("  ").next());
                let of_rule = |rule: &str| Mark {
                    severity,
                    rule: rule.to_owned(),
                    line,
                    told: Vec::new(),
                };
                marks.extend(
                    rules
                        .into_iter()
                        .flat_map(|all| all.split(", "))
                        .map(of_rule),
                );
            }
        }
        marks.sort_by_key(|mark| mark.severity);
        let (what, text) = (what.to_owned(), text.to_owned());
        Case { what, text, marks }
    }

    /// One that is made by a program, with one error.
    fn made(what: &str, text: String, rule: &str, line: usize) -> Case {
        let mark = Mark {
            severity: "error",
            rule: rule.to_owned(),
            line,
            told: Vec::new(),
        };
        Case {
            what: what.to_owned(),
            text,
            marks: vec![mark],
        }
    }

    fn folder(&self) -> Folder {
        let folder = folder();
        folder.write("pools/faulty.yaml", &self.text);
        folder
    }

    fn is_faulty(&self) -> bool {
        self.marks.iter().any(|mark| mark.severity == "error")
    }

    /// What is not as expected.
    fn failures(&self) -> Vec<String> {
        let folder = self.folder();
        let ran = folder.run(&args("validate -o json"));
        let report = ran.json();
        let findings = report["findings"].as_array().unwrap();
        let findings: Vec<&Value> = findings
            .iter()
            .filter(|finding| finding["severity"] != "info")
            .collect();
        let mut failures = Vec::new();
        let code = if self.is_faulty() { 3 } else { 0 };
        if ran.code != code {
            failures.push(format!("exit {}, not {code}", ran.code));
        }
        let found: Vec<String> = findings.iter().map(|finding| place(finding)).collect();
        let expected: Vec<String> = self.marks.iter().map(Mark::place).collect();
        if found != expected {
            failures.push(format!("found {found:#?}, not {expected:#?}"));
        }
        let texts = self.marks.iter().zip(&findings);
        failures.extend(texts.flat_map(|(mark, finding)| mark.wrong_texts(finding)));
        if self.is_faulty() {
            failures.extend(self.wrong_apply(&folder));
        }
        failures
    }

    /// An apply says the same, and writes nothing.
    fn wrong_apply(&self, folder: &Folder) -> Vec<String> {
        let before = folder.read("cluster.json");
        let ran = folder.run(&args("apply --cluster cluster.json --auto-approve"));
        let errors = self.marks.iter().filter(|mark| mark.severity == "error");
        let texts = errors.flat_map(|mark| {
            let Mark { rule, line, .. } = mark;
            [
                format!("cilium-ipam::{rule}"),
                format!("faulty.yaml:{line}"),
            ]
        });
        let missing = texts.filter(|text| !ran.stderr.contains(text));
        let mut failures: Vec<String> = missing
            .map(|text| format!("apply does not name {text}: {}", ran.stderr))
            .collect();
        if ran.code != 3 || folder.read("cluster.json") != before {
            failures.push(format!("apply exits {}, or writes", ran.code));
        }
        failures
    }
}

/// Severity, rule, file and line of a finding.
fn place(finding: &Value) -> String {
    let [severity, rule] = ["severity", "rule"].map(|key| finding[key].as_str().unwrap());
    let (file, line) = (&finding["origin"]["file"], &finding["origin"]["line"]);
    format!("{severity} {rule} in {file}:{line}")
}

impl Mark {
    fn place(&self) -> String {
        let Mark {
            severity,
            rule,
            line,
            told: _,
        } = self;
        format!("{severity} {rule} in \"pools/faulty.yaml\":{line}")
    }

    /// The texts of a finding that are missing, differ, or are not in our words.
    fn wrong_texts(&self, finding: &Value) -> Vec<String> {
        let texts = ["message", "help"].map(|key| finding[key].as_str().unwrap_or_default());
        let mut wrong: Vec<String> = (self.told.iter().zip(texts))
            .filter(|(expected, text)| expected != text)
            .map(|(expected, text)| format!("`{text}` is not `{expected}`"))
            .collect();
        if texts[1].is_empty() {
            wrong.push(format!("{} has no help", self.rule));
        }
        let leaks = FOREIGN_WORDS.iter().filter(|word| texts[0].contains(*word));
        wrong.extend(leaks.map(|word| format!("{word:?} in {}", texts[0])));
        wrong
    }
}

/// Words of the parser and of Rust.
const FOREIGN_WORDS: [&str; 9] = [
    "Options",
    "Policy in",
    "from_",
    "budget",
    "invalid type",
    "i32",
    "u64",
    " line ",
    "column",
];

/// The cases of a file in `faulty`.
fn cases(file: &str) -> Vec<Case> {
    let path = repository().join("tests/it/bad_input/faulty").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let parts = text.split("\n### ").skip(1);
    let cases: Vec<Case> = parts
        .map(|part| {
            let (what, text) = part.split_once('\n').unwrap();
            Case::new(what, &format!("{}\n", text.trim_end()))
        })
        .collect();
    assert!(!cases.is_empty(), "no case in {file}");
    cases
}

fn check(cases: &[Case]) {
    let failures = cases.iter().flat_map(|case| {
        let failures = case.failures().into_iter();
        failures.map(|failure| format!("{}: {failure}", case.what))
    });
    let failures: Vec<String> = failures.collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
