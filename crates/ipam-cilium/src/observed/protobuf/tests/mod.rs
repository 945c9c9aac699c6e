//! The binary encoding reads as JSON does. Another implementation, `prost`, encodes.

mod coverage;
mod generated;
mod messages;

use jiff::Timestamp;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Value, json};

use self::generated::{node, pod, service};
use self::messages::{
    ListMeta, Node, NodeList, ObjectMeta, RawExtension, Time, TypeMeta, Unknown, WatchEvent,
};
use super::{ProtobufEvent, ProtobufList, ProtobufStatus, WireError, value_of_protobuf};
use crate::observed::{Encoding, ObservedKind, Reader, cheapest_encoding, slim};

/// What a reader makes of an object; the text of an error differs by the position in JSON.
fn observed(read: impl FnOnce(&mut Reader) -> Result<(), crate::observed::ReadError>) -> String {
    let mut reader = Reader::default();
    match read(&mut reader) {
        Ok(()) => format!("{:#?}", reader.finish(Timestamp::UNIX_EPOCH)),
        Err(_) => "an error".to_owned(),
    }
}

/// The views of both encodings are equal, and so is what a snapshot or a cache keeps.
fn assert_equal(kind: ObservedKind, json: &Value, protobuf: &[u8]) {
    let of_json = observed(|reader| reader.object(kind, &json.to_string()));
    let of_protobuf = observed(|reader| reader.protobuf(kind, protobuf));
    assert_eq!(of_json, of_protobuf, "{json:#}");
    let value = value_of_protobuf(kind, protobuf).unwrap();
    assert_eq!(slim(kind, json), slim(kind, &value));
}

proptest! {
    #[test]
    fn nodes_read_as_in_json(node in node()) {
        assert_equal(ObservedKind::Node, &node.json(), &node.encode_to_vec());
    }

    #[test]
    fn services_read_as_in_json(service in service()) {
        assert_equal(ObservedKind::Service, &service.json(), &service.encode_to_vec());
    }

    #[test]
    fn agents_read_as_in_json(pod in pod()) {
        assert_equal(ObservedKind::CiliumAgentPod, &pod.json(), &pod.encode_to_vec());
    }

    #[test]
    fn fields_may_come_in_any_order(node in node()) {
        let Node { metadata, spec, status } = node.clone();
        let status = Node { metadata: None, spec: None, status }.encode_to_vec();
        let spec = Node { metadata: None, spec, status: None }.encode_to_vec();
        let metadata = Node { metadata, spec: None, status: None }.encode_to_vec();
        assert_equal(ObservedKind::Node, &node.json(), &[status, metadata, spec].concat());
    }

    #[test]
    fn a_node_without_its_end_is_no_other_node(node in node(), cut in any::<prop::sample::Index>()) {
        let whole = list(vec![node]).encode_to_vec();
        let body = [b"k8s\0", &whole[..]].concat();
        let cut = 4 + cut.index(whole.len());
        prop_assert!(ProtobufList::read(&body).unwrap().is_ok());
        // Where a field ends, the list in it is whole; the envelope has nothing that matters after.
        if let Some(Ok(list)) = ProtobufList::read(&body[..cut]) {
            prop_assert_eq!(list.items.len(), 1);
        }
    }
}

fn list(items: Vec<Node>) -> Unknown {
    let metadata = ListMeta {
        resource_version: "7".to_owned(),
        next: "token".to_owned(),
        remaining: Some(3),
    };
    let list = NodeList {
        metadata: Some(metadata),
        items,
    };
    enveloped("NodeList", list.encode_to_vec())
}

fn enveloped(kind: &str, raw: Vec<u8>) -> Unknown {
    Unknown {
        types: Some(TypeMeta {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
        }),
        raw: Some(raw),
        content_encoding: String::new(),
        content_type: String::new(),
    }
}

fn body(unknown: &Unknown) -> Vec<u8> {
    [b"k8s\0", &unknown.encode_to_vec()[..]].concat()
}

fn named(name: &str) -> Node {
    Node {
        metadata: Some(ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        }),
        ..Node::default()
    }
}

#[test]
fn a_list_has_its_moment_its_token_and_its_items() {
    let body = body(&list(vec![named("a"), named("b")]));
    let list = ProtobufList::read(&body).unwrap().unwrap();
    let found = (&*list.api_version, &*list.kind, &*list.version, &*list.next);
    assert_eq!(found, ("v1", "NodeList", "7", "token"));
    let names = list.items.iter().map(|item| {
        let value = value_of_protobuf(ObservedKind::Node, item).unwrap();
        value["metadata"]["name"].as_str().unwrap().to_owned()
    });
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn an_answer_that_is_no_whole_list_is_not_an_empty_one() {
    let whole = list(Vec::new());
    let none = |unknown: &Unknown| ProtobufList::read(&body(unknown)).is_none();
    let error = |unknown: &Unknown| ProtobufList::read(&body(unknown)).unwrap().unwrap_err();
    assert!(ProtobufList::read(b"").is_none());
    assert!(ProtobufList::read(b"{\"kind\":\"NodeList\"}").is_none());
    assert!(ProtobufList::read(b"k8s\0").is_none());
    assert!(none(&Unknown {
        raw: None,
        ..whole.clone()
    }));
    let empty = Unknown {
        raw: Some(Vec::new()),
        ..whole.clone()
    };
    assert_eq!(error(&empty), WireError::NoMetadata);
    let packed = Unknown {
        content_encoding: "gzip".to_owned(),
        ..whole
    };
    assert_eq!(error(&packed), WireError::UnknownEncoding);
}

#[test]
fn a_refusal_says_why() {
    // Status: message (3), details (5) with a cause (4) that has a message (2).
    let cause = [&[0x12, 3][..], b"pdb"].concat();
    let details = [&[0x22, u8::try_from(cause.len()).unwrap()][..], &cause].concat();
    let details = [&[0x2a, u8::try_from(details.len()).unwrap()][..], &details].concat();
    let status = [&[0x1a, 2][..], b"no", &details].concat();
    let refused = body(&enveloped("Status", status.clone()));
    let read = ProtobufStatus::read(&refused).unwrap();
    assert_eq!((&*read.message, read.causes.len()), ("no", 1));
    assert_eq!(read.causes[0], "pdb");
    assert!(ProtobufStatus::read(&body(&enveloped("Node", status))).is_none());
}

#[test]
fn bytes_that_are_not_utf8_become_what_go_writes() {
    // A label's value of which two bytes begin a character that does not follow.
    let entry = [&[0x0a, 1, b'k', 0x12, 4][..], b"a\xe2\x82b"].concat();
    let metadata = [
        &[0x0a, 1, b'n', 0x5a, u8::try_from(entry.len()).unwrap()][..],
        &entry,
    ];
    let metadata = metadata.concat();
    let node = [
        &[0x0a, u8::try_from(metadata.len()).unwrap()][..],
        &metadata,
    ]
    .concat();
    let json = json!({"metadata": {"name": "n", "labels": {"k": "a\u{fffd}\u{fffd}b"}}});
    assert_equal(ObservedKind::Node, &json, &node);
}

#[test]
fn an_unreadable_object_is_named() {
    let node = named("bad").encode_to_vec();
    let bad = [&node[..], &[0x10, 1]].concat();
    let error = Reader::default()
        .protobuf(ObservedKind::Node, &bad)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("nodes `bad` cannot be read: "),
        "{error}"
    );
    assert_eq!(cheapest_encoding(ObservedKind::CiliumNode), Encoding::Json);
    assert!(value_of_protobuf(ObservedKind::CiliumNode, &node).is_err());
}

/// Any client may write such a time, and it must not make the whole list unreadable.
#[test]
fn a_time_far_away_is_read_as_go_writes_it() {
    for (seconds, text) in [
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, "10000-01-01T00:00:00Z"),
        (1 << 40, "36812-02-20T00:36:16Z"),
        (i64::MIN, "-292277022657-01-27T08:29:52Z"),
        (i64::MAX, "292277026596-12-04T15:30:07Z"),
    ] {
        let created = Time {
            seconds: Some(seconds),
            nanos: None,
        };
        let metadata = ObjectMeta {
            name: Some("n".to_owned()),
            created: Some(created),
            ..ObjectMeta::default()
        };
        let node = Node {
            metadata: Some(metadata),
            ..Node::default()
        };
        let bytes = node.encode_to_vec();
        let value = value_of_protobuf(ObservedKind::Node, &bytes).unwrap();
        assert_eq!(value["metadata"]["creationTimestamp"], text);
        let mut reader = Reader::default();
        assert!(reader.protobuf(ObservedKind::Node, &bytes).is_ok());
    }
}

fn event(kind: &str, object: &Unknown) -> Vec<u8> {
    let event = WatchEvent {
        kind: kind.to_owned(),
        object: Some(RawExtension { raw: body(object) }),
    };
    event.encode_to_vec()
}

#[test]
fn an_event_has_its_type_and_its_object() {
    let object = enveloped("Node", named("a").encode_to_vec());
    for kind in ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"] {
        let event = event(kind, &object);
        let found = match (kind, ProtobufEvent::read(&event).unwrap()) {
            ("ADDED" | "MODIFIED", ProtobufEvent::Changed(found))
            | ("DELETED", ProtobufEvent::Deleted(found))
            | ("BOOKMARK", ProtobufEvent::Bookmark(found)) => found,
            (_, other) => panic!("{kind} is {other:?}"),
        };
        assert_eq!(found.kind, "Node");
        let value = value_of_protobuf(ObservedKind::Node, found.object).unwrap();
        assert_eq!(value["metadata"]["name"], "a");
    }
}

#[test]
fn an_error_event_has_code_and_message() {
    let status = [&[0x1a, 3][..], b"old", &[0x30, 0x9a, 0x03]].concat();
    let event = event("ERROR", &enveloped("Status", status));
    let ProtobufEvent::Error(status) = ProtobufEvent::read(&event).unwrap() else {
        panic!("it is no error");
    };
    assert_eq!((status.code, &*status.message), (410, "old"));
}

#[test]
fn bytes_that_are_no_event_are_refused() {
    let node = enveloped("Node", named("a").encode_to_vec());
    let whole = event("ADDED", &node);
    assert_eq!(
        ProtobufEvent::read(&event("NEWS", &node)).unwrap_err(),
        WireError::UnknownEvent
    );
    assert_eq!(
        ProtobufEvent::read(&event("ERROR", &node)).unwrap_err(),
        WireError::NoObject
    );
    for cut in 0..whole.len() {
        assert!(ProtobufEvent::read(&whole[..cut]).is_err(), "{cut}");
    }
}
