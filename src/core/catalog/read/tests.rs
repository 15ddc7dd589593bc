use super::*;
use crate::error::Chain;
use crate::fixture::{cases, json, rows, text};
use proptest::prelude::*;
use serde_json::Value;

const CASES: &str = include_str!("../../testdata/catalog/cases.yaml");

fn read(files: &[(&str, &str)]) -> Result<Vec<Meta>, ReadError> {
    read_catalog(files.iter().map(|(path, text)| (*path, text.as_bytes())))
}

fn lines(files: &[(&str, &str)]) -> Vec<String> {
    read(files).unwrap().into_iter().map(|meta| meta.json).collect()
}

fn failure(text: &str) -> String {
    Chain(&read(&[("configs/c", text)]).unwrap_err()).to_string()
}

// catalogs.md F1
#[test]
fn yaml_documents_become_sorted_lines_in_order() {
    let text = "---\nschema: olm.package\nname: p\ndefaultChannel: stable\n---\n\
        schema: olm.channel\npackage: p\nname: stable\nentries:\n- name: p.v1\n---\n\
        schema: olm.bundle\npackage: p\nname: p.v1\nimage: example.com/p@sha256:1\n";
    assert_eq!(
        lines(&[("p/catalog.yaml", text)]),
        [
            r#"{"defaultChannel":"stable","name":"p","schema":"olm.package"}"#,
            r#"{"entries":[{"name":"p.v1"}],"name":"stable","package":"p","schema":"olm.channel"}"#,
            r#"{"image":"example.com/p@sha256:1","name":"p.v1","package":"p","schema":"olm.bundle"}"#,
        ]
    );
}

// catalogs.md F2, F4, F5, F6, and the rows of 1.5
#[test]
fn documents() {
    for (text, count) in cases::<(&str, usize)>(CASES, "documents") {
        assert_eq!(lines(&[("c", text)]).len(), count);
    }
}

// catalogs.md F3, F4, F6, F8, F10
#[test]
fn refused() {
    for row in rows(include_str!("../../testdata/catalog/refused.yaml")) {
        assert_eq!(failure(text(&row, "text")), row["want"], "{row}");
    }
}

#[test]
fn yaml_fault_names_its_line() {
    let message = failure("schema: a\n---\n\nschema: b\n  c: d\n");
    assert!(message.contains("document 2, line "), "{message}");
    assert!(message.contains("invalid YAML: "), "{message}");
}

// catalogs.md F7
#[test]
fn readme_fails_unless_ignored() {
    let readme = ("p/README.md", "# Title\n\nWords: and *more: [words\n");
    let index = ("p/index.yaml", "schema: a\n");
    let error = read(&[readme, index]).unwrap_err();
    assert_eq!(error.path, "p/README.md");
    let ignore = (".indexignore", "**/*\n!*.yaml\n");
    assert_eq!(lines(&[readme, index, ignore]).len(), 1);
}

// catalogs.md F9
#[test]
fn folded_fields_are_found_and_served_as_written() {
    let meta = &read(&[("c", r#"{"SCHEMA":"olm.package","Name":"p"}"#)]).unwrap()[0];
    assert_eq!((&*meta.schema, &*meta.name), ("olm.package", "p"));
    assert_eq!(meta.json, r#"{"Name":"p","SCHEMA":"olm.package"}"#);
    assert_eq!(fold("ſCHEMA\u{212a}"), "schemak");
}

// catalogs.md F11
#[test]
fn a_blob_without_schema_is_left_out() {
    assert_eq!(lines(&[("c", r#"{"name":"x"}{"schema":"a"}{}"#)]), [r#"{"schema":"a"}"#]);
}

// catalogs.md F13, 1.7
#[test]
fn json_tokens_survive() {
    let text = r#"{ "schema": "a", "n": [9007199254740993, 1.0, 1E3, -0],
        "t": "<&>\u2028\/\u00e9\ud800", "b": {"z": null, "a": true, "a": false} }"#;
    assert_eq!(
        lines(&[("c", text)]),
        ["{\"b\":{\"a\":false,\"z\":null},\"n\":[9007199254740993,1.0,1E3,-0],\"schema\":\"a\",\
          \"t\":\"<&>\u{2028}/é\u{fffd}\u{fffd}\u{fffd}\"}"]
    );
}

#[test]
fn invalid_utf8_is_replaced() {
    for bytes in [b"{\"schema\":\"a\xff\"}".as_slice(), b"schema: a\xe2\x82"] {
        assert_eq!(read_catalog([("c", bytes)]).unwrap()[0].schema, "a\u{fffd}");
    }
}

// Files are read in steps; what comes out may not depend on where these end.
#[test]
fn documents_lie_across_steps() {
    for (filler, before, after, broken) in [
        (["{\"t\":\"", "\"}\n"], "{\"schema\":\"é\",\"t\":\"€€€€\",\"at\":", "}\n", "]"),
        (["---\nt: ", "\n"], "---\nschema: é\nt: €€€€\nat: ", "\n", "--- x"),
    ] {
        let document = |number: usize| format!("{before}{number}{after}");
        for end in 0..document(0).len() {
            let mut text = String::new();
            for step in 1..=2 {
                // The step ends so many bytes behind the filler, which has no schema and is left out.
                let bytes = step * window::STEP_BYTES - end - text.len() - filler.concat().len();
                text += &[filler[0], &"x".repeat(bytes), filler[1]].concat();
                text += &(1..=3).map(|number| document(10 * step + number)).collect::<String>();
            }
            let at = |number| format!(r#"{{"at":{number},"schema":"é","t":"€€€€"}}"#);
            assert_eq!(lines(&[("c", &text)]), [11, 12, 13, 21, 22, 23].map(at), "{end}");
            let line = text.lines().count() + 1;
            let message = failure(&format!("{text}{broken}"));
            assert!(message.contains(&format!(", line {line}: ")), "{message}");
        }
    }
}

#[test]
fn a_document_may_be_larger_than_many_steps() {
    let large = "x".repeat(window::STEP_BYTES * 9);
    let text = format!(r#"{{"schema":"a"}} {{"schema":"b","t":"{large}"}} {{"schema":"c"}}"#);
    assert_eq!(lines(&[("c", &text)]).len(), 3);
    let text = format!("schema: a\n---\nschema: b\nt: {large}\n---\nschema: c\n");
    assert_eq!(lines(&[("c", &text)]).len(), 3);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }
    for name in ["configs/c", "configs/.indexignore"] {
        let error = read_catalog([(name, Broken)]).unwrap_err();
        let want = format!("error reading \"{name}\": no storage space");
        assert_eq!(Chain(&error).to_string(), want);
    }
}

// catalogs.md F14
#[test]
fn walks_depth_first_in_byte_order() {
    let files = [
        ("c.yaml", "schema: c"),
        ("b/x", "schema: b"),
        ("a/x", "schema: a"),
        ("a.yaml", "schema: a2"),
        ("B", "schema: B"),
    ];
    let metas = read(&files).unwrap();
    let order: Vec<_> = metas.iter().map(|meta| &*meta.schema).collect();
    assert_eq!(order, ["B", "a", "a2", "b", "c"]);
}

// catalogs.md F19
#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("{{\"schema\":\"a\",\"v\":{}{}}}", "[".repeat(200), "]".repeat(200));
    assert!(failure(&deep).ends_with("document is nested more than 100 levels deep"));
    let large = format!("{{\"schema\":\"a\",\"v\":\"{}\"}}", "x".repeat(17 << 20));
    let message = failure(&format!("{{\"schema\":\"b\"}}\n{large}"));
    assert_eq!(
        message,
        "error reading \"configs/c\", document 2, line 2: blob is larger than 16777216 bytes"
    );
}

// catalogs.md 5.8
#[test]
fn text_is_bounded_before_it_is_parsed() {
    for (limit, head, tail, line) in [
        (16 << 20, "schema: a\n---\nschema: b\nv: ", "", 3),
        (16 << 20, "schema: a\n---\n", "\n---\nschema: b", 3),
        (64 << 20, "{\"schema\":\"a\"}\n{\"schema\":\"b\",\"v\":\"", "\"}", 2),
    ] {
        let text = format!("{head}{}{tail}", "x".repeat(limit * 2));
        let want = format!(
            "error reading \"configs/c\", document 2, line {line}: text of the document is larger \
             than {limit} bytes"
        );
        assert_eq!(failure(&text), want);
    }
}

// catalogs.md 5.8
#[test]
fn a_package_past_its_limits_is_named_with_its_place() {
    let commas = ",".repeat(600_000);
    let blob = format!("{{\"schema\":\"a\",\"package\":\"p\",\"v\":\"{commas}\"}}\n");
    let want = "error reading \"configs/c\", document 2, line 2: with this blob package \"p\" has \
                1200006 values, more than 1000000";
    assert_eq!(failure(&blob.repeat(3)), want);
    assert_eq!(lines(&[("c", &blob.repeat(3).replace("\"a\"", "\"\""))]).len(), 0);
}

#[test]
fn yaml_text_up_to_the_limit_is_read() {
    let head = "schema: a\nv: ";
    let text = format!("{head}{}", "x".repeat((15 << 20) - head.len()));
    assert_eq!(lines(&[("c", &format!("{text}\n---\n{text}\n---\n{text}\n"))]).len(), 3);
}

#[test]
fn message_quotes_at_most_256_characters() {
    let key = "k".repeat(1000);
    let message = failure(&format!("{{\"{key}\":1,\"K{}\":2}}", &key[1..]));
    assert!(message.len() < 1000, "{message}");
}

// catalogs.md 5.8: one without an end would take all memory, and each pattern is compared with each path
#[test]
fn ignore_files_are_small_and_smaller_where_there_are_many_paths() {
    let refused = |paths: usize, bytes: u64| {
        let path = "x".repeat(paths);
        let ignore = ("p/.indexignore", std::io::repeat(b'#').take(bytes));
        let error = read_catalog([(path.as_str(), std::io::repeat(b'#').take(1)), ignore]).err()?;
        Some(Chain(&error).to_string())
    };
    assert_eq!(refused(10, 1 << 20), None);
    let error = |most| {
        format!(
            "error reading \"p/.indexignore\": the .indexignore files have more than {most} bytes \
             together: a catalog with so many paths may have no more"
        )
    };
    assert_eq!(refused(10, 1 << 40), Some(error(1 << 20)));
    let paths = (1 << 24) - "p/.indexignore".len();
    assert_eq!((refused(paths, 1024), refused(paths, 1025)), (None, Some(error(1024))));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    json(leaf, "[a-z]{1,4}")
}

// A file that cannot be read any further is left, and the next one is read.
#[test]
fn what_cannot_be_read_comes_once() {
    for (text, count) in cases::<(&str, usize)>(CASES, "what_cannot_be_read_comes_once") {
        let files = [("a", text.as_bytes()), ("b", b"schema: c".as_slice())];
        let found: Vec<_> = super::documents(files).unwrap().take(10).collect();
        assert_eq!(found.len(), count + 1, "{found:?}");
        assert!(found[count].meta.is_ok(), "{found:?}");
    }
}

proptest! {
    #[test]
    fn documents_come_to_an_end(text in "[{}\\[\\]:,#&*!|>'\"a \n.~-]{0,60}") {
        let found = super::documents([("c", text.as_bytes())]).unwrap();
        prop_assert!(found.take(200).count() < 200);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_catalog([("c", &*bytes)]);
    }

    #[test]
    fn canonical_form_is_the_same_value_and_stays_as_it_is(value in json_value()) {
        let document = serde_json::json!({"schema": "a", "v": value});
        let pretty = serde_json::to_string_pretty(&document).unwrap();
        let once = lines(&[("c", &pretty)]);
        prop_assert_eq!(&serde_json::from_str::<Value>(&once[0]).unwrap(), &document);
        prop_assert_eq!(&lines(&[("c", &once[0])]), &once);
    }
}
