//! Every condition type and every reason, each written in this one place.
//!
//! Conditions that upstream has carry only upstream's reasons (api.md 4.1, decision 26);
//! reasons of our own appear on the additive condition types alone.

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
    /// ClusterObjectSet, ours: objects of optional kinds wait until the cluster serves their kind
    /// (decision 21). Absent when none does.
    pub const DEFERRED: &str = "Deferred";
    /// ClusterExtension and ClusterCatalog, ours: everything is as the spec wants it
    /// (decisions 12 and 32).
    pub const READY: &str = "Ready";
    /// ClusterExtension, ours: nothing is applied, because the annotation says so (applying.md 10).
    pub const PAUSED: &str = "Paused";
    /// ClusterExtension, ours: whether its bundle supports the next platform version
    /// (applying.md 9.7).
    pub const PLATFORM_UPGRADEABLE: &str = "PlatformUpgradeable";
}

/// Condition reasons.
pub mod reasons {
    /// The desired state is reached.
    pub const SUCCEEDED: &str = "Succeeded";
    /// An error that may go away by itself; the controller retries.
    pub const RETRYING: &str = "Retrying";
    /// A revision is being rolled out.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// An error that needs somebody to act.
    pub const BLOCKED: &str = "Blocked";
    /// The spec cannot be followed as it is written.
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
    /// A revision was not rolled out in time.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

    /// `Installed`: nothing is installed, or it is not known whether anything is.
    pub const FAILED: &str = "Failed";
    /// `Installed`: not yet, the first revision is being rolled out. `BundleDeprecated`: nothing
    /// is installed.
    pub const ABSENT: &str = "Absent";

    /// The catalog calls it deprecated.
    pub const DEPRECATED: &str = "Deprecated";
    /// The catalog does not call it deprecated.
    pub const NOT_DEPRECATED: &str = "NotDeprecated";
    /// No catalog data says anything about it.
    pub const DEPRECATION_STATUS_UNKNOWN: &str = "DeprecationStatusUnknown";

    /// `Available`: all objects pass their probes.
    pub const PROBES_SUCCEEDED: &str = "ProbesSucceeded";
    /// `Available`: an object fails its probe.
    pub const PROBE_FAILURE: &str = "ProbeFailure";
    /// `Available`: an error kept the probes from being observed.
    pub const RECONCILING: &str = "Reconciling";
    /// `Available` and `Progressing` of a ClusterObjectSet: it is archived.
    pub const ARCHIVED: &str = "Archived";

    /// `Serving`: the content is served.
    pub const AVAILABLE: &str = "Available";
    /// `Serving`: there is no content to serve.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// `Serving`: the catalog was switched off.
    pub const USER_SPECIFIED_UNAVAILABLE: &str = "UserSpecifiedUnavailable";

    /// `Ready`, ours: the object is being removed.
    pub const UNINSTALLING: &str = "Uninstalling";
    /// `Ready`, ours: nothing is installed.
    pub const NOT_INSTALLED: &str = "NotInstalled";
    /// `Ready`, ours: the catalog offers the installed bundle with other content
    /// (decision 29).
    pub const CONTENT_CHANGED: &str = "ContentChanged";
    /// `Ready`, ours: the image of the installed bundle cannot be fetched, so changes wait.
    pub const BUNDLE_UNAVAILABLE: &str = "BundleUnavailable";
    /// `Ready`, ours: the extension asks for a check of CRDs that is not made.
    pub const CRD_UPGRADE_SAFETY_UNCHECKED: &str = "CRDUpgradeSafetyUnchecked";
    /// `Ready`, ours: a newer bundle is of the next major version (decision 22).
    pub const NEXT_MAJOR_HELD: &str = "NextMajorHeld";
    /// `Ready`, ours: the successor has a lower version (decision 22).
    pub const LOWER_VERSION_HELD: &str = "LowerVersionHeld";
    /// `status.update`, ours: the version in the spec excludes it.
    pub const PINNED: &str = "Pinned";
    /// `Ready`, `Paused` and `status.update`, ours: nothing is applied while the annotation is set.
    pub const PAUSED: &str = "Paused";
    /// `Deferred`, and `Ready` when nothing worse is to be reported, ours: objects of optional
    /// kinds are left out (decision 21).
    pub const OBJECTS_DEFERRED: &str = "ObjectsDeferred";

    /// `PlatformUpgradeable`: the bundle supports the next version.
    pub const COMPATIBLE: &str = "Compatible";
    /// `PlatformUpgradeable`: the bundle does not support the next version.
    pub const INCOMPATIBLE_WITH_NEXT_VERSION: &str = "IncompatibleWithNextVersion";
    /// `PlatformUpgradeable`: the property cannot be read.
    pub const INVALID_PROPERTY: &str = "InvalidProperty";
    /// `PlatformUpgradeable`: the bundle declares no limit.
    pub const NOT_DECLARED: &str = "NotDeclared";
}

/// Codes of a resolution, all of them ours: reasons of `Ready` and of Events when nothing is found or
/// something newer is held, and codes of the report (resolution.md 6.2).
pub mod resolution {
    /// A newer bundle is of the next minor version.
    pub const NEXT_MINOR_HELD: &str = "NextMinorHeld";
    /// A newer bundle is another version, and none is taken.
    pub const NEXT_PATCH_HELD: &str = "NextPatchHeld";
    /// Nothing leads from the installed bundle to it.
    pub const NOT_SUCCESSOR: &str = "NotSuccessor";
    /// It is in none of the requested channels.
    pub const NOT_IN_REQUESTED_CHANNELS: &str = "NotInRequestedChannels";
    /// A range is requested, and its version cannot be read.
    pub const INVALID_VERSION: &str = "InvalidVersion";
    /// Its version is not in the requested range.
    pub const VERSION_OUT_OF_RANGE: &str = "VersionOutOfRange";
    /// Its version is in the requested range, but is a prerelease.
    pub const PRERELEASE_NOT_REQUESTED: &str = "PrereleaseNotRequested";
    /// It declares dependencies, and these are refused.
    pub const DEPENDENCY_UNSUPPORTED: &str = "DependencyUnsupported";
    /// It declares a constraint that cannot be read.
    pub const CONSTRAINT_INVALID: &str = "ConstraintInvalid";
    /// The cluster lacks what it needs.
    pub const CONSTRAINT_UNMET: &str = "ConstraintUnmet";
    /// Whether the cluster has what it needs cannot be found out.
    pub const CONSTRAINT_UNKNOWN: &str = "ConstraintUnknown";
    /// The package does not have the requested channel.
    pub const UNKNOWN_CHANNEL: &str = "UnknownChannel";
    /// No bundle of the package is left to choose.
    pub const NO_CANDIDATE: &str = "NoCandidate";
    /// There is no catalog to ask.
    pub const NO_CATALOG: &str = "NoCatalog";
    /// Several catalogs of the same priority have the package.
    pub const AMBIGUOUS_CATALOGS: &str = "AmbiguousCatalogs";
    /// The selector does not select the catalog.
    pub const CATALOG_NOT_SELECTED: &str = "CatalogNotSelected";
    /// The catalog is switched off.
    pub const CATALOG_DISABLED: &str = "CatalogDisabled";
    /// The catalog is not served.
    pub const CATALOG_NOT_SERVING: &str = "CatalogNotServing";
    /// The image of the catalog is not resolved yet.
    pub const CATALOG_NOT_RESOLVED: &str = "CatalogNotResolved";
    /// No copy of the catalog is there yet.
    pub const CATALOG_NOT_CACHED: &str = "CatalogNotCached";
    /// The catalog cannot be downloaded.
    pub const CATALOG_FETCH_FAILED: &str = "CatalogFetchFailed";
    /// The catalog cannot be read.
    pub const CATALOG_PARSE_FAILED: &str = "CatalogParseFailed";
    /// The catalog does not have the package.
    pub const PACKAGE_NOT_IN_CATALOG: &str = "PackageNotInCatalog";
}

/// Reasons of Events, all of them ours.
pub mod events {
    /// A bundle was chosen although a catalog could not be read.
    pub const CATALOG_UNAVAILABLE: &str = "CatalogUnavailable";
    /// The chosen bundle is a step to a lower version.
    pub const SUCCESSOR_IS_LOWER_VERSION: &str = "SuccessorIsLowerVersion";
    /// What is installed depends on what the chosen bundle replaces.
    pub const BREAKS_INSTALLED: &str = "BreaksInstalled";
    /// A newer version is offered but not chosen.
    pub const UPGRADE_AVAILABLE: &str = "UpgradeAvailable";
    /// A revision was made.
    pub const REVISION_CREATED: &str = "RevisionCreated";
    /// A step up was made that no edge of the catalog allows.
    pub const FORCED_UPGRADE: &str = "ForcedUpgrade";
    /// A step down was made that no edge of the catalog allows.
    pub const FORCED_ROLLBACK: &str = "ForcedRollback";
    /// A certificate of webhooks was issued.
    pub const CERTIFICATE_ISSUED: &str = "CertificateIssued";
    /// A certificate of webhooks took the place of one that could not be used.
    pub const CERTIFICATE_REPLACED: &str = "CertificateReplaced";
    /// A CRD stays although the new revision does not have it.
    pub const CRD_RETAINED: &str = "CRDRetained";
    /// Objects that were left out are applied.
    pub const DEFERRED_OBJECTS_APPLIED: &str = "DeferredObjectsApplied";
    /// Nothing is removed, because an annotation asks for what is not known.
    pub const REMOVAL_HELD: &str = "RemovalHeld";
    /// The rest of an uninstall is left to the garbage collector.
    pub const UNINSTALL_FALLBACK: &str = "UninstallFallback";
}

/// Condition types and reasons of the ClusterOperator that the upgrade gate writes.
pub mod clusteroperator {
    /// The controller works.
    pub const AVAILABLE: &str = "Available";
    /// The controller moves to another version.
    pub const PROGRESSING: &str = "Progressing";
    /// Something has been wrong for two minutes.
    pub const DEGRADED: &str = "Degraded";
    /// Whether the cluster may be updated to the next minor version.
    pub const UPGRADEABLE: &str = "Upgradeable";

    /// Nothing is wrong.
    pub const AS_EXPECTED: &str = "AsExpected";
    /// Not everything has been read yet.
    pub const NO_DATA: &str = "NoData";
    /// The version is not reported yet.
    pub const UPGRADE_IN_PROGRESS: &str = "UpgradeInProgress";
    /// The version of the cluster cannot be read.
    pub const CLUSTER_VERSION_UNKNOWN: &str = "ClusterVersionUnknown";
    /// Operator condition that the gate's verdict is part of, as upstream's operator names it.
    pub const INSTALLED_OLM_OPERATORS_UPGRADEABLE: &str = "InstalledOLMOperatorsUpgradeable";
    /// Installed bundles stop the update. The name is the union of operator conditions': the
    /// condition without its suffix, then its reason.
    pub const INCOMPATIBLE_OPERATORS_INSTALLED: &str =
        "InstalledOLMOperators_IncompatibleOperatorsInstalled";
    /// What installed bundles support cannot be read.
    pub const FAILURE_GETTING_EXTENSION_METADATA: &str =
        "InstalledOLMOperators_FailureGettingExtensionMetadata";
}
