//! How the cluster is reached: by a kubeconfig, read as kubectl reads it, else by the account of a pod.
//!
//! Errors never show what a kubeconfig holds, nor what a credential plugin is given or prints on stdout:
//! both are secret.
//!
//! kube reads one otherwise: it fails on entries of `NO_PROXY` that Go skips, and compares the others
//! with the proxy instead of the server. It sends credentials over plain HTTP.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, io};

use http::Uri;
use kube::Config;
use kube::client::AuthError;
use kube::config::{
    AuthInfo, Context, ExecAuthCluster, InClusterError, KubeConfigOptions, Kubeconfig,
    KubeconfigError,
};
use olm_core::error::{plain, quote};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

type BoxError = Box<dyn Error + Send + Sync>;

/// Variable that lists kubeconfig files.
const KUBECONFIG: &str = "KUBECONFIG";

/// Why it is not known how the cluster is reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("current-context is not set: kubectl config use-context NAME sets it")]
    NoContext,
    #[error("$KUBECONFIG is not set and ~/.kube/config does not exist")]
    Absent,
    #[error("{} is not a kubeconfig{place}", quote(&file.display().to_string()))]
    Invalid {
        file: PathBuf,
        /// The line and the column, if they are known.
        place: String,
    },
    #[error("credential plugin {} {failure}", quote(command))]
    Plugin { command: String, failure: String },
    #[error("kubeconfig {} cannot be read: {error}", quote(&file.display().to_string()))]
    Unread { file: PathBuf, error: io::Error },
    /// A kubeconfig lacks what is needed.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("the kubeconfig has no {what} {}", quote(name))]
    Lacks {
        /// A context, a cluster or a user.
        what: &'static str,
        name: String,
    },
    #[error("server of cluster {} is neither an HTTP URL nor host:port", quote(.0))]
    Server(String),
    #[error("certificate-authority of a cluster in the kubeconfig holds no certificates in PEM")]
    Authority,
    /// The proxy has no usable URL.
    #[error(transparent)]
    Proxy(BoxError),
    /// In a pod, its account cannot be used.
    #[error(transparent)]
    Pod(#[from] InClusterError),
}

impl ConnectionError {
    fn is_absent(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Unread { error, .. } => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Reads a kubeconfig: this file, else of those that `KUBECONFIG` lists the ones that exist, else
/// `~/.kube/config`.
pub fn read_kubeconfig(file: Option<&Path>) -> Result<Kubeconfig, ConnectionError> {
    if let Some(file) = file {
        return read(file);
    }
    let listed = env::var_os(KUBECONFIG).unwrap_or_default();
    let listed = env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty());
    let listed: Vec<PathBuf> = listed.collect();
    if listed.is_empty() {
        let home = env::home_dir().ok_or(ConnectionError::Absent)?;
        return match read(&home.join(".kube/config")) {
            Err(error) if error.is_absent() => Err(ConnectionError::Absent),
            read => read,
        };
    }
    let (mut merged, mut absent) = (None, ConnectionError::Absent);
    for path in listed {
        match read(&path) {
            Ok(read) => merged = Some(merged.unwrap_or_else(Kubeconfig::default).merge(read)?),
            Err(error) if error.is_absent() => absent = error,
            Err(error) => return Err(error),
        }
    }
    merged.ok_or(absent)
}

fn read(path: &Path) -> Result<Kubeconfig, ConnectionError> {
    let mut read = Kubeconfig::read_from(path).map_err(|error| match error {
        // Its text shows the lines around the mistake.
        KubeconfigError::Parse(error) => {
            let place =
                error.location().map(|it| format!(": line {}, column {}", it.line(), it.column()));
            ConnectionError::Invalid { file: path.to_owned(), place: place.unwrap_or_default() }
        }
        KubeconfigError::ReadConfig(error, file) => ConnectionError::Unread { file, error },
        error => error.into(),
    })?;
    // As kubectl writes it where none is set.
    read.current_context = read.current_context.filter(|name| !name.is_empty());
    Ok(read)
}

/// Returns how the cluster is reached, by this kubeconfig or as [`read_kubeconfig`] finds one. Where
/// there is none and nothing of one is named, the account of a pod is used. `proxy` chooses the proxy
/// for a server by `proxy-url` of its cluster.
pub fn connection<E: Error + Send + Sync + 'static>(
    file: Option<&Path>,
    named: KubeConfigOptions,
    proxy: impl FnOnce(&Uri, Option<&str>) -> Result<Option<Uri>, E>,
) -> Result<Config, ConnectionError> {
    let is_named = file.is_some()
        || [&named.context, &named.cluster, &named.user].into_iter().any(Option::is_some);
    let error = match read_kubeconfig(file).and_then(|read| of_kubeconfig(read, named, proxy)) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    // Any other mistake in a kubeconfig must not lead to the cluster of a pod.
    let is_unset = matches!(error, ConnectionError::NoContext) || error.is_absent();
    if is_named || !is_unset {
        return Err(error);
    }
    Config::incluster().map_err(|in_pod| match in_pod {
        InClusterError::ReadEnvironmentVariable(_) => error,
        in_pod => in_pod.into(),
    })
}

fn of_kubeconfig<E: Error + Send + Sync + 'static>(
    read: Kubeconfig,
    named: KubeConfigOptions,
    proxy: impl FnOnce(&Uri, Option<&str>) -> Result<Option<Uri>, E>,
) -> Result<Config, ConnectionError> {
    let context = if let Some(name) = named.context.or(read.current_context) {
        let found = read.contexts.into_iter().find(|it| it.name == name);
        let found = found.and_then(|it| it.context);
        found.ok_or(ConnectionError::Lacks { what: "context", name })?
    } else if named.cluster.is_some() {
        Context::default()
    } else {
        return Err(ConnectionError::NoContext);
    };
    let name = named.cluster.unwrap_or(context.cluster);
    let cluster = read.clusters.into_iter().find(|it| it.name == name).and_then(|it| it.cluster);
    let cluster =
        cluster.ok_or_else(|| ConnectionError::Lacks { what: "cluster", name: name.clone() })?;
    let is_asked = named.user.is_some();
    let user_name = named.user.or(context.user);
    let user = read.auth_infos.into_iter().find(|it| Some(&it.name) == user_name.as_ref());
    // Only the name in a context may be missing.
    if let (true, None, Some(name)) = (is_asked, &user, user_name) {
        return Err(ConnectionError::Lacks { what: "user", name });
    }
    let mut user = user.and_then(|it| it.auth_info).unwrap_or_default();

    let given = cluster.server.as_deref().ok_or(KubeconfigError::MissingClusterUrl)?;
    let mut config = Config::new(server(given).ok_or(ConnectionError::Server(name))?);
    if config.cluster_url.scheme_str() == Some("http") {
        // As in kubectl, nothing secret is sent without encryption.
        user = AuthInfo {
            impersonate: user.impersonate,
            impersonate_uid: user.impersonate_uid,
            impersonate_groups: user.impersonate_groups,
            impersonate_user_extra: user.impersonate_user_extra,
            ..AuthInfo::default()
        };
    }
    let shown = ExecAuthCluster::try_from(&cluster)?;
    let authority = shown.certificate_authority_data.as_deref().filter(|pem| !pem.is_empty());
    config.root_cert = authority.map(certificates).transpose()?;
    if let Some(exec) = &mut user.exec
        && exec.provide_cluster_info
    {
        exec.cluster = Some(shown);
    }
    let explicit = cluster.proxy_url.as_deref().filter(|proxy| !proxy.is_empty());
    let proxy = proxy(&config.cluster_url, explicit);
    config.proxy_url = proxy.map_err(|error| ConnectionError::Proxy(error.into()))?;
    config.auth_info = user;
    config.default_namespace = context.namespace.unwrap_or(config.default_namespace);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name = cluster.tls_server_name.filter(|name| !name.is_empty());
    Ok(config)
}

/// Reads the address of a server. Without a scheme it is HTTP, as for kubectl, whatever
/// else the cluster has.
fn server(given: &str) -> Option<Uri> {
    let whole = if given.contains("://") { given } else { &format!("http://{given}") };
    let is_http = |url: &Uri| [Some("http"), Some("https")].contains(&url.scheme_str());
    whole.parse().ok().filter(is_http)
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, ConnectionError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.ok().filter(|found| !found.is_empty()).ok_or(ConnectionError::Authority)?;
    Ok(found.iter().map(|it| it.to_vec()).collect())
}

/// Returns what a failure of a client with these credentials becomes before it is shown.
pub fn without_secrets(
    user: &AuthInfo,
) -> impl Fn(BoxError) -> BoxError + Clone + Send + Sync + 'static + use<> {
    let exec = user.exec.as_ref();
    let command = exec.and_then(|exec| exec.command.clone());
    let of_provider = || user.auth_provider.as_ref()?.config.get("cmd-path").cloned();
    let command = command.or_else(of_provider).unwrap_or_default();
    let hint = exec.and_then(|exec| exec.install_hint.clone()).unwrap_or_default();
    move |error| {
        let of_client = match error.downcast_ref() {
            Some(kube::Error::Auth(error)) => Some(error),
            _ => error.downcast_ref(),
        };
        match of_client.and_then(|error| plugin_failure(error, &hint)) {
            Some(failure) => ConnectionError::Plugin { command: command.clone(), failure }.into(),
            None => error,
        }
    }
}

/// Returns what a credential plugin did, where the error of the client shows more of it or less.
fn plugin_failure(error: &AuthError, hint: &str) -> Option<String> {
    match error {
        AuthError::AuthExecStart(error) if error.kind() == io::ErrorKind::NotFound => {
            let colon = if hint.is_empty() { "" } else { ": " };
            Some(format!("is not installed{colon}{}", plain(hint)))
        }
        AuthError::AuthExecStart(error) => Some(format!("cannot be started: {error}")),
        AuthError::AuthExecRun { out, .. } => {
            let errors = plain(String::from_utf8_lossy(&out.stderr).trim());
            let colon = if errors.is_empty() { "" } else { ": " };
            let code = out.status.code().map(|code| format!("exit code {code}"));
            let code = code.unwrap_or_else(|| out.status.to_string());
            Some(format!("failed with {code}{colon}{errors}"))
        }
        AuthError::AuthExecParse(_) => Some("did not print an ExecCredential".to_owned()),
        _ => None,
    }
}
