//! Names of a catalog appear as text in every format, whatever they contain.

use super::*;

const HOSTILE: [&str; 12] = [
    "\"]; click x \"javascript:alert(1)\"",
    "\\\" -> evil [label=\"x\"]; \\",
    "</title></svg><script>alert(1)</script>",
    "' onload='alert(1)",
    "<![CDATA[x]]><!-- --!><?php ?>",
    "&lt;script&gt;&#60;img src=x onerror=alert(1)&#62;",
    "a\nend\nsubgraph b\r\n%%{init: {}}%%",
    "\u{1b}[2J\u{1b}]0;owned\u{7}",
    "\u{202e}txt.exe\u{2066}\u{200b}\u{0}\u{fffe}",
    "`**bold** [link](https://x.test)` #quot; #35;",
    "- item",
    "1. item",
];

/// Returns the graph of a catalog in which everything has this name.
fn named(name: &str) -> Graph {
    let blobs = [
        json!({"schema": "olm.package", "name": "teapot", "defaultChannel": name}),
        channel(
            name,
            json!([
                {"name": name, "replaces": format!("{name}2"), "skips": [format!("{name}3")],
                 "skipRange": name},
                {"name": format!("{name}4"), "replaces": name, "skips": [format!("{name}2")],
                 "skipRange": ">=0.0.1"},
            ]),
        ),
        bundle(name, name),
        bundle(&format!("{name}4"), "1.0.1"),
        json!({"schema": "olm.deprecations", "package": "teapot", "entries": [
            {"reference": {"schema": "olm.bundle", "name": name}, "message": name},
            {"reference": {"schema": "olm.channel", "name": name}, "message": name},
            {"reference": {"schema": "olm.package"}, "message": name},
        ]}),
    ];
    let question = Question { classic: true, ..FROM_1_0_0 };
    graph(&blobs, &question)
}

#[test]
fn no_name_reaches_a_terminal_or_a_page_with_controls() {
    for name in HOSTILE {
        for format in FORMATS {
            let text = named(name).draw(format);
            let bad = |it: char| {
                (it.is_control() && it != '\n') || "\u{202e}\u{2066}\u{200b}\u{fffe}".contains(it)
            };
            assert!(!text.chars().any(bad), "{format:?} of {name:?}: {text:?}");
        }
    }
}

/// Returns the elements and attributes of a document in which every name is `name`, without its
/// texts.
fn skeleton(document: &str) -> Vec<String> {
    let mut tags = Vec::new();
    for part in document.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("every tag ends");
        let mut shape = String::new();
        let mut inside = false;
        for character in tag.chars() {
            if character == '"' {
                inside = !inside;
            } else if !inside && !character.is_numeric() {
                shape.push(character);
            }
        }
        assert!(!inside, "an attribute does not end: {tag}");
        tags.push(shape);
        // A message of several lines has as many rows.
        if let [.., a, b, c, d] = &tags[..]
            && a == "tspan x= dy="
            && (a, b) == (c, d)
        {
            tags.truncate(tags.len() - 2);
        }
    }
    tags
}

#[test]
fn no_name_adds_an_element_or_an_attribute() {
    for format in [Format::Svg, Format::Html] {
        // The name is not parsable as a version either, so that the pictures have the same parts.
        let harmless = skeleton(&named("harmless").draw(format));
        for name in HOSTILE {
            assert_eq!(skeleton(&named(name).draw(format)), harmless, "{format:?} of {name:?}");
        }
    }
}

#[test]
fn no_name_is_more_than_letters_to_mermaid() {
    let harmless = named("harmless").draw(Format::Mermaid);
    for name in HOSTILE {
        let text = named(name).draw(Format::Mermaid);
        assert_eq!(text.lines().count(), harmless.lines().count(), "{name:?}: {text}");
        for (line, like) in text.lines().zip(harmless.lines()) {
            let outside = |line: &str| {
                let parts: Vec<&str> = line.split('"').collect();
                parts.iter().step_by(2).map(|it| (*it).to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(outside(line), outside(like), "{name:?}");
            for label in line.split('"').skip(1).step_by(2) {
                let label = label.replace("<br/>", "");
                let plain = |it: char| it.is_ascii_alphanumeric() || " .,-#;".contains(it);
                assert!(label.chars().all(plain), "{name:?}: {label}");
            }
        }
    }
}

#[test]
fn long_names_are_cut() {
    let long = "x".repeat(100_000);
    for format in FORMATS {
        assert!(named(&long).draw(format).len() < 30_000, "{format:?}");
    }
}
