//! What is known of the values that an expression will see. Knows no value.

use std::collections::BTreeMap;

/// The fields of a value, or the variables.
pub type Fields = BTreeMap<&'static str, Shape>;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Any,
    /// A text, a number, true or false, or null.
    Scalar,
    /// One of these texts, or null.
    OneOf(&'static [&'static str]),
    List(Box<Shape>),
    /// Any keys, each with such a value.
    Map(Box<Shape>),
    /// These fields and no other; one may be absent.
    Fields(Fields),
}

impl Shape {
    /// A list of such values.
    pub fn list(of: Shape) -> Shape {
        Shape::List(Box::new(of))
    }

    /// A map to such values.
    pub fn map(to: Shape) -> Shape {
        Shape::Map(Box::new(to))
    }

    /// An object with these fields.
    pub fn fields<const N: usize>(fields: [(&'static str, Shape); N]) -> Shape {
        Shape::Fields(fields.into())
    }
}
