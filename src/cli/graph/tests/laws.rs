//! Properties that hold for every catalog.

use proptest::prelude::*;

use super::*;

/// A few names only, so that they collide: entries, replaced and skipped ones.
fn any_name() -> impl Strategy<Value = String> {
    (0u8..3, 0u8..4).prop_map(|(major, minor)| format!("teapot.v{major}.{minor}.0"))
}

fn any_entry() -> impl Strategy<Value = Value> {
    let range = prop_oneof![
        3 => Just(""), 1 => Just("<1.2.0"), 1 => Just(">=0.1.0 <2.0.0"), 1 => Just("<v1"),
    ];
    let replaces = prop_oneof![1 => Just(String::new()), 3 => any_name()];
    let skips = prop::collection::vec(any_name(), 0..3);
    (any_name(), replaces, skips, range).prop_map(|(name, replaces, skips, range)| {
        json!({"name": name, "replaces": replaces, "skips": skips, "skipRange": range})
    })
}

/// Blobs with names of their own: channels, bundles, deprecations.
fn any_blobs() -> impl Strategy<Value = Vec<Value>> {
    let entries = || prop::collection::vec(any_entry(), 0..9);
    let versions = prop::collection::btree_set(any_name(), 0..9);
    let deprecated = prop::collection::vec(any_name(), 0..3);
    (prop::collection::vec(entries(), 0..3), versions, deprecated).prop_map(
        |(channels, names, deprecated)| {
            let mut blobs =
                vec![json!({"schema": "olm.package", "name": "teapot", "defaultChannel": "c1"})];
            for (number, entries) in channels.into_iter().enumerate() {
                blobs.push(channel(&format!("c{number}"), entries.into()));
            }
            for name in names {
                blobs.push(bundle(&name, name.trim_start_matches("teapot.v")));
            }
            let reference = |name| json!({"reference": {"schema": "olm.bundle", "name": name}});
            let entries: Vec<Value> = deprecated.into_iter().map(reference).collect();
            blobs.push(json!(
                {"schema": "olm.deprecations", "package": "teapot", "entries": entries}
            ));
            blobs
        },
    )
}

fn any_question() -> impl Strategy<Value = Question> {
    let installed = prop_oneof![Just(None), Just(Some("0.1.0")), Just(Some("1.1.0"))];
    (installed, any::<bool>(), any::<bool>()).prop_map(|(installed, classic, all)| Question {
        installed,
        classic,
        all,
    })
}

fn keep_first_of_each_name(blob: &mut Value) {
    let mut names = std::collections::BTreeSet::new();
    if let Some(entries) = blob["entries"].as_array_mut() {
        entries.retain(|entry| entry["name"].is_null() || names.insert(entry["name"].to_string()));
    }
}

/// Shuffles the blobs, and the entries of each channel.
fn shuffled(blobs: Vec<Value>) -> impl Strategy<Value = Vec<Value>> {
    let shuffle = |blob: Value| {
        let entries = blob["entries"].as_array().cloned().unwrap_or_default();
        Just(entries).prop_shuffle().prop_map(move |entries| {
            let mut blob = blob.clone();
            if blob["entries"].is_array() {
                blob["entries"] = entries.into();
            }
            blob
        })
    };
    let blobs: Vec<_> = blobs.into_iter().map(shuffle).collect();
    blobs.prop_flat_map(|blobs| Just(blobs).prop_shuffle())
}

proptest! {
    // Of entries of one name OLM Classic takes the last one, so only one of each name takes part.
    #[test]
    fn the_picture_does_not_depend_on_any_order(
        (blobs, shuffled) in any_blobs().prop_flat_map(|mut blobs| {
            blobs.iter_mut().for_each(keep_first_of_each_name);
            (Just(blobs.clone()), shuffled(blobs))
        }),
        question in any_question(),
    ) {
        let (first, second) = (graph(&blobs, &question), graph(&shuffled, &question));
        for format in FORMATS {
            prop_assert_eq!(first.draw(format), second.draw(format));
        }
    }

    #[test]
    fn every_entry_is_drawn_on_request(blobs in any_blobs(), question in any_question()) {
        let question = Question { all: true, ..question };
        let graph = graph(&blobs, &question);
        for blob in blobs.iter().filter(|blob| blob["schema"] == "olm.channel") {
            let lane = graph.channels.iter().find(|it| it.name == blob["name"]).unwrap();
            for entry in blob["entries"].as_array().unwrap() {
                prop_assert!(lane.nodes.iter().any(|node| node.name == entry["name"]));
            }
        }
    }

    #[test]
    fn folding_loses_no_version(blobs in any_blobs(), question in any_question()) {
        let count = |all| {
            let graph = graph(&blobs, &Question { all, ..question.clone() });
            graph.channels.iter().flat_map(|lane| &lane.nodes).map(|it| it.count).sum::<usize>()
        };
        prop_assert_eq!(count(true), count(false));
    }

    #[test]
    fn any_text_is_drawn(name in "\\PC{0,20}", other in any::<String>()) {
        let blobs = [
            channel(&name, json!([{"name": other, "replaces": name, "skipRange": other}])),
            bundle(&name, &other),
        ];
        if let Ok(graph) = try_graph(&blobs, &FROM_1_0_0) {
            for format in FORMATS {
                prop_assert!(graph.draw(format).ends_with('\n'));
            }
        }
    }
}
