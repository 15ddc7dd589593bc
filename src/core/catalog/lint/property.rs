//! Rules about the properties of a bundle.

use olm_api::keys::property;

use super::{Linter, Origin, Rule, Severity};
use crate::catalog::constraint::parsed;
use crate::catalog::fields::{FieldError, Fields};
use crate::catalog::model::min_kube_version_of_csv;
use crate::error::{Chain, quote};
use crate::gate::{MaxVersion, max_openshift_version};
use crate::version::{Version, VersionRelease};

/// Properties with type and value: index, type and value as JSON.
pub(super) type List<'a> = Vec<(usize, String, &'a str)>;

/// Returns type and value of a property, or what is wrong with its shape and the way out.
fn shape<'a>(
    index: usize,
    property: Option<&Fields<'a>>,
) -> Result<(String, &'a str), (String, Option<String>)> {
    let property = property.ok_or_else(|| (format!("property {index} is not an object"), None))?;
    let kind = property.text("type").unwrap_or_default();
    if kind.is_empty() {
        let nested = property.raw("property").is_some();
        let hint = nested.then(|| "write type and value directly: - type: color".to_owned());
        return Err((format!("property {index} has no type"), hint));
    }
    if let Some(value) = property.raw("value") {
        return Ok((kind, value));
    }
    let text = format!("property {index} ({kind}) has no value");
    let other = property.names().find(|name| !matches!(*name, "type" | "value")).map(quote);
    let Some(other) = other else { return Err((text, None)) };
    let hint = format!("indent {other} below \"value\"");
    Err((format!("{text}, but a key {other} beside it"), Some(hint)))
}

impl Linter {
    /// Returns the properties of a blob that have type and value.
    pub(super) fn read_properties<'a>(
        &mut self,
        origin: &Origin,
        elements: impl IntoIterator<Item = Option<Fields<'a>>>,
    ) -> List<'a> {
        let mut list = List::new();
        for (index, property) in elements.into_iter().enumerate() {
            match shape(index, property.as_ref()) {
                Ok((kind, value)) => list.push((index, kind, value)),
                Err((text, hint)) => {
                    let at = format!("/properties/{index}");
                    self.error(origin, Rule::Property, at, text).hint = hint;
                }
            }
        }
        list
    }

    /// Examines the properties of a bundle; returns its version, if it has one.
    pub(super) fn bundle_properties(
        &mut self,
        origin: &Origin,
        properties: &[(usize, String, &str)],
    ) -> Option<VersionRelease> {
        let mut version = None;
        let of = |kind: &'static str| properties.iter().filter(move |(_, it, _)| it == kind);
        let packages = of(property::PACKAGE).count();
        if packages != 1 {
            let text = format!("needs exactly one olm.package property, has {packages}");
            self.error(origin, Rule::BundleVersion, "/properties", text);
        }
        for (i, kind, value) in properties {
            let at = format!("/properties/{i}/value");
            match kind.as_str() {
                property::PACKAGE => version = self.version(origin, &at, value),
                property::GVK | property::GVK_REQUIRED => self.kind(origin, &at, value),
                property::PACKAGE_REQUIRED => self.required(origin, &at, value),
                property::CONSTRAINT => self.constraint(origin, &at, value),
                property::CSV_METADATA => self.csv_metadata(origin, &at, value),
                _ => {}
            }
        }
        if of(property::CSV_METADATA).next().is_none() {
            let listed = properties.iter().map(|(i, kind, value)| (*i, kind.as_str(), *value));
            if let Some((i, minimum)) = min_kube_version_of_csv(listed) {
                self.min_kube_version(origin, format!("/properties/{i}/value"), &minimum);
            }
        }
        let max: Vec<_> = of(property::MAX_OPENSHIFT_VERSION).collect();
        if let [(i, _, value)] = max[..] {
            self.max_openshift(origin, &format!("/properties/{i}/value"), value);
        } else if let Some((i, ..)) = max.get(1) {
            let text = "olm.maxOpenShiftVersion is given twice";
            self.error(origin, Rule::MaxOpenshift, format!("/properties/{i}"), text);
        }
        version
    }

    fn version(&mut self, origin: &Origin, at: &str, value: &str) -> Option<VersionRelease> {
        let texts = Fields::of(value).and_then(|fields| {
            let package = fields.text("packageName")?;
            let release = fields.optional_text("release")?;
            Ok((package, fields.text("version")?, release))
        });
        let (package, version, release) = match texts {
            Ok(texts) => texts,
            Err(error) => {
                let text = format!("olm.package: {}", Chain(&error));
                self.error(origin, Rule::BundleVersion, at, text);
                return None;
            }
        };
        if package != origin.package {
            let text = format!(
                "packageName {} is not the bundle's package {}",
                quote(&package),
                quote(&origin.package)
            );
            self.error(origin, Rule::BundleVersion, format!("{at}/packageName"), text);
        }
        let parsed = match &release {
            Some(release) => VersionRelease::explicit(&version, release),
            None => VersionRelease::legacy(&version),
        };
        match parsed {
            Ok(parsed) => {
                if let Some(release) = release.filter(|release| !release.is_empty()) {
                    self.name_of_release(origin, &version, &release);
                    if !parsed.version.build.is_empty() {
                        let text = "a version with a release must have no build metadata";
                        self.error(origin, Rule::BundleVersion, format!("{at}/version"), text);
                    }
                }
                Some(parsed)
            }
            Err(error) => {
                let text = format!("version {}: {}", quote(&version), Chain(&error));
                self.error(origin, Rule::BundleVersion, format!("{at}/version"), text);
                None
            }
        }
    }

    /// A bundle with a release is named after package, version and release.
    fn name_of_release(&mut self, origin: &Origin, version: &str, release: &str) {
        let expected = format!("{}-v{version}-{release}", origin.package);
        if origin.name != expected {
            let text = format!("with a release the name must be {}", quote(&expected));
            self.error(origin, Rule::BundleVersion, "/name", text);
        }
    }

    fn kind(&mut self, origin: &Origin, at: &str, value: &str) {
        let fields = Fields::of(value);
        let read = |name| match &fields {
            Ok(fields) => fields.text(name),
            Err(_) => Err(FieldError::NotAnObject),
        };
        for name in ["group", "version", "kind"] {
            let (severity, fault) = match read(name) {
                Err(error) => (Severity::Error, format!("{name}: {}", Chain(&error))),
                Ok(text) if text.is_empty() => (Severity::Error, format!("{name} is missing")),
                Ok(text) if !is_kubernetes_name(name, &text) => {
                    let fault = "is not a name Kubernetes accepts";
                    (Severity::Error, format!("{name} {} {fault}", quote(&text)))
                }
                Ok(text) if name == "version" && !is_api_version(&text) => {
                    let fault = format!("version {} is not like v1, v1beta2", quote(&text));
                    (Severity::Warning, fault)
                }
                Ok(text) if name == "kind" && text.starts_with(char::is_lowercase) => {
                    let fault = format!("kind {} begins with a lowercase letter", quote(&text));
                    (Severity::Warning, fault)
                }
                Ok(_) => continue,
            };
            self.report(origin, Rule::Gvk, severity, format!("{at}/{name}"), fault);
        }
    }

    fn required(&mut self, origin: &Origin, at: &str, value: &str) {
        let package = Fields::of(value).and_then(|fields| fields.text("packageName"));
        if package.is_ok_and(|package| package.is_empty()) {
            let at = format!("{at}/packageName");
            self.error(origin, Rule::Required, at, "packageName is missing");
        }
        if let Some(Err(fault)) = parsed(property::PACKAGE_REQUIRED, value) {
            self.error(origin, Rule::Required, format!("{at}/versionRange"), fault.to_string());
        }
    }

    fn csv_metadata(&mut self, origin: &Origin, at: &str, value: &str) {
        let at = format!("{at}/minKubeVersion");
        match Fields::of(value).and_then(|fields| fields.text("minKubeVersion")) {
            Ok(minimum) => self.min_kube_version(origin, at, &minimum),
            Err(error) => {
                let text = format!("olm.csv.metadata: {}", Chain(&error));
                self.error(origin, Rule::Constraint, at, text);
            }
        }
    }

    fn min_kube_version(&mut self, origin: &Origin, at: String, minimum: &str) {
        if minimum.is_empty() {
            return;
        }
        if let Err(error) = Version::parse_tolerant(minimum) {
            let text = format!("minKubeVersion {}: {error}", quote(minimum));
            self.error(origin, Rule::Constraint, at, text);
        }
    }

    fn max_openshift(&mut self, origin: &Origin, at: &str, raw: &str) {
        let annotation =
            format!(r#"[{{"type":"{}","value":{raw}}}]"#, property::MAX_OPENSHIFT_VERSION);
        match max_openshift_version(Some(&annotation)) {
            // A number loses its last zero: 4.20 becomes 4.2.
            Ok(MaxVersion::Supports(_)) if matches!(raw, "4.1" | "4.2") => {
                let text = format!("olm.maxOpenShiftVersion {raw} may have been {raw}0");
                let hint = Some("quote it".to_owned());
                self.warning(origin, Rule::MaxOpenshift, at, text).hint = hint;
            }
            Ok(_) => {}
            Err(error) => {
                let text = format!("olm.maxOpenShiftVersion {raw}: {}", Chain(&error));
                self.error(origin, Rule::MaxOpenshift, at, text);
            }
        }
    }
}

/// Says whether Kubernetes could serve a kind with this group, version or kind.
fn is_kubernetes_name(part: &str, text: &str) -> bool {
    if part == "group" {
        return crate::bundle::is_subdomain(text);
    }
    crate::bundle::is_subdomain(&text.to_ascii_lowercase()) && !text.contains('.')
}

/// Says whether a version is like `v1` or `v1beta2`.
fn is_api_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(rest) = text.strip_prefix('v') else { return false };
    let level = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    match level {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(rest),
    }
}
