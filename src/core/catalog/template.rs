//! The image of a catalog as a template, filled in with the version of the cluster.
//!
//! Source: annotation `olm.catalogImageTemplate` of OLM Classic.

use olm_api::keys::annotation;

use crate::error::quote;
use crate::version::Version;

/// A template that gives no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It has a variable that is not known.
    #[error(
        "annotation {} has the unknown variable {}: must be {{kube_major_version}}, \
         {{kube_minor_version}} or {{kube_patch_version}}",
        annotation::CATALOG_IMAGE_TEMPLATE,
        quote(_0)
    )]
    Variable(String),
    /// The API server reports an invalid version.
    #[error(
        "annotation {} cannot be filled in: the API server says it is of version {}",
        annotation::CATALOG_IMAGE_TEMPLATE,
        quote(_0)
    )]
    Version(String),
}

/// Returns the reference that a template gives on a cluster whose API server says it is of `version`.
///
/// Example: `quay.io/acme/catalog:v{kube_major_version}.{kube_minor_version}` on `v1.33.2+k3s1` is
/// `quay.io/acme/catalog:v1.33`.
///
/// # Errors
///
/// If a variable is not known, or `version` is not a version.
pub fn fill(template: &str, version: &str) -> Result<String, TemplateError> {
    let unreadable = || TemplateError::Version(version.to_owned());
    let kube = Version::of_kubernetes(version).ok_or_else(unreadable)?;
    let (mut filled, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let number = match name {
            "kube_major_version" => kube.major,
            "kube_minor_version" => kube.minor,
            "kube_patch_version" => kube.patch,
            _ => return Err(TemplateError::Variable(name.to_owned())),
        };
        filled.push_str(&number.to_string());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::fixture::cases;

    const CASES: &str = include_str!("../testdata/catalog/cases.yaml");

    #[test]
    fn the_version_is_filled_in() {
        for (template, want) in
            cases::<(&str, Result<&str, &str>)>(CASES, "the_version_is_filled_in")
        {
            match (fill(template, "v1.33.2-eks-1"), want) {
                (Ok(filled), Ok(want)) => assert_eq!(filled, want),
                (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{error}"),
                (got, want) => panic!("{got:?} is not {want:?}"),
            }
            assert!(fill(template, "latest").is_err());
        }
    }
}
