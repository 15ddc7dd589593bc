//! CEL rules about the properties of one bundle.
//!
//! A rule is parsed and checked once. Catalogs are not trusted, and the interpreter has no limits
//! of its own: the text is limited before it is parsed, the nesting before it is evaluated, and the
//! work by an estimate of the worst case (see [`super::cost`]). A rule beyond a limit is not an
//! error; it matches nothing, like a rule whose evaluation fails. All rules together are limited by
//! [`Steps`]: once these are used up it is unknown what a rule matches.
//!
//! Source: resolution.md 5.5.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::thread;

use cel::common::ast::IdedExpr;
use cel::parser::PrattParser;
use cel::{Context, Env, ExecutionError, Value};
use serde_json::json;

use super::cost::{self, Extent};
use super::expression::depth;
use super::{ConstraintError, check};
use crate::catalog::property::Property;
use crate::version::Version;

/// The longest rule that is evaluated, in bytes.
const MAX_BYTES: usize = 65536;
/// Most characters in a rule that can nest expressions: the parser takes a time that grows with the
/// square of a chain of calls. Rules of real bundles have about ten.
const MAX_MARKS: usize = 2_000;
/// Deepest nesting of an expression that is evaluated.
const MAX_DEPTH: usize = 100;
/// Most steps that the evaluation may take for one bundle.
const MAX_STEPS: u64 = 1_000_000;
/// Most steps that the rules of a package may take: a thousand rules for a hundred bundles each, if
/// one takes 500.
const MAX_STEPS_TOGETHER: u64 = 50_000_000;
/// Steps counted for preparing an evaluation, besides one for each byte of the rule.
const PREPARATION: u64 = 20;
/// Steps counted for a thread with a large stack.
const THREAD: u64 = 2_000;
/// A rule with at most this many such characters is parsed on the caller's stack.
const FEW_MARKS: usize = 200;
/// An expression of at most this depth is evaluated on the caller's stack.
const SHALLOW: usize = 12;
/// Stack size in bytes for all others. Unoptimized, a level takes some 4 KiB to parse and to drop,
/// and there are at most 2000 of them; to evaluate it takes some 25 KiB, and there are at most 100.
const DEEP_STACK: usize = 16 << 20;

/// A CEL rule, ready to be evaluated.
#[derive(Clone)]
pub struct Rule {
    text: String,
    /// Absent if the rule is beyond a limit.
    program: Option<Arc<Program>>,
}

/// A rule within the limits.
struct Program {
    expression: IdedExpr,
    depth: usize,
}

/// What a rule may query about one bundle: its properties as CEL values.
#[derive(Debug, Clone)]
pub struct Facts {
    properties: Value,
    extent: Extent,
}

/// The steps that are left for the evaluation of rules.
#[derive(Debug, Clone)]
pub struct Steps(Cell<u64>);

impl Default for Steps {
    fn default() -> Self {
        Self(Cell::new(MAX_STEPS_TOGETHER))
    }
}

impl Steps {
    /// Returns how many were taken.
    pub fn taken(&self) -> u64 {
        MAX_STEPS_TOGETHER.saturating_sub(self.0.get())
    }

    /// Subtracts steps; returns whether that many were left.
    fn take(&self, steps: u64) -> bool {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

impl Rule {
    /// Parses a rule: wrong syntax, unknown names, and a result that is not of type Bool are
    /// errors.
    pub fn compile(text: &str) -> Result<Self, ConstraintError> {
        let is_mark = |c: &char| "().[]{}?:!-+*/%<>=".contains(*c);
        let marks = text.chars().filter(is_mark).count();
        let program = if text.len() > MAX_BYTES || marks > MAX_MARKS {
            None
        } else if marks <= FEW_MARKS {
            Program::parse(text)?
        } else {
            on_deep_stack(|| Program::parse(text)).unwrap_or(Ok(None))?
        };
        Ok(Self { text: text.to_owned(), program: program.map(Arc::new) })
    }

    /// Returns the rule as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Says whether the properties of a bundle satisfy the rule, which a rule that fails is not;
    /// `None` if there are too few steps left to tell.
    pub fn matches(&self, facts: &Facts, left: &Steps) -> Option<bool> {
        let Some(program) = &self.program else { return Some(false) };
        let is_shallow = program.depth <= SHALLOW;
        let thread = if is_shallow { 0 } else { THREAD };
        if !left.take(PREPARATION + thread + self.text.len() as u64) {
            return None;
        }
        let steps = cost::of(&program.expression, facts.extent);
        if steps > MAX_STEPS {
            return Some(false);
        }
        if !left.take(steps) {
            return None;
        }
        let evaluate = || evaluate(&program.expression, facts);
        Some(if is_shallow { evaluate() } else { on_deep_stack(evaluate).unwrap_or(false) })
    }
}

impl Program {
    /// Parses and checks a rule; returns `None`, unchecked, for one that is nested too deep.
    fn parse(text: &str) -> Result<Option<Self>, ConstraintError> {
        let expression = PrattParser::new().parse(text).map_err(|errors| {
            let first = errors.errors.first().map(|error| error.msg.as_str());
            ConstraintError(first.unwrap_or("Syntax error").to_owned())
        })?;
        let depth = depth(&expression);
        if depth > MAX_DEPTH {
            return Ok(None);
        }
        check::check(&expression)?;
        Ok(Some(Self { expression, depth }))
    }
}

/// Runs a closure on a thread with a large stack; `None` if there is no such thread or it panics.
fn on_deep_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().stack_size(DEEP_STACK);
        builder.spawn_scoped(scope, run).ok()?.join().ok()
    })
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rule").field(&self.text).finish()
    }
}

impl Facts {
    /// Takes properties in their order; one whose value is not JSON leaves an empty map in its
    /// place.
    pub fn new<'a>(properties: impl IntoIterator<Item = &'a Property>) -> Self {
        let fact = |property: &Property| {
            // The catalog does not keep the values of the largest properties.
            let value = match property.value.as_str() {
                "" => Ok(serde_json::Value::Null),
                text => serde_json::from_str(text),
            };
            value.map_or_else(
                |_| json!({}),
                |value: serde_json::Value| json!({"type": property.kind, "value": value}),
            )
        };
        let facts: serde_json::Value = properties.into_iter().map(fact).collect();
        Self { extent: Extent::of_json(&facts), properties: value(facts) }
    }
}

/// Returns a JSON value as Go gives it to CEL: every number is a double.
fn value(json: serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => flag.into(),
        Json::Number(number) => number.as_f64().unwrap_or(f64::NAN).into(),
        Json::String(text) => text.into(),
        Json::Array(items) => items.into_iter().map(value).collect::<Vec<_>>().into(),
        Json::Object(members) => {
            let members = members.into_iter().map(|(key, json)| (key, value(json)));
            members.collect::<HashMap<_, _>>().into()
        }
    }
}

fn evaluate(expression: &IdedExpr, facts: &Facts) -> bool {
    static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));
    let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
    if context.add_function("semver_compare", semver_compare).is_err() {
        return false;
    }
    context.add_variable_from_value("properties", facts.properties.clone());
    Value::resolve(expression, &context) == Ok(Value::Bool(true))
}

/// Compares two versions, parsed tolerantly: -1, 0 or 1.
fn semver_compare(a: Value, b: Value) -> Result<i64, ExecutionError> {
    let version = |value: Value| {
        let text = match &value {
            Value::String(text) => text.to_string(),
            Value::Int(number) => number.to_string(),
            Value::UInt(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return Err(ExecutionError::function_error("semver_compare", "no text")),
        };
        Version::parse_tolerant(&text)
            .map_err(|error| ExecutionError::function_error("semver_compare", error))
    };
    Ok(match version(a)?.precedence(&version(b)?) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}
