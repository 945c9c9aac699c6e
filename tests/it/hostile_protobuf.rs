//! Answers in Protobuf: those of a healthy API server are read, and no other is an empty list.

use super::hostile_server::{healthy, serve};
use super::support::{Folder, Ran, TextAssertions, args};

/// A field that holds text or a message. All lengths are below 128, so the bytes are text.
fn field(number: u8, content: &str) -> String {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 0x80);
    let key = (number << 3) | 2;
    format!("{}{}{content}", char::from(key), char::from(length))
}

fn answer(kind: &str, raw: &str) -> String {
    let types = field(1, &(field(1, "v1") + &field(2, kind)));
    format!("k8s\0{types}{}", field(2, raw))
}

fn node(name: &str) -> String {
    let metadata = field(1, name) + &field(5, "u") + &field(6, "1");
    field(2, &field(1, &metadata))
}

fn page(next: &str, names: &[&str]) -> String {
    let metadata = field(1, &(field(2, "7") + &field(3, next)));
    let items: String = names.iter().map(|name| node(name)).collect();
    answer("NodeList", &(metadata + &items))
}

/// A server whose Nodes are these answers: the first page, and what follows.
fn nodes(first: String, rest: (u16, String)) -> Folder {
    serve(move |method, path| {
        match (
            path.starts_with("/api/v1/nodes?"),
            path.contains("continue="),
        ) {
            (true, true) => rest.clone(),
            (true, false) => (200, first.clone()),
            _ => healthy(method, path),
        }
    })
}

fn plan(folder: &Folder) -> Ran {
    folder.run(&args("plan --kubeconfig kubeconfig --retry-timeout 1s"))
}

#[test]
fn pages_in_either_encoding_are_one_list() {
    let json = r#"{"kind":"NodeList","metadata":{},"items":[{"metadata":{"name":"b","uid":"u","resourceVersion":"1"}}]}"#;
    let firsts = page("next", &["a"]);
    for rest in [page("", &["b"]), json.to_owned()] {
        let ran = plan(&nodes(firsts.clone(), (200, rest))).expect(0);
        for block in ["10.20.0.0/24", "10.20.1.0/24"] {
            ran.stdout.assert_has(block);
        }
    }
}

#[test]
fn an_empty_list_is_believed() {
    let ran = plan(&nodes(page("", &[]), (404, String::new()))).expect(0);
    ran.stdout.assert_lacks("10.20.0.0/24");
}

#[test]
fn what_is_no_whole_list_is_not_an_empty_one() {
    let whole = page("", &["a"]);
    let items_only = answer("NodeList", &node("a"));
    let firsts = [
        "k8s\0".to_owned(),
        answer("NodeList", ""),
        items_only,
        answer("ServiceList", &field(1, &field(2, "7"))),
        answer("Status", &field(3, "fine")),
        whole[..whole.len() - 1].to_owned(),
        whole[..whole.len() - node("a").len()].to_owned(),
        page("", &[""]).replace("k8s\0", "k8s\0\x0b"),
    ];
    for first in firsts {
        let ran = plan(&nodes(first.clone(), (404, String::new()))).expect(8);
        assert!(ran.stderr.contains("nodes"), "{first:?}: {}", ran.stderr);
    }
}

#[test]
fn half_a_list_is_no_list() {
    let first = page("next", &["a"]);
    let refused = answer("Status", &field(3, "gone away"));
    let rests = [
        (404, refused.clone()),
        (403, refused.clone()),
        (500, refused.clone()),
        (410, refused),
        (200, first.clone()),
        (200, first[..first.len() - 1].to_owned()),
        (200, "{}".to_owned()),
    ];
    for rest in rests {
        let ran = plan(&nodes(first.clone(), rest.clone())).expect(8);
        assert!(ran.stderr.contains("nodes"), "{rest:?}: {}", ran.stderr);
    }
}

#[test]
fn a_refusal_in_protobuf_says_why() {
    let refused = answer("Status", &field(3, "nodes are none of your business"));
    let folder = serve(move |method, path| match path {
        path if path.starts_with("/api/v1/nodes?") => (403, refused.clone()),
        path => healthy(method, path),
    });
    let ran = plan(&folder).expect(8);
    ran.stderr.assert_has("nodes are none of your business");
}
