//! The words of `-o`.

use clap::ValueEnum as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The format of the output. Values with their own help would make `--help` of every command its
/// long form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Format {
    // For people
    #[default]
    Table,
    // For people, with more columns
    Wide,
    // Names, one a line
    Name,
    // For programs, as JSON
    Json,
    // For programs, as YAML
    Yaml,
    // Phases and objects, with health and drift; rows of a graph
    Tree,
    // A Mermaid flow chart
    Mermaid,
    // A picture without external resources
    Svg,
    // A page in one file
    Html,
    // The configuration file of oc-mirror v2
    Imageset,
}

/// Parses `-o` of a verb that prints tables and documents, and in these ways besides.
pub(crate) fn formats(more: &[Format]) -> impl TypedValueParser<Value = Format> {
    let usual = [Format::Table, Format::Json, Format::Yaml];
    let known = Format::value_variants().iter();
    only(&known.copied().filter(|it| usual.contains(it) || more.contains(it)).collect::<Vec<_>>())
}

/// Parses `-o` of a verb that prints objects.
pub(crate) fn objects() -> impl TypedValueParser<Value = Format> {
    only(&[Format::Json, Format::Yaml])
}

/// Parses `-o` of a verb that draws.
pub(crate) fn drawn() -> impl TypedValueParser<Value = Format> {
    only(&[Format::Tree, Format::Mermaid, Format::Svg, Format::Html, Format::Json, Format::Yaml])
}

/// Parses `-o` of a verb that writes.
pub(crate) fn written() -> impl TypedValueParser<Value = Format> {
    only(&[Format::Name, Format::Json, Format::Yaml])
}

fn only(known: &[Format]) -> impl TypedValueParser<Value = Format> + use<> {
    let words = known.iter().filter_map(clap::ValueEnum::to_possible_value);
    let words = PossibleValuesParser::new(words.collect::<Vec<_>>());
    // Nothing else gets through.
    words.map(|word| Format::from_str(&word, false).unwrap_or_default())
}
