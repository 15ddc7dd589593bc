//! What takes objects from those who use them although it leaves the objects as they are.
//!
//! Source: applying.md 6.4. Upstream has no such check.

use super::check::{Check, changed, without};
use super::definition::Definition;
use super::finding::Finding;
use super::loosening::is_same;

/// Returns what cannot be reached any more, or only by another name.
pub(super) fn lost(old: &Definition, new: &Definition) -> Vec<Finding> {
    let mut lost = Vec::new();
    let mut add = |check, text| lost.push(Finding::of_definition(check, text));
    let (before, after) = (&old.names, &new.names);
    for (check, what, before, after) in [
        (Check::Kind, "kind changed", &before.kind, &after.kind),
        (Check::Names, "singular name changed", &before.singular, &after.singular),
        (Check::Names, "list kind changed", &before.list, &after.list),
    ] {
        if before != after {
            add(check, changed(what, before, after));
        }
    }
    for (what, before, after) in [
        ("short names removed", &before.short, &after.short),
        ("categories removed", &before.categories, &after.categories),
    ] {
        let removed = without(before, after);
        if !removed.is_empty() {
            add(Check::Names, format!("{what} : [{}]", removed.join(" ")));
        }
    }
    for old_version in old.versions.iter().filter(|version| version.served) {
        let name = &old_version.name;
        let Some(new_version) = new.version(name).filter(|version| version.served) else {
            continue;
        };
        for gone in without(&old_version.subresources, &new_version.subresources) {
            add(Check::SubresourceRemoval, format!("subresource removed : {name}.{gone}"));
        }
        for gone in without(&old_version.selectable, &new_version.selectable) {
            add(Check::SelectableFieldRemoval, format!("selectable field removed : {name}{gone}"));
        }
    }
    // A stored version that is removed is another finding.
    let unserved = old.unserved(new);
    let unserved: Vec<_> = unserved
        .filter(|name| new.has(name) || old.stored.iter().all(|stored| stored != name))
        .collect();
    if !unserved.is_empty() {
        let text = format!("served versions removed : [{}]", unserved.join(" "));
        add(Check::ServedVersionRemoval, text);
    }
    if old.converted
        && !new.converted
        && let Some((one, other)) = differing(new)
    {
        let text = format!("conversion webhook removed although {one} and {other} differ");
        add(Check::ConversionRemoval, text);
    }
    lost
}

/// Returns two versions whose schemas differ.
fn differing(new: &Definition) -> Option<(&str, &str)> {
    let (one, others) = new.versions.split_first()?;
    let other = others.iter().find(|other| !is_same(&one.schema, &other.schema))?;
    Some((&one.name, &other.name))
}
