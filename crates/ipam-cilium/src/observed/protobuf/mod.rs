//! The binary encoding of Kubernetes' own kinds, which servers write with less work than JSON.
//!
//! Only the fields that a view reads are decoded, and they read as their JSON does. It must never
//! fetch anything, and no bytes may make it panic.

mod deserialize;
mod list;
mod schema;
mod watch;
mod wire;

use serde::Deserialize;
use serde_json::Value;

use self::deserialize::Message;
use super::{ObservedKind, ReadError};

pub use self::list::{ProtobufList, ProtobufStatus};
pub use self::watch::{ProtobufEvent, ProtobufObject};
pub use self::wire::WireError;

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

/// Reads a view.
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
