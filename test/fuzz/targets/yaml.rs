//! YAML as Go reads it. Nothing panics or takes forever; what we write is read back the same, and
//! both readers agree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olm_core::yaml::{to_json, to_json_with_sources, to_yaml_stream};

/// Before this document only the general reader takes a text.
const UNUSUAL: &str = "&a {}\n---\n";

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let _ = to_json_with_sources(text);
    let documents = match to_json(text) {
        Ok(documents) => documents,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = to_yaml_stream(&documents);
    assert_eq!(to_json(&written).as_ref(), Ok(&documents), "{written}");
    // A mark of byte order, a directive or JSON would mean something else behind a document.
    let alone = text.starts_with('\u{feff}')
        || text.trim_start().starts_with('{')
        || text.lines().any(|line| line.starts_with('%'));
    if !alone {
        let general = to_json(&format!("{UNUSUAL}{text}"));
        let general = general.map(|mut all| all.split_off(1));
        assert_eq!(general, Ok(documents), "{text}");
    }
});
