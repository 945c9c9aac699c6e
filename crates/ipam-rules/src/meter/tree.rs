//! The shape of a parsed expression. Knows no meaning of its parts.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};

/// How deep an expression is nested.
pub(crate) fn depth(expression: &IdedExpr) -> usize {
    1 + children(expression)
        .into_iter()
        .map(depth)
        .max()
        .unwrap_or(0)
}

/// Units of evaluating each part once, inside this many loops. A name is looked up in the scope of
/// each loop, and with every number of its segments.
pub(super) fn weight(expression: &IdedExpr, loops: usize) -> u64 {
    if let Some(segments) = chain(expression) {
        return (segments * (loops + 4)).div_ceil(2) as u64;
    }
    let loops = match &expression.expr {
        Expr::Comprehension(_) => loops + 1,
        _ => loops,
    };
    let own = match &expression.expr {
        Expr::Call(_) => 2,
        _ => 1,
    };
    let inside = children(expression).into_iter();
    own + inside.map(|child| weight(child, loops)).sum::<u64>()
}

/// The number of names in `a.b.c`.
fn chain(expression: &IdedExpr) -> Option<usize> {
    match &expression.expr {
        Expr::Ident(_) => Some(1),
        Expr::Select(select) => chain(&select.operand).map(|before| before + 1),
        _ => None,
    }
}

fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(parts).collect(),
        Expr::Struct(of) => of.entries.iter().flat_map(parts).collect(),
        Expr::Comprehension(of) => {
            vec![
                &of.iter_range,
                &of.accu_init,
                &of.loop_cond,
                &of.loop_step,
                &of.result,
            ]
        }
    }
}

fn parts(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}
