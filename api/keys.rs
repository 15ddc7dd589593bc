//! Every label, annotation, finalizer, field manager and fixed name, each written in this one
//! place (api.md 5).

/// Labels.
pub mod label {
    /// ClusterCatalog: its own name, so that selectors can choose it by name.
    pub const METADATA_NAME: &str = "olm.operatorframework.io/metadata.name";
    /// ClusterObjectSet and managed objects: [`OWNER_KIND_EXTENSION`].
    pub const OWNER_KIND: &str = "olm.operatorframework.io/owner-kind";
    /// ClusterObjectSet, managed objects and content Secrets: name of the ClusterExtension.
    pub const OWNER_NAME: &str = "olm.operatorframework.io/owner-name";
    /// Content Secrets: name of the ClusterObjectSet.
    pub const REVISION_NAME: &str = "olm.operatorframework.io/revision-name";
    /// ClusterObjectSet: `"true"` when it was built from a Helm release.
    pub const MIGRATED_FROM_HELM: &str = "olm.operatorframework.io/migrated-from-helm";
    /// ClusterObjectSet: `"true"` when it was built from objects of OLM Classic.
    pub const MIGRATED_FROM_CLASSIC: &str = "olm.operatorframework.io/migrated-from-classic";
    /// Managed objects: [`MANAGED_BY_OLM`]; overwrites the value of the bundle.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Our own manifests: `olm`.
    pub const PART_OF: &str = "app.kubernetes.io/part-of";
    /// CRDs kept by the uninstall policy `RetainCRDs`: name of the ClusterExtension.
    pub const RETAINED_BY: &str = "policy.olm.operatorframework.io/retained-by";

    /// Secrets of the controller's namespace (on OpenShift of both), `"true"`: a ClusterCatalog may
    /// name it as its [`PULL_SECRET`](super::policy::PULL_SECRET) (deploying.md 3.1).
    pub const CATALOG_PULL_SECRET: &str = "policy.olm.operatorframework.io/catalog-pull-secret";
    /// Secrets of the controller's namespace, `"true"`: it is copied into the namespace of each
    /// extension whose `deploymentConfig.imagePullSecrets` names it (decision 49).
    pub const OPERATOR_PULL_SECRET: &str = "policy.olm.operatorframework.io/operator-pull-secret";
    /// Secrets that are such copies: `"true"`.
    pub const PULL_SECRET_COPY: &str = "olm.operatorframework.io/pull-secret-copy";

    /// Namespaces: every step of the extensions that are installed there waits for the approval of
    /// its plan, unless the value is `"false"` (applying.md 10, F11).
    pub const REQUIRE_APPROVAL: &str = "policy.olm.operatorframework.io/require-approval";

    /// Objects of OLM Classic: name of the ClusterServiceVersion that installed them.
    pub const CLASSIC_OWNER: &str = "olm.owner";
    /// Objects of OLM Classic: namespace of [`CLASSIC_OWNER`].
    pub const CLASSIC_OWNER_NAMESPACE: &str = "olm.owner.namespace";
    /// ClusterServiceVersions of OLM Classic: the namespace this is a copy from.
    pub const COPIED_FROM: &str = "olm.copiedFrom";

    /// Value of [`OWNER_KIND`].
    pub const OWNER_KIND_EXTENSION: &str = "ClusterExtension";
    /// Value of [`PART_OF`].
    pub const PART_OF_OLM: &str = "olm";
    /// Value of [`MANAGED_BY`].
    pub const MANAGED_BY_OLM: &str = "olm.operatorframework.io";
    /// Label of older upstream versions; removed when objects are orphaned.
    pub const BOXCUTTER_MANAGED: &str = "boxcutter-managed";
}

/// Annotations the controller sets or reads.
pub mod annotation {
    /// ClusterObjectSet and managed objects: name of the package.
    pub const PACKAGE_NAME: &str = "olm.operatorframework.io/package-name";
    /// ClusterObjectSet: name of the bundle in its catalog.
    pub const BUNDLE_NAME: &str = "olm.operatorframework.io/bundle-name";
    /// ClusterObjectSet and managed objects: version of the bundle.
    pub const BUNDLE_VERSION: &str = "olm.operatorframework.io/bundle-version";
    /// ClusterObjectSet, ours: digest of the bundle image that the content was rendered from.
    pub const BUNDLE_DIGEST: &str = "olm.operatorframework.io/bundle-digest";
    /// ClusterObjectSet: release of the bundle; present and empty means "explicitly none".
    pub const BUNDLE_RELEASE: &str = "olm.operatorframework.io/bundle-release";
    /// ClusterObjectSet: image of the bundle as the catalog writes it.
    pub const BUNDLE_REFERENCE: &str = "olm.operatorframework.io/bundle-reference";
    /// ClusterObjectSet: JSON list of the bundle's properties.
    pub const PROPERTIES: &str = "olm.properties";
    /// ClusterObjectSet, ours: JSON list of the bundle's constraint properties, at most 64 KiB
    /// (resolution.md 5).
    pub const BUNDLE_CONSTRAINTS: &str = "olm.operatorframework.io/bundle-constraints";
    /// ClusterObjectSet, ours: generation of the ClusterExtension that it was created for
    /// (applying.md 1.3).
    pub const EXTENSION_GENERATION: &str = "olm.operatorframework.io/clusterextension-generation";
    /// ClusterObjectSet, ours: name of the catalog that offered the bundle.
    pub const CATALOG: &str = "olm.operatorframework.io/catalog";
    /// ClusterObjectSet, ours: the field manager that last wrote spec or policy of the
    /// ClusterExtension before it was created.
    pub const CHANGED_BY: &str = "olm.operatorframework.io/changed-by";
    /// ClusterObjectSet, ours: the version that was installed before a forced step, which no edge
    /// of the catalog allowed.
    pub const FORCED_FROM: &str = "olm.operatorframework.io/forced-from";
    /// ClusterObjectSet, ours: number of the earlier revision whose content it has
    /// (applying.md 10, F10).
    pub const CONTENT_OF: &str = "olm.operatorframework.io/content-of";
    /// ClusterObjectSet, ours: the bundle whose failed rollout this revision replaced (applying.md
    /// 10, F23).
    pub const REVERTED: &str = "olm.operatorframework.io/reverted";
    /// ClusterObjectSet, ours: the last state of the rollout that this revision replaced.
    pub const REVERTED_BECAUSE: &str = "olm.operatorframework.io/reverted-because";
    /// ClusterObjectSet, ours: names of the Secrets that were copied for its pods, joined by commas
    /// (decision 49).
    pub const COPIED_PULL_SECRETS: &str = "olm.operatorframework.io/copied-pull-secrets";
    /// ClusterExtension being deleted, ours: the installed objects are kept; the value is its
    /// `deletionTimestamp` (applying.md 7.3).
    pub const ORPHANED: &str = "olm.operatorframework.io/orphaned";
    /// ClusterObjectSet: name of the service account that applies it.
    pub const SERVICE_ACCOUNT_NAME: &str = "olm.operatorframework.io/service-account-name";
    /// ClusterObjectSet: namespace of the service account that applies it.
    pub const SERVICE_ACCOUNT_NAMESPACE: &str =
        "olm.operatorframework.io/service-account-namespace";
    /// Managed objects: decimal number of the revision.
    pub const REVISION: &str = "olm.operatorframework.io/revision";
    /// CRDs being deleted, ours: when we last touched them to wake the API server's finalizer
    /// controller (applying.md 7.2).
    pub const WOKEN_AT: &str = "olm.operatorframework.io/woken-at";
    /// CRDs: the upstream channel to which they belong.
    pub const GENERATOR: &str = "olm.operatorframework.io/generator";

    /// Pod templates of a bundle's Deployments: namespaces the operator watches.
    pub const TARGET_NAMESPACES: &str = "olm.targetNamespaces";
    /// Pod templates of a bundle's Deployments: namespace the operator runs in.
    pub const OPERATOR_NAMESPACE: &str = "olm.operatorNamespace";
    /// ClusterServiceVersions of OLM Classic: the properties of their bundle.
    pub const CSV_PROPERTIES: &str = "operatorframework.io/properties";
    /// ClusterCatalog, and CatalogSources of OLM Classic: the image that is pulled instead of
    /// `spec.source.image.ref`, with `{kube_major_version}`, `{kube_minor_version}` and
    /// `{kube_patch_version}` for the version of the API server (catalogs.md 2.3).
    pub const CATALOG_IMAGE_TEMPLATE: &str = "olm.catalogImageTemplate";
    /// Left by client-side `kubectl apply`; never carried into a revision.
    pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

    /// cert-manager injects the CA of this Certificate: `<namespace>/<name>`.
    pub const CERT_MANAGER_INJECT_CA_FROM: &str = "cert-manager.io/inject-ca-from";
    /// cert-manager injects the CA of this Secret: `<namespace>/<name>`.
    pub const CERT_MANAGER_INJECT_CA_FROM_SECRET: &str = "cert-manager.io/inject-ca-from-secret";
    /// cert-manager injects the CA of the API server into objects annotated with this.
    pub const CERT_MANAGER_INJECT_APISERVER_CA: &str = "cert-manager.io/inject-apiserver-ca";
    /// Set by cert-manager on a Secret: name of the Certificate it belongs to.
    pub const CERT_MANAGER_CERTIFICATE_NAME: &str = "cert-manager.io/certificate-name";
    /// OpenShift injects its service CA into objects annotated with this.
    pub const SERVICE_CA_INJECT: &str = "service.beta.openshift.io/inject-cabundle";
    /// OpenShift issues a serving certificate for Services annotated with this.
    pub const SERVICE_CA_SERVING_CERT: &str = "service.beta.openshift.io/serving-cert-secret-name";
    /// Set by OpenShift on a Secret: name of the Service for which it was issued.
    pub const SERVICE_CA_ORIGIN: &str = "service.beta.openshift.io/originating-service-name";
    /// Set by OpenShift on a Secret: UID of that Service. It replaces no Secret without it.
    pub const SERVICE_CA_ORIGIN_UID: &str = "service.beta.openshift.io/originating-service-uid";
}

/// Annotations on a ClusterExtension for policies that upstream's schema has no field for.
///
/// Unknown values are refused as `InvalidConfiguration`, never replaced by a default
/// (applying.md 10).
pub mod policy {
    /// Prefix of all of them.
    pub const PREFIX: &str = "policy.olm.operatorframework.io/";
    /// `None`, `PatchOnly`, `MinorOnly` or `Any` (decision 22).
    pub const UPGRADE: &str = "policy.olm.operatorframework.io/upgrade";
    /// When automatic updates may begin: `[DAYS ]HH:MM-HH:MM[ ZONE]`, joined by `;`
    /// (applying.md 10).
    pub const UPDATE_WINDOW: &str = "policy.olm.operatorframework.io/update-window";
    /// On a ClusterExtension: digest of changed content to install (decision 29). On a
    /// ClusterCatalog: digest of newer content to serve although it is held.
    pub const ACCEPT_IMAGE: &str = "policy.olm.operatorframework.io/accept-image";
    /// CRD checks whose findings are allowed, separated by commas, each `[<crd>:]<check>[@<date or
    /// time>]` (decision 36). On a ClusterObjectSet: those that were allowed when it was created.
    pub const CRD_SAFETY_ALLOW: &str = "policy.olm.operatorframework.io/crd-safety-allow";
    /// Why these findings are allowed; required together with `crd-safety-allow`.
    pub const CRD_SAFETY_REASON: &str = "policy.olm.operatorframework.io/crd-safety-reason";
    /// `Delete`, `RetainCRDs` or `BlockIfInstances` (applying.md 7.3).
    pub const UNINSTALL: &str = "policy.olm.operatorframework.io/uninstall";
    /// Kinds whose existing objects are taken over if no owner controls them, separated by commas,
    /// each `<kind>` or `<kind>.<group>`, or `all`.
    pub const ADOPT: &str = "policy.olm.operatorframework.io/adopt";
    /// `Inject`: operators get the proxies of OpenShift's `Proxy` `cluster`, elsewhere those of the
    /// controller; or `None` (applying.md 10).
    pub const CLUSTER_PROXY: &str = "policy.olm.operatorframework.io/cluster-proxy";
    /// `"true"`: the install namespace is created, as the account, if it does not exist.
    pub const CREATE_NAMESPACE: &str = "policy.olm.operatorframework.io/create-namespace";
    /// `Enabled`: the operator gets an OperatorCondition, with which it can hold its updates, and its
    /// name in variable `OPERATOR_CONDITION_NAME`, which some operators take for a sign of OLM
    /// Classic; or `Disabled` (applying.md 10).
    pub const OPERATOR_CONDITIONS: &str = "policy.olm.operatorframework.io/operator-conditions";
    /// `none`, `create` or `aggregate` (api.md 6.3).
    pub const USER_ROLES: &str = "policy.olm.operatorframework.io/user-roles";
    /// On a ClusterObjectSet: the webhook certificate provider chosen for the first revision.
    pub const WEBHOOK_CERTIFICATES: &str = "policy.olm.operatorframework.io/webhook-certificates";
    /// `constraints`, or `dependencies` with the same meaning: declared dependencies are not checked
    /// (applying.md 10, F7).
    pub const FORCE: &str = "policy.olm.operatorframework.io/force";
    /// `"true"` on a ClusterExtension: resolve and report, apply nothing; on a ClusterCatalog:
    /// serve no newer content.
    pub const PAUSED: &str = "policy.olm.operatorframework.io/paused";
    /// The one version that is approved for installation, `<version>` or
    /// `<version>@sha256:<plan>` (applying.md 10, F11).
    pub const APPROVE: &str = "policy.olm.operatorframework.io/approve";
    /// On a ClusterCatalog: name of the Secret with the credentials for its image and for those of
    /// its bundles (deploying.md 3.1).
    pub const PULL_SECRET: &str = "policy.olm.operatorframework.io/pull-secret";
    /// On a ClusterCatalog: how long newer content must be known before it is served, for example
    /// `48h` or `7d` (applying.md 10).
    pub const MINIMUM_AGE: &str = "policy.olm.operatorframework.io/minimum-age";
    /// On a ClusterCatalog, `Suspicious` or `None`: `Suspicious` holds newer content that removes
    /// or changes packages, channels or versions (applying.md 10).
    pub const QUARANTINE: &str = "policy.olm.operatorframework.io/quarantine";
    /// On a ClusterCatalog, any text: its image is polled at once when the text changes.
    pub const REFRESH: &str = "policy.olm.operatorframework.io/refresh";
    /// `Allow` or `Hold`: whether an update may come from another catalog than the installed bundle
    /// (applying.md 10).
    pub const CATALOG_MOVE: &str = "policy.olm.operatorframework.io/catalog-move";
    /// `Allow` or `RequireApproval`: whether an update or a rollback that gives more rights, to the
    /// operator or to users, needs approval (applying.md 10, F14).
    pub const PERMISSION_INCREASE: &str = "policy.olm.operatorframework.io/permission-increase";
    /// Number of the archived revision to go back to (applying.md 10, F10).
    pub const ROLLBACK_TO: &str = "policy.olm.operatorframework.io/rollback-to";
    /// `Rollback` or `Keep`: whether a rollout that timed out is reverted; a spec that was changed
    /// meanwhile is followed instead (applying.md 10, F23).
    pub const ON_FAILURE: &str = "policy.olm.operatorframework.io/on-failure";
    /// On the CRDs of these kinds, `"true"`: they may be deleted, with every object of them
    /// (deploying.md P12).
    pub const ALLOW_DELETION: &str = "policy.olm.operatorframework.io/allow-deletion";
}

/// Finalizers the controller sets, removes or reads.
pub mod finalizer {
    /// ClusterExtension: present until it is torn down.
    pub const CLEANUP_UNPACK_CACHE: &str = "olm.operatorframework.io/cleanup-unpack-cache";
    /// ClusterExtension: written by upstream only; removed together with the one above.
    pub const CLEANUP_CONTENTMANAGER_CACHE: &str =
        "olm.operatorframework.io/cleanup-contentmanager-cache";
    /// ClusterObjectSet: present until its objects are torn down.
    pub const TEARDOWN: &str = "olm.operatorframework.io/teardown";
    /// ClusterCatalog: present until its served and unpacked content is removed.
    pub const DELETE_SERVER_CACHE: &str = "olm.operatorframework.io/delete-server-cache";
    /// ClusterServiceVersions of OLM Classic: present while their objects are released.
    pub const MOVING: &str = "olm.operatorframework.io/moving";
    /// ClusterServiceVersions, OLM Classic's own: it deletes the objects whose labels name the
    /// ClusterServiceVersion.
    pub const CSV_CLEANUP: &str = "operators.coreos.com/csv-cleanup";
    /// Of Kubernetes: dependents are kept.
    pub const ORPHAN: &str = "orphan";
}

/// Field managers. Always given explicitly, because the client's default differs from Go's.
pub mod manager {
    /// Server-side apply of ClusterObjectSets, with force.
    pub const EXTENSION: &str = "olm.operatorframework.io/clusterextension-controller";
    /// The one whom the API server has manage all fields of an object whose managers somebody has cleared.
    pub const NOBODY: &str = "before-first-apply";
    /// Creation and server-side apply of managed objects.
    pub const OBJECTS: &str = "olm.operatorframework.io";
    /// Dry runs.
    pub const DRY_RUN: &str = "dummy";
    /// Status, finalizers, Secrets and archive patches of the extension side.
    pub const OPERATOR_CONTROLLER: &str = "operator-controller";
    /// Status and finalizers of the catalog side.
    pub const CATALOGD: &str = "catalogd";
    /// The ClusterOperator.
    pub const UPGRADE_GATE: &str = "olm.operatorframework.io/upgrade-gate";
}

/// Types of properties of a bundle.
pub mod property {
    /// Newest OpenShift minor version the bundle supports.
    pub const MAX_OPENSHIFT_VERSION: &str = "olm.maxOpenShiftVersion";
    /// Package and version of the bundle.
    pub const PACKAGE: &str = "olm.package";
    /// A kind the bundle provides.
    pub const GVK: &str = "olm.gvk";
    /// A kind the bundle needs.
    pub const GVK_REQUIRED: &str = "olm.gvk.required";
    /// A package the bundle needs.
    pub const PACKAGE_REQUIRED: &str = "olm.package.required";
    /// A compound constraint.
    pub const CONSTRAINT: &str = "olm.constraint";
    /// `RetainCRDs` or `BlockIfInstances`: what the author asks for where the controller's default
    /// protects users' objects less.
    pub const UNINSTALL_POLICY: &str = "olm.uninstallPolicy";
    /// Excerpt of the ClusterServiceVersion.
    pub const CSV_METADATA: &str = "olm.csv.metadata";
    /// A manifest, in catalogs that were not migrated to `olm.csv.metadata`.
    pub const BUNDLE_OBJECT: &str = "olm.bundle.object";
    /// Marks a bundle that OLM Classic never installs.
    pub const DEPRECATED: &str = "olm.deprecated";
}

/// Names of the admission policies for service accounts and approvals, and of their bindings
/// (deploying.md 6).
pub mod admission {
    /// Users who may set the service account of a ClusterExtension.
    pub const EXTENSION_ACCOUNT: &str = "clusterextension-serviceaccount-use";
    /// Users who may set the service account of a ClusterObjectSet.
    pub const OBJECT_SET_ACCOUNT: &str = "clusterobjectset-serviceaccount-use";
    /// Users who may write a ClusterExtension without a service account, if there is a default one.
    pub const DEFAULT_ACCOUNT: &str = "clusterextension-default-account";
    /// Users who may approve a version.
    pub const APPROVE: &str = "clusterextension-approve";
}

/// Other fixed names and values.
pub mod name {
    /// Phase of a ClusterServiceVersion of OLM Classic that is installed.
    pub const CSV_SUCCEEDED: &str = "Succeeded";
    /// Default namespace of the controller.
    pub const SYSTEM_NAMESPACE: &str = "olmv1-system";
    /// Name of the controller's service account in the manifests.
    pub const CONTROLLER_ACCOUNT: &str = "operator-controller-controller-manager";
    /// Type of the Secrets that hold the objects of a revision.
    pub const OBJECT_DATA_SECRET_TYPE: &str = "olm.operatorframework.io/object-data";
    /// Type of the Secrets that hold the CA of an extension's webhooks.
    pub const WEBHOOK_CA_SECRET_TYPE: &str = "olm.operatorframework.io/webhook-ca";
    /// Leader election lease of the extension side.
    pub const LEASE_OPERATOR_CONTROLLER: &str = "9c4404e7.operatorframework.io";
    /// Leader election lease of the catalog side.
    pub const LEASE_CATALOGD: &str = "catalogd-operator-lock";
    /// The ClusterOperator that the upgrade gate writes.
    pub const CLUSTER_OPERATOR: &str = "olm";
    /// The ClusterOperator that the upgrade gate writes where upstream's operator owns `olm`.
    pub const CLUSTER_OPERATOR_OURS: &str = "olm-clusterextensions";
    /// The configuration of OpenShift's operator of OLM, of kind `OLM`.
    pub const OLM: &str = "cluster";
    /// The ConfigMap in the controller's namespace that holds its effective settings.
    pub const CONTROLLER_CONFIG: &str = "olm-controller-config";
    /// The Service of the catalog server.
    pub const SERVICE_CATALOGD: &str = "catalogd-service";
    /// The Service of the extension side.
    pub const SERVICE_OPERATOR_CONTROLLER: &str = "operator-controller-service";
    /// The Secret in the controller's namespace that holds the serving CA with its key.
    pub const SERVING_CA: &str = "olm-serving-ca";
    /// The ConfigMap in the controller's namespace that publishes the serving CA.
    pub const PUBLISHED_CA: &str = "olm-serving-ca";
    /// The Secret beside it that publishes the serving CA where upstream's clients look for it:
    /// in Secrets whose name begins with `catalogd`.
    pub const PUBLISHED_CA_SECRET: &str = "catalogd-ca";
    /// The key of one or more CAs in Secrets and ConfigMaps.
    pub const CA_BUNDLE: &str = "ca.crt";
    /// Label of a catalog image with the path of its configuration files.
    pub const CATALOG_CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
}
