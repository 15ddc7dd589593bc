//! The current version of the cluster.

use serde_json::Value;

use crate::object::items;

/// Returns the version of the cluster: `payload` if it is given, else what `ClusterVersion` says.
///
/// `payload` is the version of the release that this program is part of. Of a `ClusterVersion`
/// (`cluster_version`, the whole object) the newest completed entry of the history counts, else its
/// oldest, else the desired version. The desired version comes last because during an update it is
/// the target already: the verdict would be one minor too far and stop the update that runs.
/// Source: applying.md 9.7.
pub fn current_version<'a>(
    payload: Option<&'a str>,
    cluster_version: Option<&'a Value>,
) -> Option<&'a str> {
    if let Some(payload) = payload.filter(|version| !version.is_empty()) {
        return Some(payload);
    }
    let status = cluster_version?.get("status")?;
    // The history lists the newest entry first.
    let history = || items(&status["history"]);
    history()
        .find(|entry| entry["state"] == "Completed")
        .or_else(|| history().last())
        .or(status.get("desired"))?
        .get("version")?
        .as_str()
        .filter(|version| !version.is_empty())
}
