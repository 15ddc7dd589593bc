//! `ClusterCatalog`: which catalog image is served, and how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Which catalog is served, and how it ranks.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "olm.operatorframework.io",
    version = "v1",
    kind = "ClusterCatalog",
    plural = "clustercatalogs",
    singular = "clustercatalog",
    status = "ClusterCatalogStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "ClusterCatalog makes the packages of a catalog image available to the cluster.",
    printcolumn(name = "LastUnpacked", type_ = "date", json_path = ".status.lastUnpacked"),
    printcolumn(
        name = "Serving",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Serving")].status"#
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type=='Ready')].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogSpec {
    /// Where the content comes from.
    pub source: CatalogSource,

    /// Which catalog wins when several offer a package: the one with the higher number. Negative
    /// numbers rank below the default of 0.
    #[serde(default)]
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub priority: i32,

    /// Available: the content is served and used. Unavailable: the catalog is treated as if it
    /// did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Available"))]
    pub availability_mode: Option<AvailabilityMode>,
}

impl ClusterCatalogSpec {
    /// Returns the availability mode, `Available` when the field is absent.
    pub fn availability(&self) -> AvailabilityMode {
        self.availability_mode.unwrap_or_default()
    }
}

impl ClusterCatalog {
    /// Returns the reference of the content that is served; nothing before there is any.
    pub fn resolved_reference(&self) -> Option<&str> {
        let resolved = self.status.as_ref()?.resolved_source.as_ref()?;
        Some(&resolved.image.ref_)
    }
}

/// Whether a catalog takes part.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AvailabilityMode {
    /// As if the catalog did not exist.
    Unavailable,
    /// Served and used.
    #[default]
    Available,
}

/// Where the content of a catalog comes from: a union told apart by `type`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)")
    .message("image is required when source type is Image, and forbidden otherwise"))]
pub struct CatalogSource {
    /// The kind of source; only Image exists.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,

    /// The container image that holds the catalog. Required when type is Image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// The kinds of source.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CatalogSourceType {
    /// A container image.
    #[default]
    Image,
}

/// A container image that holds a catalog.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.ref.find('(@.*:)') != \"\" ? !has(self.pollIntervalMinutes) : true")
    .message("cannot specify pollIntervalMinutes while using digest-based image"))]
pub struct ImageSource {
    /// Reference of the image: registry, repository, and a tag or a digest, for example
    /// "quay.io/operatorhubio/catalog:latest". At most 1000 characters.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    #[x_kube(validation = Rule::new(r"self.matches('^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])((\\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(:[0-9]+)?\\b')")
        .message(r#"must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the "." character."#))]
    #[x_kube(validation = Rule::new(r#"self.find('(\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?((\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?)+)?)') != """#)
        .message(r#"a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the ".", "_", "__", "-" characters."#))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" || self.find(':.*$') != """#)
        .message("must end with a digest or a tag"))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') == "" ? (self.find(':.*$') != "" ? self.find(':.*$').substring(1).size() <= 127 : true) : true"#)
        .message("tag is invalid. the tag must not be more than 127 characters"))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') == "" ? (self.find(':.*$') != "" ? self.find(':.*$').matches(':[\\w][\\w.-]*$') : true) : true"#)
        .message(r#"tag is invalid. valid tags must begin with a word character (alphanumeric + "_") followed by word characters or ".", and "-" characters"#))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" ? self.find('(@.*:)').matches('(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*[:])') : true"#)
        .message(r#"digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the "-", "_", "+", and "." characters."#))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" ? self.find(':.*$').substring(1).size() >= 32 : true"#)
        .message("digest is not valid. the encoded string must be at least 32 characters"))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true"#)
        .message("digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)"))]
    pub ref_: String,

    /// Minutes between looks for new content behind the tag. Absent: no polling. Forbidden when
    /// the reference is a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::minutes")]
    pub poll_interval_minutes: Option<i64>,
}

/// What is being served.
///
/// `resolvedSource`, `urls` and `lastUnpacked` are set together and cleared together.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogStatus {
    /// The generation that this status is about: while it is not that of the object, the latest
    /// change has not been acted on; -1 before the first. For tools that read nothing else, as
    /// kstatus does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the catalog. Serving: whether its content is served over HTTP. Progressing:
    /// whether it is at, or on its way to, the desired state; False means that it waits for
    /// somebody. Ready: both in one, for tools that wait. While a newer image cannot be read, the
    /// content read before is still served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// What the served content was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedCatalogSource>,

    /// Where the content is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<ClusterCatalogUrls>,

    /// When the served content was unpacked from its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unpacked: Option<Time>,

    /// When the registry last answered a poll, or was first asked for what is served, ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_polled: Option<Time>,

    /// The value of annotation `policy.olm.operatorframework.io/refresh` at that time, ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refreshed: Option<String>,

    /// Newer content that the reference of the image names and that is not taken yet, ours; absent
    /// when the newest is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<CatalogUpdateStatus>,

    /// The content that was taken last and what for, ours: newer content is compared with it, also
    /// after the catalog was switched off. Written by the controller alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<CatalogTakenStatus>,
}

/// Content of a catalog that was taken, and the reference that it was taken for.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogTakenStatus {
    /// The reference that was wanted: `spec.source.image.ref`, or what the template gave. Only another
    /// one is a decision about content.
    #[serde(rename = "for")]
    #[schemars(length(max = 1000))]
    pub for_: String,

    /// The image, by digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    pub ref_: String,
}

/// Newer content of a catalog, and why it is not taken.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogUpdateStatus {
    /// The image, by digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    pub ref_: String,

    /// Since when it is known.
    pub since: Time,

    /// Why it is not taken, in one word: Paused, TooYoung or Suspicious.
    pub reason: String,

    /// Why it is not taken, and what to do about it.
    pub message: String,
}

/// What served content was read from: a union told apart by `type`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)")
    .message("image is required when source type is Image, and forbidden otherwise"))]
pub struct ResolvedCatalogSource {
    /// The kind of source; only Image exists.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,

    /// The image, by digest.
    pub image: ResolvedImageSource,
}

/// An image by digest.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedImageSource {
    /// Reference of the image with its digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    #[x_kube(validation = Rule::new(r"self.matches('^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])((\\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))+)?(:[0-9]+)?\\b')")
        .message(r#"must start with a valid domain. valid domains must be alphanumeric characters (lowercase and uppercase) separated by the "." character."#))]
    #[x_kube(validation = Rule::new(r#"self.find('(\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?((\\/[a-z0-9]+((([._]|__|[-]*)[a-z0-9]+)+)?)+)?)') != """#)
        .message(r#"a valid name is required. valid names must contain lowercase alphanumeric characters separated only by the ".", "_", "__", "-" characters."#))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != """#)
        .message("must end with a digest"))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" ? self.find('(@.*:)').matches('(@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*[:])') : true"#)
        .message(r#"digest algorithm is not valid. valid algorithms must start with an uppercase or lowercase alpha character followed by alphanumeric characters and may contain the "-", "_", "+", and "." characters."#))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" ? self.find(':.*$').substring(1).size() >= 32 : true"#)
        .message("digest is not valid. the encoded string must be at least 32 characters"))]
    #[x_kube(validation = Rule::new(r#"self.find('(@.*:)') != "" ? self.find(':.*$').matches(':[0-9A-Fa-f]*$') : true"#)
        .message("digest is not valid. the encoded string must only contain hex characters (A-F, a-f, 0-9)"))]
    pub ref_: String,
}

/// Where the content of a catalog is served.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogUrls {
    /// Address, inside the cluster, that clients append a path such as /api/v1/all to.
    #[schemars(length(max = 525))]
    #[x_kube(validation = Rule::new("isURL(self)").message("must be a valid URL"))]
    #[x_kube(validation = Rule::new(r#"isURL(self) ? (url(self).getScheme() == "http" || url(self).getScheme() == "https") : true"#)
        .message("scheme must be either http or https"))]
    pub base: String,
}
