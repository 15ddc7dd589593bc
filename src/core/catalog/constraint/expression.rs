//! The parts of a CEL expression.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// Returns the direct parts of an expression.
pub(super) fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(fold) => {
            vec![&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(entry).collect(),
        Expr::Struct(message) => message.entries.iter().flat_map(entry).collect(),
    }
}

fn entry(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Returns how deep an expression is nested; a name or a literal is 1.
pub(super) fn depth(expression: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut pending = vec![(expression, 1)];
    while let Some((expression, depth)) = pending.pop() {
        deepest = deepest.max(depth);
        pending.extend(parts(expression).into_iter().map(|part| (part, depth + 1)));
    }
    deepest
}
