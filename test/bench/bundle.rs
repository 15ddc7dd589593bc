//! A registry+v1 bundle with any number and size of definitions.

use std::collections::BTreeMap;

use olm_core::bundle::Files;
use olm_core::yaml;
use serde_json::{Map, Value, json};

use crate::text;

/// Size of a generated bundle.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Number of custom resource definitions.
    pub definitions: usize,
    /// Number of properties of each object in a definition's schema.
    pub width: usize,
    /// Nesting depth of the objects of a schema.
    pub depth: usize,
}

/// A bundle like the larger ones of the public catalogs: about 1 MB of YAML.
pub const LARGE: Size = Size { definitions: 3, width: 6, depth: 4 };

const NAME: &str = "generated";

/// Returns the files of a bundle, all of them YAML.
pub fn files(size: Size) -> Files {
    let mut files = BTreeMap::new();
    let mut put = |path: String, value: &Value| {
        files.insert(path, yaml::to_yaml(value).into_bytes());
    };
    put(
        "metadata/annotations.yaml".to_owned(),
        &json!({"annotations": {
            "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
            "operators.operatorframework.io.bundle.package.v1": NAME,
        }}),
    );
    put("manifests/csv.yaml".to_owned(), &csv(size));
    for number in 0..size.definitions {
        put(format!("manifests/crd-{number}.yaml"), &definition(size, number));
    }
    files
}

fn crd_name(number: usize) -> String {
    format!("kind{number}s.{NAME}.example.com")
}

fn definition(size: Size, number: usize) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": crd_name(number)},
        "spec": {
            "group": format!("{NAME}.example.com"), "scope": "Namespaced",
            "names": {
                "kind": format!("Kind{number}"), "listKind": format!("Kind{number}List"),
                "plural": format!("kind{number}s"), "singular": format!("kind{number}"),
            },
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": schema(size.width, size.depth),
            }}],
        },
    })
}

fn schema(width: usize, depth: usize) -> Value {
    let description = text("Field that means what its name says: nothing. ", 150);
    if depth == 0 {
        return json!({"type": "string", "description": description, "maxLength": 253});
    }
    let properties: Map<String, Value> =
        (0..width).map(|number| (format!("property{number}"), schema(width, depth - 1))).collect();
    json!({"type": "object", "description": description, "properties": properties})
}

fn csv(size: Size) -> Value {
    let owned = (0..size.definitions).map(|number| {
        json!({"name": crd_name(number), "kind": format!("Kind{number}"), "version": "v1"})
    });
    let rules = (0..size.definitions).map(|number| {
        json!({
            "apiGroups": [format!("{NAME}.example.com")],
            "resources": [format!("kind{number}s"), format!("kind{number}s/status")],
            "verbs": ["get", "list", "watch", "update"],
        })
    });
    let rules: Vec<Value> = rules.collect();
    let labels = json!({"app": NAME});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{NAME}.v1.0.0"), "annotations": {
            "alm-examples": text("[{\"apiVersion\": \"v1\"}]\n", 4_000),
        }},
        "spec": {
            "version": "1.0.0",
            "description": text("## Words\n\nand more words\n", 8_000),
            "icon": [{"base64data": text("R0lGODlh", 20_000).replace(' ', ""), "mediatype": "image/gif"}],
            "installModes": [{"type": "AllNamespaces", "supported": true}],
            "customresourcedefinitions": {"owned": owned.collect::<Vec<_>>()},
            "install": {"strategy": "deployment", "spec": {
                "permissions": [{"serviceAccountName": NAME, "rules": rules}],
                "clusterPermissions": [{"serviceAccountName": NAME, "rules": rules}],
                "deployments": [{"name": NAME, "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {
                        "serviceAccountName": NAME,
                        "containers": [{"name": "manager", "image": "registry.example.com/x:v1"}],
                    }},
                }}],
            }},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_large_as_it_says() {
        let bytes: usize = files(LARGE).values().map(Vec::len).sum();
        assert!((800_000..3_000_000).contains(&bytes), "{bytes} bytes");
    }
}
