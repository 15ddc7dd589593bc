//! Errors of applying objects.

use std::collections::BTreeMap;
use std::time::Duration;

use olm_core::error::{Classify, Disposition, first_of};
use olm_core::object::Identity;

use crate::cluster::{
    MAX_RIGHTS_DELAY, code, is_denied, is_namespace_terminating, message, retry_after,
};

/// Delay after a collision, a structural complaint or a missing kind or namespace.
const FLAT_DELAY: Duration = Duration::from_secs(10);

/// Objects that are named of those that failed with the same text.
const NAMED: usize = 3;

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Content that no revision may have; the complaints.
    #[error("revision validation error: {0}")]
    InvalidRevision(String),
    /// The API server would not take objects of a phase as they are.
    #[error("phase {phase} validation error: {text}")]
    InvalidPhase {
        phase: usize,
        /// The messages of the API server, per object.
        text: String,
    },
    /// Objects of a phase belong to somebody else; the whole text.
    #[error("{text}")]
    Collisions {
        text: String,
        /// Who manages those without a controller, and what to do.
        managed: Option<String>,
    },
    /// The cluster does not serve the kind of this object in this version.
    #[error(
        "phase {phase}: kind {}.{} is not served by the cluster", object.kind, object.api_version()
    )]
    Unserved { phase: usize, object: Box<Identity> },
    /// The revision that would own the objects does not exist any more; its name.
    #[error("ClusterObjectSet {0} no longer exists: nothing is applied for it")]
    Gone(String),
    /// The API server refused or could not be asked; its messages, each once.
    #[error("{text}")]
    Api {
        text: String,
        /// The shortest of the causes' delays.
        disposition: Disposition,
        /// Whether authorization refused any request: the account lacks a right, or does not exist.
        forbidden: bool,
        /// Whether admission refused any request, by a webhook or a policy. That concerns the
        /// request, not the account: it may succeed later, and more rights do not help.
        denied: bool,
    },
}

impl ApplyError {
    /// Joins what requests about objects failed with into one error: each text once, after what was
    /// being done to which objects where the API server does not name them itself.
    pub(super) fn of(doing: &str, failed: Vec<(Identity, kube::Error)>) -> Self {
        let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (object, err) in &failed {
            let text = message(err);
            let named = is_named(object, err, &text);
            texts.entry(text).or_default().extend((!named).then(|| object.text()));
        }
        let texts = texts.into_iter().map(|(text, objects)| match objects.len() {
            0 => text,
            _ => format!("{doing} {}: {text}", first_of(objects, NAMED)),
        });
        let texts: Vec<String> = texts.collect();
        Self::joined(&texts, &failed.into_iter().map(|(_, err)| err).collect::<Vec<_>>())
    }

    /// Returns the answers of requests; fails with [`Self::of`] if one of them failed.
    pub(super) fn unless_failed<T>(
        doing: &str,
        answers: Vec<Result<T, (Identity, kube::Error)>>,
    ) -> Result<Vec<T>, Self> {
        let mut failed = Vec::new();
        let values = answers.into_iter();
        let values = values.filter_map(|it| it.map_err(|error| failed.push(error)).ok()).collect();
        if failed.is_empty() { Ok(values) } else { Err(Self::of(doing, failed)) }
    }

    fn joined(texts: &[String], errors: &[kube::Error]) -> Self {
        let disposition = errors.iter().map(disposition).min_by_key(|it| match it {
            Disposition::Wait(delay) | Disposition::RetryAfter(delay) => (0, *delay),
            Disposition::RetryWithin(limit) => (1, *limit),
            Disposition::Retry => (2, Duration::ZERO),
            Disposition::Terminal(_) => (3, Duration::ZERO),
        });
        let disposition = disposition.unwrap_or(Disposition::Retry);
        let lacks_right = |err: &kube::Error| {
            matches!(code(err), 401 | 403) && !is_denied(err) && !is_namespace_terminating(err)
        };
        Self::Api {
            text: texts.join("\n"),
            disposition,
            forbidden: errors.iter().any(lacks_right),
            denied: errors.iter().any(is_denied),
        }
    }

    /// Returns whether the account lacks rights or does not exist, so that more rights may help.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api { forbidden: true, .. })
    }

    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Api { denied: true, .. })
    }
}

impl Classify for ApplyError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::InvalidRevision(_)
            | Self::InvalidPhase { .. }
            | Self::Collisions { .. }
            | Self::Unserved { .. }
            | Self::Gone(_) => Disposition::Wait(FLAT_DELAY),
            Self::Api { disposition, .. } => *disposition,
        }
    }
}

impl From<kube::Error> for ApplyError {
    fn from(err: kube::Error) -> Self {
        Self::joined(&[message(&err)], &[err])
    }
}

/// Returns whether a failure names its object, or its missing namespace. If the account does not
/// exist, it does not concern a single object.
fn is_named(object: &Identity, err: &kube::Error, text: &str) -> bool {
    let names = |name: &str| !name.is_empty() && text.contains(&format!("\"{name}\""));
    match code(err) {
        401 => true,
        404 if names(&object.namespace) => true,
        _ => names(&object.name),
    }
}

fn disposition(err: &kube::Error) -> Disposition {
    match code(err) {
        // It is gone soon, and may be made again.
        403 if is_namespace_terminating(err) => Disposition::Wait(FLAT_DELAY),
        401 | 403 => Disposition::RetryWithin(MAX_RIGHTS_DELAY),
        // On a write this is the namespace, which may appear at any time.
        404 => Disposition::Wait(FLAT_DELAY),
        _ => retry_after(err).map_or(Disposition::Retry, Disposition::RetryAfter),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> Identity {
        Identity {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "ns".to_owned(),
            name: name.to_owned(),
        }
    }

    fn refused(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure(message, "").with_code(code)))
    }

    fn answer(code: u16) -> (Identity, kube::Error) {
        (object("a"), refused(code, &format!("answer {code}")))
    }

    #[rstest]
    #[case::rights_and_trouble(&[500, 403], Disposition::RetryWithin(MAX_RIGHTS_DELAY))]
    #[case::namespace_and_rights(&[403, 404, 500], Disposition::Wait(FLAT_DELAY))]
    #[case::busy_and_namespace(&[404, 429], Disposition::RetryAfter(Duration::from_secs(1)))]
    #[case::trouble(&[500], Disposition::Retry)]
    fn the_shortest_delay_counts_whatever_came_first(
        #[case] codes: &[u16],
        #[case] disposition: Disposition,
    ) {
        let there: Vec<_> = codes.iter().copied().map(answer).collect();
        let back: Vec<_> = codes.iter().rev().copied().map(answer).collect();
        for errors in [there, back] {
            let error = ApplyError::of("applying", errors);
            assert_eq!(error.disposition(), disposition, "{error}");
        }
    }

    const NO_RIGHT: &str = "configmaps \"a\" is forbidden: User \"system:serviceaccount:ns:sa\" \
         cannot delete resource \"configmaps\" in API group \"\" in the namespace \"ns\"";
    const WEBHOOK: &str = "admission webhook \"w.example.com\" denied the request: not today";
    const SILENT_WEBHOOK: &str =
        "admission webhook \"w.example.com\" denied the request without explanation";
    const LEAVING: &str = "configmaps \"a\" is forbidden: unable to create new content in namespace ns \
         because it is being terminated";
    const POLICY: &str = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding \
         'b' denied request: not today";

    // applying.md 7.4: who refuses a request says whether the account fails
    #[rstest]
    #[case::right(&[NO_RIGHT], (true, false))]
    #[case::webhook(&[WEBHOOK], (false, true))]
    #[case::silent_webhook(&[SILENT_WEBHOOK], (false, true))]
    #[case::policy(&[POLICY], (false, true))]
    #[case::both(&[NO_RIGHT, POLICY], (true, true))]
    fn a_refusal_of_admission_is_not_a_lack_of_rights(
        #[case] messages: &[&str],
        #[case] want: (bool, bool),
    ) {
        let errors = messages.iter().map(|message| (object("a"), refused(403, message)));
        let error = ApplyError::of("applying", errors.collect());
        assert_eq!((error.is_forbidden(), error.is_denied()), want);
    }

    // applying.md 7.4: it goes soon, and more rights do not help
    #[test]
    fn a_namespace_that_is_being_deleted_is_no_lack_of_rights() {
        let mut status = Status::failure(LEAVING, "Forbidden").with_code(403);
        let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace"});
        status.details = serde_json::from_value(json!({"causes": [cause]})).unwrap();
        let error = ApplyError::from(kube::Error::Api(Box::new(status)));
        assert_eq!(error.disposition(), Disposition::Wait(FLAT_DELAY));
        assert_eq!((error.is_forbidden(), error.is_denied()), (false, false));
    }

    const NO_CREATE: &str = "configmaps is forbidden: User \"system:serviceaccount:ns:sa\" cannot create \
         resource \"configmaps\" in API group \"\" in the namespace \"ns\"";
    const DEAD_WEBHOOK: &str = "Internal error occurred: failed calling webhook \"w.example.com\"";

    #[rstest]
    #[case::webhook(403, WEBHOOK, true)]
    #[case::dead_webhook(500, DEAD_WEBHOOK, true)]
    #[case::create(403, NO_CREATE, true)]
    #[case::right(403, NO_RIGHT, false)]
    #[case::no_namespace(404, "namespaces \"ns\" not found", false)]
    #[case::no_account(401, "Unauthorized", false)]
    #[case::no_answer(0, "no answer within 25 seconds", true)]
    fn a_failure_names_its_object(#[case] code: u16, #[case] text: &str, #[case] added: bool) {
        let named = ApplyError::of("removing", vec![(object("a"), refused(code, text))]);
        let prefix = if added { "removing ConfigMap.v1 ns/a: " } else { "" };
        assert_eq!(named.to_string(), format!("{prefix}{text}"));
    }

    #[test]
    fn the_same_failure_of_several_objects_is_told_once() {
        let of = |name: &&str| (object(name), refused(500, "no"));
        let failed = ["a", "b", "c", "d", "e"].iter().map(of);
        let failed = failed.chain([(object("f"), refused(500, "another"))]);
        let error = ApplyError::of("applying", failed.collect());
        assert_eq!(
            error.to_string(),
            "applying ConfigMap.v1 ns/f: another\n\
             applying ConfigMap.v1 ns/a, ConfigMap.v1 ns/b, ConfigMap.v1 ns/c and 2 more: no"
        );
    }
}
