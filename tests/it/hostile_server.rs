//! Answers that no healthy API server gives: each is refused, and none is read as an empty list.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::support::{Folder, Ran, TextAssertions, args, pool};

/// Status, `Retry-After` if there is one, body.
type Answer = dyn Fn(&str, &str) -> (u16, Option<&'static str>, String) + Send + Sync;

/// Serves canned answers on loopback until the test's process ends, and gives a folder with a
/// kubeconfig for it.
pub fn serve(answer: impl Fn(&str, &str) -> (u16, String) + Send + Sync + 'static) -> Folder {
    serve_asking(move |method, path| {
        let (status, body) = answer(method, path);
        (status, None, body)
    })
}

/// The same, with answers that may ask for a pause.
fn serve_asking(
    answer: impl Fn(&str, &str) -> (u16, Option<&'static str>, String) + Send + Sync + 'static,
) -> Folder {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer: Arc<Answer> = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || connection(stream, &*answer));
        }
    });
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\nclusters: [{{name: t, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\ncontexts: [{{name: t, context: {{cluster: t, user: t}}}}]\nusers: [{{name: t, user: {{}}}}]\n"
    );
    Folder::new(&[
        ("kubeconfig", &kubeconfig),
        (
            "pools/a.yaml",
            &pool("a", "{cidrs: [10.20.0.0/16], blockSize: 24}"),
        ),
    ])
}

/// Reads what follows the first line of a request.
pub fn skip_headers_and_body(reader: &mut impl BufRead) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader
        .take(length)
        .read_to_end(&mut Vec::new())
        .ok()
        .map(drop)
}

fn connection(stream: TcpStream, answer: &Answer) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        skip_headers_and_body(&mut reader)?;
        let mut words = head.split(' ');
        let (status, asked, body) = answer(words.next()?, words.next()?);
        let asked = asked
            .map(|asked| format!("Retry-After: {asked}\r\n"))
            .unwrap_or_default();
        let size = body.len();
        let media_type = if body.starts_with("k8s\0") {
            "application/vnd.kubernetes.protobuf"
        } else {
            "application/json"
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: {media_type}\r\n{asked}");
        write!(writer, "{head}Content-Length: {size}\r\n\r\n{body}").ok()?;
    }
}

/// A server's answer to a write that it accepts.
pub fn accepted() -> (u16, String) {
    (
        200,
        r#"{"metadata":{"uid":"u","resourceVersion":"2"}}"#.to_owned(),
    )
}

/// Whether a request writes a Node, rather than the claims.
pub fn writes_node(method: &str, path: &str) -> bool {
    method == "PATCH" && path.starts_with("/api/v1/nodes/")
}

fn apply(folder: &Folder) -> Ran {
    folder.run(&args(
        "apply --kubeconfig kubeconfig --auto-approve --retry-timeout 1s",
    ))
}

/// The answers of a healthy server with one node, in ipam `kubernetes`.
pub fn healthy(method: &str, path: &str) -> (u16, String) {
    if method != "GET" {
        return accepted();
    }
    let list = |kind: &str, items: &str| {
        (
            200,
            format!(r#"{{"kind":"{kind}List","metadata":{{}},"items":[{items}]}}"#),
        )
    };
    match path.split('?').next().unwrap() {
        "/api/v1/nodes" => list(
            "Node",
            r#"{"metadata":{"name":"n","uid":"u","resourceVersion":"1"}}"#,
        ),
        "/apis/cilium.io/v2/ciliumnodes" => list("CiliumNode", ""),
        "/apis/apps/v1/daemonsets" => list(
            "DaemonSet",
            r#"{"metadata":{"name":"cilium","namespace":"kube-system"}}"#,
        ),
        "/api/v1/namespaces/kube-system/configmaps" if path.contains("cilium-ipam-claims") => {
            list("ConfigMap", "")
        }
        "/api/v1/namespaces/kube-system/configmaps" => {
            let config = r#"{"metadata":{"name":"cilium-config","namespace":"kube-system"},"data":{"ipam":"kubernetes"}}"#;
            list("ConfigMap", config)
        }
        "/api/v1/namespaces/kube-system/pods" => list("Pod", ""),
        _ => (404, "{}".to_owned()),
    }
}

fn plan(folder: &Folder) -> Ran {
    folder.run(&args("plan --kubeconfig kubeconfig --retry-timeout 1s"))
}

#[test]
fn a_healthy_one_is_believed() {
    let folder = serve(healthy);
    assert!(plan(&folder).expect(0).stdout.contains("10.20.0.0/24"));
}

#[test]
fn no_list_is_not_an_empty_list() {
    let answers = [
        "{}",
        "[]",
        "",
        "<html>",
        r#"{"kind":"Status","status":"Success"}"#,
        r#"{"kind":"CiliumNodeList"}"#,
        r#"{"kind":"CiliumNodeList","items":null}"#,
        r#"{"kind":"NodeList","items":[]}"#,
        r#"{"kind":"CiliumNodeList","items":[{"metadata":{}}]}"#,
    ];
    for body in answers {
        let folder = serve(move |method, path| {
            if path.starts_with("/apis/cilium.io/v2/ciliumnodes") {
                (200, body.to_owned())
            } else {
                healthy(method, path)
            }
        });
        let ran = plan(&folder).expect(8);
        assert!(
            ran.stderr.contains("ciliumnodes.cilium.io"),
            "{body}: {}",
            ran.stderr
        );
    }
}

#[test]
fn half_a_list_is_no_list() {
    let first = r#"{"kind":"NodeList","metadata":{"continue":"next"},"items":[{"metadata":{"name":"n","uid":"u","resourceVersion":"1"}}]}"#;
    let rests: [(u16, &str); 4] = [(404, "{}"), (403, "{}"), (500, "{}"), (200, first)];
    for (status, body) in rests {
        let folder = serve(move |method, path| {
            match (
                path.starts_with("/api/v1/nodes"),
                path.contains("continue="),
            ) {
                (true, true) => (status, body.to_owned()),
                (true, false) => (200, first.to_owned()),
                _ => healthy(method, path),
            }
        });
        let ran = plan(&folder).expect(8);
        assert!(ran.stderr.contains("nodes"), "{status}: {}", ran.stderr);
    }
}

#[test]
fn a_kind_that_is_defined_but_not_served() {
    let folder = serve(|method, path| match path {
        path if path.contains("customresourcedefinitions") => {
            let definition = r#"{"metadata":{"name":"ciliumnodes.cilium.io"}}"#;
            (
                200,
                format!(r#"{{"kind":"CustomResourceDefinitionList","items":[{definition}]}}"#),
            )
        }
        path if path.contains("ciliumnodes") => (404, "{}".to_owned()),
        path => healthy(method, path),
    });
    assert!(plan(&folder).expect(8).stderr.contains("does not serve it"));
}

#[test]
fn a_write_whose_answers_are_lost_is_unknown() {
    let writes = Arc::new(AtomicUsize::new(0));
    let seen = writes.clone();
    let folder = serve(move |method, path| {
        if writes_node(method, path) {
            seen.fetch_add(1, Ordering::SeqCst);
            return (
                504,
                r#"{"message":"the server was unable to return a response"}"#.to_owned(),
            );
        }
        healthy(method, path)
    });
    let ran = apply(&folder).expect(7);
    ran.stdout.assert_has("unknown Node/n  10.20.0.0/24");
    assert!(
        writes.load(Ordering::SeqCst) > 1,
        "a guarded write may be sent again"
    );
}

#[test]
fn a_busy_server_is_asked_again() {
    for asked in [
        None,
        Some("0"),
        Some("1"),
        Some("Sun, 06 Nov 1994 08:49:37 GMT"),
        Some("soon"),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let folder = serve_asking(move |method, path| {
            let busy = path.starts_with("/api/v1/nodes");
            if busy && count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                return (429, asked, r#"{"message":"too many requests"}"#.to_owned());
            }
            let (status, body) = healthy(method, path);
            (status, None, body)
        });
        let words = args("apply --kubeconfig kubeconfig --auto-approve --retry-timeout 20s");
        let ran = folder.run(&words).expect(0);
        assert!(
            ran.stdout.contains("Applied 1 change;"),
            "{asked:?}: {}",
            ran.stdout
        );
    }
}

/// Four nodes, each write of which is answered with this until patience ends; gives the report and
/// the number of writes.
fn always_busy(status: u16, asked: &'static str) -> (serde_json::Value, usize) {
    let nodes: Vec<String> = (1..=4)
        .map(|n| format!(r#"{{"metadata":{{"name":"n{n}","uid":"u{n}","resourceVersion":"1"}}}}"#))
        .collect();
    let list = format!(
        r#"{{"kind":"NodeList","metadata":{{}},"items":[{}]}}"#,
        nodes.join(",")
    );
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let folder = serve_asking(move |method, path| {
        if writes_node(method, path) {
            seen.fetch_add(1, Ordering::SeqCst);
            return (status, Some(asked), r#"{"message":"later"}"#.to_owned());
        }
        let (status, body) = match path.split('?').next() {
            Some("/api/v1/nodes") => (200, list.clone()),
            _ => healthy(method, path),
        };
        (status, None, body)
    });
    let words = args("apply --kubeconfig kubeconfig --auto-approve --retry-timeout 2s -o json");
    // What is unknown may have been applied.
    let report = folder
        .run(&words)
        .expect(if status == 429 { 1 } else { 7 })
        .json();
    (report, count.load(Ordering::SeqCst))
}

#[test]
fn a_pause_of_nothing_or_of_an_age_ends_with_the_whole_list() {
    // Four writes, each of which is sent at 0, 0.1 to 0.2, 0.3 to 0.6, 0.7 to 1.4 and 1.5 to 2.0
    // seconds, and when patience ends.
    let cases = [
        (429, "0", 6),
        (503, "0", 6),
        (429, "18446744073709551615", 2),
        (503, "18446744073709551615", 2),
    ];
    for (status, asked, most) in cases {
        let (report, writes) = always_busy(status, asked);
        let names = |key: &str| {
            let lines = report[key].as_array().unwrap().iter();
            lines
                .map(|line| line["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let mut listed = names("not_applied");
        listed.extend(names("unknown"));
        listed.sort();
        assert_eq!(
            (names("applied"), listed.join(" ")),
            (vec![], "n1 n2 n3 n4".to_owned()),
            "{status} {asked}: {report}"
        );
        assert!(
            (2..=4 * most).contains(&writes),
            "{status} {asked}: {writes} writes"
        );
    }
}

#[test]
fn a_write_that_lost_the_race_against_itself_counts_as_applied() {
    let written = Arc::new(AtomicUsize::new(0));
    let folder = serve(move |method, path| {
        if writes_node(method, path) {
            written.fetch_add(1, Ordering::SeqCst);
            return (
                409,
                r#"{"message":"the object has been modified"}"#.to_owned(),
            );
        }
        if path.starts_with("/api/v1/nodes") && written.load(Ordering::SeqCst) > 0 {
            let spec = r#""spec":{"podCIDR":"10.20.0.0/24","podCIDRs":["10.20.0.0/24"]}"#;
            let node =
                format!(r#"{{"metadata":{{"name":"n","uid":"u","resourceVersion":"2"}},{spec}}}"#);
            return (
                200,
                format!(r#"{{"kind":"NodeList","metadata":{{}},"items":[{node}]}}"#),
            );
        }
        healthy(method, path)
    });
    let ran = apply(&folder).expect(0);
    ran.stdout.assert_has("Applied 1 change; 0 not applied");
}

#[test]
fn a_token_that_expires_midway_is_read_again() {
    let refused = Arc::new(AtomicUsize::new(0));
    let folder = serve(move |method, path| {
        if writes_node(method, path) && refused.fetch_add(1, Ordering::SeqCst) == 0 {
            return (401, r#"{"message":"Unauthorized"}"#.to_owned());
        }
        healthy(method, path)
    });
    assert!(
        apply(&folder)
            .expect(0)
            .stdout
            .contains("Applied 1 change;")
    );
    let folder = serve(|method, path| {
        if writes_node(method, path) {
            (401, r#"{"message":"Unauthorized"}"#.to_owned())
        } else {
            healthy(method, path)
        }
    });
    assert!(
        apply(&folder)
            .expect(1)
            .stdout
            .contains("no permission: Unauthorized")
    );
}

#[test]
fn a_server_that_fails_for_a_while_is_waited_for() {
    for status in [500, 502, 503, 504] {
        let asked = Arc::new(AtomicUsize::new(0));
        let folder = serve(
            move |method, path| match asked.fetch_add(1, Ordering::SeqCst) % 3 {
                0 => (
                    status,
                    r#"{"message":"etcdserver: leader changed"}"#.to_owned(),
                ),
                _ => healthy(method, path),
            },
        );
        let words = args("apply --kubeconfig kubeconfig --auto-approve --retry-timeout 20s");
        assert!(
            folder
                .run(&words)
                .expect(0)
                .stdout
                .contains("Applied 1 change;"),
            "{status}"
        );
    }
}

#[test]
fn it_stops_with_an_exact_list() {
    let nodes: Vec<String> = (1..=4)
        .map(|n| format!(r#"{{"metadata":{{"name":"n{n}","uid":"u{n}","resourceVersion":"1"}}}}"#))
        .collect();
    let list = format!(
        r#"{{"kind":"NodeList","metadata":{{}},"items":[{}]}}"#,
        nodes.join(",")
    );
    let folder = serve(
        move |method, path| match (method, path.split('?').next().unwrap()) {
            ("GET", "/api/v1/nodes") => (200, list.clone()),
            ("PATCH", "/api/v1/nodes/n2") => (422, r#"{"message":"spec is invalid"}"#.to_owned()),
            ("PATCH", "/api/v1/nodes/n3") => (503, r#"{"message":"no endpoints"}"#.to_owned()),
            _ => healthy(method, path),
        },
    );
    let words = [
        "apply",
        "--kubeconfig",
        "kubeconfig",
        "--auto-approve",
        "--retry-timeout",
        "1s",
        "--parallelism",
        "1",
    ];
    let report = folder
        .run(&[&words[..], &["-o", "json"]].concat())
        .expect(7)
        .json();
    let names = |key: &str| {
        let lines = report[key].as_array().unwrap().iter();
        lines
            .map(|line| line["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names("applied"), names("not_applied"), names("unknown")),
        (
            vec!["n1".into()],
            vec!["n2".into(), "n4".into()],
            vec!["n3".into()]
        )
    );
    assert_eq!(
        report["undo"]["irreversible"], 2,
        "what may have been written counts, too"
    );
}

#[test]
fn a_list_that_is_older_than_the_claims_is_not_used() {
    let folder = serve(|method, path| {
        let (status, body) = healthy(method, path);
        let version = if path.contains("cilium-ipam-claims") {
            "7"
        } else {
            "6"
        };
        (
            status,
            body.replace(
                r#""metadata":{},"items""#,
                &format!(r#""metadata":{{"resourceVersion":"{version}"}},"items""#),
            ),
        )
    });
    let ran = plan(&folder).expect(8);
    ran.stderr
        .assert_has("older than the claims that were read before it (6 < 7)");
}

#[test]
fn nodes_are_listed_as_of_the_moment_of_cilium_nodes() {
    let folder = serve(|method, path| {
        let (status, body) = healthy(method, path);
        if path.starts_with("/api/v1/nodes")
            && !path.contains("&resourceVersion=42&resourceVersionMatch=Exact")
        {
            return (400, r#"{"message":"not that moment"}"#.to_owned());
        }
        (
            status,
            body.replace(
                r#""metadata":{},"items""#,
                r#""metadata":{"resourceVersion":"42"},"items""#,
            ),
        )
    });
    plan(&folder).expect(0);
}
