//! An answer of an API server in the binary encoding.

use jiff::Timestamp;

use ipam_cilium::observed::{
    ObservedKind, ProtobufEvent, ProtobufList, ProtobufStatus, Reader, slim, value_of_protobuf,
};

/// The kinds that are read in this encoding.
const KINDS: [ObservedKind; 3] = [
    ObservedKind::Node,
    ObservedKind::Service,
    ObservedKind::CiliumAgentPod,
];

/// The bytes are an answer, an event, or one object.
pub fn check(data: &[u8]) {
    if let Some(status) = ProtobufStatus::read(data) {
        assert!(status.message.len() <= 3 * data.len() && status.causes.len() <= data.len());
    }
    match ProtobufList::read(data) {
        Some(Ok(list)) => {
            assert!(list.items.len() <= data.len(), "objects out of nothing");
            list.items.iter().for_each(|object| check_object(object));
        }
        Some(Err(error)) => drop(error.to_string()),
        None => {}
    }
    match ProtobufEvent::read(data) {
        Ok(ProtobufEvent::Error(status)) => assert!(status.message.len() <= 3 * data.len()),
        Ok(
            ProtobufEvent::Changed(found)
            | ProtobufEvent::Deleted(found)
            | ProtobufEvent::Bookmark(found),
        ) => check_object(found.object),
        Err(error) => drop(error.to_string()),
    }
    check_object(data);
}

fn check_object(object: &[u8]) {
    for kind in KINDS {
        match value_of_protobuf(kind, object) {
            Ok(value) => {
                let slimmed = slim(kind, &value);
                assert_eq!(slim(kind, &slimmed), slimmed, "{value:#}");
                assert_same_view(kind, object, &value.to_string());
            }
            Err(error) => drop(error.to_string()),
        }
    }
}

/// What a view reads of the bytes, it reads of their JSON as well. JSON has its own limit of
/// nesting, and no key twice.
fn assert_same_view(kind: ObservedKind, object: &[u8], json: &str) {
    let (mut of_bytes, mut of_json) = (Reader::default(), Reader::default());
    let both = (of_bytes.protobuf(kind, object), of_json.object(kind, json));
    let [of_bytes, of_json] =
        [of_bytes, of_json].map(|reader| reader.finish(Timestamp::UNIX_EPOCH));
    let is_blind = !of_bytes.blind_spots.is_empty() || !of_json.blind_spots.is_empty();
    if let ((Ok(()), Ok(())), false) = (both, is_blind) {
        assert_eq!(format!("{of_bytes:?}"), format!("{of_json:?}"), "{json}");
    }
}
