//! Whether the revision exists whose objects are applied.

use kube::Client;
use olm_api::ClusterObjectSet;
use olm_core::revision::RevisionOwner;
use tokio::sync::OnceCell;

use super::ApplyError;
use crate::live::live_metadata;

/// Asks the API server once in a reconcile, before the first write, whether the revision still exists,
/// unless the reconcile has written the revision itself.
///
/// The garbage collector deletes objects whose owner does not exist, a CRD with every user's object among
/// them.
pub struct Existence {
    client: Client,
    confirmed: OnceCell<()>,
}

impl Existence {
    /// `client` is the controller's own; `written` says that the revision has just been written.
    pub fn new(client: Client, written: bool) -> Self {
        Self { client, confirmed: OnceCell::new_with(written.then_some(())) }
    }

    pub(super) async fn confirm(&self, owner: &RevisionOwner) -> Result<(), ApplyError> {
        let ask = async || {
            let (name, uid) = (&owner.name, Some(owner.uid.as_str()));
            let live = live_metadata::<ClusterObjectSet>(&self.client, name, uid).await?;
            live.map(drop).ok_or_else(|| ApplyError::Gone(name.clone()))
        };
        self.confirmed.get_or_try_init(ask).await.copied()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::answering::answering;

    // deploying.md 4.1; ours: an install does not ask for what it has just written
    #[rstest]
    #[case::exists(false, "u", true, 1)]
    #[case::of_a_backup(false, "another", false, 2)]
    #[case::just_written(true, "u", true, 0)]
    #[tokio::test]
    async fn a_revision_is_asked_for_once_unless_it_was_just_written(
        #[case] written: bool,
        #[case] uid: &str,
        #[case] exists: bool,
        #[case] requests: usize,
    ) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let client = answering(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            let one = json!({"metadata": {"name": "e-1", "uid": "u"}});
            (200, json!({"metadata": {}, "items": [one]}))
        });
        let existence = Existence::new(client, written);
        let owner = RevisionOwner {
            name: "e-1".to_owned(),
            uid: uid.to_owned(),
            revision: 1,
            owner_name: None,
            archived: Vec::new(),
        };
        for _ in 0..2 {
            assert_eq!(existence.confirm(&owner).await.is_ok(), exists);
        }
        assert_eq!(asked.load(Ordering::Relaxed), requests);
    }
}
