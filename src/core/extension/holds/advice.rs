//! What leads on: commands for people, by the reason of `Ready` first.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use olm_api::ClusterExtension;
use olm_api::conditions::{Reason, status, types};

use super::{Holder, conditioned, holders, named, reported};
use crate::uninstall::CAN_RETAIN;

/// What a message says of an account that does not exist.
const ACCOUNT: &str = "service account \"";
const ABSENT: &str = "not found in namespace";
/// What follows where its namespace does not exist either.
const NO_NAMESPACE: &str = "does not exist";

/// Shows whether a controller runs: none has written a status.
const NO_CONTROLLER: &str = "kubectl olm doctor";

/// Explains an extension, or one version of it if that is named too.
const WHY: &str = "kubectl olm why ";

/// Returns the commands that lead on: those about why it is not ready, else those about its update.
pub fn advice(extension: &ClusterExtension) -> Vec<String> {
    let name = extension.metadata.name.as_deref().unwrap_or_default();
    if extension.status.as_ref().is_none_or(|it| it.conditions.is_empty()) {
        return vec![NO_CONTROLLER.to_owned()];
    }
    let ready = extension.condition(types::READY);
    let failed = ready.filter(|ready| ready.status != status::TRUE);
    let commands = |holders: Vec<&Holder>| -> Vec<String> {
        holders.into_iter().filter_map(|it| it.command(name)).collect()
    };
    if extension.metadata.deletion_timestamp.is_some() {
        return failed.map_or_else(Vec::new, |ready| about_removal(ready, extension, name));
    }
    let Some(failed) = failed else {
        let update = extension.status.as_ref().and_then(|status| status.update.as_ref());
        let newest = update.map_or("", |update| &update.newest);
        let about = |command: String| match command.strip_prefix(WHY) {
            Some(_) => format!("{command} {newest}").trim_end().to_owned(),
            None => command,
        };
        return commands(reported(extension)).into_iter().map(about).collect();
    };
    let held = commands(holders(conditioned(extension).into_iter()));
    about_failure(failed, extension, name).into_iter().chain(held).collect()
}

fn about_removal(ready: &Condition, extension: &ClusterExtension, name: &str) -> Vec<String> {
    let message = ready.message.as_str();
    let command = match ready.reason.parse() {
        Ok(Reason::InvalidConfiguration) => edit(name),
        _ if lacks_account(message) => {
            let retain = message.contains(CAN_RETAIN).then(|| retaining(name));
            return about_account(message, extension, name).into_iter().chain(retain).collect();
        }
        Ok(Reason::Blocked) if message.contains(CAN_RETAIN) => retaining(name),
        _ => format!("kubectl describe clusterextension {name}"),
    };
    vec![command]
}

fn retaining(name: &str) -> String {
    format!("kubectl olm delete {name} --retain-crds")
}

fn lacks_account(message: &str) -> bool {
    message.contains(ACCOUNT) && message.contains(ABSENT)
}

/// Returns what leads on where no holder is named.
fn about_failure(ready: &Condition, extension: &ClusterExtension, name: &str) -> Vec<String> {
    let message = ready.message.as_str();
    let Ok(reason) = ready.reason.parse() else { return Vec::new() };
    let command = match reason {
        Reason::InvalidConfiguration => edit(name),
        Reason::RollingOut | Reason::ProbeFailure | Reason::ProgressDeadlineExceeded => {
            match unready_object(message) {
                Some((resource, namespace, object)) => {
                    let place = if namespace.is_empty() { "" } else { " -n " };
                    format!("kubectl describe {resource} {object}{place}{namespace}")
                }
                None => format!("kubectl olm status {name} -o tree"),
            }
        }
        _ if lacks_account(message) => {
            return about_account(message, extension, name);
        }
        Reason::Blocked => format!("kubectl describe clusterextension {name}"),
        reason if named(reason).is_some() => return Vec::new(),
        _ => format!("kubectl olm why {name}"),
    };
    vec![command]
}

/// Returns what creates the account that a message says does not exist, after its namespace where
/// that does not exist either.
fn about_account(message: &str, extension: &ClusterExtension, name: &str) -> Vec<String> {
    let missing = message.split_once(ABSENT).and_then(|(_, rest)| rest.lines().next());
    let missing = missing.filter(|rest| rest.contains(NO_NAMESPACE));
    let namespace = missing.and_then(|rest| rest.split('"').nth(1));
    let namespace = namespace.map(|namespace| format!("kubectl create namespace {namespace}"));
    let is_named = extension.spec.as_ref().is_some_and(|spec| spec.service_account.is_some());
    let account = if is_named {
        format!("kubectl olm rbac {name} --apply")
    } else {
        "apply config/components/default-account".to_owned()
    };
    namespace.into_iter().chain([account]).collect()
}

fn edit(name: &str) -> String {
    format!("kubectl edit clusterextension {name}")
}

/// Returns resource, namespace and name of the first object that a message says is not ready, as
/// [`crate::object::Identity::text`] writes it.
fn unready_object(message: &str) -> Option<(String, &str, &str)> {
    let (_, object) = message.split_once("Object ")?;
    let (kind, rest) = object.split_once(' ')?;
    let (namespace, rest) = rest.split_once('/')?;
    let name = rest.split([':', ' ', '\n']).next()?;
    let (kind, version) = kind.split_once('.')?;
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let resource = match group {
        "" => kind.to_lowercase(),
        group => format!("{}.{group}", kind.to_lowercase()),
    };
    Some((resource, namespace, name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{cases, condition, extension};

    const CASES: &str = include_str!("../../testdata/extension/cases.yaml");

    #[test]
    fn the_reason_of_ready_comes_first() {
        for (ready, reason, message, mut metadata, want) in
            cases::<(&str, &str, &str, Value, Vec<&str>)>(CASES, "the_reason_of_ready_comes_first")
        {
            // Only the row about the default account has a name.
            let account = metadata["name"].is_null().then(|| json!({"name": "a"}));
            metadata["name"] = json!("e");
            let update = json!({"version": "2.0.0", "newest": "2.0.0", "catalog": "c",
                "reason": "Pinned", "message": ""});
            let conditions = [condition("Ready", ready, reason, message)];
            let extension = extension(&json!({
                "metadata": metadata,
                "spec": {"namespace": "n", "serviceAccount": account},
                "status": {"conditions": conditions, "update": update},
            }));
            assert_eq!(advice(&extension), want);
        }
    }

    #[test]
    fn an_extension_that_no_controller_has_seen_leads_to_the_controller() {
        assert_eq!(advice(&ClusterExtension::default()), [NO_CONTROLLER]);
        // Upstream's controller writes no `Ready`.
        let conditions =
            ["Installed", "Progressing"].map(|type_| condition(type_, "True", "Succeeded", ""));
        let seen = extension(&json!({"status": {"conditions": conditions}}));
        assert!(advice(&seen).is_empty());
    }

    #[test]
    fn the_version_that_no_path_leads_to_is_explained() {
        let update =
            json!({"newest": "2.0.0", "catalog": "c", "reason": "NotSuccessor", "message": ""});
        let conditions = [condition("Ready", "True", "Succeeded", "")];
        let status = json!({"conditions": conditions, "update": update});
        let extension =
            extension(&json!({"spec": {"serviceAccount": {"name": "a"}}, "status": status}));
        assert_eq!(advice(&extension), ["kubectl olm why e 2.0.0"]);
    }
}
