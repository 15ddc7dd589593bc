//! `kubectl olm graph`: the update graph of a package, of catalogs named on the command line or of
//! those of a cluster.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use olm_api::CatalogFilter;

use olm_core::resolve::{
    Catalog, CatalogError, Environment, Options, Request, Selector, UpdatePolicy,
};

use crate::catalogs::{CATALOG_SYNTAX, CatalogFlag, Catalogs};
use crate::cluster::{CatalogAccess, Cluster, ExtensionSnapshot};
use crate::connection::Global;
use crate::environment::Installed;
use crate::graph::{self, Format, Graph};
use crate::output::{self, Outcome};
use crate::settings::SettingsFlags;

/// Flags of `graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Name of the package; without `--catalog`, name of a ClusterExtension of the cluster
    #[arg(value_name = "PACKAGE|EXTENSION")]
    name: String,
    /// A catalog: a directory or file of blobs, a catalog image, or the URL of a served catalog;
    /// may be repeated
    #[arg(long = "catalog", value_name = CATALOG_SYNTAX)]
    catalogs: Vec<CatalogFlag>,
    /// How catalogs are reached.
    #[command(flatten)]
    access: CatalogAccess,
    /// What the controller decides by.
    #[command(flatten)]
    settings: SettingsFlags,
    /// Channel to draw, by default those of the extension, or all; may be repeated
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// The installed bundle
    #[arg(long, value_name = "NAME@VERSION", requires = "catalogs")]
    installed: Option<Installed>,
    /// Show where OLM Classic would have gone
    #[arg(long)]
    classic: bool,
    /// Draw every entry; by default long runs are drawn as one
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Write to a file instead
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What the highlighted path follows.
struct Asked {
    request: Request,
    environment: Environment,
    options: Options,
}

/// Draws the graph.
pub(crate) async fn run(
    args: GraphArgs,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let graph = if args.catalogs.is_empty() {
        of_extension(&args, global).await?
    } else {
        args.settings.refuse("no --catalog is given")?;
        of_package(&args).await?
    };
    let text = graph.draw(args.output);
    match &args.file {
        Some(file) => {
            std::fs::write(file, text).with_context(|| file.display().to_string())?;
        }
        None => out.write_all(text.as_bytes())?,
    }
    Ok(Outcome::Done)
}

/// Makes the graph of a package from the named catalogs.
async fn of_package(args: &GraphArgs) -> anyhow::Result<Graph> {
    let mut catalogs = Catalogs::new(args.access.catalog_ca.clone());
    for flag in &args.catalogs {
        catalogs.load(&flag.place).await;
    }
    let catalog = |flag| catalogs.given(flag);
    let given: Vec<_> = args
        .catalogs
        .iter()
        .map(catalog)
        .collect::<Result<_, _>>()?;
    let request = Request {
        filter: CatalogFilter {
            package_name: args.name.clone(),
            channels: args.channels.clone(),
            ..CatalogFilter::default()
        },
        installed: args.installed.clone().map(Into::into),
        ..Request::default()
    };
    let options = Options {
        updates: UpdatePolicy::Any,
        ..Options::default()
    };
    let asked = Asked {
        request,
        environment: Environment::default(),
        options,
    };
    draw(args, &asked, &given)
}

/// Makes the graph of the package that an extension of the cluster requests.
async fn of_extension(args: &GraphArgs, global: &Global) -> anyhow::Result<Graph> {
    let cluster = Cluster::connect(global, &args.access, &args.settings).await?;
    let mut snapshot = cluster.snapshot(&args.name).await?;
    if !args.channels.is_empty() {
        let filter = &mut snapshot.question.filter;
        filter.channels.clone_from(&args.channels);
    }
    let catalogs = snapshot.catalogs();
    draw(args, &Asked::of(&snapshot, &catalogs), &catalogs)
}

/// Makes the graph of a package as one catalog has it.
pub(crate) fn of_catalog(snapshot: &ExtensionSnapshot, name: &str) -> anyhow::Result<Graph> {
    let catalogs = snapshot.catalogs();
    let Asked {
        request,
        environment,
        options,
    } = Asked::of(snapshot, &catalogs);
    let catalog = catalogs.iter().find(|catalog| catalog.name == name);
    let catalog = catalog.with_context(|| format!("there is no catalog {name:?}"))?;
    let options = graph::Options {
        resolve: options,
        ..graph::Options::default()
    };
    Ok(Graph::new(&request, catalog, &environment, options)?)
}

impl Asked {
    fn of(snapshot: &ExtensionSnapshot, catalogs: &[Catalog<'_>]) -> Self {
        let (question, options) = (&snapshot.question, snapshot.options);
        let environment = question.environment(catalogs, &options, &snapshot.environment);
        Self {
            request: question.deciding_request(catalogs, &environment, &options),
            environment,
            options,
        }
    }
}

/// Makes the graph from the catalog of the highest priority that has the package, and says so if
/// others have it too.
fn draw(args: &GraphArgs, asked: &Asked, catalogs: &[Catalog<'_>]) -> anyhow::Result<Graph> {
    let Asked {
        request,
        environment,
        options,
    } = asked;
    let package = &request.filter.package_name;
    let selector = Selector::new(request.filter.selector.as_ref())?;
    let has_package = |catalog: &&Catalog<'_>| {
        let found = catalog.content.and_then(|content| content.package(package));
        found.is_some() && catalog.enabled && selector.matches(&catalog.labels)
    };
    let mut having: Vec<_> = catalogs.iter().filter(has_package).collect();
    having.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(b.name)));
    let Some((catalog, others)) = having.split_first() else {
        let problems = catalogs.iter().filter_map(|catalog| {
            let problem = CatalogError {
                catalog: catalog.name.to_owned(),
                problem: catalog.problem.clone()?,
            };
            Some(format!("; {problem}"))
        });
        let problems: String = problems.collect();
        anyhow::bail!("no catalog has package {package:?}{problems}");
    };
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(|catalog| catalog.name).collect();
        let (drawn, others) = (catalog.name, others.join(", "));
        output::notice(&format!(
            "note: drawn from catalog {drawn}; also in {others}"
        ));
    }
    let options = graph::Options {
        resolve: *options,
        classic: args.classic,
        all: args.all,
    };
    Ok(Graph::new(request, catalog, environment, options)?)
}
