//! Puts calls of the meter into a parsed expression: before each turn of a loop, and around each
//! value that an operation copies or compares. Refuses what it cannot meter.

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue, operators,
};

use super::functions::{CHARGE, KEEP, LENGTH, MATCHES, RANGE, TICK, TURN};
use super::weight;
use crate::{Fault, addresses};

/// The variable that holds the meter. No expression can name it.
pub(crate) const METER: &str = "@meter";

/// Names of types, which an expression can compare with `type(…)`.
const TYPES: [&str; 9] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "uint",
];

/// Functions of `cel` with arguments that they copy or read whole.
const FUNCTIONS: [&str; 15] = [
    "bool",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "hasValue",
    "int",
    "matches",
    "or",
    "orValue",
    "startsWith",
    "string",
    "type",
    "uint",
    "value",
];

/// Operators that compare or compute.
const OPERATORS: [&str; 13] = [
    operators::SUBSTRACT,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::IN,
    operators::ADD,
];

/// Functions of the namespace `optional`.
const OPTIONAL: [&str; 3] = ["none", "of", "ofNonZeroValue"];

/// The expression with its meter, and the variables that it uses.
///
/// # Errors
/// Fails if it uses an unknown name, or something that has no meter.
pub(crate) fn place(
    expression: IdedExpr,
    variables: &[&str],
) -> Result<(IdedExpr, BTreeSet<String>), Fault> {
    let mut placing = Placing {
        variables,
        used: BTreeSet::new(),
        bound: Vec::new(),
    };
    let metered = placing.expression(expression)?;
    Ok((metered, placing.used))
}

struct Placing<'p> {
    variables: &'p [&'p str],
    used: BTreeSet<String>,
    /// The variables of the loops around this place.
    bound: Vec<String>,
}

impl Placing<'_> {
    fn expression(&mut self, whole: IdedExpr) -> Result<IdedExpr, Fault> {
        let IdedExpr { id, expr } = whole;
        let expr = match expr {
            Expr::Literal(literal) => Expr::Literal(literal),
            Expr::Ident(name) => Expr::Ident(self.name(name)?),
            Expr::Select(mut select) => {
                *select.operand = self.expression(*select.operand)?;
                Expr::Select(select)
            }
            Expr::Call(call) => self.call(call)?,
            Expr::List(list) => Expr::List(ListExpr {
                elements: self.all(list.elements, KEEP)?,
                optional_indices: list.optional_indices,
            }),
            Expr::Map(mut map) => {
                for entry in &mut map.entries {
                    self.entry(entry)?;
                }
                Expr::Map(map)
            }
            Expr::Comprehension(of) => Expr::Comprehension(Box::new(self.comprehension(*of)?)),
            Expr::Struct(_) => return Err(Fault::Unsupported("a message")),
            Expr::Unspecified => return Err(Fault::Internal),
        };
        Ok(IdedExpr { id, expr })
    }

    fn name(&mut self, name: String) -> Result<String, Fault> {
        if self.bound.contains(&name) || TYPES.contains(&name.as_str()) {
            return Ok(name);
        }
        if self.variables.contains(&name.as_str()) {
            self.used.insert(name.clone());
            return Ok(name);
        }
        Err(Fault::UnknownVariable {
            name,
            known: self.variables.iter().map(ToString::to_string).collect(),
        })
    }

    /// The expression, wrapped in a call of a function that counts its value.
    fn metered(&mut self, by: &str, of: IdedExpr) -> Result<IdedExpr, Fault> {
        Ok(counted(by, vec![self.expression(of)?]))
    }

    fn all(&mut self, of: Vec<IdedExpr>, by: &str) -> Result<Vec<IdedExpr>, Fault> {
        of.into_iter().map(|one| self.metered(by, one)).collect()
    }

    fn plain(&mut self, of: Vec<IdedExpr>) -> Result<Vec<IdedExpr>, Fault> {
        of.into_iter().map(|one| self.expression(one)).collect()
    }

    fn entry(&mut self, entry: &mut IdedEntryExpr) -> Result<(), Fault> {
        let EntryExpr::MapEntry(entry) = &mut entry.expr else {
            return Err(Fault::Unsupported("a message"));
        };
        entry.key = self.metered(KEEP, std::mem::take(&mut entry.key))?;
        entry.value = self.metered(KEEP, std::mem::take(&mut entry.value))?;
        Ok(())
    }

    fn call(&mut self, call: CallExpr) -> Result<Expr, Fault> {
        let CallExpr {
            func_name,
            target,
            args,
        } = call;
        let name = func_name.as_str();
        let target = target.map(|target| *target);
        if is_optional(target.as_ref()) && OPTIONAL.contains(&name) {
            let args = self.all(args, KEEP)?;
            return Ok(called(func_name, target, args));
        }
        match (name, target) {
            (
                operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::CONDITIONAL
                | operators::NOT_STRICTLY_FALSE,
                None,
            ) => Ok(called(func_name, None, self.plain(args)?)),
            (operators::INDEX, None) => Ok(self.index(func_name, args)?.expr),
            // The value is copied into the optional one.
            (operators::OPT_INDEX | operators::OPT_SELECT, None) => {
                let index = self.index(func_name, args)?;
                Ok(counted(CHARGE, vec![index]).expr)
            }
            #[cfg(test)]
            ("panics", None) => Ok(called(func_name, None, args)),
            ("size", target) => {
                let target = target
                    .map(|target| self.metered(LENGTH, target))
                    .transpose()?;
                Ok(called(func_name, target, self.all(args, LENGTH)?))
            }
            ("matches", target) => {
                let args = target.into_iter().chain(args).collect();
                Ok(counted(MATCHES, self.plain(args)?).expr)
            }
            (operators::ADD, None) => Ok(called(func_name, None, self.all(args, KEEP)?)),
            ("isCanonical", Some(target)) if is_named(&target, "ip") => {
                let name = addresses::IS_CANONICAL.to_owned();
                Ok(called(name, None, self.all(args, CHARGE)?))
            }
            (name, target) if is_known(name) => {
                let target = target
                    .map(|target| self.metered(CHARGE, target))
                    .transpose()?;
                Ok(called(func_name, target, self.all(args, CHARGE)?))
            }
            _ => Err(Fault::UnknownFunction {
                name: func_name,
                known: known_functions(),
            }),
        }
    }

    /// The container is only looked up, so its size does not count.
    fn index(&mut self, name: String, args: Vec<IdedExpr>) -> Result<IdedExpr, Fault> {
        let mut args = args.into_iter();
        let (Some(container), Some(key)) = (args.next(), args.next()) else {
            return Err(Fault::Internal);
        };
        let key = match (&key.expr, name.as_str()) {
            (Expr::Literal(_), _) => key,
            _ => self.metered(CHARGE, key)?,
        };
        let container = self.expression(container)?;
        Ok(node(called(name, None, vec![container, key])))
    }

    fn comprehension(&mut self, mut of: ComprehensionExpr) -> Result<ComprehensionExpr, Fault> {
        if of.iter_var2.is_some() {
            return Err(Fault::Unsupported("a loop with two variables"));
        }
        of.iter_range = self.metered(RANGE, of.iter_range)?;
        self.bound.push(of.iter_var.clone());
        of.loop_step = self.step(of.loop_step, &of.iter_var, &of.accu_var)?;
        self.bound.pop();
        // A literal condition marks `map` and `filter`, whose steps count.
        of.loop_cond = match of.loop_cond.expr {
            Expr::Literal(_) => of.loop_cond,
            _ => counted(TICK, vec![of.loop_cond]),
        };
        Ok(of)
    }

    /// One turn of a loop, in the forms that the standard macros have. `cel` runs `map` and
    /// `filter` fast only if the step keeps its form.
    fn step(&mut self, step: IdedExpr, item: &str, accumulator: &str) -> Result<IdedExpr, Fault> {
        let turn = Turn {
            item,
            weight: i64::try_from(weight(&step, self.bound.len())).unwrap_or(i64::MAX),
        };
        let unsupported = || Fault::Unsupported("this macro");
        let IdedExpr { id, expr } = step;
        let Expr::Call(mut call) = expr else {
            return Err(unsupported());
        };
        let is_accumulator =
            |one: &IdedExpr| matches!(&one.expr, Expr::Ident(name) if name == accumulator);
        let args = std::mem::take(&mut call.args);
        call.args = match (call.func_name.as_str(), <[IdedExpr; 2]>::try_from(args)) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, Ok([before, test]))
                if is_accumulator(&before) =>
            {
                vec![before, turn.first(self.expression(test)?)]
            }
            (operators::ADD, Ok([before, added])) if is_accumulator(&before) => {
                vec![before, self.appended(added, Some(&turn))?]
            }
            (operators::CONDITIONAL, Err(args)) => {
                let [test, then, otherwise] =
                    <[IdedExpr; 3]>::try_from(args).map_err(|_| unsupported())?;
                let then = self.guarded(then, &is_accumulator)?;
                vec![turn.first(self.expression(test)?), then, otherwise]
            }
            _ => return Err(unsupported()),
        };
        Ok(IdedExpr {
            id,
            expr: Expr::Call(call),
        })
    }

    /// What a turn adds if its test holds: the item, or one to a count.
    fn guarded(
        &mut self,
        step: IdedExpr,
        is_accumulator: &dyn Fn(&IdedExpr) -> bool,
    ) -> Result<IdedExpr, Fault> {
        let unsupported = || Fault::Unsupported("this macro");
        let IdedExpr { id, expr } = step;
        let Expr::Call(mut call) = expr else {
            return Err(unsupported());
        };
        let args = <[IdedExpr; 2]>::try_from(std::mem::take(&mut call.args));
        let [before, added] = args.map_err(|_| unsupported())?;
        if call.func_name != operators::ADD || !is_accumulator(&before) {
            return Err(unsupported());
        }
        let added = match &added.expr {
            Expr::Literal(LiteralValue::Int(_)) => added,
            _ => self.appended(added, None)?,
        };
        call.args = vec![before, added];
        Ok(IdedExpr {
            id,
            expr: Expr::Call(call),
        })
    }

    fn appended(&mut self, list: IdedExpr, turn: Option<&Turn<'_>>) -> Result<IdedExpr, Fault> {
        let IdedExpr { id, expr } = list;
        let Expr::List(list) = expr else {
            return Err(Fault::Unsupported("this macro"));
        };
        let mut elements = self.all(list.elements, KEEP)?;
        if let Some(turn) = turn {
            elements = elements.into_iter().map(|one| turn.first(one)).collect();
        }
        let list = ListExpr {
            elements,
            optional_indices: list.optional_indices,
        };
        Ok(IdedExpr {
            id,
            expr: Expr::List(list),
        })
    }
}

/// A turn of a loop: `cel` copies the item, and evaluates the step.
struct Turn<'t> {
    item: &'t str,
    /// Of the step.
    weight: i64,
}

impl Turn<'_> {
    /// Counts the turn before the expression, which may fail.
    fn first(&self, then: IdedExpr) -> IdedExpr {
        let weight = node(Expr::Literal(LiteralValue::Int(self.weight.into())));
        let turn = counted(TURN, vec![variable(self.item), weight]);
        let never = node(Expr::Literal(LiteralValue::Null));
        let name = operators::CONDITIONAL.to_owned();
        node(called(name, None, vec![turn, then, never]))
    }
}

/// Whether a call only needs its target and its arguments counted.
fn is_known(name: &str) -> bool {
    let all = [&OPERATORS[..], &FUNCTIONS, &addresses::FUNCTIONS];
    all.iter().any(|names| names.contains(&name))
}

fn known_functions() -> Vec<String> {
    let all = FUNCTIONS.iter().chain(&addresses::FUNCTIONS);
    let all = all.chain(&["ip.isCanonical", "size"]);
    all.map(ToString::to_string).collect()
}

fn is_optional(target: Option<&IdedExpr>) -> bool {
    target.is_some_and(|one| is_named(one, "optional"))
}

fn is_named(one: &IdedExpr, wanted: &str) -> bool {
    matches!(&one.expr, Expr::Ident(name) if name == wanted)
}

/// A call of one of the meter's functions.
fn counted(by: &str, args: Vec<IdedExpr>) -> IdedExpr {
    let args = std::iter::once(variable(METER)).chain(args).collect();
    node(called(by.to_owned(), None, args))
}

fn called(func_name: String, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr {
        func_name,
        target: target.map(Box::new),
        args,
    })
}

fn variable(name: &str) -> IdedExpr {
    node(Expr::Ident(name.to_owned()))
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
