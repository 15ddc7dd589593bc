//! Requests to the API server, the rules that match them, and the faults they cause.

use std::time::Duration;

use http::Method;

use crate::random::Random;

/// A request in the terms of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: &'static str,
    /// Plural of the kind; empty for discovery and the like.
    pub resource: String,
    /// Namespace in the path, if any.
    pub namespace: String,
    /// Name in the path, if any.
    pub name: String,
    /// Subresource in the path, if any.
    pub subresource: String,
    /// Path of the URL.
    pub path: String,
    /// Query of the URL, as it is sent.
    pub query: String,
    /// `Impersonate-User`; empty for the controller itself.
    pub user: String,
}

impl Asked {
    pub(super) fn new(method: &Method, uri: &http::Uri, user: &str) -> Self {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let words: Vec<&str> = path.split('/').filter(|word| !word.is_empty()).collect();
        let mut words = match words[..] {
            ["api", _, ref rest @ ..] | ["apis", _, _, ref rest @ ..] => rest.to_vec(),
            _ => Vec::new(),
        };
        let about_namespace = matches!(words[..], ["namespaces", _, "status" | "finalize"]);
        let mut namespace = "";
        if words.len() > 2 && words[0] == "namespaces" && !about_namespace {
            namespace = words[1];
            words.drain(..2);
        }
        let word = |index: usize| words.get(index).copied().unwrap_or_default().to_owned();
        let (resource, name) = (word(0), word(1));
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let verb = match (method.as_str(), name.is_empty()) {
            ("GET", _) if watches => "watch",
            ("GET", true) if !resource.is_empty() => "list",
            ("GET" | "HEAD", _) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", true) => "deletecollection",
            ("DELETE", false) => "delete",
            _ => "other",
        };
        Self {
            verb,
            resource,
            namespace: namespace.to_owned(),
            name,
            subresource: word(2),
            path: path.to_owned(),
            query: query.to_owned(),
            user: user.to_owned(),
        }
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} {}", self.verb, self.path)?;
        if !self.user.is_empty() {
            write!(to, " as {}", self.user)?;
        }
        Ok(())
    }
}

/// The fault that happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It never reaches the API server; the proxy responds with this.
    Status(u16),
    /// It never reaches the API server; the proxy responds as the quota of a namespace does.
    Quota,
    /// The API server carries it out; its response ends in the middle.
    Cut,
    /// It never reaches the API server; after a while the connection ends.
    Silence(Duration),
    /// The API server carries it out, without a response; after a while the connection ends.
    Unanswered(Duration),
    /// The events of a watch are delayed.
    LateEvents(Duration),
}

impl Fault {
    pub(super) fn kind(self) -> String {
        match self {
            Self::Status(code) => return code.to_string(),
            Self::Quota => "exceeded quota",
            Self::Cut => "cut",
            Self::Silence(_) => "silence",
            Self::Unanswered(_) => "unanswered",
            Self::LateEvents(_) => "late events",
        }
        .to_owned()
    }
}

#[derive(Debug, Clone)]
enum Scope {
    Always,
    Next(u64),
    Later { skip: u64, count: u64 },
    Share(u64, Random),
}

/// Which requests are struck, by which fault, and how often. By default all get status 500.
#[derive(Debug, Clone)]
pub struct Rule {
    verbs: &'static [&'static str],
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    stored: bool,
    fault: Fault,
    scope: Scope,
}

/// Makes a constructor for one verb.
macro_rules! verbs {
    ($($verb:ident $text:literal,)*) => { $(
        #[doc = concat!("Strikes requests to `", $text, "` this resource.")]
        pub fn $verb(resource: &str) -> Self {
            Self::on(&[$text], resource)
        }
    )* };
}

/// Makes methods that set a field.
macro_rules! changes {
    ($($(#[$doc:meta])* $name:ident($($given:ident: $type:ty),*) $field:ident = $value:expr;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $($given: $type),*) -> Self {
            self.$field = $value;
            self
        }
    )* };
}

impl Rule {
    verbs! {
        get "get", list "list", watch "watch", create "create", patch "patch", delete "delete",
    }

    /// Strikes every request.
    pub fn any() -> Self {
        Self::on(&[], "")
    }

    /// Strikes all requests that write.
    pub fn writes() -> Self {
        Self::on(&["create", "update", "patch", "delete", "deletecollection"], "")
    }

    /// Strikes requests with one of these verbs (all verbs, if there are none) for this resource
    /// (all resources, if it is empty).
    pub fn on(verbs: &'static [&'static str], resource: &str) -> Self {
        Self {
            verbs,
            resource: resource.to_owned(),
            namespace: None,
            name: None,
            subresource: None,
            stored: false,
            fault: Fault::Status(500),
            scope: Scope::Always,
        }
    }

    changes! {
        /// Only for objects in this namespace.
        in_namespace(namespace: &str) namespace = Some(namespace.to_owned());
        /// Only for the object of this name; a trailing `*` matches the rest of a name.
        named(name: &str) name = Some(name.to_owned());
        /// Only for this subresource; `""` is the object itself.
        subresource(subresource: &str) subresource = Some(subresource.to_owned());
        /// Only requests that store something: neither dry runs nor reviews.
        stored() stored = true;
        /// Responds with this status, without the API server.
        status(code: u16) fault = Fault::Status(code);
        /// Responds with 403 and the words of a quota, without the API server.
        over_quota() fault = Fault::Quota;
        /// Lets the API server carry the request out, and cuts the response in the middle: for a
        /// watch, its first event.
        cut() fault = Fault::Cut;
        /// Sends nothing for this long, then closes the connection; the API server gets no request.
        silent(time: Duration) fault = Fault::Silence(time);
        /// The same, but the API server carries the request out.
        unanswered(time: Duration) fault = Fault::Unanswered(time);
        /// Delays all events of watches by this long, including watches that are open already, until
        /// the rule is removed. The order stays.
        late_events(time: Duration) fault = Fault::LateEvents(time);
        /// Only the next `count` requests.
        times(count: u64) scope = Scope::Next(count);
        /// Lets `skip` requests pass, then strikes only the next `count`.
        later(skip: u64, count: u64) scope = Scope::Later { skip, count };
        /// Only this many of a thousand requests, chosen from `seed`.
        per_mille(share: u64, seed: u64) scope = Scope::Share(share, Random::new(seed));
    }

    pub(super) fn fault(&self) -> Fault {
        self.fault
    }

    pub(super) fn is_about(&self, asked: &Asked) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let is_named = match self.name.as_deref().map(|name| (name, name.strip_suffix('*'))) {
            None => true,
            Some((_, Some(start))) => asked.name.starts_with(start),
            Some((name, None)) => asked.name == name,
        };
        (self.verbs.is_empty() || self.verbs.contains(&asked.verb))
            && (self.resource.is_empty() || self.resource == asked.resource)
            && is(&self.namespace, &asked.namespace)
            && is_named
            && is(&self.subresource, &asked.subresource)
            && !(self.stored
                && (asked.query.contains("dryRun=") || asked.resource.ends_with("reviews")))
    }

    /// Says whether the rule strikes a matching request; counts down or draws a random number.
    pub(super) fn strikes(&mut self) -> bool {
        match &mut self.scope {
            Scope::Always => true,
            Scope::Next(0) => false,
            Scope::Next(left) => {
                *left -= 1;
                true
            }
            Scope::Later { skip: skip @ 1.., .. } => {
                *skip -= 1;
                false
            }
            Scope::Later { count: 0, .. } => false,
            Scope::Later { count, .. } => {
                *count -= 1;
                true
            }
            Scope::Share(share, random) => random.per_mille(*share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, uri: &str) -> Asked {
        let method = method.parse().expect("a method");
        Asked::new(&method, &uri.parse().expect("a URI"), "someone")
    }

    #[test]
    fn requests_are_named_as_kubernetes_names_them() {
        let cases = [
            ("GET", "/api/v1/namespaces/n/secrets/s", "get secrets n s "),
            ("GET", "/api/v1/secrets?limit=5", "list secrets   "),
            ("GET", "/api/v1/secrets?a=b&watch=true", "watch secrets   "),
            ("POST", "/api/v1/namespaces/n/secrets", "create secrets n  "),
            ("PUT", "/apis/g/v1/things/t/status", "update things  t status"),
            ("PATCH", "/apis/g/v1/namespaces/n/things/t", "patch things n t "),
            ("DELETE", "/apis/g/v1/things/t", "delete things  t "),
            ("DELETE", "/apis/g/v1/things", "deletecollection things   "),
            ("GET", "/api/v1/namespaces/n", "get namespaces  n "),
            ("PUT", "/api/v1/namespaces/n/finalize", "update namespaces  n finalize"),
            ("GET", "/apis", "get    "),
            ("GET", "/version", "get    "),
        ];
        for (method, uri, words) in cases {
            let found = asked(method, uri);
            let Asked { verb, resource, namespace, name, subresource, .. } = &found;
            let found = format!("{verb} {resource} {namespace} {name} {subresource}");
            assert_eq!(found, words, "{method} {uri}");
        }
    }

    #[test]
    fn a_rule_is_about_what_it_names_and_nothing_else() {
        let secret = asked("GET", "/api/v1/namespaces/n/secrets/x-1-a?resourceVersion=0");
        let rules = [
            (Rule::any(), true),
            (Rule::get("secrets"), true),
            (Rule::get("configmaps"), false),
            (Rule::list("secrets"), false),
            (Rule::writes(), false),
            (Rule::get("secrets").in_namespace("n").named("x-1-a"), true),
            (Rule::get("secrets").in_namespace("m"), false),
            (Rule::get("secrets").named("x-1-*"), true),
            (Rule::get("secrets").named("x-2-*"), false),
            (Rule::get("secrets").named("x-1"), false),
            (Rule::any().subresource(""), true),
            (Rule::any().subresource("status"), false),
            (Rule::any().stored(), true),
        ];
        for (rule, expected) in rules {
            assert_eq!(rule.is_about(&secret), expected, "{rule:?}");
        }
    }

    #[test]
    fn a_rule_strikes_as_often_as_it_says() {
        let strikes = |mut rule: Rule| (0..1000).filter(|_| rule.strikes()).count();
        assert_eq!(strikes(Rule::any()), 1000);
        assert_eq!(strikes(Rule::any().times(3)), 3);
        assert_eq!(strikes(Rule::any().later(998, 3)), 2);
        let mut later = Rule::any().later(2, 1);
        assert_eq!([(); 4].map(|()| later.strikes()), [false, false, true, false]);
        let share = strikes(Rule::any().per_mille(50, 7));
        assert!((20..100).contains(&share), "{share}");
    }
}
