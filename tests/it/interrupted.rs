//! An apply that is stopped, that cannot write, or whose cluster file is not a regular file.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::hostile_server::{accepted, healthy, serve, writes_node};
use super::support::{Folder, TextAssertions, args, node, pool, program, ran};

const APPLY: [&str; 6] = [
    "apply",
    "--cluster",
    "cluster.json",
    "--auto-approve",
    "--undo-out",
    "undo.json",
];

/// A cluster file with this many nodes that need a block.
fn folder(nodes: usize) -> Folder {
    let nodes: Vec<String> = (0..nodes)
        .map(|number| node(&format!("n{number:05}"), "a", ""))
        .collect();
    Folder::with_cluster(
        &nodes,
        &[(
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.0.0.0/8], blockSize: 26}"),
        )],
    )
}

/// Blocks by node, as the file has them.
fn blocks(folder: &Folder) -> Vec<(String, String)> {
    let list: Value = serde_json::from_str(&folder.read("cluster.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "Node");
    let all = nodes.map(|node| {
        (
            text(&node["metadata"]["name"]),
            text(&node["spec"]["podCIDR"]),
        )
    });
    all.filter(|(_, block)| !block.is_empty()).collect()
}

fn start(folder: &Folder, words: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut command = program(folder.path(), words);
    command
        .stdout(std::fs::File::create(folder.join("stdout")).unwrap())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr)
}

fn tell(child: &Child, signal: &str) {
    assert!(
        Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// Everything up to the first line that begins so, and that line.
fn read_to(stderr: &mut BufReader<ChildStderr>, begin: &str) -> String {
    let mut text = String::new();
    loop {
        let start = text.len();
        assert!(
            stderr.read_line(&mut text).unwrap() > 0,
            "no `{begin}` in: {text}"
        );
        if text[start..].starts_with(begin) {
            return text;
        }
    }
}

/// The last line before an apply writes.
const BEFORE_WRITES: &str = "digest ";

#[test]
fn a_stopped_apply_to_a_file_reports_and_what_it_calls_written_is_on_disk() {
    for signal in ["-TERM", "-INT"] {
        let folder = folder(9_000);
        let (mut child, mut stderr) = start(&folder, &[&APPLY[..], &["--output", "json"]].concat());
        read_to(&mut stderr, BEFORE_WRITES);
        tell(&child, signal);
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        let code = child.wait().unwrap().code();
        assert!(said.contains("stopping: "), "{signal}");
        let on_disk = blocks(&folder);
        assert!(on_disk.len() < 9_000, "{signal}");
        assert!(code == Some(7) || on_disk.is_empty(), "{signal}: {code:?}");
        let written = said
            .lines()
            .filter_map(|line| line.strip_prefix("written Node/"))
            .filter_map(|line| line.split_once("  "));
        let written: Vec<(String, String)> = written
            .map(|(node, block)| (node.to_owned(), block.to_owned()))
            .collect();
        assert_eq!(written, on_disk, "{signal}");
        let report: Value = serde_json::from_str(&folder.read("stdout")).unwrap();
        let count = |list: &str| report[list].as_array().unwrap().len();
        let all = ["applied", "not_applied", "unknown"].map(count);
        assert_eq!(all, [on_disk.len(), 9_000 - on_disk.len(), 0], "{signal}");
    }
}

#[test]
fn a_killed_apply_leaves_a_cluster_file_as_it_was_and_nothing_beside_it() {
    let folder = folder(9_000);
    let (mut child, mut stderr) = start(&folder, &APPLY);
    read_to(&mut stderr, BEFORE_WRITES);
    tell(&child, "-KILL");
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    assert!(!said.contains("written Node/"), "{said}");
    assert_eq!(blocks(&folder), []);
    folder.run(&APPLY).expect(0);
    assert_eq!(blocks(&folder).len(), 9_000);
    let mut names: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["cluster.json", "pools", "stdout"]);
}

/// A server with 40 nodes that keeps the first write of a Node waiting until `go`.
fn hesitant(go: &Arc<AtomicBool>) -> (Folder, Arc<AtomicBool>) {
    let (go, asked) = (go.clone(), Arc::new(AtomicBool::new(false)));
    let seen = asked.clone();
    let folder = serve(move |method, path| {
        if writes_node(method, path) {
            seen.store(true, Ordering::SeqCst);
            while !go.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            return accepted();
        }
        if method == "GET" && path.split('?').next() == Some("/api/v1/nodes") {
            let item = |number| {
                format!(
                    r#"{{"metadata":{{"name":"n{number:02}","uid":"u{number}","resourceVersion":"1"}}}}"#
                )
            };
            let items: Vec<String> = (0..40).map(item).collect();
            return (
                200,
                format!(
                    r#"{{"kind":"NodeList","metadata":{{}},"items":[{}]}}"#,
                    items.join(",")
                ),
            );
        }
        healthy(method, path)
    });
    (folder, asked)
}

const APPLY_LIVE: [&str; 6] = [
    "apply",
    "--kubeconfig",
    "kubeconfig",
    "--auto-approve",
    "--parallelism",
    "1",
];

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stopped_apply_to_a_server_waits_for_the_write_under_way_and_reports() {
    let go = Arc::new(AtomicBool::new(false));
    let (folder, asked) = hesitant(&go);
    let (mut child, mut stderr) = start(&folder, &APPLY_LIVE);
    wait_for(&asked);
    tell(&child, "-TERM");
    read_to(&mut stderr, "stopping: ");
    go.store(true, Ordering::SeqCst);
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7), "{said}");
    assert_eq!(said.matches("written Node/").count(), 1, "{said}");
    assert!(
        folder
            .read("stdout")
            .contains("Applied 1 change; 39 not applied, 0 unknown."),
        "{said}"
    );
}

#[test]
fn a_second_signal_ends_an_apply_at_once() {
    let (folder, asked) = hesitant(&Arc::new(AtomicBool::new(false)));
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        asked.store(false, Ordering::SeqCst);
        let (mut child, mut stderr) = start(&folder, &APPLY_LIVE);
        wait_for(&asked);
        tell(&child, signal);
        read_to(&mut stderr, "stopping: ");
        tell(&child, signal);
        assert_eq!(child.wait().unwrap().code(), Some(code));
    }
}

#[test]
fn a_full_disk_leaves_the_file_and_calls_nothing_written() {
    let folder = folder(300);
    let before = folder.read("cluster.json");
    // No file may be larger than 8 units of 512 or 1,024 bytes.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} \"$@\"",
        env!("CARGO_BIN_EXE_cilium-ipam")
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh"])
        .args(APPLY)
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/bin:/usr/bin");
    let ran = ran(command.output().unwrap()).expect(1);
    assert!(
        !ran.stderr.lines().any(|line| line.starts_with("written")),
        "{}",
        ran.stderr
    );
    let why = "cluster file cluster.json cannot be written, and stays as it is: File too large";
    ran.stderr.assert_has(why);
    ran.stdout
        .assert_has("Applied 0 changes; 300 not applied, 0 unknown.");
    assert_eq!(folder.read("cluster.json"), before);
    let mut names: Vec<_> = folder
        .path()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["cluster.json", "pools"]);
}

#[test]
fn what_is_no_file_is_refused_before_it_is_opened() {
    let folder = folder(1);
    for name in ["pipe", "pipe.json", "pipe.yaml"] {
        assert!(
            Command::new("mkfifo")
                .arg(folder.join(name))
                .status()
                .unwrap()
                .success()
        );
    }
    for (words, code) in [
        (&["plan", "pipe", "--cluster", "cluster.json"][..], 3),
        (&args("apply pipe --cluster cluster.json --auto-approve"), 3),
        (
            &args("apply pipe.yaml --cluster cluster.json --auto-approve"),
            3,
        ),
        (
            &args("apply pipe.json --cluster cluster.json --auto-approve"),
            1,
        ),
        (&["show", "pipe.json"], 1),
        (&["plan", "--cluster", "pipe"], 8),
        (&["apply", "--cluster", "pipe", "--auto-approve"], 8),
    ] {
        let ran = folder.run(words).expect(code);
        assert!(
            ran.stderr.contains("not a regular file"),
            "{words:?}: {}",
            ran.stderr
        );
    }
    // A pipe from another program has its other end already; nothing can be written to it.
    for (words, code) in [("plan", 0), ("apply --auto-approve", 8)] {
        let script = format!(
            "cat cluster.json | {} {words} --cluster /dev/stdin",
            env!("CARGO_BIN_EXE_cilium-ipam")
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/bin:/usr/bin");
        ran(command.output().unwrap()).expect(code);
    }
}

#[test]
fn a_dash_is_not_taken_for_a_file() {
    let folder = folder(1);
    for words in [
        &["plan", "--cluster", "cluster.json", "--out", "-"][..],
        &[
            "apply",
            "--cluster",
            "cluster.json",
            "--auto-approve",
            "--undo-out",
            "-",
        ],
        &["snapshot", "--cluster", "cluster.json", "--out", "-"],
    ] {
        let ran = folder.run(words).expect(1);
        assert!(
            ran.stderr.contains("`-` is not a file"),
            "{words:?}: {}",
            ran.stderr
        );
        assert!(!folder.join("-").exists());
    }
    folder.expect("plan --cluster cluster.json --out ./-", 0);
    assert!(folder.join("-").exists());
}
