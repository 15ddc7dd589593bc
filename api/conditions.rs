//! Every condition type and every reason, each written in this one place.
//!
//! Conditions that upstream has carry only upstream's reasons (api.md 4.1, decision 26);
//! reasons of our own appear on the additive condition types alone.

use std::fmt;

use serde::{Serialize, Serializer};
use strum::{EnumString, IntoStaticStr, VariantNames};

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
    /// ClusterObjectSet: whether it was rolled out completely once. Never taken back; it alone
    /// decides what "installed" means.
    pub const SUCCEEDED: &str = "Succeeded";
    /// ClusterExtension: whether anything of what follows is deprecated.
    pub const DEPRECATED: &str = "Deprecated";
    /// ClusterExtension: whether the package is deprecated.
    pub const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
    /// ClusterExtension: whether a requested channel is deprecated.
    pub const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
    /// ClusterExtension: whether the installed bundle is deprecated.
    pub const BUNDLE_DEPRECATED: &str = "BundleDeprecated";
    /// ClusterCatalog: whether its content is served.
    pub const SERVING: &str = "Serving";
    /// ClusterCatalog, ours: whether its content has neither errors nor warnings. Decides nothing
    /// (plugin.md 2.4).
    pub const CONTENT_VALID: &str = "ContentValid";
    /// ClusterObjectSet, ours: objects of optional kinds wait until the cluster serves their kind
    /// (decision 21). Absent when none does.
    pub const DEFERRED: &str = "Deferred";
    /// All kinds, ours, for kstatus: it is not ready, and only a change by a person helps. Of a
    /// ClusterObjectSet also that a workload of a rollout says that it cannot progress, such as a
    /// Deployment past its own progress deadline. Absent otherwise.
    pub const STALLED: &str = "Stalled";
    /// All kinds, ours, for kstatus: it is neither ready nor stalled. Absent otherwise.
    pub const RECONCILING: &str = "Reconciling";
    /// All kinds, ours: everything is as the spec wants it (decisions 12 and 32).
    pub const READY: &str = "Ready";
    /// ClusterExtension, ours: nothing is applied, because the annotation says so (applying.md 10).
    pub const PAUSED: &str = "Paused";
    /// ClusterExtension, ours: whether its account has the rights that its revision takes
    /// (applying.md 5.3). Absent where nobody looked.
    pub const PERMISSIONS: &str = "PermissionsSufficient";
    /// ClusterExtension, ours: whether its bundle supports the next platform version
    /// (applying.md 9.7).
    pub const PLATFORM_UPGRADEABLE: &str = "PlatformUpgradeable";
    /// ClusterExtension, ours: whether the installed version is supported, today and on this
    /// platform (api.md 4.5). Absent where its catalog does not tell.
    pub const SUPPORTED: &str = "Supported";
}

/// Why a condition, an Event or the report of a resolution says what it says.
///
/// The name on the wire is that of the variant, unless `serialize` gives another. Conditions that
/// upstream has carry only upstream's reasons (decision 26).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantNames)]
#[strum(const_into_str)]
pub enum Reason {
    // Upstream's.
    /// The desired state is reached.
    Succeeded,
    /// An error that may go away by itself; the controller retries.
    Retrying,
    /// A revision is being rolled out.
    RollingOut,
    /// An error that needs somebody to act.
    Blocked,
    /// The spec cannot be followed as it is written.
    InvalidConfiguration,
    /// A revision was not rolled out in time.
    ProgressDeadlineExceeded,
    /// `Installed`: nothing is installed, or it is not known whether anything is.
    Failed,
    /// `Installed`: not yet, the first revision is being rolled out. `BundleDeprecated`: nothing
    /// is installed.
    Absent,
    /// The catalog calls it deprecated.
    Deprecated,
    /// The catalog does not call it deprecated.
    NotDeprecated,
    /// No catalog data says anything about it.
    DeprecationStatusUnknown,
    /// `Available`: all objects pass their probes.
    ProbesSucceeded,
    /// `Available`: an object fails its probe. `Stalled`, ours: it says that it cannot progress.
    ProbeFailure,
    /// `Available`: an error kept the probes from being observed.
    Reconciling,
    /// `Available` and `Progressing` of a ClusterObjectSet: it is archived.
    Archived,
    /// `Serving`: the content is served.
    Available,
    /// `Serving`: there is no content to serve.
    Unavailable,
    /// `Serving`: the catalog was switched off.
    UserSpecifiedUnavailable,

    // Ours, on conditions that upstream does not have, and in `status.update`.
    /// `Ready`, ours: the object is being removed.
    Uninstalling,
    /// `Ready`, ours: the catalog offers the installed bundle with other content
    /// (decision 29).
    ContentChanged,
    /// `Ready`, ours: the image of the installed bundle cannot be fetched, so changes wait.
    BundleUnavailable,
    /// `Ready`, ours: what can be done about a CRD whose upgrade is refused.
    #[strum(serialize = "CRDUpgradeRefused")]
    CrdUpgradeRefused,
    /// `Ready`, ours: what a waiver let pass in the upgrade of a CRD.
    #[strum(serialize = "CRDUpgradeWaived")]
    CrdUpgradeWaived,
    /// `Ready`, ours: what would be applied is not the plan that was approved.
    PlanChanged,
    /// `Ready`, ours: every step has to be approved, and the plan of this one is not.
    ApprovalRequired,
    /// `Ready`, ours: the operator would get rights that nobody approved.
    PermissionIncrease,
    /// `Ready`, ours: an earlier revision is installed again, because the annotation says so.
    RolledBack,
    /// `Ready`, ours: a rollout failed, and what was installed before is installed again.
    RolloutReverted,
    /// `Ready`, ours: another bundle takes the place of one whose rollout cannot complete, or that
    /// the catalogs have withdrawn.
    RolloutSuperseded,
    /// `Ready`: the catalog that what is installed came from is gone, and no other offers an update.
    CatalogGone,
    /// `Ready`, ours: a newer bundle is of the next major version (decision 22).
    NextMajorHeld,
    /// `Ready`, ours: the successor has a lower version (decision 22).
    LowerVersionHeld,
    /// `status.update`, ours: the version in the spec excludes it.
    Pinned,
    /// `Ready`, `Paused` and `status.update`, ours: nothing is applied while the annotation is set.
    Paused,
    /// `Deferred`, and `Ready` when nothing worse is to be reported, ours: objects of optional
    /// kinds are left out (decision 21).
    ObjectsDeferred,
    /// `PermissionsSufficient`: nothing is missing.
    PermissionsSufficient,
    /// `PermissionsSufficient`, and `Ready` while nothing worse is to be reported: the account
    /// lacks rights.
    PermissionsMissing,
    /// `Ready` and `status.update`, ours: the installed operator does not let itself be updated.
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
    /// `Supported`: a phase of support is left, on this platform too.
    Supported,
    /// `Supported`: the last phase of support is over.
    SupportEnded,
    /// `Supported`: the version is made for other versions of OpenShift.
    PlatformUnsupported,

    // Ours, codes of a resolution: reasons of `Ready` and of Events when nothing is found or
    // something newer is held, and codes of the report (resolution.md 6.2).
    /// A newer bundle is of the next minor version.
    NextMinorHeld,
    /// A newer bundle is another version, and none is taken.
    NextPatchHeld,
    /// A newer bundle waits until an update window opens (applying.md 10).
    OutsideWindow,
    /// `Ready`: a newer bundle is of another catalog than what is installed.
    OtherCatalogHeld,
    /// `status.update` of a ClusterCatalog: newer content has not been known for long enough.
    TooYoung,
    /// `status.update` of a ClusterCatalog: newer content takes away or changes what was offered.
    Suspicious,
    /// Nothing leads from the installed bundle to it.
    NotSuccessor,
    /// It is in none of the requested channels.
    NotInRequestedChannels,
    /// A range is requested, and its version cannot be read.
    InvalidVersion,
    /// Its version is not in the requested range.
    VersionOutOfRange,
    /// Its version is in the requested range, but is a prerelease.
    PrereleaseNotRequested,
    /// It declares dependencies, and these are refused.
    DependencyUnsupported,
    /// It declares a constraint that cannot be read.
    ConstraintInvalid,
    /// The cluster lacks what it needs.
    ConstraintUnmet,
    /// Whether the cluster has what it needs cannot be found out.
    ConstraintUnknown,
    /// The package does not have the requested channel.
    UnknownChannel,
    /// No bundle of the package is left to choose.
    NoCandidate,
    /// There is no catalog to ask.
    NoCatalog,
    /// Several catalogs of the same priority have the package.
    AmbiguousCatalogs,
    /// The selector does not select the catalog.
    CatalogNotSelected,
    /// The catalog is switched off.
    CatalogDisabled,
    /// The catalog is not served.
    CatalogNotServing,
    /// The image of the catalog is not resolved yet.
    CatalogNotResolved,
    /// No copy of the catalog is there yet.
    CatalogNotCached,
    /// The catalog cannot be downloaded.
    CatalogFetchFailed,
    /// The catalog cannot be read.
    CatalogParseFailed,
    /// The catalog does not have the package.
    PackageNotInCatalog,
    /// The catalog can be asked.
    Usable,
    /// Another bundle has a higher version.
    LowerVersion,
    /// Another bundle has a higher release of the version.
    LowerRelease,
    /// Another bundle is equal, and its name comes first.
    TieBrokenByName,
    /// Another catalog has the same, not deprecated.
    DeprecatedInThisCatalog,
    /// Its catalog has a lower priority.
    LowerPriorityCatalog,
    /// Catalogs that cannot be read may have a better one.
    UnreadableCatalogs,
    /// What is installed depends on what the step replaces.
    StepBreaksInstalled,
    /// No edge leads there; it was asked for all the same.
    ForcedStep,
    /// It is in no channel.
    InNoChannel,
    /// The range of versions it skips cannot be read.
    InvalidSkipRange,
    /// An edge leads to it in a channel that is not requested.
    EdgeInUnrequestedChannel,
    /// It is installed, and nothing better follows it.
    StaysOnInstalled,

    // Ours, of Events.
    /// A bundle was chosen although a catalog could not be read.
    CatalogUnavailable,
    /// The chosen bundle is a step to a lower version.
    SuccessorIsLowerVersion,
    /// What is installed depends on what the chosen bundle replaces.
    BreaksInstalled,
    /// The content of a catalog has errors or warnings.
    CatalogFindings,
    /// A newer version is offered but not chosen.
    UpgradeAvailable,
    /// A revision was made.
    RevisionCreated,
    /// A step up was made that no edge of the catalog allows.
    ForcedUpgrade,
    /// An update comes from another catalog than what is installed.
    CatalogChanged,
    /// A step down was made that no edge of the catalog allows.
    ForcedRollback,
    /// A certificate of webhooks was issued.
    CertificateIssued,
    /// A certificate of webhooks took the place of one that could not be used.
    CertificateReplaced,
    /// The CA of our own listeners took the place of one that was lost or could not be used.
    ServingAuthorityReplaced,
    /// A CRD stays although the new revision does not have it.
    #[strum(serialize = "CRDRetained")]
    CrdRetained,
    /// Objects that were left out are applied.
    DeferredObjectsApplied,
    /// Nothing is removed, because an annotation asks for what is not known.
    RemovalHeld,
    /// The rest of an uninstall is left to the garbage collector.
    UninstallFallback,

    // Of the ClusterOperator that the upgrade gate writes, as OpenShift's own operator has them.
    /// Nothing is wrong.
    AsExpected,
    /// Not everything has been read yet.
    NoData,
    /// The version is not reported yet.
    UpgradeInProgress,
    /// The version of the cluster cannot be read.
    ClusterVersionUnknown,
    /// Installed bundles stop the update. The name is the union of operator conditions': the
    /// condition without its suffix, then its reason.
    #[strum(serialize = "InstalledOLMOperators_IncompatibleOperatorsInstalled")]
    IncompatibleOperatorsInstalled,
    /// What installed bundles support cannot be read.
    #[strum(serialize = "InstalledOLMOperators_FailureGettingExtensionMetadata")]
    FailureGettingExtensionMetadata,
}

impl Reason {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Condition types of the ClusterOperator that the upgrade gate writes.
pub mod clusteroperator {
    /// The controller works.
    pub const AVAILABLE: &str = "Available";
    /// The controller moves to another version.
    pub const PROGRESSING: &str = "Progressing";
    /// Something has been wrong for two minutes.
    pub const DEGRADED: &str = "Degraded";
    /// Whether the cluster may be updated to the next minor version.
    pub const UPGRADEABLE: &str = "Upgradeable";
    /// Operator condition that the gate's verdict is part of, as upstream's operator names it.
    pub const INSTALLED_OLM_OPERATORS_UPGRADEABLE: &str = "InstalledOLMOperatorsUpgradeable";
}
