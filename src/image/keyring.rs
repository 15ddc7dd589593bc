//! Which credential goes to an endpoint: sources in their order, and the choice among them.
//!
//! The first source with any matching key wins, inside a source the longest key; that a registry
//! refuses what was chosen brings no other source into play. What was chosen, or that nothing was,
//! is part of the error when the registry refuses. Pure; who reads the sources knows where they
//! are.
//!
//! Source: deploying.md 3.1, 3.3.

use crate::auth::{Credential, Credentials};

/// Sources of credentials, the first to be asked first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring {
    sources: Vec<Source>,
}

/// One place where credentials are configured: one or more documents that count as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    documents: Vec<(String, Credentials)>,
    faults: Vec<String>,
}

/// The credential for an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) credential: Option<Credential>,
    /// The key and the document it is from, or why there is none; never the credential itself.
    pub(crate) origin: String,
}

impl Source {
    /// Adds a document, for example `Secret a/b`; of equal keys the one that was added last counts.
    pub fn add(&mut self, document: impl Into<String>, credentials: Credentials) {
        let document = document.into();
        let faults = credentials.faults.iter().map(|fault| format!("{document}: {fault}"));
        self.faults.extend(faults);
        self.documents.push((document, credentials));
    }

    /// Adds what is wrong with a document that cannot be used. Never its content.
    pub fn add_fault(&mut self, fault: impl Into<String>) {
        self.faults.push(fault.into());
    }

    /// Returns whether nothing is configured here, not even something that cannot be used.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.faults.is_empty()
    }

    fn lookup(&self, registry: &str, repository: &str) -> Option<(&str, &str, &Credential)> {
        let found = self.documents.iter().filter_map(|(document, credentials)| {
            let (key, credential) = credentials.lookup(registry, repository)?;
            Some((document.as_str(), key, credential))
        });
        // Of equally long keys the last.
        found.max_by_key(|(_, key, _)| key.len())
    }
}

impl Keyring {
    /// Returns these sources, in this order; empty ones do not count.
    pub fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        let sources = sources.into_iter().filter(|source| !source.is_empty());
        Self { sources: sources.collect() }
    }

    /// Returns the same with another source before them.
    #[must_use]
    pub fn after(&self, first: Source) -> Self {
        Self::new([first].into_iter().chain(self.sources.iter().cloned()))
    }

    /// Returns the same with another source behind them.
    #[must_use]
    pub(crate) fn before(&self, last: Source) -> Self {
        Self::new(self.sources.iter().cloned().chain([last]))
    }

    /// Chooses the credential for an endpoint.
    pub(crate) fn choose(&self, registry: &str, repository: &str) -> Choice {
        let mut sources = self.sources.iter();
        let found = sources.find_map(|source| source.lookup(registry, repository));
        if let Some((document, key, credential)) = found {
            let origin = format!("credential: key {key:?} of {document}");
            return Choice { credential: Some(credential.clone()), origin };
        }
        let why = match self.sources.len() {
            0 => "no source is configured".to_owned(),
            1 => format!("the only source has no key for {registry}/{repository}"),
            count => format!("none of {count} sources has a key for {registry}/{repository}"),
        };
        let faults = self.sources.iter().flat_map(|source| &source.faults).cloned();
        let said: Vec<String> = [why].into_iter().chain(faults).collect();
        Choice { credential: None, origin: format!("no credential: {}", said.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::auth::SecretString;

    /// Reads `a: h.io h.io/team, b: h.io` as a source of two documents; the user names of a
    /// document are its name.
    fn source(text: &str) -> Source {
        let mut source = Source::default();
        for document in text.split(", ").filter(|text| !text.is_empty()) {
            let (name, keys) = document.split_once(": ").unwrap();
            let mut credentials = Credentials::default();
            for key in keys.split(' ') {
                let credential = Credential::Basic {
                    username: name.to_owned(),
                    password: SecretString::new("hunter2"),
                };
                credentials.insert(key, credential);
            }
            source.add(name, credentials);
        }
        source
    }

    fn keyring(sources: &[&str]) -> Keyring {
        Keyring::new(sources.iter().map(|text| source(text)))
    }

    // deploying.md P21
    #[rstest]
    #[case::longest_of_a_source(&["a: h.io h.io/team"], "h.io/team", "a")]
    #[case::first_source_even_with_a_shorter_key(&["a: h.io", "b: h.io/team"], "h.io", "a")]
    #[case::first_that_has_any(&["a: other.io h.io/tea", "b: h.io"], "h.io", "b")]
    #[case::longest_over_the_documents(&["a: h.io/team, b: h.io"], "h.io/team", "a")]
    #[case::last_of_equals(&["a: h.io, b: h.io"], "h.io", "b")]
    fn the_first_source_with_a_key_gives_its_longest(
        #[case] sources: &[&str],
        #[case] key: &str,
        #[case] document: &str,
    ) {
        let choice = keyring(sources).choose("h.io", "team/x");
        let want = format!("credential: key \"{key}\" of {document}");
        assert_eq!(choice.origin, want);
        match choice.credential {
            Some(Credential::Basic { username, .. }) => assert_eq!(username, document),
            other => panic!("{other:?}"),
        }
    }

    // deploying.md 3.3
    #[test]
    fn that_there_is_no_credential_is_said_with_the_reason() {
        let said = |keyring: &Keyring| {
            let choice = keyring.choose("h.io", "team/x");
            assert_eq!(choice.credential, None);
            choice.origin
        };
        let none = Keyring::default();
        assert_eq!(said(&none), "no credential: no source is configured");
        assert_eq!(
            said(&keyring(&["a: i.io", "b: h.io/other", ""])),
            "no credential: none of 2 sources has a key for h.io/team/x"
        );
        let mut missing = Source::default();
        missing.add_fault("Secret a/b does not exist");
        let odd = br#"{"auths":{"h.io":{"auth":"!"},"i.io":{"auth":"dTpw"}}}"#;
        let mut partly = Source::default();
        partly.add("Secret a/c", Credentials::parse(odd).unwrap());
        assert_eq!(
            said(&none.after(partly)),
            "no credential: the only source has no key for h.io/team/x; Secret a/c: invalid \
             credentials for h.io"
        );
        assert_eq!(
            said(&none.after(missing)),
            "no credential: the only source has no key for h.io/team/x; Secret a/b does not exist"
        );
    }

    #[test]
    fn another_source_comes_before_all() {
        let keyring = keyring(&["a: h.io/team/x"]).after(source("first: h.io"));
        let choice = keyring.choose("h.io", "team/x");
        assert_eq!(choice.origin, "credential: key \"h.io\" of first");
    }

    // deploying.md P22
    #[test]
    fn debug_hides_secrets() {
        let keyring = keyring(&["a: h.io"]);
        let shown = format!("{keyring:?} {:?}", keyring.choose("h.io", "x"));
        assert!(shown.contains("h.io") && !shown.contains("hunter2"), "{shown}");
    }
}
