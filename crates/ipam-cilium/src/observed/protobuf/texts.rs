//! Values whose text in JSON differs from their bytes: times, quantities, owned fields, and texts that
//! are not UTF-8. It must never know which field has which value.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::de::Error as _;
use serde_json::Error;

use super::wire::{WireError, WireFields};

pub(super) fn fault(error: WireError) -> Error {
    Error::custom(error)
}

/// Each byte that is not UTF-8 becomes U+FFFD, as in the JSON of Go's `encoding/json`.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.into();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text.into()
}

/// A `metav1.Time` as Go writes it, in whole seconds; `None` for the zero time, whose message is
/// empty (apimachinery `pkg/apis/meta/v1/time_proto.go` @ 1.36).
pub(super) fn time(message: &[u8]) -> Result<Option<String>, Error> {
    if message.is_empty() {
        return Ok(None);
    }
    let mut seconds = 0;
    for field in WireFields::of(message) {
        if let (1, wire) = field.map_err(fault)? {
            seconds = wire.number().map_err(fault)?.cast_signed();
        }
    }
    Ok(Some(rfc3339(seconds)))
}

/// Any client may write a time that jiff does not know, and one object must not make a whole list
/// unreadable. Go writes such a time by the proleptic Gregorian calendar, too (`time.RFC3339`).
fn rfc3339(seconds: i64) -> String {
    const OF_DAY: i64 = 86_400;
    /// Days and years of a cycle of the calendar.
    const CYCLE: (i64, i64) = (146_097, 400);
    if let Ok(time) = Timestamp::from_second(seconds) {
        return time.to_string();
    }
    let cycles = seconds.div_euclid(CYCLE.0 * OF_DAY);
    let within = seconds.rem_euclid(CYCLE.0 * OF_DAY);
    // 1970 to 2370, which jiff knows.
    let Ok(time) = Timestamp::from_second(within) else {
        return String::new();
    };
    let text = time.to_string();
    let (year, rest) = text.split_at(4);
    let year = year.parse::<i64>().unwrap_or(0) + cycles * CYCLE.1;
    format!("{year:04}{rest}")
}

/// The bytes of the first field of a message: the text of a `resource.Quantity`.
pub(super) fn only_field(message: &[u8]) -> Result<&[u8], Error> {
    let mut raw: &[u8] = b"";
    for field in WireFields::of(message) {
        if let (1, wire) = field.map_err(fault)? {
            raw = wire.bytes().map_err(fault)?;
        }
    }
    Ok(raw)
}

/// The JSON text of a `metav1.FieldsV1`.
pub(super) fn owned_fields(message: &[u8]) -> Result<&[u8], Error> {
    let raw = only_field(message)?;
    Ok(if raw.is_empty() { b"null" } else { raw })
}

/// Whether a JSON text may have one of these names. An escaped letter may hide any of them.
pub(super) fn has_any(text: &[u8], names: &[&str]) -> bool {
    let has = |name: &str| memchr::memmem::find(text, name.as_bytes()).is_some();
    has(r"\u") || names.iter().any(|name| has(name))
}
