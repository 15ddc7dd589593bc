//! Which requests the controller sent to the API server for an extension.

use olm_test::audit::Request;
use olm_test::prelude::*;

/// Returns the requests for an extension that is in a namespace with its own name, by the controller
/// itself and as its account.
///
/// The controller's Events and the creation of content Secrets do not have the name in their URL,
/// so they are not counted; those for its catalog are not counted either.
pub(crate) fn requests(log: &Path, extension: &str) -> Vec<Request> {
    let account = format!("system:serviceaccount:{extension}:{ACCOUNT}");
    let owned = format!("{}%3D{extension}", keys::label::OWNER_NAME).replace('/', "%2F");
    let revision = format!("{extension}-");
    audit::mentioning(log, extension)
        .into_iter()
        .filter(|request| {
            request.user == audit::CONTROLLER && request.resource != "clustercatalogs"
        })
        .filter(|request| match &request.acted_as {
            Some(acted_as) => *acted_as == account,
            None => {
                request.name == extension
                    || request.name.starts_with(&revision)
                    || request.namespace == extension
                    || request.uri.contains(&owned)
            }
        })
        .collect()
}

/// Returns how many requests of the controller were about what is checked before a revision is
/// written, what an account may do and the CRDs on the cluster, and how long they took together.
pub(crate) fn preflights(log: &Path, began: Timestamp) -> (usize, Duration) {
    let is_check = |request: &Request| {
        let reads_crd = request.verb == "get" && request.resource == "customresourcedefinitions";
        let asks = request.resource.ends_with("reviews");
        asks || reads_crd && request.acted_as.is_none()
    };
    let mut requests = audit::of_controller(log);
    requests.retain(|request| request.received >= began && is_check(request));
    let first = requests.iter().map(|request| request.received).min();
    let last = requests.iter().map(|request| request.answered).max();
    let took = first.zip(last).map(|(first, last)| last.duration_since(first));
    let took = took.and_then(|took| Duration::try_from(took).ok());
    (requests.len(), took.unwrap_or_default())
}
