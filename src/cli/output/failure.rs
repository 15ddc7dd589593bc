//! A failure as the user sees it: a text, the exit code and a hint.
//!
//! Source: plugin.md 1.3.

use std::error::Error;

use olm_cluster::ConnectionError;
use olm_core::error::joined;
use olm_core::render::RenderError;

use super::{Outcome, UsageError};
use crate::limit::Unanswered;
use crate::managed::failure;

/// The way out where no cluster is known.
const WITHOUT_CLUSTER: &str =
    "--from PATH|IMAGE reads catalogs without one, where a command has it";
const INSTALLER: &str = "ClusterRole operator-controller-clusterextension-installer-role allows it";
const ADMIN: &str = "ask a cluster administrator for this right";
const NO_ROLE: &str = "no role for users allows this; ask a cluster administrator";
const APPROVER: &str = "approving needs verb approve on clusterextensions.olm.operatorframework.io";
/// How the API server names the API group of these kinds.
const OURS: &str = "in API group \"olm.operatorframework.io\"";
const ACCOUNT: &str = "kubectl olm rbac --for-user lets a user name the account";
const LOGIN: &str = "the API server does not accept the credentials of the kubeconfig, or they have \
                     expired: log in again";
const LIMIT: &str = "--request-timeout sets how long an answer is waited for";
const VIEWER: &str = "ClusterRole operator-controller-clusterextension-viewer-role allows it";
const READER: &str = "Role olm-plugin-reader in the namespace of the controller allows it; on \
                      OpenShift in openshift-operator-controller and openshift-catalogd";
/// Prefixes of the API server's messages about kinds that it does not serve.
const NOT_SERVED: [&str; 2] =
    ["404 page not found", "the server could not find the requested resource"];

/// Returns an error with its causes on one line; what the API server said stands there once.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let answer = |layer: &(dyn Error + 'static)| layer.downcast_ref::<kube::Error>().map(failure);
    let last = error.chain().position(|layer| answer(layer).is_some());
    let layers = error.chain().take(last.map_or(usize::MAX, |last| last + 1));
    joined(layers.map(|layer| answer(layer).unwrap_or_else(|| layer.to_string())))
}

/// A failure that knows its way out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// Returns the error that the answer is no.
    pub(crate) fn failed(text: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self { text: text.into(), hint: Some(hint.into()), outcome: Outcome::Failed }.into()
    }

    /// Returns the error that the answer is not known.
    pub(crate) fn unknown(text: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self { text: text.into(), hint: Some(hint.into()), outcome: Outcome::Unknown }.into()
    }

    /// Judges an error by its causes: what could not be asked is not known, anything else is no.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let whole = |outcome, hint: Option<&str>| Self {
            text: one_line(error),
            outcome,
            hint: hint.map(str::to_owned),
        };
        if error.is::<UsageError>() {
            return whole(Outcome::Usage, None);
        }
        for cause in error.chain() {
            if let Some(Self { hint, outcome, .. }) = cause.downcast_ref() {
                return whole(*outcome, hint.as_deref());
            }
            if let Some(error) = cause.downcast_ref::<ConnectionError>() {
                let hint = match error {
                    ConnectionError::Lacks { what, .. } => {
                        &format!("kubectl config get-{what}s lists those that it has")
                    }
                    _ => WITHOUT_CLUSTER,
                };
                return whole(Outcome::Unknown, Some(hint));
            }
            if let Some(RenderError::Config(error)) = cause.downcast_ref() {
                return whole(Outcome::Failed, error.hint().as_deref());
            }
            match cause.downcast_ref::<kube::Error>() {
                Some(kube::Error::Api(status)) => {
                    let known = Self::answered(status.code, &status.message);
                    let namespace = absent_namespace(&status.message);
                    let hint = match status.code {
                        401 => Some(LOGIN),
                        404 => namespace.as_deref(),
                        code => refused(code, &status.message),
                    };
                    let outcome = match status.code {
                        401 | 429 | 500.. => Outcome::Unknown,
                        _ => Outcome::Failed,
                    };
                    return known.unwrap_or_else(|| whole(outcome, hint));
                }
                Some(kube::Error::Service(cause)) => {
                    let late = cause.downcast_ref::<Unanswered>().map(|_| LIMIT);
                    return whole(Outcome::Unknown, late);
                }
                Some(kube::Error::HyperError(_)) => return whole(Outcome::Unknown, None),
                _ => {}
            }
        }
        whole(Outcome::Failed, None)
    }

    /// Returns the way out of what the API server says that the caller may not do.
    pub(crate) fn way_out(message: &str) -> Option<String> {
        if !message.contains(" is forbidden: ") {
            return None;
        }
        let known = Self::answered(403, message).and_then(|failure| failure.hint);
        Some(known.unwrap_or_else(|| ADMIN.to_owned()))
    }

    /// Judges what the API server answers, if that means that something is not known.
    fn answered(code: u16, message: &str) -> Option<Self> {
        let unknown = |text: String, hint: &str| Self {
            text,
            outcome: Outcome::Unknown,
            hint: Some(hint.to_owned()),
        };
        if code == 404 && NOT_SERVED.iter().any(|begin| message.starts_with(begin)) {
            let text = format!("this cluster does not serve {}", olm_api::API_VERSION);
            return Some(unknown(text, "install olm-controller first"));
        }
        let (_, refused) = message.split_once(" cannot ").filter(|_| code == 403)?;
        let mut words = refused.split(' ');
        let (verb, resource) = (words.next()?, words.nth(1)?.trim_matches('"'));
        let reads = ["get", "list", "watch"].contains(&verb);
        if !reads {
            return None;
        }
        // The viewer role is about these kinds only.
        let is_of_viewer = (refused.contains(OURS) && resource != "clusterextensionrevisions")
            || resource == "clusterserviceversions";
        if is_of_viewer {
            return Some(unknown(format!("you may not {verb} {resource}"), VIEWER));
        }
        let text = format!("you may not {}", refused.replacen(" resource ", " ", 1));
        let is_of_reader = ["services/proxy", "configmaps"].contains(&resource)
            && refused.contains(" in the namespace ");
        let hint = is_of_reader.then(|| READER.to_owned());
        Some(Self { text, outcome: Outcome::Unknown, hint })
    }
}

/// Returns what creates the namespace that the API server does not find.
fn absent_namespace(message: &str) -> Option<String> {
    let name = message.strip_prefix("namespaces \"")?.strip_suffix("\" not found")?;
    Some(format!("kubectl create namespace {name}"))
}

/// Returns the way out of a refused write.
fn refused(code: u16, message: &str) -> Option<&'static str> {
    if message.contains(": ValidatingAdmissionPolicy '") {
        let denied = [("may not use service account", ACCOUNT), ("may not approve", APPROVER)];
        let denied = denied.into_iter().find(|(words, _)| message.contains(words));
        return denied.map(|(_, hint)| hint);
    }
    let is_ours = code == 403 && message.contains(OURS) && message.contains(" cannot ");
    let is_extension = message.contains(" resource \"clusterextensions\"");
    is_ours.then_some(if is_extension { INSTALLER } else { NO_ROLE })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use kube::core::Status;

    use super::*;
    use crate::fixture::cases;

    fn answered(code: u16, message: &str) -> Failure {
        let status = Status::failure(message, "R").with_code(code).boxed();
        let error = Err::<(), _>(kube::Error::Api(status)).context("reading");
        Failure::of(&error.unwrap_err())
    }

    // plugin.md U21
    #[test]
    fn what_could_not_be_asked_is_not_known() {
        type Case = (u16, String, u8, String);
        for (name, case) in cases::<Case>("what_could_not_be_asked_is_not_known") {
            let (code, message, outcome, text) = case;
            let failure = answered(code, &message);
            let want = if outcome == 3 { Outcome::Unknown } else { Outcome::Failed };
            assert_eq!(failure.outcome, want, "{name}");
            assert!(failure.text.starts_with(&text), "{name}: {}", failure.text);
            assert_eq!(failure.hint.is_some(), outcome == 3, "{name}");
            let times = failure.text.matches(&message).count();
            assert_eq!(times, usize::from(outcome == 1), "{name}");
        }
    }

    // plugin.md 1.3
    #[test]
    fn what_was_not_answered_is_not_known() {
        for code in [401, 429, 500, 503] {
            let failure = answered(code, "later");
            assert_eq!((&*failure.text, failure.outcome), ("reading: later", Outcome::Unknown));
            assert_eq!(failure.hint.as_deref(), (code == 401).then_some(LOGIN), "{code}");
        }
    }

    #[test]
    fn a_namespace_that_does_not_exist_can_be_created() {
        let failure = answered(404, "namespaces \"light\" not found");
        assert_eq!(failure.hint.as_deref(), Some("kubectl create namespace light"));
        assert_eq!(answered(404, "lamps.example.com \"light\" not found").hint, None);
    }

    #[test]
    fn a_role_is_named_only_where_it_helps() {
        type Case = (String, Option<String>);
        for (name, (message, want)) in cases::<Case>("a_role_is_named_only_where_it_helps") {
            assert_eq!(Failure::way_out(&message), want, "{name}");
        }
    }

    // plugin.md 1.3
    #[test]
    fn a_refused_write_is_one_sentence_and_names_the_way_out() {
        type Case = (String, Option<String>);
        let test = "a_refused_write_is_one_sentence_and_names_the_way_out";
        for (name, (message, hint)) in cases::<Case>(test) {
            let failure = answered(403, &message);
            assert_eq!(failure.text, format!("reading: {message}"), "{name}");
            assert_eq!(failure.hint, hint, "{name}");
        }
    }

    #[test]
    fn hints_name_roles_that_exist() {
        let roles = include_str!("../../../config/rbac/user_roles.yaml");
        for hint in [INSTALLER, VIEWER, READER] {
            let name = hint.split(' ').nth(1).unwrap();
            assert!(roles.contains(&format!("name: {name}\n")), "{name}");
        }
    }

    #[test]
    fn what_the_viewer_role_does_not_allow_is_not_said_to_be_in_it() {
        let message = "secrets is forbidden: User \"dana\" cannot list resource \"secrets\" in API \
                       group \"\" in the namespace \"olmv1-system\"";
        let failure = Failure::answered(403, message).unwrap();
        assert_eq!((failure.outcome, failure.hint), (Outcome::Unknown, None));
        let want =
            "you may not list \"secrets\" in API group \"\" in the namespace \"olmv1-system\"";
        assert_eq!(failure.text, want);
        // Nor is what a Role allows for one namespace.
        for (scope, want) in
            [("in the namespace \"s\"", Some(READER)), ("at the cluster scope", None)]
        {
            let message = format!(
                "configmaps is forbidden: User \"dana\" cannot list resource \"configmaps\" in API \
                 group \"\" {scope}"
            );
            let hint = Failure::answered(403, &message).unwrap().hint;
            assert_eq!(hint.as_deref(), want);
        }
    }

    #[test]
    fn what_did_not_answer_is_named_without_the_words_of_the_client() {
        let late = Unanswered { server: "the API server".to_owned(), seconds: 10 };
        let late = kube::Error::Service(Box::new(late));
        let error = Err::<(), _>(late).context("listing ClusterCatalogs").unwrap_err();
        let failure = Failure::of(&error);
        let text = "listing ClusterCatalogs: no answer from the API server within 10 s";
        assert_eq!((failure.text.as_str(), failure.outcome), (text, Outcome::Unknown));
        assert_eq!(failure.hint.as_deref(), Some(LIMIT));
        let empty = kube::Error::Api(Status::failure("", "").with_code(500).boxed());
        let error = Err::<(), _>(empty).context("listing").unwrap_err();
        assert_eq!(one_line(&error), "listing: the API server answered with status code 500");
    }
}
