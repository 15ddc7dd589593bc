//! `kubectl olm bundle render`: the objects a bundle becomes, ready for `kubectl apply -f -`.

use std::fs;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use olm_core::bundle::Bundle;
use olm_core::config::{ConfigError, Features, pull_secrets};
use olm_core::render::{
    Additions, CertificateRequest, CertificateSource, ProxyVariables, RenderError, Rendered,
    RolePlacement, Settings, render_configured, secret_object,
};
use strum::VariantNames as _;

use crate::commands::prelude::*;
use crate::output::{Written, objects, write_json};
use crate::target::Installation;
use crate::verb::words;

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// Directory of an unpacked bundle, reference of a bundle image, or a package or an extension of
    /// the cluster
    #[arg(value_name = "BUNDLE_DIR|IMAGE|PACKAGE[@RANGE]|EXTENSION")]
    target: String,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    lookup: Lookup,
    /// The options of rendering.
    #[command(flatten)]
    rendering: Rendering,
    /// Output format
    #[arg(short, long, value_parser = objects(), default_value = "yaml")]
    output: Format,
}

/// The flags that decide what a bundle becomes; every command that renders has them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Rendering {
    /// Namespace that the operator watches; by default all of them
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Option<String>,
    /// Issuer of the certificates of webhooks; without it `bundle render` leaves them out, and `rbac`
    /// grants what any issuer needs
    #[arg(long, value_parser = issuer())]
    webhook_certificates: Option<Issuer>,
    /// Placement of the rights of an operator that watches another namespace
    #[arg(long, value_parser = words::<RolePlacement>(), default_value_t)]
    role_placement: RolePlacement,
    /// File with the configuration of the extension, as in `spec.config.inline`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The configuration, from the flags or of an extension.
    #[arg(skip)]
    pub(crate) inline: Option<Value>,
    /// The additions for the extension with this name or, without a name, with the name of the
    /// package.
    #[arg(skip)]
    additions: (Additions, Option<String>),
    /// The proxies that are added.
    #[arg(skip)]
    proxy: ProxyVariables,
    /// The pull secrets that the controller of the cluster copies; without a cluster, all that the
    /// configuration names.
    #[arg(skip)]
    copies: Option<BTreeSet<String>>,
}

/// The issuer of the certificates of webhooks, if they have one.
type Issuer = Option<CertificateSource>;

/// Reads `none`, or the name of an issuer.
fn issuer() -> impl TypedValueParser<Value = Issuer> {
    let names = ["none"].iter().chain(CertificateSource::VARIANTS).copied();
    PossibleValuesParser::new(names).map(|name| name.parse().ok())
}

/// Renders one bundle and prints its objects.
pub(crate) async fn run(args: RenderArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let target = args.lookup.target(&args.target);
    if let Target::Bundle(_) | Target::Package(_) = target {
        // Whatever is wrong with the flags is said before anything is pulled.
        args.place.require()?;
    }
    let targets = [target];
    let cluster = args.lookup.cluster_for(&targets, global).await?;
    let loaded = load(&targets, &args.lookup, cluster.as_ref(), None).await?;
    let source = loaded.sources.first().context("there is no bundle")?;
    let (namespace, mut rendering) = match &loaded.extension {
        None => (args.place.require()?, args.rendering.of_new(cluster.as_ref(), None).await?),
        Some(it) => {
            let namespace = args.place.namespace.as_deref().unwrap_or(&it.namespace);
            (namespace, args.rendering.of_extension(it)?)
        }
    };
    if let Some(cluster) = &cluster {
        rendering.proxy = cluster.proxies(&rendering.additions.0).await?;
    }
    let objects = rendering.render(&source.bundle, namespace)?;
    print(objects, args.output, out)?;
    Ok(Outcome::Done)
}

impl Rendering {
    /// Returns the options of rendering for an extension, unless flags override them.
    pub(crate) fn of_extension(&self, extension: &Installation) -> anyhow::Result<Self> {
        Ok(Self {
            inline: self.configuration(extension.inline.clone())?,
            additions: (extension.additions.clone(), Some(extension.name.clone())),
            webhook_certificates: self.webhook_certificates.or(extension.certificates.map(Some)),
            ..self.clone()
        })
    }

    /// Returns the same with these proxies.
    pub(crate) fn with_proxies(self, proxy: ProxyVariables) -> Self {
        Self { proxy, ..self }
    }

    /// Returns the same with the pull secrets that the controller of a cluster copies.
    pub(crate) async fn with_copies(self, cluster: Option<&Cluster>) -> Self {
        let Some(cluster) = cluster else { return self };
        let copies = Some(cluster.copied(pull_secrets(self.inline.as_ref())).await);
        Self { copies, ..self }
    }

    /// Returns whether the flags ask for what the controller does not read.
    pub(crate) fn differs_from_controller(&self) -> bool {
        self.webhook_certificates.is_some() || self.role_placement != RolePlacement::default()
    }

    /// Returns the options of rendering for a new extension, by default named after its package:
    /// those of the cluster's controller without annotations.
    pub(crate) async fn of_new(
        &self,
        cluster: Option<&Cluster>,
        extension: Option<&str>,
    ) -> anyhow::Result<Self> {
        let additions = match cluster {
            Some(cluster) => cluster.settings().await?.controller.defaults().additions,
            None => Additions::default(),
        };
        Ok(Self {
            inline: self.configuration(None)?,
            additions: (additions, extension.map(str::to_owned)),
            ..self.clone()
        })
    }

    /// Returns the configuration of the file or, without one, this; with the value of the flag
    /// `--watch-namespace`. A pipe is a file that can be read only once.
    fn configuration(&self, otherwise: Option<Value>) -> anyhow::Result<Option<Value>> {
        let file = match &self.config {
            Some(path) => read_configuration(path)?,
            None => otherwise,
        };
        let Some(namespace) = self.watch_namespace.as_deref().filter(|name| !name.is_empty())
        else {
            return Ok(file);
        };
        match file {
            None => Ok(Some(json!({ "watchNamespace": namespace }))),
            Some(Value::Object(mut map)) => {
                if map.contains_key("watchNamespace") {
                    return usage(
                        "--watch-namespace is given and --config sets `watchNamespace` too",
                    );
                }
                map.insert("watchNamespace".to_owned(), namespace.into());
                Ok(Some(Value::Object(map)))
            }
            // A value of the wrong type is reported with the other errors of the configuration.
            other => Ok(other),
        }
    }

    /// Renders a bundle for a namespace; warnings go to stderr.
    pub(crate) fn render(&self, bundle: &Bundle, namespace: &str) -> anyhow::Result<Vec<Object>> {
        let rendered = self.render_with(bundle, namespace, self.webhook_certificates.flatten())?;
        for warning in &rendered.warnings {
            notice(&format!("warning: {warning}"));
        }
        for request in &rendered.certificate_requests {
            notice(&format!(
                "the controller adds Secret {}/{} and, where it is called from, `caBundle`",
                request.namespace, request.secret
            ));
        }
        Ok(rendered.objects)
    }

    /// Returns every object of an installation, including the Secrets the controller makes. If the
    /// issuer of certificates is not given, these are the objects of every possible issuer.
    pub(crate) fn installed(
        &self,
        bundle: &Bundle,
        namespace: &str,
    ) -> anyhow::Result<Vec<Object>> {
        let issuers = match self.webhook_certificates {
            Some(one) => vec![one],
            None => {
                [CertificateSource::CertManager, CertificateSource::SelfSigned].map(Some).into()
            }
        };
        let copies = match &self.copies {
            Some(copies) => copies.clone(),
            None => pull_secrets(self.inline.as_ref()),
        };
        let mut objects: Vec<Object> = Vec::new();
        for issuer in issuers {
            let rendered = self.render_with(bundle, namespace, issuer)?;
            let requests = rendered.certificate_requests.iter();
            let secrets = requests.map(CertificateRequest::secret_object);
            let copies = copies.iter().map(|name| secret_object(name, namespace));
            for object in rendered.objects.into_iter().chain(secrets).chain(copies) {
                if !objects.iter().any(|known| known.identity() == object.identity()) {
                    objects.push(object);
                }
            }
        }
        Ok(objects)
    }

    fn render_with(
        &self,
        bundle: &Bundle,
        namespace: &str,
        issuer: Issuer,
    ) -> anyhow::Result<Rendered> {
        let settings = Settings {
            install_namespace: namespace,
            inline: self.inline.as_ref(),
            features: Features::default(),
            role_placement: self.role_placement,
            // The CA of the controller is not known here, so `caBundle` is left out.
            certificates: issuer.map(Into::into),
        };
        let mut rendered = render_configured(bundle, &settings)?;
        let (additions, extension) = &self.additions;
        let place = (extension.as_deref().unwrap_or(&bundle.package), namespace);
        additions.add(&mut rendered.objects, bundle, place, &self.proxy);
        Ok(rendered)
    }
}

fn read_configuration(path: &Path) -> anyhow::Result<Option<Value>> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
    let documents = yaml::to_json(&text)
        .map_err(|error| RenderError::Config(ConfigError::Invalid(vec![error.to_string()])))?;
    if documents.len() > 1 {
        return usage(format!("{shown} holds more than one document"));
    }
    Ok(documents.into_iter().next())
}

/// Prints objects in a form that `kubectl apply -f -` takes.
pub(crate) fn print(
    objects: Vec<Object>,
    output: Format,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if output == Format::Name {
        let mut written = Written::new(out, Some(output));
        return objects.iter().try_for_each(|object| written.object(&object.0));
    }
    let items: Vec<Value> = objects.into_iter().map(Object::into_value).collect();
    if output == Format::Json {
        return write_json(out, &json!({ "apiVersion": "v1", "kind": "List", "items": items }));
    }
    Ok(out.write_all(yaml::to_yaml_stream(&items).as_bytes())?)
}
