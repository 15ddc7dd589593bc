//! Checks of a CEL rule before it is evaluated: its names are known and its type is Bool.
//!
//! The interpreter has no type checker. OLM Classic's type checker refuses a rule whose type is not
//! known to be Bool, so the outermost expression decides.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use super::ConstraintError;
use super::expression::parts;
use crate::error::quote;

/// Names of types, which are CEL values as well.
const TYPES: [&str; 11] =
    ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"];
/// The functions of the standard library, and ours.
const FUNCTIONS: &str = "bool bytes contains double duration dyn endsWith getDate getDayOfMonth \
    getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds \
    int matches semver_compare size startsWith string timestamp type uint";
/// Operators and functions that return Bool.
#[rustfmt::skip]
const BOOLEAN: [&str; 14] = [
    operators::LOGICAL_AND, operators::LOGICAL_OR, operators::LOGICAL_NOT, operators::EQUALS,
    operators::NOT_EQUALS, operators::LESS, operators::LESS_EQUALS, operators::GREATER,
    operators::GREATER_EQUALS, operators::IN, "matches", "startsWith", "endsWith", "contains",
];

/// Refuses a rule that uses undeclared names or is not certain to be of type Bool.
pub(super) fn check(rule: &IdedExpr) -> Result<(), ConstraintError> {
    if let Some(name) = undeclared(rule, &mut vec!["properties"]) {
        let name = quote(name);
        return Err(ConstraintError(format!("undeclared reference to {name}")));
    }
    if !is_bool(rule) {
        let text = "cel expressions must have type Bool";
        return Err(ConstraintError(text.to_owned()));
    }
    Ok(())
}

/// Returns the first name or function that is not declared where it is used.
fn undeclared<'e>(expression: &'e IdedExpr, variables: &mut Vec<&'e str>) -> Option<&'e str> {
    match &expression.expr {
        Expr::Ident(name) => {
            let known = variables.contains(&name.as_str()) || TYPES.contains(&name.as_str());
            return (!known).then_some(name);
        }
        Expr::Comprehension(fold) => {
            let range = undeclared(&fold.iter_range, variables);
            let outside = range.or_else(|| undeclared(&fold.accu_init, variables));
            if outside.is_some() {
                return outside;
            }
            let depth = variables.len();
            variables.extend([fold.iter_var.as_str(), fold.accu_var.as_str()]);
            let inside = [&fold.loop_cond, &fold.loop_step, &fold.result];
            let found = inside.iter().find_map(|part| undeclared(part, variables));
            variables.truncate(depth);
            return found;
        }
        Expr::Call(call) if !is_function(&call.func_name) => return Some(&call.func_name),
        Expr::Struct(message) => return Some(&message.type_name),
        _ => {}
    }
    let mut parts = parts(expression).into_iter();
    parts.find_map(|part| undeclared(part, variables))
}

/// Says whether a function is declared; operators have names that cannot be written as calls.
fn is_function(name: &str) -> bool {
    let starts_as_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
    !starts_as_name || FUNCTIONS.split(' ').any(|function| function == name)
}

/// Says whether an expression is of type Bool for certain.
fn is_bool(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
        Expr::Select(select) => select.test,
        Expr::Call(call) if call.func_name == operators::CONDITIONAL => {
            call.args.iter().skip(1).all(is_bool)
        }
        Expr::Call(call) => call.func_name == "bool" || BOOLEAN.contains(&call.func_name.as_str()),
        Expr::Comprehension(fold) => match &fold.result.expr {
            Expr::Ident(name) if *name == fold.accu_var => is_bool(&fold.accu_init),
            _ => is_bool(&fold.result),
        },
        _ => false,
    }
}
