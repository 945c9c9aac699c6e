//! Deserializes a message as serde sees the same object in JSON, so that a view reads both
//! encodings by one definition. Texts are borrowed from the message. It must never know a view.

use std::borrow::Cow;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Error;

use super::schema::{Count, Empty, Field, Shape};
use super::texts::{fault, has_any, only_field, owned_fields, text, time};
use super::wire::{Wire, WireFields};

/// The methods of a deserializer that knows the type of its value, as that of JSON does.
macro_rules! self_describing {
    () => {
        fn deserialize_newtype_struct<V: Visitor<'m>>(
            self,
            _name: &'static str,
            visitor: V,
        ) -> Result<V::Value, Error> {
            visitor.visit_newtype_struct(self)
        }

        fn deserialize_ignored_any<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.visit_unit()
        }

        forward_to_deserialize_any! {
            <V: Visitor<'m>>
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit
            unit_struct seq tuple tuple_struct map struct enum identifier
        }
    };
}

/// The bytes of a protobuf message, and the schema of its fields.
#[derive(Clone, Copy)]
pub(super) struct Message<'m> {
    pub fields: &'static [Field],
    pub bytes: &'m [u8],
}

/// The values of one field of a message; only a field that occurs often has more than one.
#[derive(Clone, Copy)]
struct Occurrences<'m, 'f> {
    field: &'static Field,
    values: &'f [(usize, Wire<'m>)],
}

/// One value of a field.
#[derive(Clone, Copy)]
struct Single<'m> {
    shape: Shape,
    wire: Wire<'m>,
}

impl<'m> Message<'m> {
    /// The fields that the schema has, in its order, each with its index in the schema.
    fn found(self) -> Result<Vec<(usize, Wire<'m>)>, Error> {
        let mut found = Vec::with_capacity(self.fields.len());
        for field in WireFields::of(self.bytes) {
            let (number, wire) = field.map_err(fault)?;
            let index = self.fields.iter().position(|field| field.number == number);
            found.extend(index.map(|index| (index, wire)));
        }
        if !found.is_sorted_by_key(|(index, _)| *index) {
            found.sort_by_key(|(index, _)| *index);
        }
        Ok(found)
    }
}

impl<'m> Deserializer<'m> for Message<'m> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        let found = self.found()?;
        visitor.visit_map(Fields {
            schema: self.fields,
            found: &found,
            pending: None,
        })
    }

    fn deserialize_option<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    self_describing!();
}

struct Fields<'m, 'f> {
    schema: &'static [Field],
    found: &'f [(usize, Wire<'m>)],
    pending: Option<Occurrences<'m, 'f>>,
}

impl<'m, 'f> Fields<'m, 'f> {
    /// The next field that the JSON encoding of the message has, too.
    fn next_field(&mut self) -> Result<Option<Occurrences<'m, 'f>>, Error> {
        while let Some((index, _)) = self.found.first() {
            let end = self.found.partition_point(|(other, _)| other == index);
            let (values, rest) = self.found.split_at(end);
            let field = self
                .schema
                .get(*index)
                .ok_or_else(|| Error::custom("a field without a name"))?;
            self.found = rest;
            let occurrences = Occurrences { field, values };
            if !occurrences.is_omitted()? {
                return Ok(Some(occurrences));
            }
        }
        Ok(None)
    }
}

impl<'m> Occurrences<'m, '_> {
    /// Of a field that may occur once, the last value counts.
    fn last(&self) -> Result<Single<'m>, Error> {
        let (_, wire) = self
            .values
            .last()
            .ok_or_else(|| Error::custom("a field without a value"))?;
        Ok(Single {
            shape: self.field.shape,
            wire: *wire,
        })
    }

    fn is_omitted(&self) -> Result<bool, Error> {
        if (self.field.count, self.field.empty) != (Count::One, Empty::Omitted) {
            return Ok(false);
        }
        match self.field.shape {
            Shape::Text | Shape::Time => Ok(self.last()?.wire.bytes().map_err(fault)?.is_empty()),
            Shape::Integer
            | Shape::Flag
            | Shape::Fields(_)
            | Shape::Map
            | Shape::Quantities
            | Shape::Message(_) => Ok(false),
        }
    }
}

impl<'m> MapAccess<'m> for Fields<'m, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'m>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.pending = self.next_field()?;
        self.pending
            .map(|next| seed.deserialize(BorrowedStrDeserializer::new(next.field.name)))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'m>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let next = self
            .pending
            .take()
            .ok_or_else(|| Error::custom("a value without its key"))?;
        seed.deserialize(next)
    }
}

impl<'m> Deserializer<'m> for Occurrences<'m, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.field.shape, self.field.count) {
            (shape @ (Shape::Map | Shape::Quantities), _) => visitor.visit_map(Entries {
                shape,
                entries: self.values.iter(),
                value: "".into(),
            }),
            (shape, Count::Many) => visitor.visit_seq(Items {
                shape,
                values: self.values.iter(),
            }),
            (_, Count::One) => self.last()?.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.field.shape, self.field.count) {
            (Shape::Map | Shape::Quantities, _) | (_, Count::Many) => visitor.visit_some(self),
            (_, Count::One) => self.last()?.deserialize_option(visitor),
        }
    }

    self_describing!();
}

struct Items<'m, 'f> {
    shape: Shape,
    values: std::slice::Iter<'f, (usize, Wire<'m>)>,
}

impl<'m> SeqAccess<'m> for Items<'m, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'m>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let shape = self.shape;
        self.values
            .next()
            .map(|(_, wire)| seed.deserialize(Single { shape, wire: *wire }))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.values.len())
    }
}

/// The entries of a map: messages of a key and a value.
struct Entries<'m, 'f> {
    shape: Shape,
    entries: std::slice::Iter<'f, (usize, Wire<'m>)>,
    /// The value whose key was read.
    value: Cow<'m, str>,
}

impl<'m> MapAccess<'m> for Entries<'m, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'m>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some((_, entry)) = self.entries.next() else {
            return Ok(None);
        };
        let mut key = Cow::default();
        self.value = Cow::default();
        for field in WireFields::of(entry.bytes().map_err(fault)?) {
            match field.map_err(fault)? {
                (1, wire) => key = text(wire.bytes().map_err(fault)?),
                (2, wire) => {
                    let value = wire.bytes().map_err(fault)?;
                    self.value = text(match self.shape {
                        Shape::Quantities => only_field(value)?,
                        _ => value,
                    });
                }
                _ => {}
            }
        }
        seed.deserialize(Text(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'m>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Text(std::mem::take(&mut self.value)))
    }
}

/// A text, borrowed from the message where possible.
struct Text<'m>(Cow<'m, str>);

impl<'m> Deserializer<'m> for Text<'m> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    self_describing!();
}

impl<'m> Single<'m> {
    fn bytes(self) -> Result<&'m [u8], Error> {
        self.wire.bytes().map_err(fault)
    }
}

impl<'m> Deserializer<'m> for Single<'m> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.shape {
            Shape::Text => Text(text(self.bytes()?)).deserialize_any(visitor),
            Shape::Integer => visitor.visit_i64(self.wire.number().map_err(fault)?.cast_signed()),
            Shape::Flag => visitor.visit_bool(self.wire.number().map_err(fault)? != 0),
            Shape::Time => match time(self.bytes()?)? {
                Some(time) => visitor.visit_string(time),
                None => visitor.visit_unit(),
            },
            Shape::Fields(names) => {
                let text = owned_fields(self.bytes()?)?;
                let text = if has_any(text, names) { text } else { b"{}" };
                let mut json = serde_json::Deserializer::from_slice(text);
                let value = json.deserialize_any(visitor)?;
                json.end().map(|()| value)
            }
            Shape::Map | Shape::Quantities => Err(Error::custom("an entry without its map")),
            Shape::Message(fields) => {
                let bytes = self.bytes()?;
                Message { fields, bytes }.deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'m>>(self, visitor: V) -> Result<V::Value, Error> {
        let is_null = match self.shape {
            Shape::Time => self.bytes()?.is_empty(),
            Shape::Fields(_) => owned_fields(self.bytes()?)?.trim_ascii() == b"null",
            Shape::Text
            | Shape::Integer
            | Shape::Flag
            | Shape::Map
            | Shape::Quantities
            | Shape::Message(_) => false,
        };
        if is_null {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    self_describing!();
}
