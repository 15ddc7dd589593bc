//! Content of revisions that somebody changed or that is lost in part.

use olm_api::ClusterObjectSet;
use olm_cluster::{RefCause, RefError, Secrets, resolve, stored_object};
use olm_core::revision::Phase;

/// Returns the Secrets that could be changed, as `namespace/name`. What cannot be read is not among
/// them.
pub fn mutable(secrets: &Secrets) -> Vec<String> {
    secrets
        .iter()
        .filter(|(_, secret)| {
            let secret = secret.as_ref();
            secret.is_ok_and(|secret| secret.immutable != Some(true))
        })
        .map(|((namespace, name), _)| format!("{namespace}/{name}"))
        .collect()
}

/// Puts together what is left of the content of a revision, without protection, and says whether
/// that is all of it. Fails while it is not known what is left.
pub fn salvage(
    set: &ClusterObjectSet,
    secrets: &Secrets,
    system_namespace: &str,
) -> Result<(Vec<Phase>, bool), RefError> {
    let mut left = set.clone();
    let mut whole = true;
    for phase in &mut left.spec.phases {
        let name = phase.name.clone();
        let mut kept = Vec::with_capacity(phase.objects.len());
        for entry in std::mem::take(&mut phase.objects) {
            let stored = entry.ref_.as_ref().filter(|_| entry.object.is_none());
            match stored.map(|stored| stored_object(secrets, stored, system_namespace)) {
                None | Some(Ok(_)) => kept.push(entry),
                Some(Err(RefCause::Lost(cause))) => {
                    tracing::warn!(phase = name, cause, "content is gone");
                    whole = false;
                }
                Some(Err(cause @ RefCause::Unread(_))) => {
                    return Err(RefError { phase: name, cause });
                }
            }
        }
        phase.objects = kept;
    }
    Ok((resolve(&left, secrets, system_namespace)?.plain(), whole))
}
