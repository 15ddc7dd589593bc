//! How large the files of a bundle may be, judged by their bytes before anything is parsed: what a
//! text becomes in memory is dozens of times its length.

use super::{
    ANNOTATIONS_FILE, BundleError, Csv, DEPENDENCIES_FILE, Files, MANIFESTS, PROPERTIES_FILE,
};
use crate::error::quote;

/// Largest document of a file, in bytes: 4 MiB. No API server takes a larger request.
pub const MAX_DOCUMENT_BYTES: usize = 4 << 20;

/// Most bytes of all files of `manifests/` together: 16 MiB.
pub const MAX_MANIFESTS_BYTES: usize = 16 << 20;

/// Most values of all files of `manifests/` together, judged by what separates them: 500,000. Each
/// takes about a hundred bytes as often as it is held, however short its text is.
pub const MAX_VALUES: usize = 500_000;

/// Most bytes of what is copied or named once for each of many: the annotations of a
/// ClusterServiceVersion for each Deployment, its install modes for each conversion webhook.
const MAX_COPIES_BYTES: usize = 16 << 20;

/// Refuses files that would take too much memory once they are parsed.
///
/// A document ends at a line that begins with `---` or `...`; a JSON file is one.
///
/// Source: catalogs.md 5.8.
pub(super) fn check(files: &Files) -> Result<(), BundleError> {
    let with = |file: &str| format!("{file}: with this file the manifests of the bundle");
    let (mut all, mut values): (usize, usize) = (0, 0);
    let manifests = files.range(MANIFESTS.to_owned()..);
    for (file, content) in manifests.take_while(|(path, _)| path.starts_with(MANIFESTS)) {
        all += content.len();
        if all > MAX_MANIFESTS_BYTES {
            return Err(BundleError::TooLarge(format!(
                "{} are {all} bytes, more than {MAX_MANIFESTS_BYTES} (16 MiB)",
                with(file)
            )));
        }
        values += values_in(content);
        if values > MAX_VALUES {
            return Err(BundleError::TooLarge(format!(
                "{} have about {values} values, more than {MAX_VALUES}",
                with(file)
            )));
        }
        check_documents(file, content)?;
    }
    for file in [ANNOTATIONS_FILE, DEPENDENCIES_FILE, PROPERTIES_FILE] {
        if let Some(content) = files.get(file) {
            check_documents(file, content)?;
        }
    }
    Ok(())
}

/// Refuses a ClusterServiceVersion that a short text makes into many copies.
pub(super) fn check_copies(csv: &Csv) -> Result<(), BundleError> {
    let conversions = csv.webhooks.iter().filter(|webhook| webhook.is_conversion()).count();
    let modes: usize = csv.install_modes.iter().map(|entry| entry.mode.len() + 1).sum();
    let annotations: usize = csv.annotations.iter().map(|(key, it)| key.len() + it.len()).sum();
    for (what, bytes, times) in [
        ("annotations for each Deployment", annotations, csv.deployments.len()),
        ("install modes for each conversion webhook", modes, conversions),
    ] {
        let bytes = bytes.saturating_mul(times);
        if bytes > MAX_COPIES_BYTES {
            return Err(BundleError::TooLarge(format!(
                "ClusterServiceVersion {}: its {what} are {bytes} bytes together, more than \
                 {MAX_COPIES_BYTES} (16 MiB)",
                quote(&csv.name)
            )));
        }
    }
    Ok(())
}

fn check_documents(file: &str, content: &[u8]) -> Result<(), BundleError> {
    if content.len() <= MAX_DOCUMENT_BYTES {
        return Ok(());
    }
    // The line of the first content of a document, 0 before there is any, and its length.
    let (mut line, mut bytes) = (0, 0);
    for (before, text) in content.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let behind = behind_marker(text);
        if behind.is_some() {
            if bytes > MAX_DOCUMENT_BYTES {
                break;
            }
            (line, bytes) = (0, 0);
        }
        bytes += text.len();
        let text = behind.unwrap_or(text).trim_ascii();
        if line == 0 && !text.is_empty() && !text.starts_with(b"#") {
            line = before + 1;
        }
    }
    if bytes > MAX_DOCUMENT_BYTES {
        return Err(BundleError::TooLarge(format!(
            "{file}, line {line}: document of {bytes} bytes is larger than {MAX_DOCUMENT_BYTES} (4 MiB), \
             which no API server takes"
        )));
    }
    Ok(())
}

/// Returns about how many values a file has: a line has one, or as many as commas or colons part.
fn values_in(content: &[u8]) -> usize {
    let lines = content.split(|byte| *byte == b'\n');
    let in_line = |line: &[u8]| {
        let parts = |separator: u8| line.split(|byte| *byte == separator).count();
        parts(b',').max(parts(b':') - 1)
    };
    lines.filter(|line| !line.trim_ascii_start().starts_with(b"#")).map(in_line).sum()
}

/// Returns what stands behind the marker of a line that begins or ends a document.
fn behind_marker(line: &[u8]) -> Option<&[u8]> {
    let behind = line.strip_prefix(b"---").or_else(|| line.strip_prefix(b"..."))?;
    behind.first().is_none_or(u8::is_ascii_whitespace).then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::super::Bundle;
    use super::super::fixture::{csv_of, load, refusal, with};
    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/bundle/cases.yaml");

    /// Returns a ConfigMap of exactly so many bytes, as YAML.
    fn config_map(name: &str, bytes: usize) -> String {
        let head = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        let head = format!("{head}data:\n  text: ");
        let filler = "~".repeat(bytes - head.len() - 3);
        format!("{head}\"{filler}\"\n")
    }

    fn json(name: &str, bytes: usize) -> String {
        let head =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}"#);
        let head = format!(r#"{head},"data":{{"text":""#);
        format!("{head}{}\"}}}}", "~".repeat(bytes - head.len() - 3))
    }

    const LARGEST: usize = MAX_DOCUMENT_BYTES;

    #[test]
    fn documents_up_to_the_limit_are_read() {
        let three = ["a", "b", "c"].map(|name| config_map(name, LARGEST - 4)).join("---\n");
        let bundle = load(&with(&[("manifests/x.yaml", &three)]));
        let names = bundle.others.iter().map(|object| object.name().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn a_larger_document_is_refused() {
        for (before, is_json, more, after, line, bytes) in
            cases::<(&str, bool, usize, &str, u8, usize)>(CASES, "a_larger_document_is_refused")
        {
            let document = if is_json { json } else { config_map };
            let text = format!("{before}{}{after}", document("a", LARGEST + more));
            let kind = if text.starts_with('{') { "json" } else { "yaml" };
            let path = format!("manifests/x.{kind}");
            let want =
                format!("{path}, line {line}: document of {bytes} bytes is larger than 4194304");
            let want = format!("{want} (4 MiB), which no API server takes");
            assert_eq!(refusal(&with(&[(&path, &text)])), want);
        }
    }

    // Rendering, and what validation says, repeat each of many.
    #[test]
    fn what_is_repeated_for_each_of_many_has_a_limit() {
        let many = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        let refused = |modes: &str, spec: &str, annotation: &str| {
            let csv = csv_of(modes, spec).replacen("{name", &format!("{{{annotation}name"), 1);
            Bundle::from_files(&with(&[("manifests/csv.yaml", &csv)])).err().map(|error| {
                assert!(error.is_of_size(), "{error}");
                error.to_string()
            })
        };
        let large = format!("annotations: {{a: {}}}, ", "~".repeat(1 << 20));
        let deployed =
            |count| format!("{{install: {{spec: {{deployments: {}}}}}}}", many("{name: d}", count));
        assert_eq!(refused("[]", &deployed(15), &large), None);
        let text = refused("[]", &deployed(16), &large).unwrap();
        assert!(text.contains("its annotations for each Deployment are 16777232 bytes"), "{text}");
        let modes = many("{type: Mode}", 3_000);
        let hooked =
            |count| format!("{{webhookdefinitions: {}}}", many("{type: ConversionWebhook}", count));
        assert_eq!(refused(&modes, &hooked(1_000), ""), None);
        let text = refused(&modes, &hooked(1_200), "").unwrap();
        assert!(text.contains("its install modes for each conversion webhook"), "{text}");
    }

    #[test]
    fn metadata_has_the_same_limit() {
        let text = format!("a: {}\n", "~".repeat(LARGEST));
        for file in [ANNOTATIONS_FILE, DEPENDENCIES_FILE, PROPERTIES_FILE] {
            let want = format!(
                "{file}, line 1: document of 4194308 bytes is larger than 4194304 (4 MiB), which no API \
                 server takes"
            );
            assert_eq!(refusal(&with(&[(file, &text)])), want);
        }
    }

    #[test]
    fn values_are_counted_by_what_separates_them() {
        for (text, want) in
            cases::<(&str, usize)>(CASES, "values_are_counted_by_what_separates_them")
        {
            assert_eq!(values_in(text.as_bytes()), want);
        }
    }

    #[test]
    fn values_have_a_limit_however_short_they_are() {
        let list = |values: usize| format!("a: [{}]", vec!["1"; values].join(","));
        let mut files = with(&[]);
        let others: usize = files.values().map(|content| values_in(content)).sum();
        files.insert("manifests/x.yaml".to_owned(), list(MAX_VALUES - others).into_bytes());
        check(&files).unwrap();
        files.insert("manifests/x.yaml".to_owned(), list(MAX_VALUES).into_bytes());
        let refused = check(&files).unwrap_err().to_string();
        assert!(refused.starts_with("manifests/x.yaml: with this file"), "{refused}");
        assert!(refused.ends_with("values, more than 500000"), "{refused}");
    }

    #[test]
    fn all_manifests_together_have_a_limit() {
        let quarter = config_map("a", LARGEST);
        let mut files = with(&[]);
        for file in ["p", "q", "r"] {
            files.insert(format!("manifests/{file}.yaml"), quarter.clone().into_bytes());
        }
        let csv = files["manifests/csv.yaml"].len();
        // What is not read does not count.
        files.insert("metadata/icon".to_owned(), vec![b'~'; MAX_MANIFESTS_BYTES]);
        files.insert("manifests/s.yaml".to_owned(), config_map("b", LARGEST - csv).into_bytes());
        check(&files).unwrap();
        files.insert("manifests/s.yaml".to_owned(), config_map("b", LARGEST).into_bytes());
        let want = format!(
            "manifests/s.yaml: with this file the manifests of the bundle are {} bytes, more than \
             16777216 (16 MiB)",
            MAX_MANIFESTS_BYTES + csv
        );
        assert_eq!(refusal(&files), want);
    }
}
