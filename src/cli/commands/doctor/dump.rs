//! The archive for whoever helps: what was read, the logs of the controller, and what was refused.
//!
//! Secrets are never read. User information in URLs and the bookkeeping of the API server are left
//! out.

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Diagnosis;
use super::facts::{self, Facts, Refusal};
use crate::commands::prelude::*;
use crate::private;

/// Lines of a log, from its end: a limit in bytes would leave out the newest of them.
const LOG_LINES: usize = 20_000;
/// The fields with the name of the extension in lists that are filtered by it.
const NAMED: [(&str, &str); 2] = [
    (facts::EXTENSIONS, "/metadata/name"),
    (facts::REVISIONS, "/metadata/labels/olm.operatorframework.io~1owner-name"),
];

pub(super) async fn write(
    path: &Path,
    names: &[String],
    facts: &Facts,
    answer: &Diagnosis,
    client: &Client,
) -> anyhow::Result<()> {
    if let Ok(known) = facts.items::<Value>(facts::EXTENSIONS) {
        for name in names {
            if known.iter().all(|extension| extension["metadata"]["name"] != **name) {
                notice(&format!("warning: there is no ClusterExtension {name:?}"));
            }
        }
    }
    let mut files = BTreeMap::new();
    let mut refused = Vec::new();
    files.insert("doctor.json".to_owned(), serde_json::to_vec_pretty(&answer.headed()?)?);
    for (name, answer) in &facts.answers {
        match answer {
            Ok(value) => {
                let mut value = value.clone();
                keep(&mut value, name, names);
                clean(&mut value);
                let mut text = Vec::new();
                output::write_yaml(&mut text, &value)?;
                files.insert(format!("{name}.yaml"), text);
            }
            Err(Refusal::Absent) => refused.push(format!("{name}: does not exist")),
            Err(Refusal::Failed(why)) => refused.push(format!("{name}: {why}")),
        }
    }
    for pod in facts.items::<Value>(facts::PODS).unwrap_or_default() {
        for (file, log) in logs(client, &pod).await {
            match log {
                Ok(log) => {
                    files.insert(file, without_users(&log).into_bytes());
                }
                Err(error) => refused.push(format!("{file}: {}", one_line(&error))),
            }
        }
    }
    files.insert("refused.txt".to_owned(), refused.join("\n").into_bytes());
    let (path, shown) = (path.to_owned(), path.display().to_string());
    let packed = tokio::task::spawn_blocking(move || pack(&path, &files));
    packed.await?.with_context(|| format!("writing --dump {shown}"))
}

/// Returns the logs of the containers of a pod, also from before their last restart, by file.
async fn logs(client: &Client, pod: &Value) -> Vec<(String, anyhow::Result<String>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let mut logs = Vec::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        let container = text(&container["name"]);
        for (query, suffix) in [("", ""), ("&previous=true", "-previous")] {
            let path = format!(
                "/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}\
                 &tailLines={LOG_LINES}{query}"
            );
            let log = async {
                let request = http::Request::get(path).body(Vec::new())?;
                anyhow::Ok(client.request_text(request).await?)
            };
            logs.push((format!("logs/{namespace}/{name}/{container}{suffix}.log"), log.await));
        }
    }
    logs
}

fn pack(path: &Path, files: &BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    let encoder = GzEncoder::new(private::create(path)?, Compression::default());
    let mut archive = tar::Builder::new(encoder);
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        // An empty field is not a number, which some readers refuse.
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, name, content.as_slice())?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

/// Drops what is not about the named extensions.
fn keep(list: &mut Value, question: &str, names: &[String]) {
    let pointer = NAMED.iter().find(|(named, _)| *named == question);
    let items = list["items"].as_array_mut();
    if let (Some((_, pointer)), Some(items), false) = (pointer, items, names.is_empty()) {
        items.retain(|item| {
            let name = item.pointer(pointer).and_then(Value::as_str);
            name.is_some_and(|name| names.iter().any(|it| it == name))
        });
    }
}

/// Drops managed fields, and user information in URLs.
fn clean(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("managedFields");
            map.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::String(text) if text.contains('@') => *value = json!(without_users(text)),
        _ => {}
    }
}

/// Replaces `user:password@` after `://`.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|it: char| "/?# \n\r\t\"'<>,;".contains(it)).unwrap_or(part.len());
        let host = part[..end].rfind('@').map_or(0, |at| at + 1);
        clean.push_str("://");
        clean.push_str(&part[host..]);
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::os::unix::fs::PermissionsExt as _;

    use kube::client::Body;

    use super::*;
    use crate::fixture::cases;

    #[test]
    fn users_are_left_out() {
        for (name, (text, want)) in cases::<(String, String)>("users_are_left_out") {
            assert_eq!(without_users(&text), want, "{name}");
        }
    }

    // U60
    #[tokio::test]
    async fn each_container_of_a_pod_has_its_logs_from_the_end() {
        let service = tower::service_fn(|request: http::Request<Body>| async move {
            let asked = request.uri().query().unwrap_or_default().to_owned();
            Ok::<_, Infallible>(http::Response::new(Body::from(asked.into_bytes())))
        });
        let pod = json!({"metadata": {"namespace": "n", "name": "p"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let logs = logs(&Client::new(service, "default"), &pod).await.into_iter();
        let logs: Vec<_> = logs.map(|(file, log)| (file, log.unwrap())).collect();
        let want = [
            ("logs/n/p/a.log", "container=a&tailLines=20000"),
            ("logs/n/p/a-previous.log", "container=a&tailLines=20000&previous=true"),
            ("logs/n/p/b.log", "container=b&tailLines=20000"),
            ("logs/n/p/b-previous.log", "container=b&tailLines=20000&previous=true"),
        ];
        assert_eq!(logs, want.map(|(file, log)| (file.to_owned(), log.to_owned())));
    }

    #[test]
    fn every_field_of_the_archive_can_be_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump.tar.gz");
        // From before: its rights do not stay.
        std::fs::write(&path, "").unwrap();
        pack(&path, &BTreeMap::from([("doctor.json".to_owned(), b"{}".to_vec())])).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let packed = std::fs::read(&path).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(header.mode().unwrap(), 0o600);
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!((header.mtime().unwrap(), header.size().unwrap()), (0, 2));
        }
    }

    #[test]
    fn only_named_extensions_are_kept() {
        let list = json!({"items": [
            {"metadata": {"name": "a", "labels": {"olm.operatorframework.io/owner-name": "b"}}},
            {"metadata": {"name": "b", "labels": {"olm.operatorframework.io/owner-name": "a"}}},
        ]});
        let kept = |question: &str, names: &[&str]| {
            let mut list = list.clone();
            let names: Vec<_> = names.iter().map(|it| (*it).to_owned()).collect();
            keep(&mut list, question, &names);
            list["items"].as_array().unwrap().len()
        };
        assert_eq!(kept(facts::EXTENSIONS, &["a"]), 1);
        assert_eq!(kept(facts::REVISIONS, &["b", "c"]), 1);
        assert_eq!(kept(facts::EXTENSIONS, &[]), 2);
        assert_eq!(kept(facts::CATALOGS, &["a"]), 2);
    }
}
