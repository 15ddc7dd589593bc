//! The volumes through which a server that the API server calls gets its certificate.
//!
//! Source: rendering.md 4.7.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::object::{items, list_in};

/// A volume that every container of such a deployment gets: its name, its mount path, and the
/// file names of the certificate and its key.
type CertificateVolume = (&'static str, &'static str, [&'static str; 2]);

/// Where controller-runtime and where API servers built on apiserver-builder look for certificates.
#[rustfmt::skip]
const VOLUMES: [CertificateVolume; 2] = [
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", ["tls.crt", "tls.key"]),
    ("apiservice-cert", "/apiserver.local.config/certificates", ["apiserver.crt", "apiserver.key"]),
];

/// Mounts the certificate in `secret` into every container of a pod, replacing what the bundle has
/// under the same names or at the same paths. Init containers only get it where they mount what is
/// replaced: a mount without its volume would make the pod invalid.
pub(super) fn mount(pod: &mut Map<String, Value>, secret: &str) {
    let replaced = replaced(pod);
    let kept = |item: &Value, key: &str| {
        let name = item.get(key).and_then(Value::as_str);
        name.is_none_or(|name| !replaced.contains(name))
    };
    let volumes = list_in(pod, "volumes");
    volumes.retain(|volume| kept(volume, "name"));
    volumes.extend(VOLUMES.iter().map(|own| volume(own, secret)));

    let init = pod.get_mut("initContainers").and_then(Value::as_array_mut).into_iter().flatten();
    let mounts = init.filter_map(|container| container.get_mut("volumeMounts")?.as_array_mut());
    for mount in mounts.flatten().filter(|mount| !kept(mount, "name")) {
        let same = |(name, ..): &&CertificateVolume| mount["name"] == *name;
        let there = |(_, path, _): &&CertificateVolume| mount["mountPath"] == *path;
        let own = VOLUMES.iter().find(same).or_else(|| VOLUMES.iter().find(there));
        mount["name"] = own.unwrap_or(&VOLUMES[0]).0.into();
    }
    let Some(Value::Array(containers)) = pod.get_mut("containers") else { return };
    for container in containers.iter_mut().filter_map(Value::as_object_mut) {
        let mounts = list_in(container, "volumeMounts");
        mounts.retain(|mount| kept(mount, "name"));
        mounts.extend(VOLUMES.map(|(name, path, _)| json!({ "name": name, "mountPath": path })));
    }
}

/// Returns the names of the volumes that are replaced: ours, and whatever a container mounts at one
/// of our paths.
fn replaced(pod: &Map<String, Value>) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = VOLUMES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let containers = pod.get("containers").into_iter().flat_map(items);
    let mounts = containers.flat_map(|container| items(&container["volumeMounts"]));
    let ours =
        mounts.filter(|mount| VOLUMES.iter().any(|(_, path, _)| mount["mountPath"] == *path));
    names.extend(ours.filter_map(|mount| Some(mount["name"].as_str()?.to_owned())));
    names
}

fn volume((name, _, [certificate, key]): &CertificateVolume, secret: &str) -> Value {
    json!({ "name": name, "secret": { "secretName": secret, "items": [
        { "key": "tls.crt", "path": certificate },
        { "key": "tls.key", "path": key },
    ]}})
}
