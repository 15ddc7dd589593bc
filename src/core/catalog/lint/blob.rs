//! Rules about one blob: packages, channels, bundles and deprecations, each by itself.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use olm_api::keys::property;

use super::package::{BundleBlob, ChannelBlob};
use super::{Linter, MAX_NAME, Origin, Pinned, Rule, Severity, property as properties};
use crate::bundle::is_subdomain;
use crate::catalog::fields::Fields;
use crate::catalog::model::{Channel, Deprecations, SkipRangeText, schema};
use crate::catalog::opm;
use crate::catalog::read::Meta;
use crate::error::{Chain, quote};
use crate::similar;

/// Prefix of the names of OLM's schemas.
const RESERVED: &str = "olm.";
/// Prefix of the names of the schemas of opm's templates.
const TEMPLATE: &str = "olm.template.";
/// Largest icon that a page shows, in bytes.
const MAX_ICON_BYTES: usize = 1024 * 1024;
/// Longest value of a label.
const MAX_LABEL: usize = 63;
/// Approximate number of bytes that are kept of a bundle for the rules about its package.
const BUNDLE_BYTES: usize = 256;
/// Most letters that differ between a schema and the one that was meant.
const NEAR: usize = 3;

impl Linter {
    pub(super) fn without_schema(&mut self, origin: &Origin, fields: &Fields<'_>) {
        let has = |name| fields.raw(name).is_some();
        if has("packageName") && has("channels") {
            let hint = "kubectl olm catalog render --graph-from-csv of its bundles";
            self.not_content(origin, "a package manifest of the older format", Some(hint));
        } else if has("apiVersion") && has("kind") {
            let kind = fields.text("kind").unwrap_or_default();
            self.not_content(origin, &format!("a Kubernetes object, {}", quote(&kind)), None);
        } else {
            let how = if has("schema") { "empty" } else { "missing" };
            let text = format!("\"schema\" is {how}: the document is left out");
            self.error(origin, Rule::Meta, "/schema", text);
        }
    }

    pub(super) fn other_schema(&mut self, origin: &Origin, name: &str) {
        let expanded = opm::SCHEMAS.contains(&name);
        if expanded || name.starts_with(TEMPLATE) {
            let text = format!("{} is a template of opm, not catalog content", quote(name));
            let verb =
                if expanded { "kubectl olm catalog render" } else { "opm alpha render-template" };
            self.warning(origin, Rule::Schema, "/schema", text).hint =
                Some(format!("{verb} makes content of it"));
        } else if name.starts_with(RESERVED) {
            let known = [schema::PACKAGE, schema::CHANNEL, schema::BUNDLE, schema::DEPRECATIONS];
            let distance = |known| Some((similar::distance(known, name, NEAR)?, known));
            let near = known.into_iter().filter_map(distance).min();
            let text = format!("schema {} is reserved and unknown", quote(name));
            self.warning(origin, Rule::Schema, "/schema", text).hint =
                near.map(|(_, near)| format!("did you mean {}", quote(near)));
        }
    }

    pub(super) fn package(&mut self, origin: Origin, meta: &Meta, fields: &Fields<'_>) {
        let name = &meta.name;
        if name.is_empty() {
            self.error(&origin, Rule::PackageName, "/name", "name is missing");
            self.unread = true;
            return;
        }
        if is_subdomain(name) && name.contains('.') {
            let text = format!("{} has a dot: opm refuses it", quote(name));
            self.error(&origin, Rule::PackageName, "/name", text);
        }
        self.name(&origin, Rule::PackageName, Severity::Error, "ask for it");
        self.icon(&origin, fields);
        self.properties(&origin, fields);
        let default = fields.text("defaultChannel");
        match &default {
            Ok(text) if text.is_empty() => {
                let text = "\"defaultChannel\" is missing";
                self.error(&origin, Rule::DefaultChannel, "/defaultChannel", text);
            }
            Ok(_) => {}
            Err(error) => self.wrong_type(&origin, error),
        }
        let default = default.unwrap_or_default();
        if self.keeps(&origin, BUNDLE_BYTES + default.len()) {
            let package = self.packages.entry(name.clone()).or_default();
            package.heads.push((origin, default));
        }
    }

    fn icon(&mut self, origin: &Origin, fields: &Fields<'_>) {
        let Some(raw) = fields.raw("icon") else { return };
        let icon = Fields::of(raw);
        let texts = icon.and_then(|icon| Ok((icon.text("base64data")?, icon.text("mediatype")?)));
        let (data, media_type) = match texts {
            Ok(texts) => texts,
            Err(error) => {
                self.error(origin, Rule::Icon, "/icon", format!("icon: {}", Chain(&error)));
                return;
            }
        };
        if data.is_empty() || media_type.is_empty() {
            self.warning(origin, Rule::Icon, "/icon", "icon needs base64data and mediatype");
        }
        let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let Ok(image) = STANDARD.decode(data) else {
            self.error(origin, Rule::Icon, "/icon/base64data", "icon is not base64");
            return;
        };
        let differs = |found: &&str| !media_type.is_empty() && *found != media_type;
        if let Some(found) = media_type_of(&image).filter(differs) {
            let text = format!("icon is {found}, not {}", quote(&media_type));
            self.warning(origin, Rule::Icon, "/icon/mediatype", text);
        }
        if image.len() > MAX_ICON_BYTES {
            let text =
                format!("icon is {} KiB; pages show at most 1 MiB", image.len().div_ceil(1024));
            self.warning(origin, Rule::Icon, "/icon/base64data", text);
        }
    }

    pub(super) fn channel(&mut self, origin: Origin, meta: &Meta, fields: &Fields<'_>) {
        if self.lacks_name(&origin, Rule::Channel, meta) {
            return;
        }
        let channel = match Channel::from_fields(fields) {
            Ok(channel) => channel,
            Err(error) => return self.wrong_type(&origin, &error),
        };
        self.name(&origin, Rule::Channel, Severity::Warning, "name it in channels");
        self.properties(&origin, fields);
        for (i, entry) in channel.entries.iter().enumerate() {
            let at = |field: &str| format!("/entries/{i}{field}");
            if entry.name.is_empty() {
                self.error(&origin, Rule::Entry, at(""), format!("entry {i} has no name"));
            }
            if let Some(j) = entry.skips.iter().position(String::is_empty) {
                let text = format!("entry {}: skips[{j}] is empty", quote(&entry.name));
                self.error(&origin, Rule::Entry, at(&format!("/skips/{j}")), text);
            }
            if !entry.name.is_empty() && entry.replaces == entry.name {
                let text = format!("entry {} replaces itself", quote(&entry.name));
                self.error(&origin, Rule::Entry, at("/replaces"), text);
            }
            let Some(SkipRangeText { text, range }) = &entry.skip_range else { continue };
            let (text, at) = (quote(text), at("/skipRange"));
            match range {
                Err(error) => {
                    let cause = Chain(error);
                    let text = format!(
                        "skipRange {text} cannot be read: {cause}; the edge does not exist"
                    );
                    self.error(&origin, Rule::SkipRange, at, text);
                }
                Ok(range) if range.is_empty() => {
                    let text = format!("skipRange {text} contains no version");
                    self.warning(&origin, Rule::SkipRange, at, text);
                }
                Ok(_) => {}
            }
        }
        let names = channel
            .entries
            .iter()
            .flat_map(|entry| [&entry.name, &entry.replaces].into_iter().chain(&entry.skips));
        if names.map(String::len).max() > Some(MAX_NAME) {
            return self.too_long(&origin, "a name in the channel");
        }
        if self.keeps(&origin, meta.json.len()) {
            let package = self.packages.entry(meta.package.clone()).or_default();
            package.channels.push(ChannelBlob { origin, channel });
        }
    }

    pub(super) fn bundle(&mut self, origin: Origin, meta: &Meta) {
        let Ok((fields, properties)) = Fields::with(&meta.json, "properties") else { return };
        if self.lacks_name(&origin, Rule::Bundle, meta) {
            return;
        }
        let properties = match properties {
            Some(elements) => self.read_properties(&origin, elements),
            None => self.properties(&origin, &fields),
        };
        self.name(&origin, Rule::Bundle, Severity::Warning, "install it");
        let of =
            |wanted: &str| properties.iter().filter(move |(_, kind, _)| kind == wanted).count();
        let objects = of(property::BUNDLE_OBJECT) > 0;
        let descriptions = of(property::CSV_METADATA) + usize::from(objects);
        if descriptions > 1 {
            let text = "the data of its CSV is given twice: one olm.csv.metadata is enough";
            self.warning(&origin, Rule::Bundle, "/properties", text);
        }
        match fields.text("image") {
            Ok(image) if image.is_empty() => {
                let severity = if objects { Severity::Warning } else { Severity::Error };
                let rule = Rule::BundleImage;
                self.report(&origin, rule, severity, "/image", "image is empty");
            }
            Ok(image) => self.image(&origin, Rule::BundleImage, || "/image".to_owned(), &image),
            Err(error) => self.wrong_type(&origin, &error),
        }
        self.related_images(&origin, &fields);
        let version = self.bundle_properties(&origin, &properties);
        if self.keeps(&origin, BUNDLE_BYTES) {
            let package = self.packages.entry(meta.package.clone()).or_default();
            package.bundles.push(BundleBlob { origin, version, described: descriptions > 0 });
        }
    }

    fn related_images(&mut self, origin: &Origin, fields: &Fields<'_>) {
        let entry = |entry: &Fields<'_>| Ok((entry.text("name")?, entry.text("image")?));
        let images = fields.objects("relatedImages", entry);
        let images = match images {
            Ok(images) => images,
            Err(error) => return self.wrong_type(origin, &error),
        };
        for (i, (name, image)) in images.iter().enumerate() {
            let at = || format!("/relatedImages/{i}/image");
            if image.is_empty() {
                // By name: the blob of a bundle has them in another order than its CSV.
                let text = format!("relatedImages {}: image is empty", quote(name));
                self.error(origin, Rule::RelatedImage, at(), text);
            } else {
                self.image(origin, Rule::RelatedImage, at, image);
            }
        }
    }

    /// Examines a reference that is not empty.
    fn image(&mut self, origin: &Origin, rule: Rule, at: impl Fn() -> String, image: &str) {
        let (severity, fault) = match (self.image)(image) {
            Ok(Pinned::Digest) => return,
            Ok(Pinned::Short) if rule == Rule::RelatedImage => {
                (Severity::Note, "names no registry".to_owned())
            }
            Ok(Pinned::Short) => {
                let fault = "is not an image reference: it names no registry";
                (Severity::Error, fault.to_owned())
            }
            Ok(Pinned::Tag) => {
                let fault = "is a tag, which can change";
                (Severity::Note, fault.to_owned())
            }
            Err(cause) => {
                let fault = format!("is not an image reference: {cause}");
                (Severity::Error, fault)
            }
        };
        if self.looks_for(severity) {
            self.report(origin, rule, severity, at(), format!("{} {fault}", quote(image)));
        }
    }

    pub(super) fn deprecations(&mut self, origin: Origin, meta: &Meta, fields: &Fields<'_>) {
        if !meta.name.is_empty() {
            self.error(
                &origin,
                Rule::Deprecations,
                "/name",
                "a blob of this schema must have no name",
            );
        }
        if meta.package.is_empty() {
            self.error(&origin, Rule::Deprecations, "/package", "package is missing");
            return;
        }
        match Deprecations::from_fields(fields) {
            Ok(found) if self.keeps(&origin, meta.json.len()) => {
                let package = self.packages.entry(meta.package.clone()).or_default();
                package.deprecations.push((origin, found));
            }
            Ok(_) => {}
            Err(error) => self.wrong_type(&origin, &error),
        }
    }

    /// Adds that no extension can use a name, and warns of one that no label can hold.
    fn name(&mut self, origin: &Origin, rule: Rule, severity: Severity, cannot: &str) {
        if !is_subdomain(&origin.name) {
            let name = quote(&origin.name);
            let text = format!("{name} is not a DNS subdomain: no extension can {cannot}");
            self.report(origin, rule, severity, "/name", text);
        }
        let length = origin.name.len();
        if length > MAX_LABEL {
            let text = format!("the name has {length} characters; a label holds {MAX_LABEL}");
            self.warning(origin, rule, "/name", text);
        }
    }

    /// Says whether a blob has no name or no package, which is an error.
    fn lacks_name(&mut self, origin: &Origin, rule: Rule, meta: &Meta) -> bool {
        let members = [("name", &meta.name), ("package", &meta.package)];
        let missing = members.iter().find(|(_, text)| text.is_empty());
        if let Some((member, _)) = missing {
            self.error(origin, rule, format!("/{member}"), format!("{member} is missing"));
            self.unread = true;
        }
        missing.is_some()
    }

    /// Returns the properties of a blob that have type and value.
    fn properties<'a>(&mut self, origin: &Origin, fields: &Fields<'a>) -> properties::List<'a> {
        let elements = fields.list("properties");
        let elements = elements.unwrap_or_else(|error| {
            self.wrong_type(origin, &error);
            Vec::new()
        });
        let elements = elements.into_iter().map(|it| Fields::of(it).ok());
        self.read_properties(origin, elements)
    }
}

/// Returns the media type of an image by its content.
fn media_type_of(image: &[u8]) -> Option<&'static str> {
    let text = image.get(..image.len().min(1024))?;
    let text = String::from_utf8_lossy(text);
    match image {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        _ if text.contains("<svg") => Some("image/svg+xml"),
        _ => None,
    }
}
