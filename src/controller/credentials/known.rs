//! All known Secrets with credentials, and the resulting keyring. Pure.

use std::collections::{BTreeMap, BTreeSet};

use olm_image::{Keyring, Source};

use super::secret::{Held, SecretName};

/// The Secrets as the watches report them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The Secret that a flag names.
    pub(super) global: Option<SecretName>,
    /// The `imagePullSecrets` of the controller's own account; `None` until it was read.
    pub(super) linked: Option<Vec<SecretName>>,
    /// Secrets that are watched by name.
    pub(super) named: BTreeMap<SecretName, Held>,
    /// Secrets that ClusterCatalogs may name; `None` until they were listed.
    pub(super) offered: Option<BTreeMap<SecretName, Held>>,
}

impl Known {
    /// Returns the Secrets that are to be watched by name.
    pub(super) fn wanted(&self) -> BTreeSet<&SecretName> {
        self.linked.iter().flatten().chain(&self.global).collect()
    }

    /// Returns whether everything was read at least once.
    pub(super) fn is_complete(&self) -> bool {
        let read = |name| self.named.contains_key(name);
        self.linked.is_some() && self.offered.is_some() && self.wanted().into_iter().all(read)
    }

    /// Returns the sources of all pulls, in their order (deploying.md 3.1).
    pub(super) fn keyring(&self) -> Keyring {
        let own = self.linked.as_deref().unwrap_or_default();
        Keyring::new([self.source(own), self.source(self.global.as_slice())])
    }

    fn source(&self, names: &[SecretName]) -> Source {
        let mut source = Source::default();
        for name in names {
            if let Some(held) = self.named.get(name) {
                add(&mut source, name, held);
            }
        }
        source
    }

    /// Returns the faults of Secrets, one sentence each.
    pub(super) fn faults(&self) -> BTreeSet<String> {
        let all = self.named.iter().chain(self.offered.iter().flatten());
        all.filter_map(|(name, held)| held.fault(name)).collect()
    }
}

/// Adds a Secret to a source: its credentials, or what is wrong with it.
pub(super) fn add(source: &mut Source, name: &SecretName, held: &Held) {
    match (held, held.fault(name)) {
        (Held::Usable(credentials), _) => source.add(name.to_string(), credentials.clone()),
        (_, Some(fault)) => source.add_fault(fault),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use olm_image::Credentials;

    fn name(name: &str) -> SecretName {
        SecretName { namespace: "ns".to_owned(), name: name.to_owned() }
    }

    fn usable() -> Held {
        let json = br#"{"auths":{"h.io":{"username":"u","password":"p"}}}"#;
        Held::Usable(Credentials::parse(json).unwrap())
    }

    fn complete() -> Known {
        Known {
            global: Some(name("global")),
            linked: Some(vec![name("own")]),
            named: [(name("global"), usable()), (name("own"), Held::Missing)].into(),
            offered: Some(BTreeMap::new()),
        }
    }

    #[test]
    fn nothing_is_complete_before_every_source_was_read() {
        assert!(complete().is_complete());
        let unread: [fn(&mut Known); 3] = [
            |known| drop(known.named.remove(&name("own"))),
            |known| known.linked = None,
            |known| known.offered = None,
        ];
        for unread in unread {
            let mut known = complete();
            unread(&mut known);
            assert!(!known.is_complete());
        }
    }

    // deploying.md 3.1: the account's come before the global one; what cannot be used is skipped.
    #[test]
    fn the_accounts_secrets_are_asked_before_the_global_one() {
        let mut known = complete();
        let mut global = Source::default();
        add(&mut global, &name("global"), &usable());
        let mut own = Source::default();
        own.add_fault("Secret ns/own does not exist");
        assert_eq!(known.keyring(), Keyring::new([own, global.clone()]));
        assert_eq!(known.faults(), ["Secret ns/own does not exist".to_owned()].into());
        known.linked = Some(Vec::new());
        assert_eq!(known.keyring(), Keyring::new([global]));
        let other = Held::OtherType("Opaque".to_owned());
        known.offered = Some([(name("offered"), other)].into());
        assert_eq!(known.faults().len(), 2);
    }
}
