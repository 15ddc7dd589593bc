//! TLS profiles: what listeners offer, and what the client of catalogs takes.
//!
//! There are TLS 1.2 and 1.3 with AEAD suites here, and nothing older. What a profile asks for
//! beyond that is left out and said once: stricter than asked is safe, not starting is not.
//!
//! Source: deploying.md 5.3.

mod cluster;
mod names;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
use rustls::crypto::aws_lc_rs::{self, ALL_KX_GROUPS, DEFAULT_KX_GROUPS};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::TLS13;
use rustls::{
    ALL_VERSIONS, CipherSuite, ClientConfig, ConfigBuilder, NamedGroup, ServerConfig,
    SupportedProtocolVersion, WantsVerifier,
};
use strum::EnumString;

pub use cluster::follow;
pub use names::{cipher, curve};

use names::Suite;

/// A version of TLS, as upstream and as OpenShift name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, EnumString)]
pub enum Version {
    /// TLS 1.0.
    #[value(name = "TLSv1.0")]
    #[strum(serialize = "VersionTLS10")]
    Tls10,
    /// TLS 1.1.
    #[value(name = "TLSv1.1")]
    #[strum(serialize = "VersionTLS11")]
    Tls11,
    /// TLS 1.2.
    #[value(name = "TLSv1.2")]
    #[strum(serialize = "VersionTLS12")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "TLSv1.3")]
    #[strum(serialize = "VersionTLS13")]
    Tls13,
}

/// Versions, suites and curves; by default those of profile `intermediate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Suites of TLS 1.2; without any TLS 1.3 alone, whose suites are always there.
    suites: Vec<CipherSuite>,
    groups: Vec<NamedGroup>,
}

/// A profile, as far as it can be had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offer {
    pub profile: Profile,
    /// The differences from the requested profile, in one sentence.
    pub note: Option<String>,
}

/// Nothing that a profile names as a curve is supported.
#[derive(Debug, thiserror::Error)]
#[error("none of the curves {} is supported; name X25519 or secp256r1", .0.join(", "))]
pub struct NoCurve(Vec<String>);

/// The profile that holds now; clones share it.
#[derive(Debug, Clone, Default)]
pub struct CurrentProfile(Arc<Mutex<Profile>>);

impl Default for Profile {
    fn default() -> Self {
        Self {
            suites: names::TLS12.map(|(suite, _)| suite).into(),
            groups: DEFAULT_KX_GROUPS.iter().map(|group| group.name()).collect(),
        }
    }
}

impl Profile {
    /// Begins the configuration of a listener.
    #[expect(clippy::expect_used, reason = "TLS 1.3, its suites and a curve are always there")]
    pub fn server(&self) -> ConfigBuilder<ServerConfig, WantsVerifier> {
        ServerConfig::builder_with_provider(self.provider())
            .with_protocol_versions(&self.versions())
            .expect("a profile is usable")
    }

    /// Begins the configuration of a client.
    #[expect(clippy::expect_used, reason = "as above")]
    pub fn client(&self) -> ConfigBuilder<ClientConfig, WantsVerifier> {
        ClientConfig::builder_with_provider(self.provider())
            .with_protocol_versions(&self.versions())
            .expect("a profile is usable")
    }

    fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let all = ALL_VERSIONS.iter().copied();
        let newest = |one: &&SupportedProtocolVersion| one.version == TLS13.version;
        all.filter(|one| newest(one) || !self.suites.is_empty()).collect()
    }

    fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = aws_lc_rs::default_provider();
        let suites = &mut provider.cipher_suites;
        suites.retain(|one| one.tls13().is_some() || self.suites.contains(&one.suite()));
        let known = ALL_KX_GROUPS.iter().copied();
        let named = |group: &&dyn SupportedKxGroup| self.groups.contains(&group.name());
        provider.kx_groups = known.filter(named).collect();
        Arc::new(provider)
    }
}

impl Offer {
    /// Returns the profile with `lowest` as its lowest version; without names of suites or curves
    /// it has all that the default has.
    pub fn of(lowest: Version, suites: &[String], curves: &[String]) -> Result<Self, NoCurve> {
        let mut lacking = Vec::new();
        match lowest {
            Version::Tls10 => lacking.push("TLSv1.0"),
            Version::Tls11 => lacking.push("TLSv1.1"),
            Version::Tls12 | Version::Tls13 => {}
        }
        let mut profile = Profile::default();
        if !suites.is_empty() {
            profile.suites.clear();
        }
        for name in suites {
            match names::suite(name) {
                Some(Suite::Tls12(suite)) => profile.suites.push(suite),
                Some(Suite::Tls13) => {}
                Some(Suite::Lacking) | None => lacking.push(name),
            }
        }
        if lowest == Version::Tls13 {
            profile.suites.clear();
        }
        if !curves.is_empty() {
            profile.groups.clear();
        }
        for name in curves {
            match names::group(name) {
                Some(group) => profile.groups.push(group),
                None => lacking.push(name),
            }
        }
        if profile.groups.is_empty() {
            return Err(NoCurve(curves.to_vec()));
        }
        let (only, offered) = match profile.suites[..] {
            [] => (true, "TLS 1.3 alone is offered"),
            [..] => (false, "TLS 1.2 and 1.3 are offered"),
        };
        let why = match lacking[..] {
            [] if only && lowest < Version::Tls13 => "no suite of TLS 1.2 is named".to_owned(),
            [] => return Ok(Self { profile, note: None }),
            [..] => format!("not supported are {}", lacking.join(", ")),
        };
        let note = format!("the TLS profile is stricter than requested: {why}; {offered}");
        Ok(Self { profile, note: Some(note) })
    }
}

impl CurrentProfile {
    pub fn get(&self) -> Profile {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over another profile, and says whether it is another.
    pub fn take(&self, profile: Profile) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let other = *known != profile;
        *known = profile;
        other
    }
}

impl From<Profile> for CurrentProfile {
    fn from(profile: Profile) -> Self {
        Self(Arc::new(Mutex::new(profile)))
    }
}
