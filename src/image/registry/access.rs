//! The access to a registry, and its description in errors.
//!
//! Source: deploying.md 3.3.

use std::path::PathBuf;

use olm_core::error::quote;

use super::error::RequestError;
use super::request::{host, url};
use crate::keyring::Choice;

#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) choice: Choice,
    /// The directories of its CAs, in addition to those of the system.
    pub(crate) certificates: Vec<PathBuf>,
}

/// Said of the certificate of a server that is one of a CA, as `openssl req -x509` makes them.
const NOT_OF_A_SERVER: &str = "it is the certificate of a CA; issue one for the server, with \
     basicConstraints CA:FALSE: openssl req -x509 -addext basicConstraints=critical,CA:FALSE";

impl Access {
    /// Adds to an error what a person needs to do something about it: the credential that was used
    /// or that there was none, and where a CA belongs. `base` is the URL of the registry.
    pub(super) fn explain(&self, error: RequestError, base: &str) -> RequestError {
        match self.note(&error, base) {
            Some(note) => RequestError::Explained { cause: Box::new(error), note },
            None => error,
        }
    }

    fn note(&self, error: &RequestError, base: &str) -> Option<String> {
        match error {
            // A token service got the same credential as the registry that names it.
            RequestError::Token(cause) => self.refused(cause),
            // Where only blobs are stored no credential was sent.
            RequestError::Answer { from, .. }
                if url(base).is_ok_and(|base| *from == host(base.as_str())) =>
            {
                self.refused(error)
            }
            RequestError::Transport { text, .. } if text.contains("UnknownIssuer") => {
                Some(format!("its CA belongs in {}", self.places()))
            }
            // A CA that is trusted itself may have such an extension.
            RequestError::Transport { text, .. }
                if text.contains("UnsupportedCriticalExtension") =>
            {
                Some(format!("a CA that has one belongs in {} itself", self.places()))
            }
            RequestError::Transport { text, .. } if text.contains("CaUsedAsEndEntity") => {
                Some(NOT_OF_A_SERVER.to_owned())
            }
            _ => None,
        }
    }

    fn places(&self) -> String {
        let places = self.certificates.iter().map(|place| quote(&place.display().to_string()));
        places.collect::<Vec<_>>().join(" or ")
    }

    fn refused(&self, error: &RequestError) -> Option<String> {
        let RequestError::Answer { status, .. } = error else { return None };
        let Choice { credential, origin } = &self.choice;
        match (status, credential) {
            (401, _) | (403, None) => Some(origin.clone()),
            (403, Some(_)) => Some(format!("{origin}, which may not pull this")),
            (429, _) => Some(format!("the limit of requests is reached; {origin}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::Keyring;

    fn access() -> Access {
        Access {
            choice: Keyring::default().choose("h.io", "team/x"),
            certificates: vec!["/etc/containers/certs.d/h.io".into()],
        }
    }

    fn answered(status: u16, from: &str) -> RequestError {
        RequestError::Answer {
            status,
            from: from.to_owned(),
            text: "no".to_owned(),
            retry_after: None,
        }
    }

    fn said(error: RequestError) -> String {
        access().explain(error, "https://h.io").to_string()
    }

    // deploying.md 3.3
    #[test]
    fn an_unknown_ca_is_reported_with_where_it_belongs() {
        let broken = |text: &str| RequestError::Transport {
            method: "Get",
            url: "https://h.io/v2/".to_owned(),
            text: text.to_owned(),
            timed_out: false,
        };
        assert_eq!(
            said(broken("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))")),
            format!(
                "Get \"https://h.io/v2/\": invalid peer certificate: \
                 Other(OtherError(CaUsedAsEndEntity)) ({NOT_OF_A_SERVER})"
            )
        );
        assert_eq!(
            said(broken("invalid peer certificate: UnknownIssuer")),
            "Get \"https://h.io/v2/\": invalid peer certificate: UnknownIssuer (its CA belongs in \
             \"/etc/containers/certs.d/h.io\")"
        );
        let odd = said(broken("Other(OtherError(UnsupportedCriticalExtension))"));
        assert!(odd.ends_with("one belongs in \"/etc/containers/certs.d/h.io\" itself)"), "{odd}");
        let expired = "invalid peer certificate: Expired";
        assert!(said(broken(expired)).ends_with(expired));
    }

    #[test]
    fn only_who_was_sent_a_credential_is_explained_by_it() {
        let note = " (no credential: no source is configured)";
        assert_eq!(said(answered(401, "h.io")), format!("401 from h.io: no{note}"));
        assert_eq!(said(answered(403, "cdn.io")), "403 from cdn.io: no");
        let named = access().explain(answered(401, "h.io"), "https://H.io:443");
        assert_eq!(named.to_string(), format!("401 from h.io: no{note}"));
        let token = RequestError::Token(Box::new(answered(401, "auth.io")));
        let want = format!("unable to retrieve auth token: 401 from auth.io: no{note}");
        assert_eq!(said(token), want);
    }
}
