//! The binary encoding of Kubernetes' own kinds, which servers write with less work than JSON.
//!
//! Only the fields that a view reads are decoded, and they read as their JSON does. It must never
//! fetch anything, and no bytes may make it panic.
//!
//! The envelope of the binary encoding, lists, and the `Status` of an error (apimachinery
//! `pkg/runtime/generated.proto` and `pkg/apis/meta/v1/generated.proto` @ 1.36).

mod deserialize;
mod schema;
mod texts;
mod wire;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use texts::text;
use wire::WireFields;

use self::deserialize::Message;
use super::{ObservedKind, ReadError};

pub use self::wire::WireError;
pub use wire::{ProtobufEvent, ProtobufObject};

/// How a server sends the objects of a kind, if it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

/// The encoding that costs a server and us the least.
///
/// Custom resources have only JSON, and kinds with few objects gain nothing.
pub fn cheapest_encoding(kind: ObservedKind) -> Encoding {
    match schema::message(kind) {
        Some(_) => Encoding::Protobuf,
        None => Encoding::Json,
    }
}

/// What views read of an object in the binary encoding, in the form of its JSON.
///
/// # Errors
/// Fails if the bytes are not an object, or the kind is only read as JSON.
pub fn value_of_protobuf(kind: ObservedKind, object: &[u8]) -> Result<Value, ReadError> {
    read(kind, object)
}

/// Deserializes a protobuf object of this kind.
pub(super) fn read<'m, T: Deserialize<'m>>(
    kind: ObservedKind,
    object: &'m [u8],
) -> Result<T, ReadError> {
    let fields =
        schema::message(kind).ok_or_else(|| ReadError::of_name(kind, None, "it is not JSON"))?;
    let message = Message {
        fields,
        bytes: object,
    };
    T::deserialize(message)
        .map_err(|error| ReadError::of_name(kind, name(message).as_deref(), &error.to_string()))
}

/// The name of an object that may not be readable otherwise.
fn name(object: Message<'_>) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Name,
    }
    #[derive(Deserialize)]
    struct Name {
        name: String,
    }
    Named::deserialize(object)
        .ok()
        .map(|named| named.metadata.name)
}

#[cfg(test)]
mod tests;

/// Begins each answer (apimachinery `pkg/runtime/serializer/protobuf/protobuf.go` @ 1.36).
const MAGIC: &[u8] = b"k8s\0";

/// One page of a list. Objects are borrowed from the answer.
#[derive(Debug, Default)]
pub struct ProtobufList<'b> {
    pub api_version: Cow<'b, str>,
    pub kind: Cow<'b, str>,
    /// The resourceVersion.
    pub version: Cow<'b, str>,
    /// The token of the next page, empty at the end.
    pub next: Cow<'b, str>,
    pub items: Vec<&'b [u8]>,
}

/// Why a server refuses.
#[derive(Debug, Default)]
pub struct ProtobufStatus<'b> {
    /// The HTTP status, 0 if it has none.
    pub code: u64,
    pub message: Cow<'b, str>,
    /// The messages of its causes.
    pub causes: Vec<Cow<'b, str>>,
}

/// Wraps each object that is sent: its type and its bytes.
pub(super) struct Envelope<'b> {
    api_version: Cow<'b, str>,
    pub(super) kind: Cow<'b, str>,
    pub(super) raw: Option<&'b [u8]>,
}

impl<'b> Envelope<'b> {
    /// `runtime.Unknown`; `None` without the magic number.
    pub(super) fn open(body: &'b [u8]) -> Option<Result<Envelope<'b>, WireError>> {
        body.strip_prefix(MAGIC).map(Envelope::read)
    }

    fn read(unknown: &'b [u8]) -> Result<Envelope<'b>, WireError> {
        let mut envelope = Envelope {
            api_version: Cow::default(),
            kind: Cow::default(),
            raw: None,
        };
        for field in WireFields::of(unknown) {
            match field? {
                (1, types) => {
                    for field in WireFields::of(types.bytes()?) {
                        match field? {
                            (1, wire) => envelope.api_version = text(wire.bytes()?),
                            (2, wire) => envelope.kind = text(wire.bytes()?),
                            _ => {}
                        }
                    }
                }
                (2, raw) => envelope.raw = Some(raw.bytes()?),
                (3, encoding) if !encoding.bytes()?.is_empty() => {
                    return Err(WireError::UnknownEncoding);
                }
                _ => {}
            }
        }
        Ok(envelope)
    }
}

impl<'b> ProtobufList<'b> {
    /// Reads an answer; `None` if it has another encoding, or holds nothing.
    ///
    /// # Errors
    /// Fails if its bytes are not a list.
    pub fn read(body: &'b [u8]) -> Option<Result<ProtobufList<'b>, WireError>> {
        let opened = Envelope::open(body)?;
        opened.and_then(ProtobufList::of).transpose()
    }

    fn of(envelope: Envelope<'b>) -> Result<Option<ProtobufList<'b>>, WireError> {
        let Envelope {
            api_version,
            kind,
            raw,
        } = envelope;
        let Some(raw) = raw else { return Ok(None) };
        let mut list = ProtobufList {
            api_version,
            kind,
            ..ProtobufList::default()
        };
        let mut has_metadata = false;
        for field in WireFields::of(raw) {
            match field? {
                (1, metadata) => {
                    has_metadata = true;
                    for field in WireFields::of(metadata.bytes()?) {
                        match field? {
                            (2, wire) => list.version = text(wire.bytes()?),
                            (3, wire) => list.next = text(wire.bytes()?),
                            _ => {}
                        }
                    }
                }
                (2, item) => list.items.push(item.bytes()?),
                _ => {}
            }
        }
        // Without it, the first page would look like the whole list.
        has_metadata
            .then_some(Some(list))
            .ok_or(WireError::NoMetadata)
    }
}

impl<'b> ProtobufStatus<'b> {
    /// Reads an answer; `None` if it has another encoding, or is not a `Status`.
    pub fn read(body: &'b [u8]) -> Option<ProtobufStatus<'b>> {
        let envelope = Envelope::open(body)?.ok()?;
        if envelope.kind != "Status" {
            return None;
        }
        ProtobufStatus::of(envelope.raw?).ok()
    }

    fn of(raw: &'b [u8]) -> Result<ProtobufStatus<'b>, WireError> {
        let mut status = ProtobufStatus::default();
        for field in WireFields::of(raw) {
            match field? {
                (3, wire) => status.message = text(wire.bytes()?),
                (5, details) => {
                    for field in WireFields::of(details.bytes()?) {
                        if let (4, cause) = field? {
                            status.causes.extend(message_of_cause(cause.bytes()?)?);
                        }
                    }
                }
                (6, wire) => status.code = wire.number()?,
                _ => {}
            }
        }
        Ok(status)
    }
}

fn message_of_cause(cause: &[u8]) -> Result<Option<Cow<'_, str>>, WireError> {
    let mut message = None;
    for field in WireFields::of(cause) {
        if let (2, wire) = field? {
            message = Some(text(wire.bytes()?));
        }
    }
    Ok(message)
}
