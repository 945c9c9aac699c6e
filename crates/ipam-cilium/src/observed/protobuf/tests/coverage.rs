//! Whether the trimmed messages have every field that a view reads. A view names its fields when it
//! deserializes; this deserializer compares them with the message, and has one value for each.

use std::collections::BTreeSet;

use serde::de::value::{BorrowedStrDeserializer, Error, MapDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::super::schema::{Count, Field, Shape, message};
use crate::observed::ObservedKind;
use crate::observed::settings::AgentView;
use crate::observed::view::NodeView;
use crate::observed::view_lb::ServiceView;

#[derive(Clone, Copy)]
struct Covered<'c> {
    shape: Shape,
    count: Count,
    missing: &'c std::cell::RefCell<BTreeSet<&'static str>>,
}

impl<'de> Deserializer<'de> for Covered<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match (self.shape, self.count) {
            (Shape::Map | Shape::Quantities | Shape::Fields(_), _) => {
                let none = std::iter::empty::<(&str, &str)>();
                visitor.visit_map(MapDeserializer::new(none))
            }
            (_, Count::Many) => visitor.visit_seq(OneItem(Some(Covered {
                count: Count::One,
                ..self
            }))),
            (Shape::Text | Shape::Time, _) => visitor.visit_borrowed_str("x"),
            (Shape::Integer, _) => visitor.visit_i64(1),
            (Shape::Flag, _) => visitor.visit_bool(true),
            (Shape::Message(fields), _) => visitor.visit_map(Each {
                fields: fields.iter(),
                next: None,
                of: self,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        read: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let (Shape::Message(fields), Count::One) = (self.shape, self.count) {
            let is_missing = |name: &&&str| fields.iter().all(|field| field.name != **name);
            self.missing
                .borrow_mut()
                .extend(read.iter().filter(is_missing));
        }
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct OneItem<'c>(Option<Covered<'c>>);

impl<'de> SeqAccess<'de> for OneItem<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.0.take().map(|item| seed.deserialize(item)).transpose()
    }
}

struct Each<'c> {
    fields: std::slice::Iter<'static, Field>,
    next: Option<&'static Field>,
    of: Covered<'c>,
}

impl<'de> MapAccess<'de> for Each<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.next = self.fields.next();
        self.next
            .map(|field| seed.deserialize(BorrowedStrDeserializer::new(field.name)))
            .transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let field = self.next.unwrap();
        seed.deserialize(Covered {
            shape: field.shape,
            count: field.count,
            ..self.of
        })
    }
}

fn missing<T: Deserialize<'static>>(kind: ObservedKind) -> BTreeSet<&'static str> {
    let missing = std::cell::RefCell::default();
    let covered = Covered {
        shape: Shape::Message(message(kind).unwrap()),
        count: Count::One,
        missing: &missing,
    };
    assert!(T::deserialize(covered).is_ok(), "{kind:?}");
    missing.into_inner()
}

#[test]
fn every_field_of_a_view_is_in_its_message() {
    let none = BTreeSet::new();
    assert_eq!(missing::<NodeView<'_>>(ObservedKind::Node), none);
    assert_eq!(missing::<ServiceView>(ObservedKind::Service), none);
    assert_eq!(missing::<AgentView>(ObservedKind::CiliumAgentPod), none);
}
