//! Who manages an object that no controller owns.

use serde_json::{Map, Value};

use crate::object::Object;

/// Tools that put back what somebody else changes, by how the labels or annotations begin that they
/// set on their objects.
const TOOLS: [(&str, &str); 6] = [
    ("argocd.argoproj.io/", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/", "Flux"),
    ("helm.toolkit.fluxcd.io/", "Flux"),
    ("configmanagement.gke.io/", "Config Sync"),
    ("configsync.gke.io/", "Config Sync"),
    ("kapp.k14s.io/", "kapp"),
];

/// Returns the tool that sets a label or an annotation with this key.
pub fn tool_of(key: &str) -> Option<&'static str> {
    TOOLS.iter().find(|(begin, _)| key.starts_with(begin)).map(|(_, tool)| *tool)
}

/// Who manages OLM Classic's objects.
pub(crate) const CLASSIC: &str = "OLM Classic";

/// Returns who manages an object that has no controller, if it shows: a tool, a Helm release, OLM
/// Classic, or an owner that is not a revision.
pub fn manager_of(live: &Object) -> Option<String> {
    let keys = ["/metadata/labels", "/metadata/annotations"].into_iter();
    let mut keys = keys.filter_map(|path| live.pointer(path)?.as_object()).flat_map(Map::keys);
    if let Some(tool) = keys.find_map(|key| tool_of(key)) {
        return Some(tool.to_owned());
    }
    if let Some(release) = live.annotation("meta.helm.sh/release-name") {
        let namespace = live.annotation("meta.helm.sh/release-namespace").unwrap_or_default();
        return Some(format!("Helm release {namespace}/{release}"));
    }
    if live.label("olm.owner").is_some() {
        return Some(CLASSIC.to_owned());
    }
    let text = |owner: &Value, key: &str| owner[key].as_str().unwrap_or_default().to_owned();
    let owners = live.list_at("/metadata/ownerReferences");
    let mut owners = owners.map(|owner| (text(owner, "kind"), text(owner, "name")));
    let (kind, name) = owners.find(|(kind, _)| kind != "ClusterObjectSet")?;
    Some(if kind == "ClusterServiceVersion" { CLASSIC.into() } else { format!("{kind} {name}") })
}
