//! The flags of every command: which cluster is meant, as whom, and with which credentials images
//! are pulled; and requests that store nothing.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request};
use kube::Config;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use olm_cluster::{ConnectionError, connection, read_kubeconfig};
use olm_image::Proxies;

use crate::changes::seconds;
use crate::prelude::*;

/// Groups whose objects are questions: nothing of them is stored anyway.
const QUESTIONS: [&str; 2] = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
const DRY_DELETION: &[u8] = br#"{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"]}"#;

/// The connection flags of kubectl; commands that work offline accept and ignore them.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Global {
    /// Path to the kubeconfig file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<String>,
    /// Name of the kubeconfig context
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Name of the kubeconfig cluster
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// Name of the kubeconfig user
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "impersonate")]
    pub(crate) impersonate_groups: Vec<String>,
    /// Time to wait for the response of a server to begin, and to continue after a pause; 0 means
    /// no limit
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        value_parser = seconds,
        default_value = "10s"
    )]
    pub(crate) request_timeout: u64,
    /// Print only errors on stderr
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// File with credentials for registries; by default that of `REGISTRY_AUTH_FILE`, else those of
    /// Podman and Docker
    #[arg(long, global = true, value_name = "FILE", help_heading = "Images")]
    pub(crate) auth_file: Option<PathBuf>,
    /// The dry run of commands that write.
    #[arg(skip)]
    pub(crate) dry_run: Option<DryRun>,
}

impl Global {
    fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref().map(Path::new)
    }

    pub(crate) fn read_kubeconfig(&self) -> Result<Kubeconfig, ConnectionError> {
        read_kubeconfig(self.kubeconfig())
    }

    /// Returns how the cluster is reached, as kubectl would with the same flags.
    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        let named = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        connection(self.kubeconfig(), named, Proxies::for_server).context("no cluster")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    // It writes nothing, where it can say what it would write without that
    Client,
    // It sends every write, and the API server stores none of them
    Server,
}

/// Makes a request one that changes nothing.
pub(crate) fn dry(request: Request<Body>) -> Request<Body> {
    let (mut parts, mut body) = request.into_parts();
    let path = parts.uri.path();
    let reads = [Method::GET, Method::HEAD].contains(&parts.method);
    if reads || QUESTIONS.iter().any(|group| path.starts_with(group)) {
        return Request::from_parts(parts, body);
    }
    if parts.method == Method::DELETE {
        // Its options come from the body alone.
        body = Body::from(DRY_DELETION.to_vec());
        parts.headers.remove(CONTENT_LENGTH);
        let json = HeaderValue::from_static("application/json");
        parts.headers.insert(CONTENT_TYPE, json);
    }
    let sign = if parts.uri.query().is_some() { '&' } else { '?' };
    #[expect(clippy::expect_used, reason = "what is added are letters")]
    let uri = format!("{}{sign}dryRun=All", parts.uri).parse().expect("a longer URI is one");
    parts.uri = uri;
    Request::from_parts(parts, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn every_write_becomes_a_dry_run() {
        let requests = cases::<(String, String, String)>("every_write_becomes_a_dry_run");
        for (name, (method, uri, want)) in requests {
            let request = Request::builder().method(&*method).uri(uri);
            let request = dry(request.body(Body::from(b"{}".to_vec())).unwrap());
            assert_eq!(request.uri().to_string(), want, "{name}");
            assert_eq!(request.headers().contains_key(CONTENT_TYPE), method == "DELETE", "{name}");
        }
    }
}
