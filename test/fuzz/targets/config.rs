//! `spec.config` against bundles with every set of install modes. Nothing panics, and a refusal has
//! a message.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use olm_core::bundle::Bundle;
use olm_core::error::Chain;
use olm_fuzz::{files, render};

const MODES: [&str; 4] = ["AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace"];

/// A bundle, without its install modes.
const BUNDLE: &str = include_str!("config.bundle");

/// A bundle for every non-empty set of install modes.
static BUNDLES: LazyLock<Vec<Bundle>> = LazyLock::new(|| {
    let sets = 1..1 << MODES.len();
    sets.map(|set: usize| {
        let modes: String = MODES
            .iter()
            .enumerate()
            .filter(|(bit, _)| set & (1 << bit) != 0)
            .map(|(_, mode)| format!("  - {{type: {mode}, supported: true}}\n"))
            .collect();
        Bundle::from_files(&files(BUNDLE.replace("MODES\n", &modes).as_bytes())).expect("it is a bundle")
    })
    .collect()
});

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    for bundle in BUNDLES.iter() {
        match render(bundle, Some(&text)) {
            Ok(rendered) => assert!(!rendered.objects.is_empty()),
            Err(error) => assert!(!Chain(&error).to_string().is_empty()),
        }
    }
});
