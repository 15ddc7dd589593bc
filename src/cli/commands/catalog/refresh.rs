//! `kubectl olm catalog refresh`: have the image of a catalog polled now.

use super::wait::wait;
use crate::commands::prelude::*;
use crate::verb::{self, Rehearsal};
use crate::waiting::NOTICED;

/// Arguments of `catalog refresh`.
#[derive(Debug, Args)]
pub(crate) struct RefreshArgs {
    /// Name of the catalog
    #[arg(value_parser = verb::catalog())]
    name: String,
    #[command(flatten)]
    rehearsal: Rehearsal,
    #[command(flatten)]
    wait: Wait,
}

/// Has a catalog polled, and says what is served then.
pub(crate) async fn run(args: &RefreshArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let name = &args.name;
    let (global, out) = &mut args.rehearsal.begin(global, out);
    let cluster = OnCluster::default().connect(global).await?;
    cluster.heeds(policy::REFRESH).await?;
    let client = cluster.own_client();
    let catalog = Cluster::catalog(client, name).await?;
    if catalog.spec.availability() == AvailabilityMode::Unavailable {
        bail!("catalog {name} is disabled (availabilityMode: Unavailable)");
    }
    let text = Timestamp::now().to_string();
    let change = json!({"metadata": {"annotations": {policy::REFRESH: text}}});
    out.object(&changes::merge(client, &catalog, change).await?)?;
    if !args.wait.is_wanted(global) {
        writeln!(out, "{name}: poll requested")?;
        return Ok(Outcome::Done);
    }
    let polled = |now: &ClusterCatalog| {
        let status = now.status.as_ref();
        status.and_then(|status| status.refreshed.as_ref()) == Some(&text)
    };
    let time = (args.wait.timeout, NOTICED);
    let outcome = wait(client, name, time, ("polled", polled), out).await?;
    if matches!(outcome, Outcome::Done) {
        let now = Cluster::catalog(client, name).await?;
        writeln!(out, "{name}: {}", led_to(&now, catalog.resolved_reference()))?;
    }
    Ok(outcome)
}

/// Describes the result of a poll.
fn led_to(catalog: &ClusterCatalog, before: Option<&str>) -> String {
    let status = catalog.status.as_ref();
    if let Some(held) = status.and_then(|status| status.update.as_ref()) {
        return format!("newer content is held, {}: {}", held.reason, held.message);
    }
    match catalog.resolved_reference() {
        Some(now) if Some(now) != before => format!("serves {now}"),
        _ => "nothing newer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_says_what_it_led_to() {
        let told = |update: Value| {
            let image = json!({"ref": "r.io/c@sha256:b"});
            let mut catalog = json!({
                "metadata": {"name": "c"},
                "spec": {"source": {"type": "Image", "image": {"ref": "r.io/c:1"}}},
                "status": {"resolvedSource": {"type": "Image", "image": image}},
            });
            if !update.is_null() {
                catalog["status"]["update"] = update;
            }
            let catalog: ClusterCatalog = serde_json::from_value(catalog).unwrap();
            [Some("r.io/c@sha256:a"), Some("r.io/c@sha256:b")].map(|was| led_to(&catalog, was))
        };
        let [newer, same] = told(Value::Null);
        assert_eq!(newer, "serves r.io/c@sha256:b");
        assert_eq!(same, "nothing newer");
        let update = json!({"ref": "r.io/c@sha256:c", "since": "2026-01-01T00:00:00Z",
            "reason": "Paused", "message": "it is paused"});
        let [held, _] = told(update);
        assert_eq!(held, "newer content is held, Paused: it is paused");
    }
}
