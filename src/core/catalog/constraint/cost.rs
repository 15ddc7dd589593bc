//! How many steps the evaluation of a CEL rule takes in the worst case.
//!
//! Every loop is a macro over a list, so what a rule costs is bounded by what its lists hold. The
//! estimate assumes that no operand decides early, and that every list is as long as the longest.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};
use serde_json::Value;

use super::expression::parts;

/// Steps counted for compiling a regular expression.
const PATTERN: u64 = 2_000;
/// Bytes of a string that count as one node.
const BYTES_PER_NODE: u64 = 16;

/// Upper bound of the size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Elements of the value itself, or of any list or map in it.
    length: u64,
    /// Values in it, itself included.
    nodes: u64,
}

impl Extent {
    const SCALAR: Self = Self { length: 0, nodes: 1 };

    fn text(bytes: usize) -> Self {
        Self { length: 0, nodes: 1 + bytes as u64 / BYTES_PER_NODE }
    }

    /// Returns the extent of a JSON value.
    pub(super) fn of_json(value: &Value) -> Self {
        let all = |parts: &mut dyn Iterator<Item = Self>, length: usize| {
            parts.fold(Self { length: length as u64, nodes: 1 }, Self::with)
        };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::SCALAR,
            Value::String(text) => Self::text(text.len()),
            Value::Array(items) => all(&mut items.iter().map(Self::of_json), items.len()),
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| {
                    Self::text(key.len()).with(Self::of_json(value))
                };
                all(&mut members.iter().map(member), members.len())
            }
        }
    }

    /// Returns the extent of a value that contains both.
    fn with(self, other: Self) -> Self {
        Self {
            length: self.length.max(other.length),
            nodes: self.nodes.saturating_add(other.nodes),
        }
    }

    /// Returns the extent of a value that may be either.
    fn or(self, other: Self) -> Self {
        Self { length: self.length.max(other.length), nodes: self.nodes.max(other.nodes) }
    }

    fn times(self, count: u64) -> Self {
        Self {
            length: self.length.max(1).saturating_mul(count),
            nodes: self.nodes.saturating_mul(count),
        }
    }
}

/// Returns the most steps a rule takes for properties of this extent.
pub(super) fn of(rule: &IdedExpr, properties: Extent) -> u64 {
    let mut estimate = Estimate { steps: 0, variables: vec![("properties", properties)] };
    estimate.value(rule, 1);
    estimate.steps
}

struct Estimate<'e> {
    steps: u64,
    variables: Vec<(&'e str, Extent)>,
}

impl<'e> Estimate<'e> {
    /// Counts an expression that is evaluated `times` times; returns the extent of its value.
    fn value(&mut self, expression: &'e IdedExpr, times: u64) -> Extent {
        self.count(1, times);
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => Extent::text(text.inner().len()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Extent::text(bytes.inner().len()),
            Expr::Literal(_) | Expr::Unspecified => Extent::SCALAR,
            Expr::Ident(name) => {
                let mut variables = self.variables.iter().rev();
                let variable = variables.find(|(known, _)| known == name);
                variable.map_or(Extent::SCALAR, |(_, extent)| *extent)
            }
            // A member is no larger than the whole.
            Expr::Select(select) => self.value(&select.operand, times),
            Expr::Comprehension(fold) => {
                let range = self.value(&fold.iter_range, times);
                let start = self.value(&fold.accu_init, times);
                let rounds = times.saturating_mul(range.length);
                self.variables.push((&fold.iter_var, range));
                self.variables.push((&fold.accu_var, start));
                self.value(&fold.loop_cond, rounds);
                let grown = self.value(&fold.loop_step, rounds).times(range.length);
                self.variables.push((&fold.accu_var, grown.or(start)));
                let result = self.value(&fold.result, times);
                self.variables.truncate(self.variables.len() - 3);
                // The accumulated value is copied.
                self.count(grown.nodes, times);
                result
            }
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => {
                let parts = parts(expression);
                let whole = Extent { length: parts.len() as u64, nodes: 1 };
                let whole = parts.into_iter().fold(whole, |whole, part| {
                    let part = self.value(part, times);
                    whole.with(part)
                });
                self.count(whole.nodes, times);
                whole
            }
            Expr::Call(call) => {
                let arguments: Vec<_> =
                    parts(expression).into_iter().map(|part| self.value(part, times)).collect();
                self.call(&call.func_name, &arguments, times)
            }
        }
    }

    /// Counts a call, which may read all of its arguments.
    fn call(&mut self, name: &str, arguments: &[Extent], times: u64) -> Extent {
        let all = arguments.iter().copied().fold(Extent::default(), Extent::with);
        match name {
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::NOT_STRICTLY_FALSE => Extent::SCALAR,
            operators::CONDITIONAL | operators::INDEX => {
                arguments.iter().copied().fold(Extent::SCALAR, Extent::or)
            }
            operators::EQUALS | operators::NOT_EQUALS => {
                // Values differ as soon as the smaller one ends.
                let least = arguments.iter().map(|extent| extent.nodes).min();
                self.count(least.unwrap_or(0), times);
                Extent::SCALAR
            }
            operators::ADD => {
                self.count(all.nodes, times);
                let lengths = arguments.iter().map(|extent| extent.length);
                Extent { length: lengths.fold(0, u64::saturating_add), nodes: all.nodes }
            }
            "matches" => {
                self.count(all.nodes.saturating_add(PATTERN), times);
                Extent::SCALAR
            }
            _ => {
                self.count(all.nodes, times);
                all
            }
        }
    }

    fn count(&mut self, steps: u64, times: u64) {
        self.steps = self.steps.saturating_add(steps.saturating_mul(times));
    }
}
