//! Versions and the two languages of ranges: `RANGE` on the first line, `VERSION` on the second.
//! Nothing panics; a version is printed as it was parsed, and precedence is an order.
#![no_main]

use std::cmp::Ordering;

use libfuzzer_sys::fuzz_target;
use olm_core::version::{SkipRange, Version, VersionRange, VersionRelease};

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let (range, version) = text.split_once('\n').unwrap_or((&text, "1.2.3"));
    let admitted = range.parse::<VersionRange>();
    let skipped = range.parse::<SkipRange>();
    for error in [
        admitted.as_ref().err().map(ToString::to_string),
        skipped.as_ref().err().map(ToString::to_string),
        VersionRelease::legacy(version).err().map(|error| error.to_string()),
        VersionRelease::explicit(version, range).err().map(|error| error.to_string()),
    ] {
        assert!(error.is_none_or(|text| !text.is_empty()));
    }
    let Ok(version) = version.parse::<Version>() else {
        return
    };
    assert_eq!(version.to_string().parse::<Version>().as_ref(), Ok(&version));
    if let Ok(other) = range.parse::<Version>() {
        assert_eq!(version.precedence(&other), other.precedence(&version).reverse());
    }
    assert_eq!(version.precedence(&version), Ordering::Equal);
    if let Ok(range) = admitted
        && range.contains(&version)
    {
        assert!(range.contains_admitting_prereleases(&version));
    }
    if let Ok(range) = skipped {
        let _ = range.contains(&version);
    }
});
