//! `kubectl olm range`: which versions are inside a version range.

use olm_core::version::{SkipRange, Version, VersionRange};

use crate::commands::prelude::*;
use crate::requests::answer_lines;

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
#[derive(Debug, Clone, Copy, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Grammar {
    /// That of `spec.source.catalog.version`
    #[default]
    #[value(alias = "masterminds")]
    Version,
    /// That of `skipRange` in channels and of `versionRange` in package constraints
    #[value(alias = "blang")]
    SkipRange,
    /// Other names in requests: the answer repeats the name of its request
    #[value(skip)]
    Masterminds,
    #[value(skip)]
    Blang,
}

/// One request of a range and a version.
#[derive(Debug, Deserialize, Serialize)]
struct Request {
    /// As in the input, aliases included.
    #[serde(skip_serializing_if = "Option::is_none")]
    grammar: Option<Grammar>,
    range: String,
    version: String,
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
pub(crate) async fn run(args: RangeArgs, out: &mut dyn Write) -> Ended {
    let default = args.grammar;
    if let Some(requests) = &args.requests {
        let answer = async |request: Request| answer(request, default).to_value();
        return answer_lines(requests, out, answer).await;
    }
    let range = args.range.unwrap_or_default();
    let ask = |version: String| {
        let request = Request { grammar: Some(default), range: range.clone(), version };
        answer(request, default)
    };
    let answers: Vec<Answer> = args.versions.into_iter().map(ask).collect();
    // An invalid range gives the same error for every version.
    let mut errors: Vec<_> = answers.iter().filter_map(|answer| answer.error.as_ref()).collect();
    errors.dedup();
    for error in errors {
        notice(&format!("error: {error}"));
    }
    print(args.output, &answers, out)?;
    Ok(Outcome::of(answers.iter().any(|answer| answer.error.is_some()), false))
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
    match contains(request.grammar.unwrap_or(default), &request.range, &request.version) {
        Ok(got) => Answer { request, got: Some(got), error: None },
        Err(error) => Answer { request, got: None, error: Some(error) },
    }
}

/// Returns whether a range contains a version; if both are invalid, the error is that of the range.
fn contains(grammar: Grammar, range: &str, version: &str) -> Result<bool, String> {
    let parsed = version
        .parse::<Version>()
        .map_err(|error| format!("invalid version {}: {}", quote(version), Chain(&error)));
    match grammar {
        Grammar::Version | Grammar::Masterminds => {
            let range = range.parse::<VersionRange>().map_err(|error| Chain(&error).to_string())?;
            Ok(range.contains(&parsed?))
        }
        Grammar::SkipRange | Grammar::Blang => {
            let range = range.parse::<SkipRange>().map_err(|error| Chain(&error).to_string())?;
            Ok(range.contains(&parsed?))
        }
    }
}

impl Answer {
    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
