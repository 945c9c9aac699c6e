//! Finds names of fields and texts that no value of the declared shape has. Such a rule would have
//! no result, or always the same.
//!
//! What is known of the values that an expression will see.

use std::collections::BTreeMap;

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, LiteralValue, SelectExpr,
    SourceInfo, operators,
};

use crate::expression::{CompileError, Fault};

/// Checks an expression as the parser gives it.
///
/// # Errors
/// Fails on the first unknown field or text.
pub(crate) fn check(
    expression: &IdedExpr,
    variables: &Fields,
    places: &SourceInfo,
) -> Result<(), CompileError> {
    let mut checking = Checking {
        variables,
        places,
        bound: Vec::new(),
    };
    checking.shape(expression).map(|_| ())
}

struct Checking<'c> {
    variables: &'c Fields,
    places: &'c SourceInfo,
    /// The variables of the loops around this place.
    bound: Vec<(String, Shape)>,
}

type Checked<T> = Result<T, CompileError>;

impl Checking<'_> {
    fn shape(&mut self, of: &IdedExpr) -> Checked<Shape> {
        match &of.expr {
            Expr::Literal(_) | Expr::Unspecified => Ok(Shape::Scalar),
            Expr::Ident(name) => Ok(self.variable(name)),
            Expr::Select(select) => self.select(select, of.id),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let shapes = list.elements.iter().map(|one| self.shape(one));
                let shapes = shapes.collect::<Checked<Vec<Shape>>>()?;
                Ok(Shape::list(common(shapes)))
            }
            Expr::Map(map) => self.entries(&map.entries),
            Expr::Struct(of) => self.entries(&of.entries),
            Expr::Comprehension(of) => self.comprehension(of),
        }
    }

    fn variable(&self, name: &str) -> Shape {
        let bound = self.bound.iter().rev().find(|(bound, _)| bound == name);
        let known = bound
            .map(|(_, shape)| shape)
            .or_else(|| self.variables.get(name));
        known.cloned().unwrap_or(Shape::Any)
    }

    fn entries(&mut self, entries: &[IdedEntryExpr]) -> Checked<Shape> {
        for entry in entries {
            match &entry.expr {
                EntryExpr::StructField(field) => self.shape(&field.value)?,
                EntryExpr::MapEntry(entry) => {
                    self.shape(&entry.key)?;
                    self.shape(&entry.value)?
                }
            };
        }
        Ok(Shape::Any)
    }

    fn select(&mut self, select: &SelectExpr, id: u64) -> Checked<Shape> {
        let operand = self.shape(&select.operand)?;
        let field = self.field(&operand, &select.field, id)?;
        Ok(if select.test { Shape::Scalar } else { field })
    }

    /// The shape of a field. The node of this id names it.
    fn field(&self, of: &Shape, name: &str, id: u64) -> Checked<Shape> {
        let fault = match of {
            Shape::Any => return Ok(Shape::Any),
            Shape::Map(value) => return Ok(Shape::clone(value)),
            Shape::Fields(fields) => match fields.get(name) {
                Some(shape) => return Ok(shape.clone()),
                None => Fault::UnknownField {
                    name: name.to_owned(),
                    known: fields.keys().map(ToString::to_string).collect(),
                },
            },
            Shape::Scalar | Shape::OneOf(_) | Shape::List(_) => Fault::NoFields(name.to_owned()),
        };
        Err(self.at(fault, name, id))
    }

    fn at(&self, fault: Fault, name: &str, id: u64) -> CompileError {
        let source = &self.places.source;
        let after = self.places.offset_for(id).map(|(start, _)| start as usize);
        // The parser counts characters.
        let after = source.char_indices().nth(after.unwrap_or(0));
        let after = after.map_or(0, |(byte, _)| byte);
        let found = source[after..].find(name).map(|found| after + found);
        let start = found.or_else(|| source.find(name)).unwrap_or(0);
        CompileError {
            fault,
            at: Some(start..start + name.len()),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Checked<Shape> {
        let target = call.target.as_deref();
        let target = target.map(|target| self.shape(target)).transpose()?;
        let shapes = call.args.iter().map(|arg| self.shape(arg));
        let shapes = shapes.collect::<Checked<Vec<Shape>>>()?;
        match (call.func_name.as_str(), &*call.args, &*shapes) {
            (
                operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT,
                [_, key],
                [container, _],
            ) => self.element(container, key),
            (operators::IN, [key, _], [_, of @ Shape::Fields(_)]) => match text(key) {
                Some(name) => self.field(of, name, key.id).map(|_| Shape::Scalar),
                None => Ok(Shape::Scalar),
            },
            (operators::IN, [_, list], [Shape::OneOf(known), _]) => {
                if let Expr::List(list) = &list.expr {
                    let mut texts = list.elements.iter();
                    texts.try_for_each(|text| self.value(known, text))?;
                }
                Ok(Shape::Scalar)
            }
            (
                operators::EQUALS | operators::NOT_EQUALS | operators::IN,
                [one, other],
                [left, right],
            ) => {
                for (shape, compared) in [(left, other), (right, one)] {
                    if let Shape::OneOf(known) = shape {
                        self.value(known, compared)?;
                    }
                }
                Ok(Shape::Scalar)
            }
            (operators::CONDITIONAL, _, [_, then, otherwise])
            | (operators::ADD, _, [then, otherwise]) => {
                Ok(common(vec![then.clone(), otherwise.clone()]))
            }
            ("value" | "orValue" | "or", _, _) => Ok(optional(target)),
            _ => Ok(Shape::Any),
        }
    }

    /// The value that an index or an optional field gives.
    fn element(&self, of: &Shape, key: &IdedExpr) -> Checked<Shape> {
        match (of, text(key)) {
            (Shape::List(item), _) => Ok(Shape::clone(item)),
            (Shape::Map(value), None) => Ok(Shape::clone(value)),
            (_, Some(name)) => self.field(of, name, key.id),
            (_, None) => Ok(Shape::Any),
        }
    }

    /// Checks that a text which is compared is one of the known values.
    fn value(&self, known: &'static [&'static str], compared: &IdedExpr) -> Checked<()> {
        match text(compared) {
            Some(value) if !known.contains(&value) => {
                let fault = Fault::UnknownValue {
                    value: value.to_owned(),
                    known: known.iter().map(ToString::to_string).collect(),
                };
                Err(self.at(fault, value, compared.id))
            }
            _ => Ok(()),
        }
    }

    fn comprehension(&mut self, of: &ComprehensionExpr) -> Checked<Shape> {
        let item = match self.shape(&of.iter_range)? {
            Shape::List(item) => *item,
            Shape::Map(_) | Shape::Fields(_) => Shape::Scalar,
            Shape::Any | Shape::Scalar | Shape::OneOf(_) => Shape::Any,
        };
        self.bound.push((of.accu_var.clone(), Shape::Any));
        self.bound.push((of.iter_var.clone(), item));
        let shape = self.shape(&of.loop_step);
        let appended = shape.and_then(|_| match appended(&of.loop_step, &of.accu_var) {
            Some(item) => self.shape(item).map(Shape::list),
            None => Ok(Shape::Scalar),
        });
        self.bound.truncate(self.bound.len().saturating_sub(2));
        appended
    }
}

/// What each turn of `map` or `filter` appends.
fn appended<'e>(step: &'e IdedExpr, accumulator: &str) -> Option<&'e IdedExpr> {
    let Expr::Call(call) = &step.expr else {
        return None;
    };
    match (call.func_name.as_str(), &*call.args) {
        (operators::CONDITIONAL, [_, then, _]) => appended(then, accumulator),
        (operators::ADD, [before, added]) => match (&before.expr, &added.expr) {
            (Expr::Ident(name), Expr::List(list)) if name == accumulator => list.elements.first(),
            _ => None,
        },
        _ => None,
    }
}

fn text(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// The shape of one of several values.
fn common(shapes: Vec<Shape>) -> Shape {
    let mut shapes = shapes.into_iter();
    let Some(first) = shapes.next() else {
        return Shape::Any;
    };
    match shapes.all(|shape| shape == first) {
        true => first,
        false => Shape::Any,
    }
}

/// The value of an optional one, or another value in place of it.
fn optional(of: Option<Shape>) -> Shape {
    match of {
        Some(shape @ (Shape::List(_) | Shape::Map(_))) => shape,
        Some(Shape::Scalar | Shape::OneOf(_)) => Shape::Scalar,
        Some(Shape::Any | Shape::Fields(_)) | None => Shape::Any,
    }
}

/// The fields of a value, or the variables.
pub type Fields = BTreeMap<&'static str, Shape>;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing is known of the value.
    Any,
    /// A text, a number, true or false, or null.
    Scalar,
    /// The value is one of these texts, or null.
    OneOf(&'static [&'static str]),
    List(Box<Shape>),
    /// An object with any keys, whose values have this shape.
    Map(Box<Shape>),
    /// The value has these fields and no other; a field may be absent.
    Fields(Fields),
}

impl Shape {
    /// The shape of a list whose items have this shape.
    pub fn list(of: Shape) -> Shape {
        Shape::List(Box::new(of))
    }

    /// The shape of a map whose values have this shape.
    pub fn map(to: Shape) -> Shape {
        Shape::Map(Box::new(to))
    }

    /// The shape of an object with these fields.
    pub fn fields<const N: usize>(fields: [(&'static str, Shape); N]) -> Shape {
        Shape::Fields(fields.into())
    }
}
