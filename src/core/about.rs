//! What a program says about itself: its version, and from what, when and by what it was built.
//!
//! In: what the build put into the environment of the compiler. Nothing is looked up at run time.
//! Source: deploying.md 8.

use std::fmt;

use serde_json::{Value, json};

/// Value of fields that the build did not set.
pub const UNKNOWN: &str = "unknown";

/// The kinds of our own that a program of this version understands.
const KINDS: [&str; 3] = ["ClusterCatalog", "ClusterExtension", "ClusterObjectSet"];

/// One build of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    /// Version of the release, with `v`.
    pub version: &'static str,
    /// `$OLM_COMMIT`: what it was built from.
    pub commit: Option<&'static str>,
    /// `$OLM_DATE`: the date of the commit (RFC 3339).
    pub date: Option<&'static str>,
    /// `$OLM_STATE`: `clean`, or `dirty` with changes that are not in the commit.
    pub state: Option<&'static str>,
    /// The compiler and its version.
    pub rustc: &'static str,
    /// What it was compiled for, for example `x86_64-unknown-linux-musl`.
    pub target: &'static str,
}

impl Build {
    /// Returns what it was built from, or that nobody said.
    pub fn commit(&self) -> &'static str {
        said(self.commit)
    }

    /// Returns everything, for programs.
    pub fn to_json(&self) -> Value {
        let kinds = KINDS.map(|kind| json!({"apiVersion": olm_api::API_VERSION, "kind": kind}));
        json!({
            "version": self.version,
            "commit": self.commit(),
            "date": said(self.date),
            "state": said(self.state),
            "rustc": self.rustc,
            "target": self.target,
            "crypto": "aws-lc-rs",
            "kinds": kinds,
        })
    }
}

/// One line, as upstream's programs print it.
impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "version: {:?}, commit: {:?}, date: {:?}, state: {:?}",
            self.version,
            self.commit(),
            said(self.date),
            said(self.state)
        )
    }
}

fn said(told: Option<&'static str>) -> &'static str {
    // An empty variable is how a script says nothing.
    told.filter(|text| !text.is_empty()).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: Build = Build {
        version: "v0.2.0",
        commit: Some("abc"),
        date: Some("2026-01-01T00:00:00Z"),
        state: Some(""),
        rustc: "rustc 1.95.0",
        target: "x86_64-unknown-linux-musl",
    };

    // deploying.md 8
    #[test]
    fn a_build_is_one_line_as_upstream_has_it() {
        assert_eq!(
            BUILD.to_string(),
            r#"version: "v0.2.0", commit: "abc", date: "2026-01-01T00:00:00Z", state: "unknown""#
        );
    }

    // deploying.md 8
    #[test]
    fn programs_learn_compiler_target_and_kinds() {
        let json = BUILD.to_json();
        assert_eq!((&json["rustc"], &json["target"]), (&json!(BUILD.rustc), &json!(BUILD.target)));
        assert_eq!(json["kinds"][1]["apiVersion"], "olm.operatorframework.io/v1");
        assert_eq!(json["kinds"][1]["kind"], "ClusterExtension");
    }
}
