//! The table: how long an installation took, and how many requests it sent to the API server.

use olm_test::audit::Request;
use olm_test::prelude::*;

/// A rollout that is being measured.
pub(crate) struct Row {
    extension: String,
    version: String,
    began: Timestamp,
    clock: Instant,
    took: Option<(Duration, Timestamp)>,
}

impl Row {
    pub(crate) fn start(extension: &str, version: &str) -> Self {
        Self {
            extension: extension.to_owned(),
            version: version.to_owned(),
            began: Timestamp::now(),
            clock: Instant::now(),
            took: None,
        }
    }

    pub(crate) fn stop(mut self) -> Self {
        self.took = Some((self.clock.elapsed(), Timestamp::now()));
        self
    }

    /// Prints bundle, objects, seconds from created to installed, and requests until then by the
    /// controller as itself and as the service account, writes in brackets.
    pub(crate) fn print(self, log: &Path, objects: usize) {
        let (took, ended) = self.took.expect("the row was stopped");
        let mut requests = requests(log, &self.extension);
        requests.retain(|(_, request)| (self.began..=ended).contains(&request.received));
        println!(
            "| {} {} | {objects} objects | {:.1} s | {} |",
            self.extension,
            self.version,
            took.as_secs_f64(),
            summary(&requests)
        );
    }
}

/// Prints the requests for an extension from its creation to its end.
pub(crate) fn print_whole_life(log: &Path, extension: &str) {
    let requests = requests(log, extension);
    println!("| {extension} | whole life | | {} |", summary(&requests));
}

/// The identity that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Controller,
    Account,
}

/// Returns the requests for an extension that is in a namespace with its own name.
///
/// The controller's Events and the creation of content Secrets do not have the name in their URL,
/// so they are not counted; those for its catalog are not counted either.
pub(crate) fn requests(log: &Path, extension: &str) -> Vec<(By, Request)> {
    let account = format!("system:serviceaccount:{extension}:{ACCOUNT}");
    let owned = format!("{}%3D{extension}", keys::label::OWNER_NAME).replace('/', "%2F");
    let revision = format!("{extension}-");
    audit::mentioning(log, extension)
        .into_iter()
        .filter(|request| {
            request.user == audit::CONTROLLER && request.resource != "clustercatalogs"
        })
        .filter_map(|request| {
            if let Some(acted_as) = &request.acted_as {
                return (*acted_as == account).then_some((By::Account, request));
            }
            let named = request.name == extension
                || request.name.starts_with(&revision)
                || request.namespace == extension
                || request.uri.contains(&owned);
            named.then_some((By::Controller, request))
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

fn summary(requests: &[(By, Request)]) -> String {
    let count = |by: By| {
        let all = requests.iter().filter(|(who, _)| *who == by);
        let writes = all.clone().filter(|(_, request)| request.is_write());
        (all.count(), writes.count())
    };
    let (controller, controller_writes) = count(By::Controller);
    let (account, account_writes) = count(By::Account);
    format!(
        "controller {controller} requests ({controller_writes} writes) | account {account} \
         ({account_writes})"
    )
}
