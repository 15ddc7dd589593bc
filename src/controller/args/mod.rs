//! Command line flags, parsed into a configuration that cannot be wrong.
//!
//! Names and defaults are upstream's where upstream has the flag, so that its manifests start this
//! program unchanged. Source: applying.md 11.2.

mod value;
mod warnings;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use olm_api::keys;
use olm_core::extension::holds::RbacPreflight;
use olm_core::gate::MinorRelease;
use olm_core::guard::AccountPolicy;
use olm_core::render::{ProxyVariables, UserRoles};
use olm_core::resolve::{Unavailability, UpdatePolicy};
use olm_core::revision::Account;
use olm_core::settings::{
    ConstraintProvider, FeatureGate, MissingOptionalKinds, NamedServiceAccount, WebhookCertificates,
};
use olm_core::uninstall::UninstallPolicy;
use olm_image::auth_file::AuthFiles;

use crate::credentials::GlobalPullSecret;
use crate::gate::Manage;
use crate::tls;
pub use value::*;
use value::{
    CERT_MANAGER_GATE, KLOG, SERVICE_CA_GATE, bytes, duration, gates, listen_address, words,
};

/// Heading of the flags that few installations set.
const RARE: &str = "Rarely needed";
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Installs and upgrades ClusterExtensions, serves ClusterCatalogs, and maintains the OpenShift
/// gate.
#[derive(Debug, Clone, Parser)]
// The last of a flag that is given twice counts, as with upstream's flags.
#[command(name = "olm-controller", version, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag without a value")]
pub struct Args {
    /// Parts to run; by default all of them, or those that the name of the program selects
    /// (operator-controller: extensions,gate; catalogd: catalogs).
    #[arg(long, value_enum, value_delimiter = ',')]
    pub components: Vec<Component>,

    /// Kubeconfig; by default $KUBECONFIG, ~/.kube/config or the pod's own account.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace for Secrets of revisions; by default the pod's, else olmv1-system.
    #[arg(long)]
    pub system_namespace: Option<String>,

    /// Certificate of the catalog server and the metrics endpoint (PEM).
    #[arg(long, requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Key of --tls-cert (PEM).
    #[arg(long, requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Source of the certificate of the catalog server and the metrics endpoint: --tls-cert and
    /// --tls-key (files), a CA that this program keeps itself in Secret olm-serving-ca
    /// (self-signed), or none, which means plain HTTP and no metrics (none). By default files when
    /// --tls-cert is given, else none.
    #[arg(long, value_enum)]
    pub serving_certificates: Option<ServingCertificates>,

    /// TLS versions, cipher suites and curves that are offered, and accepted when catalogs are
    /// fetched: those of a Mozilla profile, of the --tls-custom flags (custom), or of OpenShift's
    /// `APIServer` `cluster` (cluster). Only TLS 1.2 and 1.3 with AEAD suites are supported,
    /// whatever the profile lists.
    #[arg(long, value_enum, ignore_case = true, default_value_t = TlsProfile::Intermediate)]
    pub tls_profile: TlsProfile,

    /// Lowest TLS version of profile custom; by default TLSv1.2.
    #[arg(long, value_enum, help_heading = RARE)]
    pub tls_custom_version: Option<tls::Version>,

    /// Cipher suites for TLS 1.2 of profile custom, by their Go names, separated by commas; by
    /// default all supported ones. Those of TLS 1.3 are always enabled.
    #[arg(long, value_delimiter = ',', value_parser = tls::cipher, help_heading = RARE)]
    pub tls_custom_ciphers: Vec<String>,

    /// Curves of profile custom, by their Go names, separated by commas; by default those of
    /// profile intermediate.
    #[arg(long, value_delimiter = ',', value_parser = tls::curve, help_heading = RARE)]
    pub tls_custom_curves: Vec<String>,

    /// Address of the metrics endpoint; 0 disables it. By default :7443 where catalogs are served,
    /// else :8443, unless there is no certificate.
    #[arg(long, value_parser = listen_address)]
    pub metrics_bind_address: Option<Listen>,

    /// Address of the health endpoints; 0 disables them.
    #[arg(long, default_value = ":8081", value_parser = listen_address)]
    pub health_probe_bind_address: Listen,

    /// Address of the catalog server.
    #[arg(long, default_value = ":8443", value_parser = listen_address)]
    pub catalogs_server_addr: Listen,

    /// Host, or host:port, under which clients reach the catalog server; by default the bound
    /// address on loopback, otherwise catalogd-service in the system namespace.
    #[arg(long)]
    pub external_address: Option<String>,

    /// File to write the bound addresses to, as JSON.
    #[arg(long, help_heading = RARE)]
    pub listen_info: Option<PathBuf>,

    /// Directory of unpacked and served catalogs.
    #[arg(long, default_value = "/var/cache/catalogd")]
    pub cache_dir: PathBuf,

    /// Directory of unpacked bundles and downloaded catalogs.
    #[arg(long, default_value = "/var/cache/operator-controller")]
    pub cache_path: PathBuf,

    /// Limit of the total size of both directories: content that would exceed it is not stored, and
    /// is retried until there is room.
    #[arg(long, default_value = "8GiB", value_parser = bytes)]
    pub cache_limit: u64,

    /// Interval at which content of deleted catalogs is searched for and removed.
    #[arg(long, default_value = "12h", value_parser = duration, help_heading = RARE)]
    pub gc_interval: Duration,

    /// Directory of CA certificates that are trusted when catalogs are fetched over HTTPS.
    #[arg(long)]
    pub catalogd_cas_dir: Option<PathBuf>,

    /// `ConfigMap` with the CA of the catalog server, as NAMESPACE/NAME, for a process that does
    /// not serve catalogs itself; by default olm-serving-ca in the system namespace unless
    /// --catalogd-cas-dir is given.
    #[arg(long, conflicts_with = "catalogd_cas_dir", help_heading = RARE)]
    pub catalogd_ca_configmap: Option<ObjectName>,

    /// Directory of CA certificates that are trusted when images are pulled.
    #[arg(long)]
    pub pull_cas_dir: Option<PathBuf>,

    /// Secret with credentials for registries, as NAMESPACE/NAME; those of the controller's own
    /// service account and of the catalog come first.
    #[arg(long, default_value = "")]
    pub global_pull_secret: GlobalPullSecret,

    /// File with credentials for registries, used last, and only outside of a pod; by default that
    /// of `REGISTRY_AUTH_FILE`, else those of Podman and Docker.
    #[arg(long, help_heading = RARE)]
    pub auth_file: Option<PathBuf>,

    /// Reach registries through the proxies of OpenShift's Proxy cluster, unless the environment
    /// sets some.
    #[arg(long)]
    pub cluster_proxy: bool,

    /// Service account of extensions and revisions that do not name one, as NAMESPACE/NAME.
    #[arg(long)]
    pub default_service_account: Option<Account>,

    /// Behavior while the admission policies that check who may name an account are not in force:
    /// install nothing new (require), warn in the log and with a metric (warn), or do not check
    /// them (off).
    #[arg(long, value_parser = words::<AccountPolicy>(), default_value = "warn")]
    pub account_policy: AccountPolicy,

    /// Accounts that no extension may use, as NAMESPACE/NAME or NAMESPACE/*, separated by commas;
    /// by default those of kube-system and of the system namespace, except the default account.
    #[arg(long)]
    pub forbidden_service_accounts: Option<AccountPatterns>,

    /// Use the account that an extension names, or ignore the field, as upstream v1.11 does; no
    /// policy checks then who may use the default account, so --account-policy=require is refused.
    #[arg(long, value_parser = words::<NamedServiceAccount>(), default_value = "use")]
    pub named_service_account: NamedServiceAccount,

    /// Scope of automatic updates without an annotation: no updates, patch versions, minor and
    /// patch versions, or any successor in the catalog.
    #[arg(long, value_parser = words::<UpdatePolicy>(), default_value = "MinorOnly")]
    pub default_upgrade_policy: UpdatePolicy,

    /// Give each operator the proxies of OpenShift's Proxy cluster, or of --operator-proxy, unless
    /// an annotation of its extension overrides this.
    #[arg(long, help_heading = RARE)]
    pub default_cluster_proxy: bool,

    /// Proxy variable for operators on a cluster without OpenShift's Proxy cluster: NAME=VALUE with
    /// name `HTTP_PROXY`, `HTTPS_PROXY` or `NO_PROXY`; repeatable. By default those of the
    /// controller's environment whose URLs contain no credentials.
    #[arg(long, help_heading = RARE)]
    pub operator_proxy: Vec<ProxyVariables>,

    /// Give each operator an `OperatorCondition`, with which it can hold its updates, unless an
    /// annotation of its extension overrides this.
    #[arg(long, help_heading = RARE)]
    pub default_operator_conditions: bool,

    /// Create `ClusterRoles` for users of each bundle's APIs (create), and also aggregate them to
    /// view, edit and admin (aggregate), unless an annotation of the extension overrides this.
    #[arg(long, value_parser = words::<UserRoles>(), default_value = "none", help_heading = RARE)]
    pub default_user_roles: UserRoles,

    /// Require approval of the plan for each step of each extension: the first installation,
    /// updates, rollbacks and changes of the configuration. Without the flag, only extensions in
    /// namespaces with label policy.olm.operatorframework.io/require-approval need it.
    #[arg(long)]
    pub require_approval: bool,

    /// Behavior when a selected catalog cannot be read: resolve nothing, as upstream does (Strict),
    /// or use the others if the missing one cannot change the result (Provable), or unless it has a
    /// higher priority (BestEffort).
    #[arg(long, value_parser = words::<Unavailability>(), default_value = "Provable")]
    pub catalog_unavailability_policy: Unavailability,

    /// Objects that count as installed when declared dependencies are checked: ClusterExtensions
    /// always, and with csvs also the ClusterServiceVersions of OLM Classic that have succeeded.
    #[arg(
        long,
        value_parser = words::<ConstraintProvider>(),
        value_delimiter = ',',
        default_value = "clusterextensions",
        help_heading = RARE
    )]
    pub constraint_providers: Vec<ConstraintProvider>,

    /// Interval at which objects are read whose kind the account may not watch.
    #[arg(long, default_value = "5m", value_parser = duration, help_heading = RARE)]
    pub managed_resync_interval: Duration,

    /// Extensions, and revisions, that are reconciled at the same time.
    #[arg(long, default_value_t = 4)]
    pub max_concurrent_reconciles: u16,

    /// Effect of deleting an extension on its CRDs and their objects without annotation
    /// policy.olm.operatorframework.io/uninstall: they are deleted, they are kept, or the deletion
    /// waits while there are objects. A bundle can ask for more protection, not for less.
    #[arg(long, value_parser = words::<UninstallPolicy>(), default_value = "BlockIfInstances")]
    pub default_uninstall_policy: UninstallPolicy,

    /// Time that an uninstall waits until the instances of a CRD are gone.
    #[arg(long, default_value = "10m", value_parser = duration, help_heading = RARE)]
    pub uninstall_crd_timeout: Duration,

    /// Handling of an uninstall whose account no longer works: leave the rest to the garbage
    /// collector (gc), or wait for the account (wait).
    #[arg(long, value_enum, default_value_t = UninstallFallback::Gc, help_heading = RARE)]
    pub uninstall_fallback: UninstallFallback,

    /// Handling of objects of optional kinds that the cluster does not serve: leave them out and
    /// report them until the kind is served (defer), or fail as for any other kind (fail).
    #[arg(long, value_parser = words::<MissingOptionalKinds>(), default_value = "defer")]
    pub missing_optional_kinds: MissingOptionalKinds,

    /// Handling of a revision whose account lacks rights: wait for them (enforce), report them and
    /// write the revision (report), or check nothing (off).
    #[arg(long, value_parser = words::<RbacPreflight>(), default_value = "enforce")]
    pub rbac_preflight: RbacPreflight,

    /// Judge upgrades of CRDs exactly as upstream does: refuse even changes that cannot make a
    /// stored object invalid.
    #[arg(long)]
    pub crd_safety_compat: bool,

    /// Issuer of the certificates of webhooks and API services; none refuses bundles with them, and
    /// auto is the service CA on OpenShift, else cert-manager if the cluster serves it, else the
    /// controller itself. By default auto, or the issuer that feature gates
    /// `WebhookProviderCertManager` and `WebhookProviderOpenshiftServiceCA` select if one is given.
    #[arg(long, value_parser = words::<WebhookCertificates>())]
    pub webhook_certificates: Option<WebhookCertificates>,

    /// Write the verdict of the gate to `ClusterOperator` `olm`: always, never, or unless another
    /// operator already writes it (auto).
    #[arg(long, value_parser = words::<Manage>(), default_value = "auto")]
    pub manage_clusteroperator: Manage,

    /// OpenShift release of a cluster without `ClusterVersion`, as MAJOR.MINOR: conditions and
    /// metrics show whether installed bundles allow the next release.
    #[arg(long, conflicts_with = "infer_platform_version")]
    pub platform_version: Option<MinorRelease>,

    /// Derive --platform-version from the version of Kubernetes: 4.N from 1.(N+13), from 1.37 on
    /// 5.N from 1.(N+36).
    #[arg(long, help_heading = RARE)]
    pub infer_platform_version: bool,

    /// Act only while holding the leases of the running parts, so that several processes, including
    /// upstream's, never act at the same time.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false", require_equals = true)]
    pub leader_elect: bool,

    /// Lease of extensions and the gate, as NAMESPACE/NAME; by default
    /// 9c4404e7.operatorframework.io in the system namespace.
    #[arg(long, help_heading = RARE)]
    pub extension_lease: Option<ObjectName>,

    /// Lease of catalogs, as NAMESPACE/NAME; by default catalogd-operator-lock in the system
    /// namespace.
    #[arg(long, help_heading = RARE)]
    pub catalog_lease: Option<ObjectName>,

    /// Act although the controller's own account has all rights on the cluster; without the flag it
    /// waits until the binding is removed. Only for test clusters.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false", require_equals = true, help_heading = RARE)]
    pub allow_excessive_rights: bool,

    /// Accepted for manifests of upstream, without effect: there is no pprof endpoint.
    #[arg(long, help_heading = RARE)]
    pub pprof_bind_address: Option<String>,

    /// Accepted for manifests of upstream, without effect: there is no webhook server.
    #[arg(long, help_heading = RARE)]
    pub webhook_server_port: Option<u16>,

    /// Accepted for manifests of upstream, without effect, as are the other flags of klog: the log
    /// always goes to standard error; --v and --log-format configure it.
    #[arg(
        long,
        aliases = KLOG.lines(),
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = RARE
    )]
    pub logtostderr: Vec<String>,

    /// Feature gates, as Name=true|false; repeatable.
    #[arg(long, value_parser = gates)]
    pub feature_gates: Vec<Gates>,

    /// Verbosity: 0 info, 1 to 3 debug, 4 and more trace.
    #[arg(short = 'v', long, default_value_t = 0)]
    pub v: u8,

    /// Format of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, help_heading = RARE)]
    pub log_format: LogFormat,
}

impl Args {
    /// Returns the namespace of the controller: the flag, the pod's, or `olmv1-system`.
    pub fn namespace(&self) -> String {
        self.system_namespace.clone().unwrap_or_else(|| {
            let pods = std::fs::read_to_string(POD_NAMESPACE_FILE).unwrap_or_default();
            if pods.trim().is_empty() { keys::name::SYSTEM_NAMESPACE } else { pods.trim() }
                .to_owned()
        })
    }

    /// Returns the files with credentials for registries; a pod has none.
    pub fn auth_files(&self) -> AuthFiles {
        if in_pod() {
            return AuthFiles::default();
        }
        AuthFiles::of_user(self.auth_file.clone())
    }

    /// Returns whether a feature gate is enabled: by the last flag, otherwise by default.
    pub fn is_on(&self, gate: FeatureGate) -> bool {
        self.gate(gate.name()).unwrap_or(gate.is_on_by_default())
    }

    /// Returns the last value of the flag for a feature gate.
    fn gate(&self, name: &str) -> Option<bool> {
        Some(self.feature_gates.iter().flatten().rev().find(|gate| gate.name == name)?.on)
    }

    /// Returns the issuer of the certificates of webhook servers.
    ///
    /// The flag decides, else the two gates of upstream if one of them is given: the one that is
    /// switched on, cert-manager's if both are, else the one that was not mentioned. Both off means
    /// that webhooks are off (rendering.md 2).
    pub fn certificates(&self) -> WebhookCertificates {
        use WebhookCertificates::{Auto, CertManager, None as Nobody, ServiceCa};
        if let Some(chosen) = self.webhook_certificates {
            return chosen;
        }
        match (self.gate(CERT_MANAGER_GATE), self.gate(SERVICE_CA_GATE)) {
            (None, None) => Auto,
            (Some(true), _) | (None, Some(false)) => CertManager,
            (_, Some(true)) | (Some(false), None) => ServiceCa,
            (Some(false), Some(false)) => Nobody,
        }
    }

    /// Returns the source of the certificate of our own listeners.
    pub fn serving_certificates(&self) -> ServingCertificates {
        self.serving_certificates.unwrap_or(if self.tls_cert.is_some() {
            ServingCertificates::Files
        } else {
            ServingCertificates::None
        })
    }

    /// Returns the TLS profile as the flags say it, as far as it can be had.
    pub fn tls(&self) -> Result<tls::Offer, tls::NoCurve> {
        let given = |names: &[String]| -> Vec<String> {
            names.iter().filter(|name| !name.is_empty()).cloned().collect()
        };
        match self.tls_profile {
            TlsProfile::Cluster | TlsProfile::Intermediate => Ok(tls::Offer::default()),
            TlsProfile::Modern => tls::Offer::of(tls::Version::Tls13, &[], &[]),
            TlsProfile::Old => tls::Offer::of(tls::Version::Tls10, &[], &[]),
            TlsProfile::Custom => tls::Offer::of(
                self.tls_custom_version.unwrap_or(tls::Version::Tls12),
                &given(&self.tls_custom_ciphers),
                &given(&self.tls_custom_curves),
            ),
        }
    }

    /// Returns the `ConfigMap` with the CA of the catalog server.
    pub fn catalogd_ca(&self) -> ObjectName {
        self.named(self.catalogd_ca_configmap.as_ref(), keys::name::PUBLISHED_CA)
    }

    /// Returns the lease of a part: that of catalogs is apart, because the halves may run apart.
    pub fn lease(&self, component: Component) -> ObjectName {
        let (flag, name) = match component {
            Component::Catalogs => (&self.catalog_lease, keys::name::LEASE_CATALOGD),
            Component::Extensions | Component::Gate => {
                (&self.extension_lease, keys::name::LEASE_OPERATOR_CONTROLLER)
            }
        };
        self.named(flag.as_ref(), name)
    }

    /// Returns an object of a flag, otherwise one of the system namespace.
    fn named(&self, flag: Option<&ObjectName>, name: &str) -> ObjectName {
        let ours = || ObjectName { namespace: self.namespace(), name: name.to_owned() };
        flag.cloned().unwrap_or_else(ours)
    }

    /// Returns whether a part runs, given the name the program was started under.
    pub fn runs(&self, component: Component, program: &str) -> bool {
        if !self.components.is_empty() {
            return self.components.contains(&component);
        }
        match program {
            "catalogd" => component == Component::Catalogs,
            "operator-controller" => component != Component::Catalogs,
            _ => true,
        }
    }
}

fn in_pod() -> bool {
    Path::new(POD_NAMESPACE_FILE).exists()
}

#[cfg(test)]
mod tests;
