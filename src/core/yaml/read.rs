//! The reader: serde-saphyr with YAML 1.1 rules, with integral floats turned into integers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Options, Spanned};

use super::quoted;

/// Largest text that is read, in bytes; a larger one is refused before it is parsed.
const MAX_INPUT_BYTES: usize = 256 * 1024 * 1024;

/// Deepest nesting of maps and lists that is read.
///
/// Custom resource definitions of the public catalogs stay below 50; the bound keeps the stack of
/// a worker thread safe.
pub(super) const MAX_DEPTH: usize = 64;

/// Most documents one text may hold.
const MAX_DOCUMENTS: usize = 1_000_000;

/// Most values that aliases may repeat in one text.
const MAX_REPLAYED_VALUES: usize = 100_000;

/// Most bytes that aliases may add to the output by repetition, beyond the size of the input.
const REPLAY_BYTES: usize = 32 * 1024 * 1024;

/// Why a text could not be read as YAML or JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("yaml: {}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct YamlError {
    /// Line of the error, from 1, if known.
    pub line: Option<u64>,
    /// What is wrong, on one line, without the position.
    pub message: String,
}

impl YamlError {
    fn from_reader(error: &serde_saphyr::Error) -> Self {
        let error = error.without_snippet();
        let location = error.location();
        let text = error.to_string();
        // The reader appends its own position; ours comes first as Go's does.
        let text = text.lines().next().unwrap_or_default();
        let message = text.rfind(" at line ").map_or(text, |at| &text[..at]);
        Self {
            line: location.map(|location| location.line()).filter(|&line| line > 0),
            message: message.to_owned(),
        }
    }
}

/// Reads with the general reader.
pub(super) fn careful(text: &str) -> Result<Vec<Value>, YamlError> {
    let mut documents = documents(text, |Node(value), _| value)?;
    // The reader returns a document for a tag without a value.
    documents.retain(|value| !value.is_null());
    Ok(documents)
}

/// Reads every document of a text; a refused text is tried again with its quoted scalars rewritten
/// so that only what Go refuses is an error.
fn documents<N: DeserializeOwned, V>(
    text: &str,
    value: fn(N, &str) -> V,
) -> Result<Vec<V>, YamlError> {
    let read = |text: &str| {
        let nodes: Vec<N> = serde_saphyr::from_multiple_with_options(text, options(text.len()))
            .map_err(|error| YamlError::from_reader(&error))?;
        Ok(nodes.into_iter().map(|node| value(node, text)).collect())
    };
    read(text).or_else(|error| match quoted::respell(text) {
        Some(respelled) => read(&respelled),
        None => Err(error),
    })
}

/// A value whose numbers keep the spelling of their author.
#[derive(Debug, Clone, PartialEq)]
pub enum SourcedValue {
    /// A number and its text in the file, where the file has one.
    Number(Number, Option<String>),
    /// Null, boolean or string.
    Scalar(Value),
    /// A list of values.
    List(Vec<Self>),
    /// A map; of a key that stands twice, the last value.
    Map(BTreeMap<String, Self>),
}

/// Reads every document like [`super::to_json`], keeping the text of numbers.
///
/// Only `metadata/properties.yaml` needs it, where `4.20` must not become `4.2` (rendering.md R13).
pub fn to_json_with_sources(text: &str) -> Result<Vec<SourcedValue>, YamlError> {
    let text = checked(text)?;
    let mut documents = documents(text, Places::source)?;
    documents.retain(|value| *value != SourcedValue::Scalar(Value::Null));
    Ok(documents)
}

/// A value, and where its parts stand in their text.
#[derive(Debug)]
pub struct Places(Spanned<Inner<Self>>);

impl Places {
    /// Reads the first document of a text; `None` if it is not YAML.
    pub fn read(text: &str) -> Option<Self> {
        let documents = serde_saphyr::from_multiple_with_options(text, options(text.len()));
        documents.ok()?.into_iter().next()
    }

    /// Returns line and column, both from 1, of a value; where there is none, those of the deepest
    /// one above it. Keys match without regard to case.
    pub fn find(&self, path: &[String]) -> Option<(usize, usize)> {
        let mut node = self;
        for part in path {
            let below = match &node.0.value {
                Inner::Map(entries) => {
                    let mut entries = entries.iter().rev();
                    entries.find(|(key, _)| key.eq_ignore_ascii_case(part)).map(|(_, value)| value)
                }
                Inner::List(items) => part.parse::<usize>().ok().and_then(|i| items.get(i)),
                Inner::Scalar(_) => None,
            };
            let Some(below) = below else { break };
            node = below;
        }
        node.place()
    }

    fn place(&self) -> Option<(usize, usize)> {
        let place = self.0.defined;
        let number = |number: u64| usize::try_from(number).ok();
        number(place.line()).zip(number(place.column()))
    }

    /// Adds the keys that a map has twice, with the places of their last values.
    pub(super) fn repeated(&self, found: &mut Vec<(String, usize, usize)>) {
        match &self.0.value {
            Inner::Scalar(_) => {}
            Inner::List(items) => items.iter().for_each(|item| item.repeated(found)),
            Inner::Map(entries) => {
                let mut known = BTreeSet::new();
                for (key, value) in entries {
                    if !known.insert(key)
                        && let Some((line, column)) = value.place()
                    {
                        found.push((key.clone(), line, column));
                    }
                    value.repeated(found);
                }
            }
        }
    }

    fn source(self, text: &str) -> SourcedValue {
        let span = self.0.defined.span();
        match self.0.value {
            Inner::Scalar(Value::Number(number)) => {
                let start = span.byte_offset().and_then(|at| usize::try_from(at).ok());
                let written = start.and_then(|start| text.get(start..)).map(|rest| {
                    let end = rest
                        .find(|c: char| c.is_whitespace() || ",]}".contains(c))
                        .unwrap_or(rest.len());
                    rest[..end].to_owned()
                });
                SourcedValue::Number(number, written)
            }
            Inner::Scalar(scalar) => SourcedValue::Scalar(scalar),
            Inner::List(items) => {
                SourcedValue::List(items.into_iter().map(|item| item.source(text)).collect())
            }
            Inner::Map(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key, value.source(text)));
                SourcedValue::Map(entries.collect())
            }
        }
    }
}

/// Returns the text Go puts into a string field for a scalar, or `None` for lists, maps and null.
///
/// Integers are decimal, floats the shortest text that gives the same 32-bit float.
/// Source: `sigs.k8s.io/yaml`, `convertToJSONableObject` with a string target.
pub fn scalar_to_string(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(match number.as_f64() {
            Some(float) if number.is_f64() => float_key(float),
            _ => number.to_string(),
        }),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the text Go's JSON encoder writes for a float.
///
/// Exponents are used below 1e-6 and from 1e21 on: `1e20` gives `100000000000000000000`.
/// Source: `encoding/json`, `floatEncoder`.
pub fn go_float(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

pub(super) fn checked(text: &str) -> Result<&str, YamlError> {
    if text.len() > MAX_INPUT_BYTES {
        return Err(YamlError {
            line: None,
            message: format!("input of {} bytes is larger than {MAX_INPUT_BYTES}", text.len()),
        });
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Derives the limits from the size of the input: what a text of this length can contain is never
/// refused, what only repetition through aliases can produce is.
fn options(bytes: usize) -> Options {
    let nodes = bytes / 2 + MAX_REPLAYED_VALUES;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            flow_nesting_limit: MAX_DEPTH,
            max_events: nodes.saturating_mul(2),
            max_aliases: MAX_REPLAYED_VALUES,
            max_anchors: MAX_REPLAYED_VALUES,
            max_depth: MAX_DEPTH,
            max_documents: MAX_DOCUMENTS,
            max_nodes: nodes,
            max_total_scalar_bytes: bytes.saturating_add(REPLAY_BYTES),
            max_merge_keys: MAX_REPLAYED_VALUES,
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED_VALUES,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        ignore_binary_tag_for_string: true,
        with_snippet: false,
    }
}

pub(super) fn json_stream(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    serde_json::Deserializer::from_str(text)
        .into_iter::<Node>()
        .map(|node| node.map(|node| node.0))
        .filter(|value| !matches!(value, Ok(Value::Null)))
        .collect()
}

/// Converts a float to a JSON number as Go's encoder and decoder together do.
fn number(float: f64) -> Option<Number> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.fract() == 0.0 && (-LIMIT..LIMIT).contains(&float) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the value is integral and within the range of i64"
        )]
        return Some(Number::from(float as i64));
    }
    Number::from_f64(float)
}

/// Formats a float used as a map key: Go's `%g` with the precision of a 32-bit float.
fn float_key(float: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "Go formats these with the precision of a 32-bit float"
    )]
    let float = float as f32;
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A JSON value built from the events of the parser.
struct Node(Value);

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Inner::<Self>::deserialize(deserializer)? {
            Inner::Scalar(value) => value,
            Inner::List(items) => items.into_iter().map(|Self(item)| item).collect(),
            Inner::Map(entries) => {
                entries.into_iter().map(|(key, Self(value))| (key, value)).collect()
            }
        }))
    }
}

/// A map key: any scalar but null, as the text Go gives it.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, number or boolean as map key")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Key, E> {
        Ok(Key(flag.to_string()))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Key, E> {
        Ok(Key(integer.to_string()))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Key, E> {
        Ok(Key(integer.to_string()))
    }

    fn visit_f64<E>(self, float: f64) -> Result<Key, E> {
        Ok(Key(float_key(float)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Key, E> {
        Ok(Key(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Key, E> {
        Ok(Key(text))
    }
}

/// A value built from the events of the parser, down to its parts.
#[derive(Debug)]
enum Inner<P> {
    Scalar(Value),
    List(Vec<P>),
    Map(Vec<(String, P)>),
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de, P: Deserialize<'de>> Deserialize<'de> for Inner<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InnerVisitor(PhantomData))
    }
}

struct InnerVisitor<P>(PhantomData<P>);

impl<'de, P: Deserialize<'de>> Visitor<'de> for InnerVisitor<P> {
    type Value = Inner<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Inner<P>, E> {
        Ok(Inner::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Inner<P>, E> {
        Ok(Inner::Scalar(Value::Bool(flag)))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<Inner<P>, E> {
        Ok(Inner::Scalar(integer.into()))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<Inner<P>, E> {
        Ok(Inner::Scalar(integer.into()))
    }

    fn visit_f64<E: de::Error>(self, float: f64) -> Result<Inner<P>, E> {
        number(float)
            .map(|number| Inner::Scalar(Value::Number(number)))
            .ok_or_else(|| E::custom("unsupported value: not a finite number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Inner<P>, E> {
        Ok(Inner::Scalar(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Inner<P>, E> {
        Ok(Inner::Scalar(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Inner<P>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Inner::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inner<P>, A::Error> {
        let mut entries = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Inner::Map(entries))
    }
}
