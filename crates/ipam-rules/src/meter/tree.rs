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

/// How many parts an expression has.
pub(super) fn nodes(expression: &IdedExpr) -> usize {
    1 + children(expression).into_iter().map(nodes).sum::<usize>()
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
