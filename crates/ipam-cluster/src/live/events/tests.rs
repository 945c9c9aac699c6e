//! Answers of servers and proxies to a watch, well-behaved and not.

use std::sync::{Arc, Mutex};

use super::*;

/// An answer: its status, its media type and its body.
type Answer = (u16, &'static str, Vec<u8>);

const JSON: &str = "application/json";
const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 0x80);
    [&[(number << 3) | 2, length], content].concat()
}

fn object(kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = field(1, &[field(1, b"v1"), field(2, kind.as_bytes())].concat());
    [&b"k8s\0"[..], &types, &field(2, raw)].concat()
}

fn node(name: &str, version: &str) -> Vec<u8> {
    let metadata = [field(1, name.as_bytes()), field(6, version.as_bytes())].concat();
    object("Node", &field(1, &metadata))
}

fn status(code: u8, message: &str) -> Vec<u8> {
    // A number of two bytes.
    let code = [0x30, code | 0x80, 0x03];
    object(
        "Status",
        &[&field(3, message.as_bytes())[..], &code].concat(),
    )
}

fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    let length = u32::try_from(event.len()).unwrap().to_be_bytes();
    [&length[..], &event].concat()
}

/// The events that a client reads from these answers, one line for each, and the media types that it
/// accepted.
async fn reported(answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let accepted = Arc::new(Mutex::new(Vec::new()));
    let answers = Arc::new(Mutex::new(answers.into_iter()));
    let seen = Arc::clone(&accepted);
    let service = tower::service_fn(move |request: Request<Body>| {
        let accept = request.headers().get(header::ACCEPT);
        let accept = accept.map_or(JSON, |value| value.to_str().unwrap());
        seen.lock().unwrap().push(accept.to_owned());
        let (status, media_type, body) = answers.lock().unwrap().next().unwrap();
        let answer = Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, media_type)
            .body(Body::from(body));
        std::future::ready(answer)
    });
    let client = Client::new(service, "default");
    let mut lines = Vec::new();
    match events(
        &client,
        "/api/v1/nodes?watch=true",
        Some(ObservedKind::Node),
    )
    .await
    {
        Err(error) => lines.push(line(Err(error))),
        Ok(mut events) => {
            while let Some(event) = events.next().await {
                lines.push(line(event));
            }
        }
    }
    let accepted = accepted.lock().unwrap().clone();
    (lines, accepted)
}

fn line(event: Result<WatchEvent<Value>, kube::Error>) -> String {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
            format!("changed {}", name(&object))
        }
        Ok(WatchEvent::Deleted(object)) => format!("deleted {}", name(&object)),
        Ok(WatchEvent::Bookmark(mark)) => format!("bookmark {}", mark.metadata.resource_version),
        Ok(WatchEvent::Error(status)) | Err(kube::Error::Api(status)) => {
            format!("{} {}", status.code, status.message)
        }
        Err(error) => format!("broken: {error}"),
    }
}

#[tokio::test]
async fn events_are_reported_in_their_order() {
    let body = [
        frame("ADDED", &node("a", "5")),
        frame("MODIFIED", &node("a", "6")),
        frame("DELETED", &node("a", "7")),
        frame("BOOKMARK", &node("", "9")),
        frame("ERROR", &status(0x1a, "too old")),
    ];
    let (lines, accepted) = reported(vec![(200, STREAM, body.concat())]).await;
    let expected = [
        "changed a",
        "changed a",
        "deleted a",
        "bookmark 9",
        "410 too old",
    ];
    assert_eq!(lines, expected);
    assert_eq!(accepted, [PROTOBUF]);
}

#[tokio::test]
async fn an_event_that_is_cut_off_is_not_reported() {
    let whole = frame("ADDED", &node("a", "5"));
    let next = frame("ADDED", &node("b", "6"));
    for cut in 0..next.len() {
        let body = [&whole[..], &next[..cut]].concat();
        let (lines, _) = reported(vec![(200, STREAM, body)]).await;
        assert_eq!(lines, ["changed a"], "{cut}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_event_of_the_kind_end_the_watch() {
    let odd = [
        frame("ADDED", &object("Service", &field(1, &field(1, b"a")))),
        frame("ADDED", b"{}"),
        frame("NEWS", &node("a", "5")),
        frame("BOOKMARK", &object("Node", &field(1, &[]))),
        vec![0, 0, 0, 1, 0x0b],
        vec![0xff; 8],
    ];
    for body in odd {
        let (lines, _) = reported(vec![(200, STREAM, body.clone())]).await;
        let [line] = &lines[..] else {
            panic!("{body:?}: {lines:?}");
        };
        assert!(line.starts_with("broken"), "{body:?}: {line}");
    }
}

#[tokio::test]
async fn a_server_or_a_proxy_without_protobuf_is_asked_for_json() {
    let event = br#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#;
    let json = || (200, JSON, [&event[..], b"\n"].concat());
    for first in [json(), (406, JSON, b"{}".to_vec())] {
        let (lines, accepted) = reported(vec![first, json()]).await;
        assert_eq!(lines, ["changed a"]);
        assert_eq!(accepted, [PROTOBUF, JSON]);
    }
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_its_message() {
    let refusals = [
        (410, STREAM, status(0x1a, "too old")),
        (
            410,
            JSON,
            br#"{"kind":"Status","message":"too old"}"#.to_vec(),
        ),
        (410, "text/plain", b"too old\n".to_vec()),
    ];
    for refusal in refusals {
        let (lines, _) = reported(vec![refusal]).await;
        assert_eq!(lines, ["410 too old"]);
    }
}

#[test]
fn an_event_is_taken_when_it_is_complete() {
    let sent = [&[0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0], &[0, 0, 0, 1], b"c"].concat();
    for split in 0..=sent.len() {
        let (mut bytes, mut taken) = (sent[..split].to_vec(), Vec::new());
        for more in [&sent[split..], &[]] {
            while let Some(frame) = take_frame(&mut bytes).unwrap() {
                taken.push(frame);
            }
            bytes.extend_from_slice(more);
        }
        assert_eq!(taken, [&b"ab"[..], b"", b"c"], "{split}");
        assert!(bytes.is_empty());
    }
}
