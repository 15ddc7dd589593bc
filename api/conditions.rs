//! Every condition type and every reason, each written in this one place.
//!
//! Conditions that upstream has carry only upstream's reasons (api.md 4.1, decision 26);
//! reasons of our own appear on the additive condition types alone.

use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

/// Statuses of a condition.
pub mod status {
    /// The condition holds.
    pub const TRUE: &str = "True";
    /// The condition does not hold.
    pub const FALSE: &str = "False";
    /// It is not known whether the condition holds.
    pub const UNKNOWN: &str = "Unknown";
}

/// Condition types of a ClusterExtension, a ClusterObjectSet and a ClusterCatalog.
pub mod types {
    /// ClusterExtension: whether a bundle is installed.
    pub const INSTALLED: &str = "Installed";
    /// All kinds: whether the object is at, or on its way to, the desired state.
    pub const PROGRESSING: &str = "Progressing";
    /// ClusterObjectSet, copied to the ClusterExtension: whether the objects pass their probes.
    pub const AVAILABLE: &str = "Available";
    /// ClusterObjectSet: whether it was rolled out completely once. Never reset; it alone
    /// determines whether a revision is installed.
    pub const SUCCEEDED: &str = "Succeeded";
    /// ClusterExtension: whether the package, a requested channel or the installed bundle is
    /// deprecated.
    pub const DEPRECATED: &str = "Deprecated";
    /// ClusterExtension: whether the package is deprecated.
    pub const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
    /// ClusterExtension: whether a requested channel is deprecated.
    pub const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
    /// ClusterExtension: whether the installed bundle is deprecated.
    pub const BUNDLE_DEPRECATED: &str = "BundleDeprecated";
    /// ClusterCatalog: whether its content is served.
    pub const SERVING: &str = "Serving";
    /// ClusterCatalog, ours: whether its content has neither errors nor warnings. For information
    /// only (plugin.md 2.4).
    pub const CONTENT_VALID: &str = "ContentValid";
    /// ClusterObjectSet, ours: objects of optional kinds wait until the cluster serves their kind
    /// (decision 21). Absent when none does.
    pub const DEFERRED: &str = "Deferred";
    /// All kinds, ours, for kstatus: it is not ready, and only a change by a person helps. For a
    /// ClusterObjectSet also: a workload of a rollout cannot progress, such as a Deployment past
    /// its own progress deadline. Absent otherwise.
    pub const STALLED: &str = "Stalled";
    /// All kinds, ours, for kstatus: it is neither ready nor stalled. Absent otherwise.
    pub const RECONCILING: &str = "Reconciling";
    /// All kinds, ours: everything is as the spec requests (decisions 12 and 32).
    pub const READY: &str = "Ready";
    /// ClusterExtension, ours: nothing is applied while annotation `paused` is set
    /// (applying.md 10).
    pub const PAUSED: &str = "Paused";
    /// ClusterExtension, ours: whether its account has the rights that its revision needs
    /// (applying.md 5.3). Absent if that was not checked.
    pub const PERMISSIONS: &str = "PermissionsSufficient";
    /// ClusterExtension, ours: whether its bundle supports the next platform version
    /// (applying.md 9.7).
    pub const PLATFORM_UPGRADEABLE: &str = "PlatformUpgradeable";
    /// ClusterExtension, ours: whether the installed version is supported, today and on this
    /// platform (api.md 4.5). Absent if its catalog has no such data.
    pub const SUPPORTED: &str = "Supported";
}

/// The reason of a condition, of an Event, or of a verdict in the report of a resolution.
///
/// The name on the wire is that of the variant, unless `serialize` gives another. Conditions that
/// upstream has carry only upstream's reasons (decision 26).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantNames,
)]
#[serde(into = "&'static str")]
#[strum(const_into_str)]
pub enum Reason {
    // Upstream's.
    /// The desired state is reached.
    Succeeded,
    /// An error that may resolve without a change; the controller retries.
    Retrying,
    /// A revision is being rolled out.
    RollingOut,
    /// An error that only a change by a person resolves.
    Blocked,
    /// The spec is invalid.
    InvalidConfiguration,
    /// A revision was not rolled out in time.
    ProgressDeadlineExceeded,
    /// `Installed`: nothing is installed, or the installed bundle is unknown.
    Failed,
    /// `Installed`: not yet, the first revision is being rolled out. `BundleDeprecated`: nothing
    /// is installed.
    Absent,
    /// The catalog has deprecated it.
    Deprecated,
    /// The catalog has not deprecated it.
    NotDeprecated,
    /// No catalog data is available.
    DeprecationStatusUnknown,
    /// `Available`: all objects pass their probes.
    ProbesSucceeded,
    /// `Available`: an object fails its probe. `Stalled`, ours: it cannot progress, its image
    /// cannot be pulled, or its pods are refused.
    ProbeFailure,
    /// `Available`: the probes could not be evaluated because of an error.
    Reconciling,
    /// `Available` and `Progressing` of a ClusterObjectSet: it is archived.
    Archived,
    /// `Serving`: the content is served.
    Available,
    /// `Serving`: there is no content to serve.
    Unavailable,
    /// `Serving`: the catalog is disabled (`availabilityMode: Unavailable`).
    UserSpecifiedUnavailable,

    // Ours, on conditions that upstream does not have, and in `status.update`.
    /// `Ready`, ours: the object is being removed.
    Uninstalling,
    /// `Ready`, ours: the catalog offers the installed bundle with other content
    /// (decision 29).
    ContentChanged,
    /// `Ready`, ours: the image of the installed bundle cannot be fetched, so changes wait.
    BundleUnavailable,
    /// `Ready`, ours: the upgrade of a CRD is refused.
    #[strum(serialize = "CRDUpgradeRefused")]
    CrdUpgradeRefused,
    /// `Ready`, ours: an annotation allowed findings about the upgrade of a CRD.
    #[strum(serialize = "CRDUpgradeWaived")]
    CrdUpgradeWaived,
    /// `Ready`, ours: the plan differs from the approved one.
    PlanChanged,
    /// `Ready`, ours: every step requires approval, and the plan of this one is not approved.
    ApprovalRequired,
    /// `Ready`, ours: the bundle would give more rights, which are not approved.
    PermissionIncrease,
    /// `Ready`, ours: an earlier revision is installed again, as annotation `rollback-to` requests.
    RolledBack,
    /// `Ready`, ours: a rollout failed, and the previous revision is installed again.
    RolloutReverted,
    /// `Ready`, ours: another bundle replaces one whose rollout cannot complete, or that the
    /// catalogs have withdrawn.
    RolloutSuperseded,
    /// `Ready`: the catalog of the installed bundle is gone, and no other offers an update.
    CatalogGone,
    /// `Ready`, ours: a newer bundle has a new major version (decision 22).
    NextMajorHeld,
    /// `Ready`, ours: the successor has a lower version (decision 22).
    LowerVersionHeld,
    /// `status.update`, ours: the version in the spec excludes the newer version.
    Pinned,
    /// `Ready`, `Paused` and `status.update`, ours: nothing is applied while the annotation is set.
    Paused,
    /// `Deferred`, and `Ready` if nothing is more urgent, ours: objects of optional kinds are
    /// deferred (decision 21).
    ObjectsDeferred,
    /// `PermissionsSufficient`: the account has all rights.
    PermissionsSufficient,
    /// `PermissionsSufficient`, and `Ready` if nothing is more urgent: the account lacks rights.
    PermissionsMissing,
    /// `Ready` and `status.update`, ours: the OperatorCondition of the operator does not allow the
    /// update.
    OperatorNotUpgradeable,
    /// `ContentValid`: the content has neither errors nor warnings.
    NoFindings,
    /// `ContentValid`: the content has errors or warnings.
    Findings,
    /// `ContentValid`: there is no content.
    NotRead,
    /// `PlatformUpgradeable`: the bundle supports the next version.
    Compatible,
    /// `PlatformUpgradeable`: the bundle does not support the next version.
    IncompatibleWithNextVersion,
    /// `PlatformUpgradeable`: the property cannot be read.
    InvalidProperty,
    /// `PlatformUpgradeable`: the bundle declares no limit.
    NotDeclared,
    /// `Supported`: the version is supported, and so is this platform.
    Supported,
    /// `Supported`: support has ended.
    SupportEnded,
    /// `Supported`: the version is made for other versions of OpenShift.
    PlatformUnsupported,

    // Ours, codes of a resolution: reasons of `Ready` and of Events when nothing is found or
    // something newer is held, and codes of the report (resolution.md 6.2).
    /// A newer bundle has a new minor version.
    NextMinorHeld,
    /// A newer bundle is available, and the policy allows no update.
    NextPatchHeld,
    /// A newer bundle waits until an update window opens (applying.md 10).
    OutsideWindow,
    /// `Ready`: a newer bundle comes from another catalog than the installed bundle.
    OtherCatalogHeld,
    /// `status.update` of a ClusterCatalog: newer content has not been known for long enough.
    TooYoung,
    /// `status.update` of a ClusterCatalog: newer content removes or changes packages, channels or
    /// versions.
    Suspicious,
    /// No update path leads from the installed bundle to this one in one step.
    NotSuccessor,
    /// The bundle is in none of the requested channels.
    NotInRequestedChannels,
    /// A range is requested, and the version of the bundle is invalid.
    InvalidVersion,
    /// The version of the bundle is not in the requested range.
    VersionOutOfRange,
    /// The version of the bundle is in the requested range, but is a prerelease.
    PrereleaseNotRequested,
    /// The bundle declares dependencies, which are not supported.
    DependencyUnsupported,
    /// The bundle declares an invalid constraint.
    ConstraintInvalid,
    /// The cluster does not meet a constraint of the bundle.
    ConstraintUnmet,
    /// It is unknown whether the cluster meets the constraints of the bundle.
    ConstraintUnknown,
    /// The package does not have the requested channel.
    UnknownChannel,
    /// No bundle of the package is left to choose.
    NoCandidate,
    /// There is no catalog, or none is selected.
    NoCatalog,
    /// Several catalogs of the same priority have the package.
    AmbiguousCatalogs,
    /// The selector does not select the catalog.
    CatalogNotSelected,
    /// The catalog is disabled (`availabilityMode: Unavailable`).
    CatalogDisabled,
    /// The catalog is not served.
    CatalogNotServing,
    /// The image of the catalog is not resolved yet.
    CatalogNotResolved,
    /// The catalog has not been downloaded yet.
    CatalogNotCached,
    /// The catalog cannot be downloaded.
    CatalogFetchFailed,
    /// The catalog cannot be read.
    CatalogParseFailed,
    /// The catalog does not have the package.
    PackageNotInCatalog,
    /// The catalog can be used.
    Usable,
    /// Another bundle has a higher version.
    LowerVersion,
    /// Another bundle has a higher release of the version.
    LowerRelease,
    /// Another bundle has the same version and release, and its name sorts first.
    TieBrokenByName,
    /// Another catalog offers a bundle that is not deprecated.
    DeprecatedInThisCatalog,
    /// Its catalog has a lower priority.
    LowerPriorityCatalog,
    /// Catalogs that cannot be read may have a better bundle.
    UnreadableCatalogs,
    /// An installed bundle depends on the bundle that the update replaces.
    StepBreaksInstalled,
    /// No edge leads to the bundle; it was requested with `SelfCertified`.
    ForcedStep,
    /// The bundle is not in any channel.
    InNoChannel,
    /// A `skipRange` of the bundle is invalid.
    InvalidSkipRange,
    /// An edge leads to the bundle in a channel that is not requested.
    EdgeInUnrequestedChannel,
    /// The bundle is installed, and there is no better successor.
    StaysOnInstalled,

    // Ours, of Events.
    /// A bundle was chosen although a catalog could not be read.
    CatalogUnavailable,
    /// The chosen bundle has a lower version.
    SuccessorIsLowerVersion,
    /// An installed bundle depends on the bundle that the chosen one replaces.
    BreaksInstalled,
    /// The content of a catalog has errors or warnings.
    CatalogFindings,
    /// A newer version is available, but not chosen.
    UpgradeAvailable,
    /// A revision was created.
    RevisionCreated,
    /// A higher version was installed that no edge of the catalog leads to.
    ForcedUpgrade,
    /// An update comes from another catalog than the installed bundle.
    CatalogChanged,
    /// A lower version was installed that no edge of the catalog leads to.
    ForcedRollback,
    /// A certificate of webhooks was issued.
    CertificateIssued,
    /// A certificate of webhooks replaced one that could not be used.
    CertificateReplaced,
    /// The CA of the controller's listeners replaced one that was lost or could not be used.
    ServingAuthorityReplaced,
    /// A CRD is kept although the new revision does not contain it.
    #[strum(serialize = "CRDRetained")]
    CrdRetained,
    /// Objects that were deferred are applied.
    DeferredObjectsApplied,
    /// Nothing is removed, because an annotation is unknown, or data would be lost.
    RemovalHeld,
    /// The garbage collector completes an uninstall.
    UninstallFallback,

    // Of the ClusterOperator that the upgrade gate writes, as OpenShift's own operator has them.
    /// Nothing is wrong.
    AsExpected,
    /// Not everything has been read yet.
    NoData,
    /// The version of the cluster cannot be read.
    ClusterVersionUnknown,
    /// Installed bundles block the update. The name is the union of operator conditions': the
    /// condition without its suffix, then its reason.
    #[strum(serialize = "InstalledOLMOperators_IncompatibleOperatorsInstalled")]
    IncompatibleOperatorsInstalled,
    /// The versions that installed bundles support cannot be read.
    #[strum(serialize = "InstalledOLMOperators_FailureGettingExtensionMetadata")]
    FailureGettingExtensionMetadata,
}

impl Reason {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// Condition types of the ClusterOperator that the upgrade gate writes.
pub mod clusteroperator {
    /// The controller is running.
    pub const AVAILABLE: &str = "Available";
    /// The controller is being updated to another version.
    pub const PROGRESSING: &str = "Progressing";
    /// Something has been wrong for two minutes.
    pub const DEGRADED: &str = "Degraded";
    /// Whether the cluster may be updated to the next minor version.
    pub const UPGRADEABLE: &str = "Upgradeable";
    /// The operator condition that contains the gate's verdict, with the name that upstream's
    /// operator uses.
    pub const INSTALLED_OLM_OPERATORS_UPGRADEABLE: &str = "InstalledOLMOperatorsUpgradeable";
}
