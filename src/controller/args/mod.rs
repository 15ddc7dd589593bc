//! Command line flags, parsed into a configuration that cannot be wrong.
//!
//! Names and defaults are upstream's where upstream has the flag, so that its manifests start this
//! program unchanged. Source: applying.md 11.2.

mod value;

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
use value::{GATES_WITHOUT_EFFECT, KLOG, bytes, duration, listen_address, words};

const CERT_MANAGER_GATE: &str = "WebhookProviderCertManager";
const SERVICE_CA_GATE: &str = "WebhookProviderOpenshiftServiceCA";
/// Heading of the flags that few installations set.
const RARE: &str = "Rarely needed";
const POD_NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Installs and upgrades ClusterExtensions, serves ClusterCatalogs, keeps the OpenShift gate.
#[derive(Debug, Clone, Parser)]
#[command(name = "olm-controller", version)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag without a value")]
pub struct Args {
    /// Parts to run; all of them by default, or those of the name the program is started under
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

    /// Versions, suites and curves of TLS that are offered, and accepted when catalogs are fetched:
    /// those of a profile of Mozilla, those of the --tls-custom flags, or those that OpenShift's
    /// `APIServer` `cluster` names. There are TLS 1.2 and 1.3 with AEAD suites and nothing older,
    /// whatever is asked for.
    #[arg(long, value_enum, ignore_case = true, default_value_t = TlsProfile::Intermediate)]
    pub tls_profile: TlsProfile,

    /// Lowest version of profile custom; by default TLSv1.2.
    #[arg(long, value_enum, help_heading = RARE)]
    pub tls_custom_version: Option<tls::Version>,

    /// Suites of TLS 1.2 of profile custom, by Go's names, joined by commas; by default all there
    /// are. Those of TLS 1.3 are always there.
    #[arg(long, value_delimiter = ',', value_parser = tls::cipher, help_heading = RARE)]
    pub tls_custom_ciphers: Vec<String>,

    /// Curves of profile custom, by Go's names, joined by commas; by default those of intermediate.
    #[arg(long, value_delimiter = ',', value_parser = tls::curve, help_heading = RARE)]
    pub tls_custom_curves: Vec<String>,

    /// Address of the metrics endpoint; 0 switches it off.
    #[arg(long, value_parser = listen_address)]
    pub metrics_bind_address: Option<Listen>,

    /// Address of the health endpoints; 0 switches them off.
    #[arg(long, default_value = ":8081", value_parser = listen_address)]
    pub health_probe_bind_address: Listen,

    /// Address of the catalog server.
    #[arg(long, default_value = ":8443", value_parser = listen_address)]
    pub catalogs_server_addr: Listen,

    /// Host, or host:port, under which clients reach the catalog server; by default the bound
    /// address on loopback, otherwise catalogd-service in the system namespace.
    #[arg(long)]
    pub external_address: Option<String>,

    /// Writes the addresses that were bound to this file, as JSON.
    #[arg(long, help_heading = RARE)]
    pub listen_info: Option<PathBuf>,

    /// Folder of unpacked and served catalogs.
    #[arg(long, default_value = "/var/cache/catalogd")]
    pub cache_dir: PathBuf,

    /// Folder of unpacked bundles and downloaded catalogs.
    #[arg(long, default_value = "/var/cache/operator-controller")]
    pub cache_path: PathBuf,

    /// Most bytes that both folders hold together: what would take more is not stored, and tried
    /// again until there is room.
    #[arg(long, default_value = "8GiB", value_parser = bytes)]
    pub cache_limit: u64,

    /// Interval of the search for content of deleted catalogs.
    #[arg(long, default_value = "12h", value_parser = duration, help_heading = RARE)]
    pub gc_interval: Duration,

    /// Folder of CA certificates trusted when catalogs are fetched over HTTPS.
    #[arg(long)]
    pub catalogd_cas_dir: Option<PathBuf>,

    /// `ConfigMap` with the CA of the catalog server, as NAMESPACE/NAME, for a process that does not
    /// serve catalogs itself; by default olm-serving-ca in the system namespace unless
    /// --catalogd-cas-dir is given.
    #[arg(long, conflicts_with = "catalogd_cas_dir", help_heading = RARE)]
    pub catalogd_ca_configmap: Option<ConfigMapName>,

    /// Folder of CA certificates trusted when images are pulled.
    #[arg(long)]
    pub pull_cas_dir: Option<PathBuf>,

    /// Secret with credentials for registries, as NAMESPACE/NAME; those of the controller's own
    /// service account, and of the catalog, are asked before it.
    #[arg(long, default_value = "")]
    pub global_pull_secret: GlobalPullSecret,

    /// File with credentials for registries, outside of a pod; by default that of
    /// `REGISTRY_AUTH_FILE`, else those of the tools of containers and Docker. Asked last.
    #[arg(long, help_heading = RARE)]
    pub auth_file: Option<PathBuf>,

    /// Ask registries through the proxies of OpenShift's Proxy cluster, unless the environment
    /// names some.
    #[arg(long)]
    pub cluster_proxy: bool,

    /// Account of extensions and revisions that name none, as NAMESPACE/NAME.
    #[arg(long)]
    pub default_service_account: Option<Account>,

    /// Behavior while the admission policies that check who may name an account are not in force:
    /// nothing new is installed (require), the log and a metric say so (warn), or nothing is
    /// checked (off).
    #[arg(long, value_parser = words::<AccountPolicy>(), default_value = "warn")]
    pub account_policy: AccountPolicy,

    /// Accounts that nothing is installed with, as NAMESPACE/NAME or NAMESPACE/*, joined by commas;
    /// by default those of kube-system and of the system namespace, but for the default account.
    #[arg(long)]
    pub forbidden_service_accounts: Option<AccountPatterns>,

    /// Use the account that an extension names, or ignore the field, as upstream v1.11 does.
    #[arg(long, value_parser = words::<NamedServiceAccount>(), default_value = "use")]
    pub named_service_account: NamedServiceAccount,

    /// Scope of automatic upgrades without an annotation: nothing, the patch version, that and the
    /// minor version, or anything the catalog offers as a successor.
    #[arg(long, value_parser = words::<UpdatePolicy>(), default_value = "MinorOnly")]
    pub default_upgrade_policy: UpdatePolicy,

    /// Give each operator the proxies of OpenShift's Proxy cluster, or of --operator-proxy, unless an
    /// annotation of its extension differs.
    #[arg(long, help_heading = RARE)]
    pub default_cluster_proxy: bool,

    /// A variable of the proxies that operators get where there is no Proxy cluster, as NAME=VALUE
    /// with `HTTP_PROXY`, `HTTPS_PROXY` or `NO_PROXY`; repeatable. By default those of the environment
    /// of the controller whose URLs hold no credentials.
    #[arg(long, help_heading = RARE)]
    pub operator_proxy: Vec<ProxyVariables>,

    /// Give each operator an `OperatorCondition`, which is respected, unless an annotation of its
    /// extension differs.
    #[arg(long, help_heading = RARE)]
    pub default_operator_conditions: bool,

    /// Create `ClusterRoles` for users of what each bundle provides, or also aggregate them to view,
    /// edit and admin, unless an annotation of its extension differs.
    #[arg(long, value_parser = words::<UserRoles>(), default_value = "none", help_heading = RARE)]
    pub default_user_roles: UserRoles,

    /// Require approval of the plan for each step of each extension: the first installation,
    /// updates, steps back and changes of the configuration. Without the flag that holds for
    /// extensions whose install namespace has label
    /// policy.olm.operatorframework.io/require-approval.
    #[arg(long)]
    pub require_approval: bool,

    /// Behavior when a selected catalog cannot be read: nothing is resolved, as upstream (Strict),
    /// the others are used when the missing one cannot change the answer (Provable), or unless it
    /// has a higher priority (BestEffort).
    #[arg(long, value_parser = words::<Unavailability>(), default_value = "Provable")]
    pub catalog_unavailability_policy: Unavailability,

    /// Objects that count as installed when declared dependencies are judged: ClusterExtensions,
    /// which always count, and the ClusterServiceVersions of OLM Classic that succeeded (csvs).
    #[arg(
        long,
        value_parser = words::<ConstraintProvider>(),
        value_delimiter = ',',
        default_value = "clusterextensions",
        help_heading = RARE
    )]
    pub constraint_providers: Vec<ConstraintProvider>,

    /// Interval of reads of objects whose kind the account may not watch.
    #[arg(long, default_value = "5m", value_parser = duration, help_heading = RARE)]
    pub managed_resync_interval: Duration,

    /// Extensions worked on at the same time.
    #[arg(long, default_value_t = 4)]
    pub max_concurrent_reconciles: u16,

    /// Effect of deleting an extension on its CRDs and their objects without annotation
    /// policy.olm.operatorframework.io/uninstall: they go, CRDs stay with their objects, or nothing
    /// goes while there are objects. A bundle can ask for more protection, not for less.
    #[arg(long, value_parser = words::<UninstallPolicy>(), default_value = "BlockIfInstances")]
    pub default_uninstall_policy: UninstallPolicy,

    /// Time that an uninstall waits for the instances of a CRD.
    #[arg(long, default_value = "10m", value_parser = duration, help_heading = RARE)]
    pub uninstall_crd_timeout: Duration,

    /// Handling of an uninstall whose account no longer works.
    #[arg(long, value_enum, default_value_t = UninstallFallback::Gc, help_heading = RARE)]
    pub uninstall_fallback: UninstallFallback,

    /// Handling of objects of optional kinds the cluster does not serve: they are left out and
    /// reported until the kind is served (defer), or errors like any other missing kind (fail).
    #[arg(long, value_parser = words::<MissingOptionalKinds>(), default_value = "defer")]
    pub missing_optional_kinds: MissingOptionalKinds,

    /// Handling of a revision whose account lacks rights: it waits for them (enforce), they are
    /// reported and it is written (report), or nothing is checked (off).
    #[arg(long, value_parser = words::<RbacPreflight>(), default_value = "enforce")]
    pub rbac_preflight: RbacPreflight,

    /// Judge upgrades of CRDs exactly as upstream does: also changes that can make no stored object
    /// invalid are refused.
    #[arg(long)]
    pub crd_safety_compat: bool,

    /// Issuer of the certificates of webhooks and API services; none refuses bundles with them, and
    /// auto is the service CA on OpenShift, cert-manager where it is served, else the controller itself.
    /// Without the flag auto, or what the feature gates `WebhookProviderCertManager` and
    /// `WebhookProviderOpenshiftServiceCA` say if one is given.
    #[arg(long, value_parser = words::<WebhookCertificates>())]
    pub webhook_certificates: Option<WebhookCertificates>,

    /// Write the verdict of the gate to `ClusterOperator` `olm`: always, never, or unless another
    /// operator already does (auto).
    #[arg(long, value_parser = words::<Manage>(), default_value = "auto")]
    pub manage_clusteroperator: Manage,

    /// The OpenShift release whose update is judged where there is no `ClusterVersion`, as
    /// MAJOR.MINOR: extensions and metrics say whether installed bundles allow the next one.
    #[arg(long, conflicts_with = "infer_platform_version")]
    pub platform_version: Option<MinorRelease>,

    /// The same, with the release that belongs to the version of Kubernetes: 4.N to 1.(N+13).
    #[arg(long, help_heading = RARE)]
    pub infer_platform_version: bool,

    /// Acts only while it holds the leases of its parts, so that several processes never act at
    /// once, upstream's own included.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false", require_equals = true)]
    pub leader_elect: bool,

    /// Lease of extensions and the gate, as NAMESPACE/NAME; by default
    /// 9c4404e7.operatorframework.io in the system namespace.
    #[arg(long, help_heading = RARE)]
    pub extension_lease: Option<LeaseName>,

    /// Lease of catalogs, as NAMESPACE/NAME; by default catalogd-operator-lock in the system
    /// namespace.
    #[arg(long, help_heading = RARE)]
    pub catalog_lease: Option<LeaseName>,

    /// Acts although its own account may do everything. For labs: elsewhere it waits until the
    /// binding is removed.
    #[arg(long, num_args = 0..=1, default_missing_value = "true", default_value = "false", require_equals = true, help_heading = RARE)]
    pub allow_excessive_rights: bool,

    /// Accepted for manifests of upstream; there is no pprof here.
    #[arg(long, help_heading = RARE)]
    pub pprof_bind_address: Option<String>,

    /// Accepted for manifests of upstream; there is no webhook server here.
    #[arg(long, help_heading = RARE)]
    pub webhook_server_port: Option<u16>,

    /// Accepted for manifests of upstream, as are the other flags of klog: the log goes to standard
    /// error, as --v and --log-format say.
    #[arg(
        long,
        aliases = KLOG,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = RARE
    )]
    pub logtostderr: Vec<String>,

    /// Feature gates, as Name=true|false; repeatable.
    #[arg(long, value_delimiter = ',')]
    pub feature_gates: Vec<GateSetting>,

    /// Verbosity: 0 info, 1 to 3 debug, 4 and more trace.
    #[arg(short = 'v', long, default_value_t = 0)]
    pub v: u8,

    /// Form of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, help_heading = RARE)]
    pub log_format: LogFormat,
}

impl Args {
    /// Returns the namespace of the controller: the flag, the pod's, or `olmv1-system`.
    pub fn namespace(&self) -> String {
        self.system_namespace.clone().unwrap_or_else(|| {
            std::fs::read_to_string(POD_NAMESPACE_FILE)
                .map(|text| text.trim().to_owned())
                .ok()
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| keys::name::SYSTEM_NAMESPACE.to_owned())
        })
    }

    /// Returns the files with credentials for registries; a pod has none.
    pub fn auth_files(&self) -> AuthFiles {
        if in_pod() {
            return AuthFiles::default();
        }
        AuthFiles::of_user(self.auth_file.clone())
    }

    /// Says whether a feature gate is on: as the flag last said, else as by default.
    pub fn is_on(&self, gate: FeatureGate) -> bool {
        self.gate(gate.name()).unwrap_or(gate.is_on_by_default())
    }

    /// Returns what the flag last said of a feature gate.
    fn gate(&self, name: &str) -> Option<bool> {
        let mut settings = self.feature_gates.iter().rev();
        Some(settings.find(|gate| gate.name == name)?.on)
    }

    /// Says who issues the certificates of webhook servers.
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

    /// Says where the certificate of our own listeners comes from.
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
    pub fn catalogd_ca(&self) -> ConfigMapName {
        self.catalogd_ca_configmap.clone().unwrap_or_else(|| ConfigMapName {
            namespace: self.namespace(),
            name: keys::name::PUBLISHED_CA.to_owned(),
        })
    }

    /// Returns the lease of a part: that of catalogs is apart, because the halves may run apart.
    pub fn lease(&self, component: Component) -> LeaseName {
        let (flag, name) = match component {
            Component::Catalogs => (&self.catalog_lease, keys::name::LEASE_CATALOGD),
            Component::Extensions | Component::Gate => {
                (&self.extension_lease, keys::name::LEASE_OPERATOR_CONTROLLER)
            }
        };
        flag.clone()
            .unwrap_or_else(|| LeaseName { namespace: self.namespace(), name: name.to_owned() })
    }

    /// Returns what was said on the command line and changes nothing, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (name, reason) in GATES_WITHOUT_EFFECT {
            if self.gate(name) == Some(true) {
                warnings.push(format!("feature gate {name} is accepted and ignored: {reason}"));
            }
        }
        if self.gate("BoxcutterRuntime") == Some(false) {
            let text = "feature gate BoxcutterRuntime=false is accepted and ignored: there is no \
                        Helm runtime, and releases of Helm are taken over";
            warnings.push(text.to_owned());
        }
        if !self.logtostderr.is_empty() {
            warnings.push("the flags of klog but --v are accepted and ignored".to_owned());
        }
        let pprof = self.pprof_bind_address.as_deref();
        if pprof.is_some_and(|address| !matches!(address, "" | "0")) {
            warnings.push("--pprof-bind-address is accepted and ignored".to_owned());
        }
        if self.webhook_server_port.is_some() {
            warnings.push("--webhook-server-port is accepted and ignored".to_owned());
        }
        if self.tls_cert.is_some() && self.serving_certificates() != ServingCertificates::Files {
            warnings.push(
                "--tls-cert and --tls-key do nothing without --serving-certificates=files"
                    .to_owned(),
            );
        }
        warnings.extend(self.tls().ok().and_then(|offer| offer.note));
        let custom = self.tls_custom_version.is_some()
            || !self.tls_custom_ciphers.is_empty()
            || !self.tls_custom_curves.is_empty();
        if custom && self.tls_profile != TlsProfile::Custom {
            warnings
                .push("the --tls-custom flags do nothing without --tls-profile=custom".to_owned());
        }
        let leases = [
            ("--extension-lease", &self.extension_lease),
            ("--catalog-lease", &self.catalog_lease),
        ];
        for (flag, _) in
            leases.into_iter().filter(|(_, lease)| lease.is_some() && !self.leader_elect)
        {
            warnings.push(format!("{flag} does nothing without --leader-elect"));
        }
        if self.auth_file.is_some() && in_pod() {
            warnings.push("--auth-file does nothing in a pod: use --global-pull-secret".to_owned());
        }
        warnings
    }

    /// Says whether a part runs, given the name the program was started under.
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
