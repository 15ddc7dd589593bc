//! Waiting for what the controller makes of a catalog.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::commands::prelude::*;
use crate::limit::patiently;
use crate::waiting::{self, Look};

/// Returns a condition that is about the catalog as it was written last.
pub(super) fn current<'a>(catalog: &'a ClusterCatalog, type_: &str) -> Option<&'a Condition> {
    let found = catalog.condition(type_)?;
    (found.observed_generation == catalog.metadata.generation).then_some(found)
}

/// Waits until a catalog is what it is to become. An error that only a change ends is believed once it
/// has stood for so long.
pub(super) async fn wait(
    client: &Client,
    name: &str,
    (timeout, stands): (u64, Duration),
    (word, done): (&str, impl Fn(&ClusterCatalog) -> bool),
    out: &mut dyn Write,
) -> Ended {
    let api = Api::<ClusterCatalog>::all(client.clone());
    waiting::wait(timeout, &format!("{name} is not {word} yet"), async |begun| {
        let catalog = patiently(begun, timeout, async || api.get(name).await).await;
        let catalog = catalog.with_context(|| format!("reading ClusterCatalog {name}"))?;
        if done(&catalog) {
            writeln!(out, "{name}: {word} after {} s", begun.elapsed().as_secs())?;
            return Ok(Look::Ended(Outcome::Done));
        }
        let progressing = current(&catalog, types::PROGRESSING);
        let stopped = progressing.filter(|found| found.status == status::FALSE);
        if let Some(stopped) = stopped.filter(|_| begun.elapsed() >= stands) {
            bail!("{name}: {}", stopped.message);
        }
        Ok(match progressing {
            Some(found) => Look::Going(Some(format!("{name}: {}", found.message))),
            None => Look::Unseen(None),
        })
    })
    .await
}
