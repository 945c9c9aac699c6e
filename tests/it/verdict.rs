//! One verdict: every output of a plan begins and ends with the same sentence, and the exit code
//! agrees with it.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use super::support::{
    Folder, TextAssertions, address_pool, holds, node, policy, pool, program, ran,
};

/// A situation, the verdict on it and the exit code of `plan`.
struct Situation {
    name: &'static str,
    items: Vec<String>,
    files: Vec<String>,
    line: &'static str,
    code: i32,
}

const POOL: &str = "{cidrs: [10.20.0.0/16], blockSize: 24}";
const ONE_BLOCK: &str = "{cidrs: [10.20.0.0/24], blockSize: 24, priority: 10}";

fn service(ip: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop",
        "uid": "uid-web", "resourceVersion": "5"}, "spec": {"type": "LoadBalancer",
        "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
        "status": {"loadBalancer": {"ingress": [{"ip": ip}]}}})
    .to_string()
}

/// A node whose annotation differs from its spec.
fn drifted() -> String {
    let annotation = r#""annotations":{"network.cilium.io/ipv4-pod-cidr":"10.20.9.0/24"},"uid""#;
    node("n1", "a", &holds("10.20.0.0/24")).replacen(r#""uid""#, annotation, 1)
}

fn situations() -> Vec<Situation> {
    let held = |name: &str, block: &str| node(name, "a", &holds(block));
    let new = |name: &str| node(name, "a", "");
    let of = |name, items, files, line, code| Situation {
        name,
        items,
        files,
        line,
        code,
    };
    let losing = || vec![held("n1", "10.20.0.0/24"), service("10.9.0.1")];
    let edge = || address_pool("edge", "{blocks: [{cidr: 10.7.0.0/24}]}");
    let lost = || vec![pool("a", POOL), edge()];
    vec![
        of(
            "nothing to do",
            vec![held("n1", "10.20.0.0/24")],
            vec![pool("a", POOL)],
            "No changes. 1 node matches the files, 0 moved.",
            0,
        ),
        of(
            "changes",
            vec![held("n1", "10.20.0.0/24"), new("n2")],
            vec![pool("a", POOL)],
            "Plan: 1 to assign, 0 moved; 1 unchanged.",
            0,
        ),
        of(
            "changes of LoadBalancer pools alone",
            vec![held("n1", "10.20.0.0/24")],
            lost(),
            "Plan: 1 LoadBalancer change, 0 moved; 1 unchanged.",
            0,
        ),
        of(
            "refused losses",
            losing(),
            lost(),
            "Plan: refused for 1 reason; 1 address would be lost; 1 LoadBalancer change, 0 moved; 1 unchanged.",
            5,
        ),
        of(
            "refused by a limit",
            vec![new("n1"), new("n2")],
            vec![pool("a", POOL), policy("{limits: {assign: {count: 1}}}")],
            "Plan: refused for 1 reason; 2 to assign, 0 moved.",
            5,
        ),
        of(
            "misplaced",
            vec![held("n1", "10.99.0.0/24")],
            vec![pool("a", POOL)],
            "1 node misplaced; no changes. 0 of 1 node matches the files, 0 moved.",
            0,
        ),
        of(
            "fell over",
            vec![new("n1"), new("n2")],
            vec![
                pool("a", ONE_BLOCK),
                pool("b", "{cidrs: [10.30.0.0/24], blockSize: 24}"),
            ],
            "Plan: 2 to assign, 0 moved; 1 node outside the best pool.",
            0,
        ),
        of(
            "blocked nodes",
            vec![held("n1", "10.20.0.0/24"), new("n2")],
            vec![pool("a", ONE_BLOCK)],
            "1 blocked, 1 error; no changes can be made now. 1 of 2 nodes match the files, 0 moved.",
            2,
        ),
        of(
            "changes beside blocked nodes",
            vec![new("n1"), new("n2")],
            vec![pool("a", ONE_BLOCK)],
            "Plan: 1 to assign, 0 moved; 1 blocked. 1 error found.",
            2,
        ),
        of(
            "drift",
            vec![drifted()],
            vec![pool("a", POOL)],
            "1 drifted node; no changes. 0 of 1 node matches the files, 0 moved.",
            0,
        ),
        of(
            "a block that two nodes hold",
            vec![held("n1", "10.20.0.0/24"), held("n2", "10.20.0.0/24")],
            vec![pool("a", POOL)],
            "1 error; no changes. 0 of 2 nodes match the files, 0 moved.",
            2,
        ),
    ]
}

fn folder(one: &Situation) -> Folder {
    let folder = Folder::with_cluster(&one.items, &[]);
    for (place, file) in one.files.iter().enumerate() {
        folder.write(&format!("pools/{place}.yaml"), file);
    }
    folder
}

fn with(command: &str, more: &[&str]) -> Vec<String> {
    let words = [command, "pools", "--cluster-file", "cluster.json"];
    let words = words.iter().chain(more);
    words.map(|word| (*word).to_owned()).collect()
}

/// The sentence behind a title with a colon.
fn sentence(line: &str) -> String {
    match line.split_once("Plan: ") {
        Some((_, sentence)) => sentence.to_owned(),
        None => line[..1].to_lowercase() + &line[1..],
    }
}

#[test]
fn every_output_has_the_same_verdict() {
    for one in situations() {
        let folder = folder(&one);
        let (name, line) = (one.name, one.line);
        let run = |command: &str, more: &[&str]| {
            let words = with(command, more);
            folder.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let human = run("plan", &[]);
        assert_eq!(human.code, one.code, "{name}: {human:?}");
        let text = human.stdout.trim_end();
        assert_eq!(text.lines().next(), Some(line), "{name}: first line");
        assert_eq!(text.lines().last(), Some(line), "{name}: last line");

        let page = run("plan", &["-o", "markdown"]).stdout;
        let heading = format!("### {line}");
        assert_eq!(page.lines().next(), Some(&*heading), "{name}: Markdown");
        assert_eq!(page.trim_end().lines().last(), Some(line), "{name}: {page}");

        let html = run("plan", &["-o", "html"]).stdout;
        let heading = format!("<h1>{line}</h1>");
        assert!(html.contains(&heading), "{name}: {heading} in {html}");

        let sentence = sentence(line);
        let comment = run("comment", &["--dry-run"]);
        assert_eq!(comment.code, one.code, "{name}: {comment:?}");
        let heading = format!("### `pools`: {sentence}");
        let comment = comment.stdout;
        assert_eq!(comment.lines().next(), Some(&*heading), "{name}: comment");

        let drift = run("drift", &["--dry-run"]).expect(0).stdout;
        let is_gone = drift.contains("The cluster matches the files in `pools`");
        assert_eq!(is_gone, line.starts_with("No changes."), "{name}: {drift}");
        let has_verdict = drift.contains(&sentence) || drift.contains(line);
        assert!(has_verdict, "{name}: {drift}");
    }
}

#[test]
fn exit_codes_follow_the_verdict() {
    for one in situations() {
        let folder = folder(&one);
        let is_refused = one.line.contains("refused for");
        let has_changes = one.line.starts_with("Plan: ");
        let code = |more: &[&str]| {
            let words = with("plan", more);
            folder
                .run(&words.iter().map(String::as_str).collect::<Vec<_>>())
                .code
        };
        let detailed = match (is_refused, has_changes, one.line.contains("error")) {
            (true, ..) => 5,
            (false, true, _) => 2,
            (false, false, true) => 1,
            (false, false, false) => 0,
        };
        assert_eq!(code(&["--detailed-exitcode"]), detailed, "{}", one.name);
        assert_eq!(code(&["--fail-on", "never"]), 0, "{}", one.name);
        // A refusal always counts, as an error does.
        let drift = match (one.code, one.name) {
            (0, "drift") => 2,
            (code, _) => code,
        };
        assert_eq!(code(&["--fail-on", "drift"]), drift, "{}", one.name);
        let apply = with("apply", &["--auto-approve", "--undo-out", "undo.json"]);
        let apply = folder.run(&apply.iter().map(String::as_str).collect::<Vec<_>>());
        let expected = if is_refused { 5 } else { 0 };
        assert_eq!(apply.code, expected, "{}: {apply:?}", one.name);
        let shown = apply.stderr.contains(one.line);
        assert!(shown, "{}: {}", one.name, apply.stderr);
    }
}

#[test]
fn the_prompt_begins_with_the_verdict() {
    let all = situations();
    let one = all.iter().find(|one| one.name == "refused losses").unwrap();
    let folder = folder(one);
    let apply = "apply pools --cluster-file cluster.json --waive lost-addresses=1 --no-color";
    let inner = format!("{} {apply}", env!("CARGO_BIN_EXE_cilium-ipam"));
    // `script` gives it a terminal.
    let mut command = program(folder.path(), &[]);
    let environment: Vec<_> = command
        .get_envs()
        .map(|(key, value)| (key.to_owned(), value.map(ToOwned::to_owned)))
        .collect();
    command = std::process::Command::new("script");
    command.current_dir(folder.path()).env_clear();
    for (key, value) in environment {
        command.env(key, value.unwrap_or_default());
    }
    command.args(["-qec", &inner, "/dev/null"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"no\n").unwrap();
    let shown = ran(child.wait_with_output().unwrap())
        .stdout
        .replace('\r', "");
    let prompt = "\nPlan: 1 address is lost; 1 LoadBalancer change, 0 moved; 1 unchanged.\nApply these changes? Type `yes` to continue: ";
    shown.assert_has(prompt);
    shown.assert_has("not approved; nothing was written");
}

/// The plan assigns a block outside the range of the node's rack, and the node keeps that block.
#[test]
fn nodes_that_fall_over_are_named_and_gate_the_plan() {
    let all = situations();
    let one = all.iter().find(|one| one.name == "fell over").unwrap();
    let folder = folder(one);
    let plan = ["plan", "pools", "--cluster-file", "cluster.json"];
    let shown = folder.run(&[&plan[..], &["--fail-on", "fell-over"]].concat());
    let shown = shown.expect(2);
    let message = "node `n2` gets a block of pool `b`, because pool `a` is full";
    let text = shown.stderr.replace("\n  │", "");
    text.assert_has(message);
    let json = folder
        .run(&[&plan[..], &["-o", "json"]].concat())
        .expect(0)
        .json();
    assert_eq!(json["summary"]["fell_over"], 1, "{json:#}");
    assert_eq!(json["findings"][0]["rule"], "fell-over", "{json:#}");
    // Not without a full pool.
    folder.write("pools/0.yaml", pool("a", POOL));
    folder
        .run(&[&plan[..], &["--fail-on", "fell-over"]].concat())
        .expect(0);
}
