//! Copies of a JSON value exactly the fields that a view deserializes.
//!
//! The view's `Deserialize` names the fields, so there is no second list of them. Knows nothing of
//! Kubernetes: fields that need a rule of their own are given by the caller.

use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Error, Map, Value};

/// What is left of a field, for the fields that the view's types do not narrow enough. `None`
/// leaves the field to its type.
pub(super) type Narrow = fn(&[&str], &Value) -> Option<Value>;

/// The part of `value` that a `T` reads.
///
/// A value that `T` does not accept stays as it is up to and including the first fault, so that
/// reading the copy fails at the same place.
/// A value of which a `T` reads only the presence becomes `true`.
pub(super) fn project<'v, T: Deserialize<'v>>(value: &'v Value, narrow: Narrow) -> Value {
    let mut copy = Value::Null;
    let mut path = Vec::new();
    let projector = Projector {
        value,
        copy: &mut copy,
        path: &mut path,
        narrow,
    };
    // The reader of the copy reports the fault.
    let _fault = T::deserialize(projector);
    copy
}

/// A deserializer that copies every part of the value that it passes on.
struct Projector<'v, 'c> {
    value: &'v Value,
    copy: &'c mut Value,
    /// Keys from the root to this value; items of lists have none.
    path: &'c mut Vec<&'v str>,
    narrow: Narrow,
}

impl<'v> Projector<'v, '_> {
    fn visit_object<V: Visitor<'v>>(
        self,
        keys: impl Iterator<Item = &'v str>,
        object: &'v Map<String, Value>,
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.copy = Value::Object(Map::new());
        visitor.visit_map(Fields {
            keys: keys.filter_map(|key| object.get(key).map(|value| (key, value))),
            pending: None,
            copy: self.copy,
            path: self.path,
            narrow: self.narrow,
        })
    }
}

macro_rules! copied_whole {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
            *self.copy = self.value.clone();
            self.value.$method(visitor)
        }
    )*};
}

impl<'v> Deserializer<'v> for Projector<'v, '_> {
    type Error = Error;

    copied_whole! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() {
            *self.copy = Value::Null;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Array(items) = self.value else {
            *self.copy = self.value.clone();
            return self.value.deserialize_seq(visitor);
        };
        *self.copy = Value::Array(Vec::new());
        visitor.visit_seq(Items {
            items: items.iter(),
            copy: self.copy,
            path: self.path,
            narrow: self.narrow,
        })
    }

    fn deserialize_map<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Object(object) = self.value else {
            *self.copy = self.value.clone();
            return self.value.deserialize_map(visitor);
        };
        self.visit_object(object.keys().map(String::as_str), object, visitor)
    }

    fn deserialize_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(object) => self.visit_object(fields.iter().copied(), object, visitor),
            // A list in the place of an object is positional to serde; none of it is copied.
            Value::Array(_) => {
                *self.copy = Value::Array(Vec::new());
                visitor.visit_seq(SeqDeserializer::<_, Error>::new(std::iter::empty::<u8>()))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                *self.copy = self.value.clone();
                self.value.deserialize_any(visitor)
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        *self.copy = Value::Bool(true);
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_tuple<V: Visitor<'v>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'v>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.copy = self.value.clone();
        self.value.deserialize_enum(name, variants, visitor)
    }
}

struct Fields<'v, 'c, K> {
    keys: K,
    pending: Option<(&'v str, &'v Value)>,
    copy: &'c mut Value,
    path: &'c mut Vec<&'v str>,
    narrow: Narrow,
}

impl<'v, K: Iterator<Item = (&'v str, &'v Value)>> MapAccess<'v> for Fields<'v, '_, K> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'v>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.pending = self.keys.next();
        self.pending
            .map(|(key, _)| seed.deserialize(BorrowedStrDeserializer::new(key)))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'v>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (key, value) = self
            .pending
            .take()
            .ok_or_else(|| Error::custom("a value without its key"))?;
        self.path.push(key);
        let copy = &mut self.copy[key];
        let outcome = match (self.narrow)(self.path, value) {
            Some(narrowed) => {
                *copy = narrowed.clone();
                seed.deserialize(narrowed)
            }
            None => seed.deserialize(Projector {
                value,
                copy,
                path: self.path,
                narrow: self.narrow,
            }),
        };
        self.path.pop();
        outcome
    }
}

struct Items<'v, 'c> {
    items: std::slice::Iter<'v, Value>,
    copy: &'c mut Value,
    path: &'c mut Vec<&'v str>,
    narrow: Narrow,
}

impl<'v> SeqAccess<'v> for Items<'v, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'v>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let (Some(value), Value::Array(copies)) = (self.items.next(), &mut *self.copy) else {
            return Ok(None);
        };
        copies.push(Value::Null);
        let Some(copy) = copies.last_mut() else {
            return Ok(None);
        };
        let projector = Projector {
            value,
            copy,
            path: self.path,
            narrow: self.narrow,
        };
        seed.deserialize(projector).map(Some)
    }
}
