//! The wire format of Protocol Buffers: fields of one message, borrowed from its bytes. It must
//! never know which message it is, and reads no field that its caller does not ask for.
//!
//! Events of a watch in the binary encoding (apimachinery `pkg/apis/meta/v1/generated.proto` @
//! 1.36).

use std::borrow::Cow;

use super::texts::text;
use super::{Envelope, ProtobufStatus};

/// Why bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("it ends too early")]
    Truncated,
    #[error("a number has more than 64 bits")]
    LongNumber,
    #[error("a field has an unknown form")]
    UnknownForm,
    #[error("a field has another form than expected")]
    OtherForm,
    #[error("its content has an encoding of its own")]
    UnknownEncoding,
    #[error("it has no metadata")]
    NoMetadata,
    #[error("it has no object")]
    NoObject,
    #[error("it is an event of an unknown type")]
    UnknownEvent,
}

/// The value of a field as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'m> {
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'m [u8]),
    /// Four or eight bytes. No field that is read has this form.
    Fixed,
}

impl<'m> Wire<'m> {
    pub(super) fn bytes(self) -> Result<&'m [u8], WireError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            Wire::Number(_) | Wire::Fixed => Err(WireError::OtherForm),
        }
    }

    pub(super) fn number(self) -> Result<u64, WireError> {
        match self {
            Wire::Number(number) => Ok(number),
            Wire::Bytes(_) | Wire::Fixed => Err(WireError::OtherForm),
        }
    }
}

/// The fields of a message in the order of its bytes: number and value.
pub(super) struct WireFields<'m> {
    rest: &'m [u8],
}

impl<'m> WireFields<'m> {
    pub(super) fn of(message: &'m [u8]) -> WireFields<'m> {
        WireFields { rest: message }
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for (index, byte) in self.rest.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            let shift = 7 * index;
            // The tenth byte has only the last of 64 bits.
            if shift > 63 || (shift == 63 && bits > 1) {
                return Err(WireError::LongNumber);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(number);
            }
        }
        Err(WireError::Truncated)
    }

    fn take(&mut self, length: u64) -> Result<&'m [u8], WireError> {
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length))
            .ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire<'m>), WireError> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => self.take(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Wire::Fixed)?,
            // Groups; Kubernetes has none.
            _ => return Err(WireError::UnknownForm),
        };
        Ok((key >> 3, value))
    }
}

impl<'m> Iterator for WireFields<'m> {
    type Item = Result<(u64, Wire<'m>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// One event of a watch. The object is borrowed from the bytes of the event.
#[derive(Debug)]
pub enum ProtobufEvent<'b> {
    Changed(ProtobufObject<'b>),
    Deleted(ProtobufObject<'b>),
    /// All events up to the resourceVersion of this object were sent. The object has no other
    /// field.
    Bookmark(ProtobufObject<'b>),
    /// The server ends the watch, with this reason.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, WireError> {
        WireFields::of(message).collect()
    }

    #[test]
    fn numbers_bytes_and_fixed_fields() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7,
            8,
        ];
        let expected = vec![
            (1, Wire::Number(150)),
            (2, Wire::Bytes(b"hi")),
            (3, Wire::Fixed),
            (4, Wire::Fixed),
        ];
        assert_eq!(read(&message), Ok(expected));
    }

    #[test]
    fn the_largest_number_and_one_beyond() {
        let largest = [&[0x08][..], &[0xff; 9], &[0x01]].concat();
        assert_eq!(read(&largest), Ok(vec![(1, Wire::Number(u64::MAX))]));
        let beyond = [&[0x08][..], &[0xff; 9], &[0x02]].concat();
        assert_eq!(read(&beyond), Err(WireError::LongNumber));
        let endless = [&[0x08][..], &[0xff; 20]].concat();
        assert_eq!(read(&endless), Err(WireError::LongNumber));
    }

    #[test]
    fn an_end_within_a_field() {
        for message in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x12, 0x03, b'h', b'i'],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x1d, 1, 2, 3],
        ] {
            assert_eq!(read(message), Err(WireError::Truncated), "{message:?}");
        }
        assert_eq!(read(&[0x0b]), Err(WireError::UnknownForm));
    }
}
