//! Events of a watch in the binary encoding (apimachinery `pkg/apis/meta/v1/generated.proto` @ 1.36).
//! It must never know the kinds of the objects.

use std::borrow::Cow;

use super::deserialize::text;
use super::list::{Envelope, ProtobufStatus};
use super::wire::{WireError, WireFields};

/// One event. The object is borrowed from it.
#[derive(Debug)]
pub enum ProtobufEvent<'b> {
    Changed(ProtobufObject<'b>),
    Deleted(ProtobufObject<'b>),
    /// All events up to the resourceVersion of this object, which has nothing else, were sent.
    Bookmark(ProtobufObject<'b>),
    /// The watch ends.
    Error(ProtobufStatus<'b>),
}

/// An object of any kind.
#[derive(Debug)]
pub struct ProtobufObject<'b> {
    pub kind: Cow<'b, str>,
    pub object: &'b [u8],
}

impl<'b> ProtobufEvent<'b> {
    /// Reads an event without the length before it.
    ///
    /// # Errors
    /// Fails if the bytes are not an event.
    pub fn read(event: &'b [u8]) -> Result<ProtobufEvent<'b>, WireError> {
        let (mut kind, mut object) = (Cow::default(), None);
        for field in WireFields::of(event) {
            match field? {
                (1, wire) => kind = text(wire.bytes()?),
                (2, extension) => {
                    for field in WireFields::of(extension.bytes()?) {
                        if let (1, raw) = field? {
                            object = Some(raw.bytes()?);
                        }
                    }
                }
                _ => {}
            }
        }
        let object = object.unwrap_or_default();
        if kind == "ERROR" {
            let status = ProtobufStatus::read(object).ok_or(WireError::NoObject)?;
            return Ok(ProtobufEvent::Error(status));
        }
        let object = ProtobufObject::open(object)?;
        match &*kind {
            "ADDED" | "MODIFIED" => Ok(ProtobufEvent::Changed(object)),
            "DELETED" => Ok(ProtobufEvent::Deleted(object)),
            "BOOKMARK" => Ok(ProtobufEvent::Bookmark(object)),
            _ => Err(WireError::UnknownEvent),
        }
    }
}

impl<'b> ProtobufObject<'b> {
    fn open(bytes: &'b [u8]) -> Result<ProtobufObject<'b>, WireError> {
        let envelope = Envelope::open(bytes).ok_or(WireError::NoObject)??;
        let object = envelope.raw.ok_or(WireError::NoObject)?;
        Ok(ProtobufObject {
            kind: envelope.kind,
            object,
        })
    }
}
