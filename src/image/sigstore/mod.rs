//! Signatures of images as cosign makes them: whether one satisfies a requirement of `policy.json`.
//!
//! In: what was attached to an image, the manifest, and whom to trust. Out: acceptance, or the reason
//! why there is none. No registry is contacted and no file is read here.
//!
//! Source: containers-policy.json(5), `containers/image` (`policy_eval_sigstore.go`), catalogs.md 5.5.

mod certificate;
mod identity;
mod key;
mod payload;
mod refusal;
mod rekor;

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::digest::Digest;
use crate::reference::ImageRef;
use crate::shown::shown;

pub(crate) use certificate::Authorities;
use certificate::Leaf;
pub(crate) use identity::Identity;
pub(crate) use key::PublicKey;
use payload::Payload;
pub use refusal::SignatureError;
use rekor::Subject;
pub(crate) use rekor::decoded;

/// Media type of a signature in a manifest of them.
pub(crate) const SIGNATURE_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "dev.sigstore.cosign/bundle";
const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
const CHAIN: &str = "dev.sigstore.cosign/chain";

/// A signature as a registry gives it: nothing of it is trusted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attachment {
    pub(crate) payload: Vec<u8>,
    /// The signature, and what stands beside it.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The required signers, and the name.
#[derive(Debug, Clone)]
pub(crate) struct Trust {
    pub(crate) signers: Signers,
    /// Keys of logs; with any, one of them has to have the signature.
    pub(crate) logs: Vec<PublicKey>,
    pub(crate) identity: Identity,
}

#[derive(Debug, Clone)]
pub(crate) enum Signers {
    /// The owners of these keys.
    Keys(Vec<PublicKey>),
    /// Whom an identity provider knew by this address when Fulcio issued a certificate.
    Fulcio { authorities: Authorities, issuer: String, email: String },
    /// The owner of a certificate for this address and this host.
    Pki { authorities: Authorities, email: Option<String>, host: Option<String> },
}

impl Trust {
    /// Returns whether a signature of this manifest, which was requested as `image`, is accepted.
    pub(crate) fn accepts(
        &self,
        attachment: &Attachment,
        image: &ImageRef,
        manifest: &[u8],
        now: Timestamp,
    ) -> Result<(), SignatureError> {
        let text = attachment.annotation(SIGNATURE)?;
        let Some(signature) = decoded(text) else {
            return Err(SignatureError::form("it is not base64"));
        };
        let signed = |key: &PublicKey| key.signed(&attachment.payload, &signature);
        let is_genuine = match &self.signers {
            Signers::Keys(keys) if self.logs.is_empty() => keys.iter().any(signed),
            Signers::Keys(keys) => signed(self.logged(keys, attachment, &signature)?),
            Signers::Fulcio { authorities, issuer, email } => {
                let der = attachment.certificate()?;
                let at = self.entered(&der, attachment, &signature)?;
                let leaf = authorities.check(&der, attachment.chain(), at)?;
                let found = leaf.issuer();
                if found != Some(issuer.as_str()) {
                    let found = found.map_or_else(|| "an unknown place".to_owned(), shown);
                    let wanted = shown(issuer);
                    let text = format!(
                        "its signer logged in at {found}, and policy.json requires {wanted}"
                    );
                    return Err(SignatureError::signer(text));
                }
                has_email(&leaf, email)?;
                signed(&leaf.key)
            }
            Signers::Pki { authorities, email, host } => {
                let der = attachment.certificate()?;
                let leaf = authorities.check(&der, attachment.chain(), now.as_second())?;
                if let Some(email) = email {
                    has_email(&leaf, email)?;
                }
                if let Some(host) = host
                    && !leaf.is_of_host(host)
                {
                    let host = shown(host);
                    let text = format!(
                        "its certificate is not for host {host}, which policy.json requires"
                    );
                    return Err(SignatureError::signer(text));
                }
                signed(&leaf.key)
            }
        };
        if !is_genuine {
            return Err(SignatureError::key());
        }
        self.is_about(&attachment.payload, image, manifest)
    }

    /// Returns the key whose signature a log has.
    fn logged<'k>(
        &self,
        keys: &'k [PublicKey],
        attachment: &Attachment,
        signature: &[u8],
    ) -> Result<&'k PublicKey, SignatureError> {
        let mut refused = SignatureError::key();
        for key in keys {
            match self.entered(key.der(), attachment, signature) {
                Ok(_) => return Ok(key),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Returns when a log took the signature of this key or certificate in.
    fn entered(
        &self,
        signer: &[u8],
        attachment: &Attachment,
        signature: &[u8],
    ) -> Result<i64, SignatureError> {
        let Some(bundle) = attachment.annotations.get(BUNDLE) else {
            let text = "it has no entry of a Rekor log, which policy.json requires";
            return Err(SignatureError::entry(text));
        };
        let subject = Subject { signer, signature, payload: &attachment.payload };
        rekor::entered(&self.logs, bundle, &subject).map_err(SignatureError::entry)
    }

    /// Checks what was signed: this manifest, for the right name.
    fn is_about(
        &self,
        payload: &[u8],
        image: &ImageRef,
        manifest: &[u8],
    ) -> Result<(), SignatureError> {
        let payload = Payload::parse(payload).map_err(SignatureError::form)?;
        if payload.digest != Digest::sha256(manifest) {
            return Err(SignatureError::form(format!(
                "it is for another image, {}",
                payload.digest
            )));
        }
        let wanted = self.identity.wanted(image);
        if !wanted.is(&payload.name) {
            let (found, wanted) = (shown(&payload.name), shown(&wanted.to_string()));
            let text = format!("it is for the name {found}, and policy.json requires {wanted}");
            return Err(SignatureError::name(text));
        }
        Ok(())
    }
}

impl Attachment {
    fn annotation(&self, name: &'static str) -> Result<&str, SignatureError> {
        let found = self.annotations.get(name).map(String::as_str);
        found.ok_or_else(|| SignatureError::form(format!("it has no annotation {name}")))
    }

    fn certificate(&self) -> Result<Vec<u8>, SignatureError> {
        let pem = self.annotation(CERTIFICATE)?.as_bytes();
        match certificate::certificates(pem).as_deref() {
            Some([only]) => Ok(only.to_vec()),
            _ => Err(certificate::unreadable()),
        }
    }

    fn chain(&self) -> Option<&str> {
        self.annotations.get(CHAIN).map(String::as_str)
    }
}

fn has_email(leaf: &Leaf, wanted: &str) -> Result<(), SignatureError> {
    let emails = leaf.emails();
    if emails.contains(&wanted) {
        return Ok(());
    }
    let (found, wanted) = (shown(&emails.join(", ")), shown(wanted));
    let text = format!("its signer is {found}, and policy.json requires {wanted}");
    Err(SignatureError::signer(text))
}
