//! What a catalog says about a package to people: description, channels, versions, what they need.
//!
//! In: the blobs of one package. Out: a [`Summary`], which `kubectl olm show` prints. Nothing is judged
//! here, and text of the catalog's author is passed on as it is. Source: plugin.md 1.4.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use itertools::Itertools as _;
use olm_api::keys::property;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::constraint::{Constraint, Declared, Demand, GroupVersionKind};
use super::index::{Content, PackageIndex};
use super::lifecycle::Lifecycle;
use super::model::{Bundle, schema};
use super::of_bundle::shown;
use super::read::Meta;
use crate::object::items;
use crate::version::natural;

/// The annotation in which a bundle names the namespace it is meant for.
pub const SUGGESTED_NAMESPACE: &str = "operatorframework.io/suggested-namespace";

/// The description of a package in a catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Name of the package.
    pub package: String,
    /// What its author calls it.
    pub display_name: Option<String>,
    /// One sentence about it.
    pub description: Option<String>,
    /// The whole description, as Markdown.
    pub long_description: Option<String>,
    /// Who provides it.
    pub provider: Option<String>,
    /// Links to further information.
    pub links: Vec<Link>,
    /// Categories, as the author lists them.
    pub categories: Vec<String>,
    /// Keywords.
    pub keywords: Vec<String>,
    /// The channel its author suggests.
    pub default_channel: String,
    /// The message that deprecates the package.
    pub deprecated: Option<String>,
    /// Its channels, the default one first, then by name with numbers in their order.
    pub channels: Vec<ChannelSummary>,
    /// Its bundles, the highest version first.
    pub bundles: Vec<BundleSummary>,
    /// Until when its minor versions are supported, and on which platforms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lifecycle: Vec<Lifecycle>,
}

/// A link to further information.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Title of the link.
    pub name: String,
    /// Address.
    pub url: String,
}

/// A channel of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelSummary {
    /// Name of the channel.
    pub name: String,
    /// Whether its author suggests it.
    pub default: bool,
    /// Version of its highest head, or its name where it has none.
    pub head: Option<String>,
    /// How many entries it has.
    pub entries: usize,
    /// The message that deprecates it.
    pub deprecated: Option<String>,
}

/// A bundle of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleSummary {
    /// Name of the bundle.
    pub name: String,
    /// Its version; nothing if it has no valid one.
    pub version: Option<String>,
    pub image: String,
    pub channels: Vec<String>,
    /// The message that deprecates it; may be empty.
    pub deprecated: Option<String>,
    /// The oldest Kubernetes version it runs on.
    pub min_kube_version: Option<String>,
    /// The newest OpenShift version it runs on, as its author wrote it.
    pub max_open_shift_version: Option<String>,
    /// The ways in which it can watch namespaces.
    pub install_modes: Vec<String>,
    /// The dependencies that it declares.
    pub needs: Vec<String>,
    /// The kinds it provides.
    pub kinds: Vec<KindSummary>,
    /// The namespace that it is meant for.
    pub suggested_namespace: Option<String>,
    /// The images it runs.
    pub related_images: Vec<String>,
}

/// A kind that a bundle provides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindSummary {
    /// Group, version and kind, for example `example.com/v1, Kind=Pot`.
    pub kind: String,
    /// What its author calls it.
    pub display_name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
}

impl BundleSummary {
    /// Returns its version, else its name.
    pub fn version(&self) -> &str {
        self.version.as_ref().unwrap_or(&self.name)
    }
}

impl KindSummary {
    /// Returns its name, else its kind without group and version.
    pub fn title(&self) -> &str {
        let kind = self.kind.rsplit('=').next().unwrap_or_default();
        self.display_name.as_deref().unwrap_or(kind)
    }
}

impl Summary {
    /// Sums up a package from its blobs, other ones are passed over; nothing if there are none.
    ///
    /// # Errors
    ///
    /// The text says which blob cannot be read.
    pub fn of(package: &str, metas: &[Meta]) -> Result<Option<Self>, String> {
        let metas: Vec<_> = metas.iter().filter(|meta| meta.owner() == package).collect();
        let content = Content::from_blobs(metas.iter().copied());
        let Some(index) = content.package(package) else { return Ok(None) };
        let index = index?;
        let blobs = metas.into_iter().map(|meta| {
            let blob = serde_json::from_str(&meta.json).unwrap_or_default();
            ((meta.schema.as_str(), meta.name.as_str()), blob)
        });
        let blobs: BTreeMap<(&str, &str), Value> = blobs.collect();
        let head = |name: &str| highest_head(index, name);
        let newest = head(&index.default_channel).or_else(|| index.bundles.first());
        let mut summary = Self {
            package: package.to_owned(),
            default_channel: index.default_channel.clone(),
            deprecated: message(index, schema::PACKAGE, ""),
            lifecycle: index.lifecycle.clone(),
            ..Self::default()
        };
        if let Some(newest) = newest.and_then(|it| blobs.get(&(schema::BUNDLE, it.name.as_str()))) {
            summary.describe(&metadata(newest));
        }
        let head_blob = blobs.get(&(schema::PACKAGE, package));
        if let Some(text) = head_blob.and_then(|blob| text(&blob["description"])) {
            summary.description.get_or_insert(first_sentence(&text));
            summary.long_description.get_or_insert(text);
        }
        summary.channels = channels(index);
        let bundles = index.bundles.iter();
        summary.bundles = bundles.map(|it| BundleSummary::of(it, index, &blobs)).collect();
        Ok(Some(summary))
    }

    /// Copies the description of the newest bundle.
    fn describe(&mut self, metadata: &Value) {
        let annotation = |key: &str| text(&metadata["annotations"][key]);
        self.display_name = text(&metadata["displayName"]);
        self.long_description = text(&metadata["description"]);
        let sentence = self.long_description.as_deref().map(first_sentence);
        self.description = annotation("description").or(sentence);
        self.provider = text(&metadata["provider"]["name"]);
        self.keywords = items(&metadata["keywords"]).filter_map(text).collect();
        let categories = annotation("categories").unwrap_or_default();
        let categories = categories.split(',').map(str::trim);
        self.categories = categories.filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let link = |link: &Value| {
            let url = text(&link["url"])?;
            let name = text(&link["name"]).unwrap_or_else(|| url.clone());
            Some(Link { name, url })
        };
        self.links = items(&metadata["links"]).filter_map(link).collect();
        if let Some(url) = annotation("repository") {
            let name = "Repository".to_owned();
            self.links.push(Link { name, url });
        }
    }
}

impl BundleSummary {
    fn of(bundle: &Bundle, index: &PackageIndex, blobs: &BTreeMap<(&str, &str), Value>) -> Self {
        let blob = blobs.get(&(schema::BUNDLE, bundle.name.as_str()));
        let metadata = blob.map(metadata).unwrap_or_default();
        let supported = |mode: &Value| text(&mode["type"]).filter(|_| mode["supported"] == true);
        let described = described(&metadata);
        let about = |kind: &GroupVersionKind| {
            described.get(&[&*kind.group, &*kind.version, &*kind.kind]).copied()
        };
        let related = blob.into_iter().flat_map(|blob| items(&blob["relatedImages"]));
        let deprecated = index.is_deprecated(&bundle.name);
        let told = message(index, schema::BUNDLE, &bundle.name).unwrap_or_default();
        Self {
            name: bundle.name.clone(),
            version: version(bundle),
            image: bundle.image.clone(),
            channels: index
                .entries_of(&bundle.name)
                .map(|(channel, _)| channel.to_owned())
                .collect(),
            deprecated: deprecated.then_some(told),
            min_kube_version: bundle.min_kube_version.as_ref().map(|(_, version)| version.clone()),
            max_open_shift_version: max_openshift(bundle),
            install_modes: items(&metadata["installModes"]).filter_map(supported).collect(),
            needs: bundle.constraints.iter().map(need).collect(),
            kinds: bundle.kinds.iter().map(|kind| KindSummary::of(kind, about(kind))).collect(),
            suggested_namespace: text(&metadata["annotations"][SUGGESTED_NAMESPACE]),
            related_images: related.filter_map(|it| text(&it["image"])).collect(),
        }
    }
}

impl KindSummary {
    fn of(kind: &GroupVersionKind, described: Option<&Value>) -> Self {
        let about = |key: &str| described.and_then(|it| text(&it[key]));
        Self {
            kind: kind.to_string(),
            display_name: about("displayName"),
            description: about("description"),
        }
    }
}

/// Returns what a CSV says of the kinds that it owns, by group, version and kind; of several the first.
fn described(metadata: &Value) -> BTreeMap<[&str; 3], &Value> {
    let mut described = BTreeMap::new();
    for owned in items(&metadata["crdDescriptions"]["owned"]) {
        let name = owned["name"].as_str().and_then(|name| name.split_once('.'));
        let version = owned["version"].as_str().zip(owned["kind"].as_str());
        if let (Some((_, group)), Some((version, kind))) = (name, version) {
            described.entry([group, version, kind]).or_insert(owned);
        }
    }
    described
}

fn channels(index: &PackageIndex) -> Vec<ChannelSummary> {
    let channel = |(name, channel): (&String, &super::Channel)| ChannelSummary {
        name: name.clone(),
        default: *name == index.default_channel,
        head: highest_head(index, name)
            .map(|head| version(head).unwrap_or_else(|| head.name.clone())),
        entries: channel.entries.len(),
        deprecated: message(index, schema::CHANNEL, name),
    };
    let mut channels: Vec<_> = index.channels.iter().map(channel).collect();
    channels.sort_by_cached_key(|channel| (!channel.default, natural(&channel.name)));
    channels
}

/// Returns the highest bundle among the heads of a channel.
fn highest_head<'a>(index: &'a PackageIndex, channel: &str) -> Option<&'a Bundle> {
    let heads = index.channels.get(channel)?.heads();
    let highest = heads.iter().filter_map(|name| index.position(name)).min()?;
    index.bundles.get(highest)
}

fn version(bundle: &Bundle) -> Option<String> {
    Some(bundle.version(false).ok()?.version.to_string())
}

fn message(index: &PackageIndex, schema: &str, name: &str) -> Option<String> {
    let mut messages = index.deprecations.as_ref()?.messages(schema, name);
    messages.next().map(str::to_owned)
}

/// Returns what the CSV of a bundle says, from property `olm.csv.metadata` of its blob, or from the CSV
/// itself in catalogs that have it in an `olm.bundle.object`.
fn metadata(blob: &Value) -> Value {
    let of = |kind: &'static str| {
        items(&blob["properties"]).filter(move |it| it["type"] == kind).map(|it| &it["value"])
    };
    if let Some(metadata) = of(property::CSV_METADATA).next() {
        return metadata.clone();
    }
    let object = |value: &Value| {
        let bytes = STANDARD.decode(value["data"].as_str()?).ok()?;
        serde_json::from_slice::<Value>(&bytes).ok()
    };
    let mut objects = of(property::BUNDLE_OBJECT).filter_map(object);
    let csv = objects.find(|object| object["kind"] == "ClusterServiceVersion");
    csv.map(|csv| shown(&csv)).unwrap_or_default()
}

/// Returns the author's text, without the quotes of a JSON string.
fn max_openshift(bundle: &Bundle) -> Option<String> {
    let mut properties = bundle.properties.iter();
    let found = properties.find(|it| it.kind == property::MAX_OPENSHIFT_VERSION)?;
    Some(found.value.trim_matches('"').to_owned())
}

/// Describes a dependency: with the message of its author, if there is one.
pub(crate) fn need(declared: &Declared) -> String {
    match &declared.constraint {
        Ok(constraint) => demand(constraint),
        Err(error) => format!("{} that cannot be read: {error}", declared.property),
    }
}

fn demand(constraint: &Constraint) -> String {
    let several = |word: &str, parts: &[Constraint]| {
        format!("{word} of: {}", parts.iter().map(demand).join("; "))
    };
    let own = match &constraint.demand {
        Demand::Package { package, text, .. } => return format!("package {package} {text}"),
        Demand::Kind(kind) => return kind.to_string(),
        Demand::Cel(_) => "a rule about installed bundles".to_owned(),
        Demand::All(parts) => several("all", parts),
        Demand::Any(parts) => several("one", parts),
        Demand::Not(parts) => several("none", parts),
    };
    constraint.message.clone().unwrap_or(own)
}

/// Returns a text that is not empty.
fn text(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns the first sentence of prose: its first line that is not a heading, up to a full stop.
fn first_sentence(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let mut prose = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '!', '<']));
    let line = prose.next().unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    line[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::rows;

    fn metas(blobs: impl IntoIterator<Item = Value>) -> Vec<Meta> {
        blobs.into_iter().map(|it| Meta::parse(&it.to_string()).unwrap()).collect()
    }

    fn summary(blobs: &[Value]) -> Option<Summary> {
        Summary::of("pot", &metas(blobs.iter().cloned())).unwrap()
    }

    fn bundle(version: &str, more: &[Value]) -> Value {
        let mut properties = vec![json!({"type": "olm.package",
            "value": {"packageName": "pot", "version": version}})];
        properties.extend_from_slice(more);
        json!({"schema": "olm.bundle", "package": "pot", "name": format!("pot.v{version}"),
            "image": format!("registry.test/pot:{version}"), "properties": properties,
            "relatedImages": [{"name": "pot", "image": "registry.test/run:1"}]})
    }

    // plugin.md U14, U24, U27
    #[test]
    fn a_package_is_summed_up() {
        let found = summary(&rows(include_str!("../testdata/catalog/summary.yaml")));
        insta::assert_yaml_snapshot!(found.unwrap());
    }

    // A catalog server without the endpoint for one package sends all.
    #[test]
    fn a_bundle_of_another_package_is_passed_over() {
        let mut other = bundle("1.0.0", &[]);
        other["package"] = json!("pan");
        other["relatedImages"] = json!([{"image": "registry.test/pan:1"}]);
        let found = summary(&[bundle("1.0.0", &[]), other]).unwrap();
        assert_eq!(found.bundles[0].related_images, ["registry.test/run:1"]);
    }

    // plugin.md U24: catalogs that opm rendered without --migrate-level
    #[test]
    fn a_csv_among_the_objects_describes_the_package() {
        let object = |object: Value| {
            json!({"type": "olm.bundle.object",
            "value": {"data": STANDARD.encode(object.to_string())}})
        };
        let csv = json!({"kind": "ClusterServiceVersion", "spec": {"displayName": "Pot",
            "installModes": [{"type": "AllNamespaces", "supported": true}]}});
        let objects = [object(json!({"kind": "Service"})), object(csv)];
        let found = summary(&[bundle("1.0.0", &objects)]).unwrap();
        assert_eq!(found.display_name.as_deref(), Some("Pot"));
        assert_eq!(found.bundles[0].install_modes, ["AllNamespaces"]);
    }

    // It takes minutes if every part is compared with every other.
    #[test]
    fn a_large_package_takes_no_more_than_its_size() {
        let number = |at: usize| format!("1.0.{at}");
        let channel = |at: usize| {
            json!({"schema": "olm.channel", "package": "pot", "name": number(at),
                "entries": [{"name": "none"}]})
        };
        let kind = |at: usize| {
            let kind = json!({"group": "a.b", "version": number(at), "kind": "Pot"});
            json!({"type": "olm.gvk", "value": kind})
        };
        let owned = |at: usize| json!({"name": "pots.a.b", "version": number(at), "kind": "Pot", "displayName": "A"});
        let owned: Vec<_> = (0..4_000).map(owned).collect();
        let described = json!({"crdDescriptions": {"owned": owned}});
        let described = json!({"type": "olm.csv.metadata", "value": described});
        let kinds: Vec<_> = (0..4_000).map(kind).chain([described]).collect();
        let bundles = (0..6_000).map(|at| bundle(&number(at), &[]));
        let channels = (0..6_000).map(channel);
        let blobs = metas(bundles.chain(channels).chain([bundle("2.0.0", &kinds)]));
        let start = std::time::Instant::now();
        let found = Summary::of("pot", &blobs).unwrap().unwrap();
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
        assert_eq!((found.channels.len(), found.bundles[0].kinds.len()), (6_000, 4_000));
        assert!(found.bundles[0].kinds.iter().all(|kind| kind.title() == "A"));
    }

    // plugin.md U24
    #[test]
    fn channels_are_in_the_order_of_their_numbers() {
        let channel = |name: &str| {
            json!({"schema": "olm.channel", "package": "pot", "name": name,
                "entries": [{"name": "pot.v1.0.0"}]})
        };
        let found = summary(&[
            json!({"schema": "olm.package", "name": "pot", "defaultChannel": "stable-3.9"}),
            channel("stable-3.10"),
            channel("stable-3.6"),
            channel("stable-3.9"),
            bundle("1.0.0", &[]),
        ]);
        let channels = found.unwrap().channels;
        let names: Vec<_> = channels.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["stable-3.9", "stable-3.6", "stable-3.10"]);
    }

    // plugin.md U24
    #[test]
    fn the_head_of_a_package_describes_it_where_its_bundles_do_not() {
        let head = json!({"schema": "olm.package", "name": "pot", "description": "Old. Text."});
        let found = summary(&[head, bundle("1.0.0", &[])]).unwrap();
        assert_eq!(found.description.as_deref(), Some("Old."));
        assert_eq!(found.long_description.as_deref(), Some("Old. Text."));
        assert_eq!(summary(&[]), None);
    }
}
