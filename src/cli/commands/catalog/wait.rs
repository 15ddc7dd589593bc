//! Waiting for what the controller makes of a catalog.

use std::io::Write;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::api::Api;
use olm_api::ClusterCatalog;
use olm_api::conditions::{status, types};
use olm_core::status::find;
use tokio::time::Instant;

use crate::limit::patiently;
use crate::output::{Outcome, notice};

/// How often a catalog is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(500);

/// Returns a condition that is about the catalog as it was written last.
pub(super) fn current<'a>(catalog: &'a ClusterCatalog, type_: &str) -> Option<&'a Condition> {
    let found = find(&catalog.status.as_ref()?.conditions, type_)?;
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
) -> anyhow::Result<Outcome> {
    let (api, begun) = (Api::<ClusterCatalog>::all(client.clone()), Instant::now());
    let mut told = String::new();
    loop {
        let catalog = patiently(begun, timeout, async || api.get(name).await).await;
        let catalog = catalog.with_context(|| format!("reading ClusterCatalog {name}"))?;
        if done(&catalog) {
            writeln!(out, "{name}: {word} after {} s", begun.elapsed().as_secs())?;
            return Ok(Outcome::Done);
        }
        if let Some(progressing) = current(&catalog, types::PROGRESSING) {
            if progressing.status == status::FALSE && begun.elapsed() >= stands {
                notice(&format!("error: {name}: {}", progressing.message));
                return Ok(Outcome::Failed);
            }
            if progressing.message != told {
                told.clone_from(&progressing.message);
                notice(&format!("{name}: {told}"));
            }
        }
        if begun.elapsed() >= Duration::from_secs(timeout) {
            notice(&format!(
                "error: timed out after {timeout} s: {name} is not {word} yet; the \
                 controller keeps trying"
            ));
            return Ok(Outcome::TimedOut);
        }
        tokio::time::sleep(LOOK).await;
    }
}
