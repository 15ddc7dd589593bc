//! Documents: what verbs print for programs, each described by a JSON Schema in `docs/schemas`.
//!
//! Source: plugin.md 1.3 (U10).

use olm_api::{BundleMetadata, RevisionStatus, UpdateStatus};
use olm_core::yaml::to_yaml;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;

use crate::offers::Listed;
use crate::output::{Format, write_json};
use crate::prelude::*;

/// The version of all of them: members are only ever added.
const VERSION: u8 = 1;

/// The output of a command with `-o json` and `-o yaml`.
pub(crate) trait Document: Serialize {
    /// The value of its member `schema`, and the title of its schema.
    const SCHEMA: &'static str;

    /// Returns its members behind schema and version.
    fn headed(&self) -> anyhow::Result<Headed> {
        Ok(Headed { schema: Self::SCHEMA, schema_version: VERSION, members: self.value()? })
    }

    /// Returns it as pages take it.
    fn value(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(self)?)
    }

    /// Prints it.
    fn write(&self, format: Format, out: &mut dyn Write) -> anyhow::Result<()> {
        let document = self.headed()?;
        match format {
            Format::Yaml => {
                let Headed { schema, members, .. } = document;
                let head = format!("schema: {schema}\nschemaVersion: {VERSION}\n");
                Ok(write!(out, "{head}{}", to_yaml(&members))?)
            }
            _ => write_json(out, &document),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Headed {
    schema: &'static str,
    schema_version: u8,
    #[serde(flatten)]
    members: Value,
}

/// The number of findings by severity, and of files.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Counts {
    pub(crate) errors: usize,
    pub(crate) warnings: usize,
    pub(crate) notes: usize,
    /// The number of files that were read.
    pub(crate) files: usize,
}

/// Something that is not known.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Unknown {
    /// The missing data.
    pub(crate) what: String,
    /// Why.
    pub(crate) why: String,
    /// The way out, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Unknown {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: None }
    }
}

/// The objects of an extension: `kubectl olm status -o tree` and its page.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tree {
    pub(crate) revisions: Vec<TreeRevision>,
    pub(crate) unknown: Vec<Unknown>,
}

/// A revision that is installed or rolls out.
#[derive(Serialize, Deserialize)]
pub(crate) struct TreeRevision {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether it is not installed yet.
    pub(crate) rolling: bool,
    pub(crate) objects: Vec<Leaf>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Leaf {
    pub(crate) phase: String,
    pub(crate) what: String,
    pub(crate) health: String,
    pub(crate) drift: String,
}

/// Condition `Ready`; its members are null before there is one.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Ready {
    /// `True`, `False` or `Unknown`.
    pub(crate) status: Option<String>,
    /// `True`, or why not in one word.
    pub(crate) reason: Option<String>,
    /// Why not, and what leads on.
    pub(crate) message: Option<String>,
    /// Since when it is so.
    pub(crate) since: Option<String>,
}

/// An Event about an extension.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Happened {
    /// When it was last seen.
    pub(crate) last: String,
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub(crate) type_: Option<String>,
    /// The reason of the Event.
    pub(crate) reason: Option<String>,
    /// The message of the Event.
    pub(crate) message: Option<String>,
    /// The number of occurrences.
    pub(crate) count: i32,
}

/// An extension.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Row")]
pub(crate) struct ExtensionRow {
    /// Its name.
    pub(crate) name: String,
    /// The package that it installs.
    pub(crate) package: Option<String>,
    /// The namespace that it installs into.
    pub(crate) namespace: Option<String>,
    /// The account that it is installed by.
    pub(crate) service_account: Option<String>,
    /// The installed bundle.
    pub(crate) installed: Option<BundleMetadata>,
    /// The state of the extension.
    pub(crate) ready: Ready,
    /// The version that is being rolled out, or a newer one that is offered and not taken.
    pub(crate) update: Option<UpdateStatus>,
    /// The deprecation messages of the catalog for the package, the channels or the installed
    /// bundle.
    pub(crate) deprecated: Option<String>,
    /// Until when and where the installed version is supported, as far as its catalog tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) support: Option<Support>,
    /// The holds of the update, or the rollout in progress, one word each.
    pub(crate) held_by: Vec<String>,
    /// Commands that lead on.
    #[serde(rename = "do")]
    pub(crate) todo: Vec<String>,
    /// Its revisions that are not archived.
    pub(crate) revisions: Option<Vec<RevisionStatus>>,
    /// The catalog that the installed bundle came from, as it is now; only of a single extension, and
    /// absent where it is gone or not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) catalog: Option<Listed>,
    /// The kinds that it installed, with the versions that are served; only of a single extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provides: Option<Vec<String>>,
    /// The reasons why its workloads are not ready; only for a single extension.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<String>,
    /// The last Events about it; only of a single extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<Vec<Happened>>,
}

/// Condition `Supported`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Support {
    /// `True` or `False`.
    pub(crate) status: String,
    /// Why, in one word.
    pub(crate) reason: String,
    /// The phase of support, and the platforms.
    pub(crate) message: String,
}

/// A revision of an extension.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Row")]
pub(crate) struct RevisionRow {
    /// Its number.
    pub(crate) revision: i64,
    /// Name of its bundle.
    pub(crate) bundle: String,
    /// Version of its bundle.
    pub(crate) version: String,
    /// `installed`, `rolled out`, `rolling out` or `archived`.
    pub(crate) state: String,
    /// Since when it is so.
    pub(crate) since: String,
    /// Image of its bundle, as the catalog writes it.
    pub(crate) image: String,
    /// Digest of that image.
    pub(crate) digest: Option<String>,
    /// The catalog that it came from.
    pub(crate) catalog: Option<String>,
    /// The field manager that last wrote spec or policy when it was made.
    pub(crate) by: Option<String>,
    /// The version that it followed although no edge of the catalog allows it.
    pub(crate) forced_from: Option<String>,
    /// The earlier revision whose content it has.
    pub(crate) content_of: Option<i64>,
    /// A further note.
    pub(crate) note: Option<String>,
}

/// A package of a catalog. Members that are null were not looked up.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Package {
    /// Name of the package.
    pub(crate) name: String,
    /// Name of the catalog that offers it.
    pub(crate) catalog: String,
    /// Which of several catalogs with the package wins: the one with the higher number.
    pub(crate) priority: i32,
    /// The version that a new extension would get.
    pub(crate) version: Option<String>,
    /// A channel that has this version: the default one, else the last by name.
    pub(crate) channel: Option<String>,
    /// Whether there is such a version.
    pub(crate) installable: Option<bool>,
    /// Why there is none.
    pub(crate) reasons: Vec<String>,
    /// The channel that its author suggests.
    pub(crate) default_channel: String,
    /// Its channels, the default one first, then by name with numbers in their order.
    pub(crate) channels: Option<Vec<String>>,
    /// Versions of its bundles, the highest first.
    pub(crate) versions: Option<Vec<String>>,
    /// Its display name.
    pub(crate) display_name: Option<String>,
    /// Its provider.
    pub(crate) provider: Option<String>,
    /// One sentence about it.
    pub(crate) description: String,
    /// Media type of its icon.
    pub(crate) icon: Option<String>,
    /// Its categories.
    pub(crate) categories: Option<Vec<String>>,
    /// Its deprecations.
    pub(crate) deprecated: Option<Vec<Deprecated>>,
    /// Names of the extensions that install it.
    pub(crate) installed_as: Vec<String>,
    /// Words to find it by.
    #[serde(skip)]
    pub(crate) keywords: String,
    /// The kinds that it provides, in small letters.
    #[serde(skip)]
    pub(crate) kinds: Vec<String>,
}

/// The package, its default channel or the head of that, and the message that deprecates it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Deprecated {
    /// `package`, `channel` or `bundle`.
    pub(crate) what: String,
    /// The message.
    pub(crate) message: String,
}

/// A schema with its title first.
#[derive(Serialize)]
struct Titled {
    title: &'static str,
    #[serde(flatten)]
    rest: Value,
}

/// Returns the schema of a document: its name, and its text.
pub(crate) fn schema<D: Document + JsonSchema>() -> (&'static str, String) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with_transform(RecursiveTransform(close));
    let mut schema = settings.into_generator().into_root_schema_for::<D>().to_value();
    let name = D::SCHEMA;
    if let Some(members) = schema.as_object_mut() {
        members.remove("title");
    }
    schema["properties"]["schema"] = json!({"const": name});
    schema["properties"]["schemaVersion"] = json!({"const": VERSION});
    if let Some(required) = schema["required"].as_array_mut() {
        required.splice(0..0, [json!("schema"), json!("schemaVersion")]);
    }
    let titled = Titled { title: name, rest: schema };
    (name, serde_json::to_string_pretty(&titled).unwrap_or_default() + "\n")
}

/// Leaves no room for members that no type names, and leaves out what only a CRD needs.
fn close(schema: &mut Schema) {
    let Some(members) = schema.as_object_mut() else { return };
    members.retain(|key, _| !key.starts_with("x-kubernetes-"));
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.replace('\n', " ").replace("[`", "`").replace("`]", "`");
    }
    let Some(named) = members.get("properties").and_then(Value::as_object) else { return };
    let named: Vec<String> = named.keys().cloned().collect();
    if let Some(variants) = members.get_mut("oneOf").and_then(Value::as_array_mut) {
        // What is flattened into it: each variant is closed by itself.
        for variant in variants {
            for name in &named {
                variant["properties"][name] = Value::Bool(true);
            }
        }
    } else {
        members.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}
