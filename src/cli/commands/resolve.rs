//! `kubectl olm resolve`: which bundle a ClusterExtension would get.
//!
//! There is no update policy here, and the state of the cluster is only what the flags give:
//! requirements beyond that are listed and exclude nothing.

use std::sync::Arc;

use olm_api::UpgradeConstraintPolicy;
use olm_core::catalog::{Bundle, Content};
use olm_core::extension::KnownCatalog;
use olm_core::resolve::{
    self, Catalog, Dependencies, Environment, Options, Reason, Resolution, Selected,
    Unavailability, UpdatePolicy,
};

use crate::catalogs::{CATALOG_SYNTAX, CatalogFlag, named_metas};
use crate::commands::prelude::*;
use crate::environment::{EnvironmentFlags, Installed, resolving};
use crate::requests::answer_lines;
use crate::verb::words;

#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// Name of the package
    #[arg(long, value_name = "NAME", required_unless_present = "requests")]
    package: Option<String>,
    /// A catalog: a directory or file of blobs, a catalog image, or the URL of a served catalog;
    /// may be repeated
    #[arg(
        long = "from",
        value_name = CATALOG_SYNTAX,
        required_unless_present = "requests"
    )]
    catalogs: Vec<CatalogFlag>,
    /// CA certificates of catalog servers, as a PEM file; no others are trusted then
    #[arg(long, value_name = "FILE")]
    catalog_ca: Option<PathBuf>,
    /// Version range
    #[arg(long = "version", value_name = "RANGE")]
    range: Option<String>,
    /// Channel; may be repeated
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// Upgrade constraint policy: require a successor of the installed bundle, or not
    #[arg(long, value_parser = words::<UpgradeConstraintPolicy>(), value_name = "POLICY")]
    policy: Option<UpgradeConstraintPolicy>,
    #[command(flatten)]
    environment: EnvironmentFlags,
    /// Answer many requests instead, given as JSON lines; `-` is stdin
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["package", "catalogs", "range", "channels", "policy"]
    )]
    requests: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = formats(&[]), default_value_t, conflicts_with = "requests")]
    output: Format,
}

/// A catalog as given in a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CatalogPlace {
    name: String,
    /// Path, relative to the current directory, or URL.
    dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
}

/// One request; unknown members are ignored and not echoed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Request {
    catalogs: Vec<CatalogPlace>,
    package: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channels: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<UpgradeConstraintPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    installed: Option<Installed>,
}

/// Catalogs by their places, each read once, or why it could not be.
type Contents = BTreeMap<String, Result<Arc<Content>, String>>;

/// Answers one request, or many.
pub(crate) async fn run(args: ResolveArgs, out: &mut dyn Write) -> Ended {
    let (mut contents, authorities) = (Contents::new(), args.catalog_ca.clone());
    let environment = args.environment.read()?;
    if let Some(source) = &args.requests {
        if args.environment.bundle().is_some() {
            return usage("--installed NAME@VERSION cannot be used with --requests");
        }
        let answer = async |request: Request| {
            let known = request.catalogs(&mut contents, authorities.as_deref()).await;
            let given: Vec<_> = known.iter().map(KnownCatalog::as_catalog).collect();
            request.answer(&request.resolve(&given, &environment))
        };
        return answer_lines(source, out, answer).await;
    }
    let format = args.output;
    let request = Request::from(args);
    let known = request.catalogs(&mut contents, authorities.as_deref()).await;
    let given: Vec<_> = known.iter().map(KnownCatalog::as_catalog).collect();
    let resolution = request.resolve(&given, &environment);
    tell(&resolution);
    match format {
        Format::Json => output::write_json(out, &request.detailed_answer(&resolution))?,
        Format::Yaml => output::write_yaml(out, &request.detailed_answer(&resolution))?,
        _ => {
            if let Ok(selected) = &resolution.result {
                write_table(selected, out)?;
            }
        }
    }
    Ok(match resolution.result {
        Ok(_) => Outcome::Done,
        Err(_) => Outcome::Failed,
    })
}

impl From<ResolveArgs> for Request {
    fn from(args: ResolveArgs) -> Self {
        let place = |flag: CatalogFlag| CatalogPlace {
            name: flag.name,
            dir: flag.place,
            priority: Some(flag.priority),
        };
        Self {
            catalogs: args.catalogs.into_iter().map(place).collect(),
            package: args.package.unwrap_or_default(),
            version: args.range,
            channels: Some(args.channels).filter(|channels| !channels.is_empty()),
            policy: args.policy,
            installed: args.environment.bundle().cloned(),
        }
    }
}

impl Request {
    /// Reads the catalogs that were not read yet; an unreadable one is a failed download.
    async fn catalogs(
        &self,
        contents: &mut Contents,
        authorities: Option<&Path>,
    ) -> Vec<KnownCatalog> {
        let mut known = Vec::new();
        for CatalogPlace { name, dir, priority } in &self.catalogs {
            if !contents.contains_key(dir) {
                let metas = named_metas(dir, authorities).await;
                let content = metas.map(|metas| Arc::new(Content::from_blobs(&metas)));
                contents.insert(dir.clone(), content.map_err(|error| one_line(&error)));
            }
            let content = contents[dir].clone();
            known.push(KnownCatalog::named(name, priority.unwrap_or(0), content));
        }
        known
    }

    fn resolve<'a>(
        &self,
        catalogs: &'a [Catalog<'a>],
        environment: &Environment,
    ) -> Resolution<'a> {
        let request = resolve::Request {
            filter: CatalogFilter {
                package_name: self.package.clone(),
                version: self.version.clone(),
                channels: self.channels.clone().unwrap_or_default(),
                selector: None,
                upgrade_constraint_policy: self.policy,
            },
            installed: self.installed.clone().map(Into::into),
            home: None,
            moves_held: false,
        };
        let options = Options {
            release_support: false,
            // An unreadable catalog on a command line is a user's mistake and is reported.
            unavailability: Unavailability::Strict,
            updates: UpdatePolicy::Any,
            closed_until: None,
            dependencies: Dependencies::Check,
            pins_releases: true,
        };
        resolve::resolve(&request, catalogs, &resolving(environment, &self.package), &options)
    }

    /// Returns the request with the members of the answer added.
    fn answer(&self, resolution: &Resolution<'_>) -> Value {
        let mut answer = serde_json::to_value(self).unwrap_or_default();
        match &resolution.result {
            Ok(selected) => {
                answer["bundle"] = selected.bundle.name.as_str().into();
                answer["resolvedVersion"] = selected.version.recorded().into();
                answer["hasDeprecation"] = selected.deprecations.is_some().into();
                let constraints = constraints(selected.bundle);
                if !constraints.is_empty() {
                    answer["constraints"] = constraints.into();
                }
            }
            Err(error) => answer["error"] = Chain(error).to_string().into(),
        }
        let unfit = resolution.held_back().filter_map(|held| match &held.reason {
            Reason::Unfit(why) => Some(json!({"bundle": held.bundle, "because": why.to_string()})),
            _ => None,
        });
        let unfit: Vec<_> = unfit.collect();
        if !unfit.is_empty() {
            answer["held"] = unfit.into();
        }
        answer
    }

    /// Returns the answer with the origin of the bundle.
    fn detailed_answer(&self, resolution: &Resolution<'_>) -> Value {
        let mut answer = self.answer(resolution);
        if let Ok(selected) = &resolution.result {
            answer["catalog"] = selected.catalog.into();
            answer["image"] = selected.bundle.image.as_str().into();
        }
        answer
    }
}

/// Returns the constraints of a bundle, each as a property with type and value.
fn constraints(bundle: &Bundle) -> Vec<Value> {
    let named = |kind: &str, value: Value| json!({"type": kind, "value": value});
    let declared = bundle.dependencies().map(|property| {
        // A value that is not JSON is shown as a string.
        let value = serde_json::from_str(&property.value);
        named(&property.kind, value.unwrap_or_else(|_| property.value.as_str().into()))
    });
    let kubernetes = bundle.min_kube_version.as_ref();
    let kubernetes = kubernetes.map(|(_, text)| named("minKubeVersion", text.as_str().into()));
    declared.chain(kubernetes).collect()
}

/// Prints errors, or warnings about the result, to stderr.
fn tell(resolution: &Resolution<'_>) {
    let selected = match &resolution.result {
        Ok(selected) => selected,
        Err(error) => {
            output::notice(&format!("error: {}", Chain(error)));
            if let Some(hint) = hint(resolution) {
                output::notice(&format!("hint: {hint}"));
            }
            return;
        }
    };
    for warning in &selected.warnings {
        output::notice(&format!("warning: {warning}"));
    }
    for held in resolution.held_back() {
        if let Reason::Unfit(why) = &held.reason {
            output::notice(&format!("held: {}: {why}", held.bundle));
        }
    }
    if selected.deprecated {
        output::notice("warning: the bundle is deprecated");
    }
    for constraint in constraints(selected.bundle) {
        let (kind, value) = (&constraint["type"], &constraint["value"]);
        let kind = kind.as_str().unwrap_or_default();
        output::notice(&format!("note: needs {kind} {value}"));
    }
}

/// Returns a summary of why bundles were excluded, with counts.
fn hint(resolution: &Resolution<'_>) -> Option<String> {
    let mut counts = BTreeMap::new();
    for exclusion in &resolution.excluded {
        *counts
            .entry((exclusion.reason.stage(), exclusion.reason.code().as_str()))
            .or_insert(0u32) += 1;
    }
    let counts: Vec<String> =
        counts.into_iter().map(|((_, code), count)| format!("{count} {code}")).collect();
    (!counts.is_empty()).then(|| format!("bundles excluded: {}", counts.join(", ")))
}

fn write_table(selected: &Selected<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::new(&["BUNDLE", "VERSION", "CATALOG", "IMAGE"]);
    table.row(vec![
        selected.bundle.name.clone(),
        selected.version.recorded(),
        selected.catalog.to_owned(),
        selected.bundle.image.clone(),
    ]);
    Ok(table.write(out)?)
}
