//! `ClusterCatalog`: a catalog image to serve.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// The source of the catalog, its priority and its availability.
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
    /// The source of the content.
    pub source: CatalogSource,

    /// The priority among catalogs that offer the same package: the one with the highest number is
    /// used. Negative numbers rank below the default of 0.
    #[serde(default)]
    #[schemars(range(min = -2_147_483_648_i64, max = 2_147_483_647_i64))]
    pub priority: i32,

    /// Available: the content is served and used. Unavailable: the catalog is ignored, as if it did
    /// not exist.
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
    /// Returns the reference of the served content, if there is any.
    pub fn resolved_reference(&self) -> Option<&str> {
        let resolved = self.status.as_ref()?.resolved_source.as_ref()?;
        Some(&resolved.image.ref_)
    }

    /// Returns the condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

/// Whether a catalog is served and used.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AvailabilityMode {
    /// Ignored, as if it did not exist.
    Unavailable,
    /// Served and used.
    #[default]
    Available,
}

/// The source of the content of a catalog: a union with discriminator `type`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)")
    .message("image is required when source type is Image, and forbidden otherwise"))]
pub struct CatalogSource {
    /// The type of source. Only Image is supported.
    #[serde(rename = "type")]
    pub type_: CatalogSourceType,

    /// The container image that holds the catalog. Required when type is Image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
}

/// The types of source.
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

    /// Minutes between polls for new content of the tag. Absent: no polling. Forbidden when the
    /// reference is a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::minutes")]
    pub poll_interval_minutes: Option<i64>,
}

/// The observed state.
///
/// `resolvedSource`, `urls` and `lastUnpacked` are set together and cleared together.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogStatus {
    /// The generation of the object that this status describes. While it differs from
    /// metadata.generation, the latest change has not been processed. -1 before the first
    /// reconcile. For tools such as kstatus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the catalog. Serving: whether its content is served over HTTP. Progressing:
    /// whether it is at, or on its way to, the desired state; False means that it waits for a
    /// change by a person. Ready: a summary of both, for tools that wait. While a newer image
    /// cannot be read, the previous content is still served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The source of the served content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_source: Option<ResolvedCatalogSource>,

    /// The address of the served content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<ClusterCatalogUrls>,

    /// The time when the served content was unpacked from its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_unpacked: Option<Time>,

    /// The time when the registry last answered a poll, or was first asked for the served content,
    /// ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_polled: Option<Time>,

    /// The value of annotation `policy.olm.operatorframework.io/refresh` at that time, ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refreshed: Option<String>,

    /// Newer content of the image reference that is held, ours; absent if the newest content is
    /// served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<CatalogUpdateStatus>,

    /// The content that was accepted last, and its reference, ours: newer content is compared with
    /// it, also after the catalog was disabled. Written by the controller only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<CatalogTakenStatus>,
}

/// Content of a catalog that was accepted, and the reference for which it was accepted.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogTakenStatus {
    /// The requested reference as written: `spec.source.image.ref`, or the template. Only a change
    /// of it is a decision to serve other content.
    #[serde(rename = "for")]
    #[schemars(length(max = 1000))]
    pub for_: String,

    /// The image, by digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    pub ref_: String,
}

/// Newer content of a catalog, and why it is held.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogUpdateStatus {
    /// The image, by digest.
    #[serde(rename = "ref")]
    #[schemars(length(max = 1000))]
    pub ref_: String,

    /// The time when it was first seen.
    pub since: Time,

    /// The reason of the hold: Paused, TooYoung or Suspicious.
    pub reason: String,

    /// Why it is held, and how to serve it.
    pub message: String,
}

/// The source of the served content: a union with discriminator `type`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.type) && self.type == 'Image' ? has(self.image) : !has(self.image)")
    .message("image is required when source type is Image, and forbidden otherwise"))]
pub struct ResolvedCatalogSource {
    /// The type of source. Only Image is supported.
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

/// The address of the content of a catalog.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCatalogUrls {
    /// Base URL inside the cluster, to which clients append a path such as /api/v1/all.
    #[schemars(length(max = 525))]
    #[x_kube(validation = Rule::new("isURL(self)").message("must be a valid URL"))]
    #[x_kube(validation = Rule::new(r#"isURL(self) ? (url(self).getScheme() == "http" || url(self).getScheme() == "https") : true"#)
        .message("scheme must be either http or https"))]
    pub base: String,
}
