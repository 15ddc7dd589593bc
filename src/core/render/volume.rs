//! The volumes through which a server that the API server calls gets its certificate.
//!
//! Source: rendering.md 4.7.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// A volume that every container of such a deployment gets: its name, its mount path, and the
/// file names of the certificate and its key.
struct CertificateVolume {
    name: &'static str,
    path: &'static str,
    files: [&'static str; 2],
}

/// Where controller-runtime and where API servers built on apiserver-builder look for certificates.
const VOLUMES: [CertificateVolume; 2] = [
    CertificateVolume {
        name: "webhook-cert",
        path: "/tmp/k8s-webhook-server/serving-certs",
        files: ["tls.crt", "tls.key"],
    },
    CertificateVolume {
        name: "apiservice-cert",
        path: "/apiserver.local.config/certificates",
        files: ["apiserver.crt", "apiserver.key"],
    },
];

/// Mounts the certificate in `secret` into every container of a pod, replacing what the bundle has
/// under the same names or at the same paths. Init containers are left unchanged.
pub(super) fn mount(pod: &mut Map<String, Value>, secret: &str) {
    let replaced = replaced(pod);
    let kept = |item: &Value, key: &str| {
        let name = item.get(key).and_then(Value::as_str);
        name.is_none_or(|name| !replaced.contains(name))
    };
    let mut volumes = list(pod, "volumes");
    volumes.retain(|volume| kept(volume, "name"));
    volumes.extend(VOLUMES.iter().map(|volume| volume.volume(secret)));
    pod.insert("volumes".to_owned(), volumes.into());

    let Some(Value::Array(containers)) = pod.get_mut("containers") else {
        return;
    };
    for container in containers.iter_mut().filter_map(Value::as_object_mut) {
        let mut mounts = list(container, "volumeMounts");
        mounts.retain(|mount| kept(mount, "name"));
        mounts.extend(
            VOLUMES.iter().map(|volume| json!({ "name": volume.name, "mountPath": volume.path })),
        );
        container.insert("volumeMounts".to_owned(), mounts.into());
    }
}

/// Returns the names of the volumes that are replaced: ours, and whatever a container mounts at one
/// of our paths.
fn replaced(pod: &Map<String, Value>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = VOLUMES.iter().map(|own| own.name.to_owned()).collect();
    let containers = pod.get("containers").and_then(Value::as_array);
    let mounts = containers
        .into_iter()
        .flatten()
        .filter_map(|container| container.get("volumeMounts").and_then(Value::as_array))
        .flatten();
    for mount in mounts {
        let text = |key| mount.get(key).and_then(Value::as_str);
        let ours = |path| VOLUMES.iter().any(|own| own.path == path);
        if let (Some(name), Some(path)) = (text("name"), text("mountPath"))
            && ours(path)
        {
            names.insert(name.to_owned());
        }
    }
    names
}

fn list(map: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    match map.remove(key) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

impl CertificateVolume {
    fn volume(&self, secret: &str) -> Value {
        let [certificate, key] = self.files;
        json!({ "name": self.name, "secret": { "secretName": secret, "items": [
            { "key": "tls.crt", "path": certificate },
            { "key": "tls.key", "path": key },
        ]}})
    }
}
