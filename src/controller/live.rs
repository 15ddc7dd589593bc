//! What the API server has now of an object that a reconcile has read, or got from a watch. That may be
//! old: from before somebody changed the object, or before etcd was set back to a backup.
//!
//! A reconcile at rest asks nothing of this. It is asked before something is made or replaced that the
//! present state may not ask for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use olm_api::keys::{annotation, policy};

use crate::reconcile::OwnKind;

/// Returns the present metadata of an object; `None` when it is gone, or its name belongs to another one.
///
/// The version of a list, unlike that of an object, tells as well whether the API server was set back
/// (`cluster/restored.rs`), and no right but those for the watch is needed.
pub async fn live_metadata<K: OwnKind>(
    client: &Client,
    name: &str,
    uid: Option<&str>,
) -> Result<Option<ObjectMeta>, kube::Error> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = Api::<K>::all(client.clone()).list_metadata(&named).await?;
    let mut found = found.items.into_iter().map(|found| found.metadata);
    Ok(found.find(|live| live.uid.as_deref() == uid))
}

/// Returns whether an object still asks for what it did when it was read: its spec and the annotations
/// that decide are the same, and it is not being deleted.
pub async fn is_as_read<K: OwnKind>(client: &Client, read: &K) -> Result<bool, kube::Error> {
    let meta = read.meta();
    let live = live_metadata::<K>(client, &read.name_any(), meta.uid.as_deref()).await?;
    Ok(live.is_some_and(|live| {
        live.generation == meta.generation
            && live.deletion_timestamp.is_none()
            && deciding(&live) == deciding(meta)
    }))
}

/// Returns the annotations that decide what is installed or served.
fn deciding(meta: &ObjectMeta) -> Vec<(&String, &String)> {
    let decides = |key: &str| {
        key == annotation::CATALOG_IMAGE_TEMPLATE
            || key.starts_with(policy::PREFIX) && key != policy::REFRESH
    };
    meta.annotations.iter().flatten().filter(|(key, _)| decides(key)).collect()
}

#[cfg(test)]
mod tests {
    use olm_api::{ClusterObjectSet, ClusterObjectSetSpec};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::answering::{answering, found};

    // deploying.md 4.1, catalogs.md 2.4
    #[rstest]
    #[case::as_read("generation", json!(2), true)]
    #[case::another_object("uid", json!("v"), false)]
    #[case::another_spec("generation", json!(3), false)]
    #[case::an_earlier_spec("generation", json!(1), false)]
    #[case::being_deleted("deletionTimestamp", json!("2026-01-01T00:00:00Z"), false)]
    #[case::paused("annotations", json!({(policy::PAUSED): "true"}), false)]
    #[case::another_image("annotations", json!({(annotation::CATALOG_IMAGE_TEMPLATE): "t"}), false)]
    #[case::polled("annotations", json!({(policy::REFRESH): "now"}), true)]
    #[case::a_note("annotations", json!({"example.com/note": "n"}), true)]
    #[tokio::test]
    async fn what_was_read_counts_as_long_as_it_is_the_same(
        #[case] field: &str,
        #[case] value: Value,
        #[case] want: bool,
    ) {
        let mut live = json!({"name": "e-1", "uid": "u", "generation": 2});
        live[field] = value;
        let client = answering(move |request| {
            assert!(request.uri().query().unwrap_or_default().contains("metadata.name%3De-1"));
            found(&live)
        });
        let mut read = ClusterObjectSet::new("e-1", ClusterObjectSetSpec::default());
        read.metadata.uid = Some("u".to_owned());
        read.metadata.generation = Some(2);
        let same = is_as_read(&client, &read).await.unwrap();
        assert_eq!(same, want);
    }
}
