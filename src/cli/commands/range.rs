//! `kubectl olm range`: which versions are inside a version range.

use std::io::Write;

use clap::{Args, ValueEnum};
use olm_core::error::{Chain, quote};
use olm_core::version::{SkipRange, Version, VersionRange};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::output::{self, Format, Outcome, Table, formats};
use crate::requests::answer_lines;

/// Flags of `range`.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// The version range
    #[arg(required_unless_present = "requests")]
    range: Option<String>,
    /// Versions to check
    #[arg(required_unless_present = "requests")]
    versions: Vec<String>,
    /// Grammar of the range
    #[arg(long, value_enum, default_value_t)]
    grammar: Grammar,
    /// Answer many requests instead: JSON lines with `grammar`, `range`, `version`; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["range", "versions"])]
    requests: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t, conflicts_with = "requests")]
    output: Format,
}

/// The two languages of version ranges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Grammar {
    /// That of `spec.source.catalog.version`
    #[default]
    #[value(alias = "masterminds")]
    Version,
    /// That of `skipRange` in channels and of `versionRange` in package constraints
    #[value(alias = "blang")]
    SkipRange,
}

/// One request of a range and a version.
#[derive(Debug, Deserialize, Serialize)]
struct Request {
    /// As in the input, aliases included.
    #[serde(skip_serializing_if = "Option::is_none")]
    grammar: Option<GrammarName>,
    range: String,
    version: String,
}

/// A grammar by any of its names.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum GrammarName {
    Version,
    SkipRange,
    Masterminds,
    Blang,
}

/// A request with its answer.
#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    request: Request,
    #[serde(skip_serializing_if = "Option::is_none")]
    got: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Answers for one range, or for many requests.
pub(crate) async fn run(args: RangeArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let default = args.grammar;
    if let Some(requests) = &args.requests {
        let answer = async |request: Request| answer(request, default).to_value();
        return answer_lines(requests, out, answer).await;
    }
    let range = args.range.unwrap_or_default();
    let ask = |version: String| {
        let request = Request { grammar: Some(default.into()), range: range.clone(), version };
        answer(request, default)
    };
    let answers: Vec<Answer> = args.versions.into_iter().map(ask).collect();
    // An invalid range gives the same error for every version.
    if let Some(error) = range_error(default, &range) {
        output::notice(&format!("error: {error}"));
    } else {
        for error in answers.iter().filter_map(|answer| answer.error.as_ref()) {
            output::notice(&format!("error: {error}"));
        }
    }
    print(args.output, &answers, out)?;
    let failed = answers.iter().any(|answer| answer.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

fn print(format: Format, answers: &[Answer], out: &mut dyn Write) -> anyhow::Result<()> {
    let values = || answers.iter().map(Answer::to_value).collect();
    match format {
        Format::Json => output::write_json(out, &values()),
        Format::Yaml => output::write_yaml(out, &values()),
        _ => {
            let mut table = Table::new(&["VERSION", "INSIDE"]);
            for answer in answers {
                if let Some(got) = answer.got {
                    let inside = if got { "yes" } else { "no" };
                    table.row(vec![answer.request.version.clone(), inside.to_owned()]);
                }
            }
            // Headers without rows would look like an answer.
            if answers.iter().any(|answer| answer.got.is_some()) {
                table.write(out)?;
            }
            Ok(())
        }
    }
}

fn answer(request: Request, default: Grammar) -> Answer {
    let grammar = request.grammar.map_or(default, Grammar::from);
    match contains(grammar, &request.range, &request.version) {
        Ok(got) => Answer { request, got: Some(got), error: None },
        Err(error) => Answer { request, got: None, error: Some(error) },
    }
}

/// Says whether a range contains a version; if both are invalid, the error is that of the range.
fn contains(grammar: Grammar, range: &str, version: &str) -> Result<bool, String> {
    let parsed = version
        .parse::<Version>()
        .map_err(|error| format!("invalid version {}: {}", quote(version), Chain(&error)));
    match grammar {
        Grammar::Version => {
            let range = range.parse::<VersionRange>();
            let range = range.map_err(|error| Chain(&error).to_string())?;
            Ok(range.contains(&parsed?))
        }
        Grammar::SkipRange => {
            let range = range.parse::<SkipRange>();
            let range = range.map_err(|error| Chain(&error).to_string())?;
            Ok(range.contains(&parsed?))
        }
    }
}

/// Returns why a range is invalid, or `None` if it is valid.
fn range_error(grammar: Grammar, range: &str) -> Option<String> {
    contains(grammar, range, "0.0.0").err()
}

impl Answer {
    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl From<GrammarName> for Grammar {
    fn from(name: GrammarName) -> Self {
        match name {
            GrammarName::Version | GrammarName::Masterminds => Self::Version,
            GrammarName::SkipRange | GrammarName::Blang => Self::SkipRange,
        }
    }
}

impl From<Grammar> for GrammarName {
    fn from(grammar: Grammar) -> Self {
        match grammar {
            Grammar::Version => Self::Version,
            Grammar::SkipRange => Self::SkipRange,
        }
    }
}
