//! Many requests at once: one JSON document per line in, one answer per line out, in order.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::output::{Ended, Outcome};

/// Answers every line of a file, or of stdin for `-`; blank lines are skipped.
///
/// A line that is not a request is answered with `error` and its number; the following lines are
/// still answered, and the command ends as failed. Otherwise it succeeds, whatever the answers are.
pub(crate) async fn answer_lines<T: DeserializeOwned>(
    source: &str,
    out: &mut dyn Write,
    mut answer: impl AsyncFnMut(T) -> Value,
) -> Ended {
    let interactive = source == "-";
    let mut reader: Box<dyn BufRead> = if interactive {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(source).with_context(|| source.to_owned())?;
        Box::new(BufReader::new(file))
    };
    let mut outcome = Outcome::Done;
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        if reader.read_until(b'\n', &mut line).with_context(|| source.to_owned())? == 0 {
            break;
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let answer = match serde_json::from_slice(text) {
            Ok(request) => answer(request).await,
            Err(error) => {
                outcome = Outcome::Failed;
                json!({"line": number, "error": format!("line {number}: {}", reason(&error))})
            }
        };
        writeln!(out, "{answer}")?;
        // Another program may wait for this answer before it sends the next request.
        if interactive {
            out.flush()?;
        }
    }
    Ok(outcome)
}

/// Returns the error of a line, without the parser's position, which would be confusing.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}
