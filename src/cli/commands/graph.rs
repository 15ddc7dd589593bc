//! `kubectl olm graph`: the update graph of a package, of catalogs named on the command line or of
//! those of a cluster.

use std::sync::Arc;

use olm_core::resolve::{Catalog, CatalogError};
use olm_core::selector::Selector;

use crate::commands::prelude::*;
use crate::environment::Installed;
use crate::graph::{self, Graph};
use crate::offers::{Named, Offers};
use crate::output::drawn;
use crate::target::{filter, or_like, or_near};

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// With `--from` a package; otherwise an extension of the cluster or, if there is none with
    /// this name, a package of its catalogs
    #[arg(value_name = "PACKAGE|EXTENSION")]
    name: String,
    #[command(flatten)]
    lookup: Lookup,
    /// Channel to draw, by default those of the extension, or all; may be repeated
    #[arg(long = "channel", value_name = "NAME")]
    channels: Vec<String>,
    /// The installed bundle
    #[arg(long, value_name = "NAME@VERSION", requires = "catalogs")]
    installed: Option<Installed>,
    /// Show the update path that OLM Classic would take
    #[arg(long)]
    classic: bool,
    /// Draw every entry, as json and yaml do; by default long runs are drawn as one
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(short, long, value_parser = drawn(), default_value_t = Format::Tree)]
    output: Format,
}

/// Draws the graph.
pub(crate) async fn run(args: GraphArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let graph = match Target::of_extension(&args.name, args.lookup.is_offline()) {
        Target::Bundle(place) => {
            return usage(format!("{place} is a bundle: a graph is of an extension or a package"));
        }
        Target::Package(wanted) if args.lookup.is_offline() => {
            of_package(&args, filter(&wanted)).await?
        }
        target => on_cluster(&args, target, global).await?,
    };
    match args.output {
        format @ (Format::Json | Format::Yaml) => graph.document().write(format, out)?,
        format => out.write_all(graph.draw(format).as_bytes())?,
    }
    Ok(Outcome::Done)
}

/// Makes the graph of a package from the named catalogs.
async fn of_package(args: &GraphArgs, filter: CatalogFilter) -> anyhow::Result<Graph> {
    let named = Arc::new(args.lookup.named().await?);
    if let Some(why) = named.iter().find_map(Named::unread) {
        bail!("{why}");
    }
    let filter = CatalogFilter { channels: args.channels.clone(), ..filter };
    let package = filter.package_name.clone();
    let mut snapshot = args.lookup.asked(filter, &BTreeMap::new())?;
    snapshot.question.installed = args.installed.clone().map(|it| it.into_record(&package));
    snapshot.catalogs = named.iter().map(Named::known).collect();
    or_like(draw(args, &snapshot), &package, &Offers::Named(named)).await
}

/// Makes the graph of the package that an extension of the cluster requests, or of one that a new
/// extension would.
async fn on_cluster(args: &GraphArgs, target: Target, global: &Global) -> anyhow::Result<Graph> {
    let cluster = args.lookup.on.connect(global).await?;
    let (mut snapshot, is_word) = match &target {
        Target::Package(wanted) => (cluster.offers(filter(wanted)).await?, false),
        Target::Word(word) if cluster.find_extension(word).await?.is_none() => {
            (cluster.offers(filter(word)).await?, true)
        }
        Target::Word(name) | Target::Extension(name) | Target::Bundle(name) => {
            (cluster.snapshot(name).await?, false)
        }
    };
    if !args.channels.is_empty() {
        let filter = &mut snapshot.question.filter;
        filter.channels.clone_from(&args.channels);
    }
    or_near(draw(args, &snapshot), (&snapshot.question.filter.package_name, is_word), &cluster)
        .await
}

/// Makes the graph of a package as one catalog has it.
pub(crate) fn of_catalog(snapshot: &ExtensionSnapshot, name: &str) -> anyhow::Result<Graph> {
    let catalogs = snapshot.catalogs();
    let (request, environment) = snapshot.asked(&catalogs);
    let catalog = catalogs.iter().find(|catalog| catalog.name == name);
    let catalog = catalog.with_context(|| format!("there is no catalog {name:?}"))?;
    let options = graph::Options { resolve: snapshot.options, ..graph::Options::default() };
    Graph::new(&request, catalog, &environment, options)
}

/// Makes the graph from the catalog of the highest priority that has the package, and says so if
/// others have it too.
fn draw(args: &GraphArgs, snapshot: &ExtensionSnapshot) -> anyhow::Result<Graph> {
    let catalogs = snapshot.catalogs();
    let (request, environment) = snapshot.asked(&catalogs);
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
        bail!("no catalog has package {package:?}{problems}");
    };
    if !others.is_empty() {
        let others: Vec<_> = others.iter().map(|catalog| catalog.name).collect();
        let (drawn, others) = (catalog.name, others.join(", "));
        output::notice(&format!("note: drawn from catalog {drawn}; also in {others}"));
    }
    let all = args.all || matches!(args.output, Format::Json | Format::Yaml);
    let options = graph::Options { resolve: snapshot.options, classic: args.classic, all };
    Graph::new(&request, catalog, &environment, options)
}
