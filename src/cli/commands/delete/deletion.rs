//! The deletion of an extension, and the decision about its data that is written before it.
//!
//! The controller reads the decision off annotation `uninstall`, so it has to be there first. One
//! does not stay without the other: what deletes is bound to the extension as it was annotated, and
//! where either fails the annotation gets its former value, also if only the answer is lost. Only a
//! process that is killed between the two leaves the annotation behind.
//!
//! Source: plugin.md 1.3.

use crate::changes::{self, ATTEMPTS};
use crate::commands::prelude::*;

/// Deletes the extension that was shown; `decision` is what becomes of its data, if that was decided.
pub(super) async fn delete(
    client: &Client,
    extension: &ClusterExtension,
    decision: Option<&str>,
    params: DeleteParams,
) -> anyhow::Result<()> {
    let Some(decision) = decision else {
        return as_decided(client, extension.clone(), None, params).await;
    };
    let deleted = match changes::merge(client, extension, annotated(&json!(decision))).await {
        Ok(decided) => as_decided(client, decided, Some(decision), params).await,
        // The decision may be written although the answer says otherwise, or is lost.
        Err(error) if error.is::<kube::Error>() => Err(error),
        Err(error) => return Err(error),
    };
    if deleted.is_err()
        && let Err(error) = take_back(client, extension, decision).await
    {
        let (name, key) = (extension.name_any(), policy::UNINSTALL);
        notice(&format!(
            "error: annotation {key}={decision} may still be on {name}: {}",
            one_line(&error)
        ));
        notice(&format!("hint: kubectl annotate clusterextension {name} {key}-"));
    }
    deleted
}

/// Deletes an extension, as long as a decision that was written stands on it.
async fn as_decided(
    client: &Client,
    mut seen: ClusterExtension,
    decision: Option<&str>,
    mut params: DeleteParams,
) -> anyhow::Result<()> {
    let api = Api::<ClusterExtension>::all(client.clone());
    let (name, uid) = (seen.name_any(), seen.uid());
    for _ in 0..ATTEMPTS {
        let resource_version = decision.and(seen.resource_version());
        params.preconditions = Some(Preconditions { uid: uid.clone(), resource_version });
        match api.delete(&name, &params).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            deleted => {
                let deleted = deleted.map(drop);
                return deleted.with_context(|| format!("deleting ClusterExtension {name}"));
            }
        }
        let Some(now) = found(&api, &name, uid.as_ref()).await? else { return Ok(()) };
        if decision.is_some() && stands(&now) != decision {
            break;
        }
        seen = now;
    }
    bail!("ClusterExtension {name} was modified concurrently; rerun the command")
}

/// Gives the annotation back its former value, unless somebody else changed it.
async fn take_back(
    client: &Client,
    before: &ClusterExtension,
    decision: &str,
) -> anyhow::Result<()> {
    let api = Api::<ClusterExtension>::all(client.clone());
    let now = found(&api, &before.name_any(), before.uid().as_ref()).await?;
    let Some(now) = now.filter(|now| is_left_behind(before, now, decision)) else { return Ok(()) };
    changes::merge(client, &now, annotated(&json!(stands(before)))).await.map(drop)
}

/// Returns whether the annotation is on an extension only because of a deletion that did not begin.
fn is_left_behind(before: &ClusterExtension, now: &ClusterExtension, decision: &str) -> bool {
    let is_going = |it: &ClusterExtension| it.metadata.deletion_timestamp.is_some();
    let begun = is_going(now) && !is_going(before);
    !begun && stands(now) == Some(decision) && stands(before) != Some(decision)
}

async fn found(
    api: &Api<ClusterExtension>,
    name: &str,
    uid: Option<&String>,
) -> anyhow::Result<Option<ClusterExtension>> {
    let found = api.get_opt(name).await;
    let found = found.with_context(|| format!("reading ClusterExtension {name}"))?;
    Ok(found.filter(|found| found.metadata.uid.as_ref() == uid))
}

fn stands(extension: &ClusterExtension) -> Option<&str> {
    extension.annotations().get(policy::UNINSTALL).map(String::as_str)
}

fn annotated(value: &Value) -> Value {
    json!({"metadata": {"annotations": {policy::UNINSTALL: value}}})
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::Method;

    use super::*;
    use crate::fixture::{cases, client};

    fn extension(annotation: &Value, is_going: bool) -> ClusterExtension {
        let going = is_going.then_some("2026-01-01T00:00:00Z");
        let mut value = annotated(annotation);
        value["metadata"]["name"] = json!("e");
        value["metadata"]["uid"] = json!("u");
        value["metadata"]["resourceVersion"] = json!("1");
        value["metadata"]["deletionTimestamp"] = json!(going);
        if annotation.is_null() {
            value["metadata"]["annotations"] = Value::Null;
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_decision_without_deletion_is_left_behind() {
        type Case = (Value, bool, Value, bool, bool);
        for (name, case) in cases::<Case>("a_decision_without_deletion_is_left_behind") {
            let (before, was_going, now, is_going, want) = case;
            let (before, now) = (extension(&before, was_going), extension(&now, is_going));
            assert_eq!(is_left_behind(&before, &now, "Delete"), want, "{name}");
        }
    }

    /// An API server with one extension. It answers the first change, which it makes all the same, and
    /// deletions, in this order, with these codes, and the last of them for ever; each change makes
    /// another resource version.
    struct Server {
        object: Mutex<Value>,
        changed: Mutex<u16>,
        answers: Mutex<Vec<u16>>,
    }

    impl Server {
        fn answer(&self, method: &Method, body: &Value) -> Result<Value, u16> {
            let mut object = self.object.lock().unwrap();
            if *method == Method::PATCH {
                let value = &body["metadata"]["annotations"][policy::UNINSTALL];
                object["metadata"]["annotations"] = json!({policy::UNINSTALL: value});
                if value.is_null() {
                    object["metadata"]["annotations"] = Value::Null;
                }
                object["metadata"]["resourceVersion"] = json!("2");
                let code = std::mem::replace(&mut *self.changed.lock().unwrap(), 200);
                if code != 200 {
                    return Err(code);
                }
            }
            if *method == Method::DELETE {
                let version = &body["preconditions"]["resourceVersion"];
                assert_eq!(*version, object["metadata"]["resourceVersion"]);
                let mut answers = self.answers.lock().unwrap();
                let code = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
                if code == 409 {
                    object["metadata"]["resourceVersion"] = json!("3");
                }
                if code != 200 {
                    return Err(code);
                }
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            Ok(object.clone())
        }
    }

    #[tokio::test]
    async fn a_deletion_that_fails_leaves_no_decision() {
        type Case = (Value, u16, Vec<u16>, Value, bool);
        for (name, case) in cases::<Case>("a_deletion_that_fails_leaves_no_decision") {
            let (before, changed, answers, want, deleted) = case;
            let before = extension(&before, false);
            let server = Arc::new(Server {
                object: Mutex::new(serde_json::to_value(&before).unwrap()),
                changed: Mutex::new(changed),
                answers: Mutex::new(answers),
            });
            let asked = Arc::clone(&server);
            let client = client(move |method, _, body| asked.answer(method, body));
            let done = delete(&client, &before, Some("Delete"), DeleteParams::background()).await;
            assert_eq!(done.is_ok(), deleted, "{name}: {done:?}");
            let left = server.object.lock().unwrap();
            assert_eq!(left["metadata"]["annotations"][policy::UNINSTALL], want, "{name}");
        }
    }
}
