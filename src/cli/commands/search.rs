//! `kubectl olm search`: which packages there are.
//!
//! Source: plugin.md 1.4.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use olm_core::catalog::Summary;
use olm_core::selector::Selector;

use crate::cluster::{few, only, refuse_absent};
use crate::commands::install::selector;
use crate::commands::prelude::*;
use crate::document::{Deprecated, Package};
use crate::offers::{ADD_CATALOG, Offers, icon, near};
use crate::output::UsageError;

/// Packages whose version is looked up where that takes requests for each.
const VERSIONS: usize = 30;
/// Names that are suggested.
const MOST_NEAR: usize = 5;
/// The prefix of terms that are kinds.
const KIND: &str = "kind:";

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// Words that name or description must all contain, or `kind:NAME` for a kind that the
    /// package provides; by default every package is listed
    #[arg(value_name = "TERM")]
    terms: Vec<String>,
    /// Show every version instead of the one that a new extension would get
    #[arg(long)]
    versions: bool,
    /// Show every channel instead of the default one
    #[arg(long)]
    channels: bool,
    /// Catalog to search, or labels of catalogs; by default all of them
    #[arg(long, value_name = "NAME|KEY=VALUE,...", value_parser = selector)]
    catalog: Option<LabelSelector>,
    /// Show only packages that can be installed; resolves every match
    #[arg(long)]
    installable: bool,
    #[command(flatten)]
    lookup: Lookup,
    /// Output format
    #[arg(short, long, value_parser = formats(&[Format::Name]), default_value_t)]
    output: Format,
}

/// Which packages catalogs offer, the best match first: `kubectl olm search`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Found {
    packages: Vec<Package>,
    /// The catalogs that were searched.
    catalogs: Vec<String>,
    /// If there is no result: similar names.
    #[serde(skip)]
    near: Vec<String>,
    /// Catalogs that could not be read.
    unknown: Vec<Unknown>,
}

/// Prints the packages that match.
pub(crate) async fn run(args: SearchArgs, global: &Global, out: &mut dyn Write) -> Ended {
    let of_kinds = args.terms.iter().any(|term| term.starts_with(KIND));
    let whole = args.installable || args.versions || args.channels || of_kinds;
    let offers = match args.lookup.offers(global).await? {
        Offers::Cluster(cluster) if whole => Offers::Cluster(Box::new(cluster.keeping())),
        offers => offers,
    };
    let wanted = Selector::new(args.catalog.as_ref());
    let wanted = wanted.map_err(|error| UsageError(format!("--catalog: {error}")))?;
    let all = offers.selected(&Selector::default()).await?;
    refuse_absent(args.catalog.as_ref(), all.keys().cloned())?;
    let mut found = find(&offers, &args.terms, args.installable, &wanted).await?;
    if found.packages.iter().any(|package| package.installable.is_none()) {
        notice(&format!("note: versions are shown of up to {VERSIONS} packages"));
    }
    // Programs see why the rest may not be installed.
    if let format @ (Format::Json | Format::Yaml) = args.output {
        found.write(format, out)?;
    }
    if args.installable {
        found = found.installable();
    }
    match args.output {
        Format::Name => {
            for package in &found.packages {
                writeln!(out, "{}", package.name)?;
            }
        }
        Format::Table if !found.packages.is_empty() => {
            table(&found.packages, &args).write(out)?;
        }
        _ => {}
    }
    for Unknown { what, why, .. } in &found.unknown {
        notice(&format!("warning: {what} could not be read: {why}"));
    }
    Ok(match (found.packages.is_empty(), found.unknown.is_empty()) {
        (false, _) => Outcome::Done,
        (true, true) => {
            for line in found.nothing(args.catalog.is_some()) {
                notice(&line);
            }
            Outcome::Failed
        }
        (true, false) => Outcome::Unknown,
    })
}

/// Finds the packages of the wanted catalogs that match every term, the best match first; of `every`
/// one of them, or of not too many, also the version that a new extension would get.
pub(crate) async fn find(
    offers: &Offers,
    terms: &[String],
    every: bool,
    wanted: &Selector,
) -> anyhow::Result<Found> {
    let (mut blobs, unread) = offers.heads().await?;
    let selected = offers.selected(wanted).await?;
    blobs.retain(|(catalog, _)| selected.contains_key(catalog));
    let unread = unread.into_iter().filter(|(catalog, _)| selected.contains_key(catalog));
    let unknown =
        unread.map(|(catalog, why)| Unknown::new(format!("packages of catalog {catalog}"), why));
    let unknown = unknown.collect();
    let all_read = match offers {
        Offers::Cluster(cluster) => cluster.is_keeping(),
        Offers::Named(_) => true,
    };
    let mut found = Vec::new();
    for (catalog, blob) in &blobs {
        let mut package = Package::of(catalog, blob);
        package.priority = selected.get(catalog).copied().unwrap_or_default();
        if all_read {
            // One that cannot be read is listed all the same, and its own page says why.
            let name = blob["name"].as_str().unwrap_or_default();
            if let Ok(Some(summary)) = offers.summary(catalog, name).await {
                package.describe(&summary);
            }
        }
        if let Some(rank) = package.rank(terms) {
            found.push((rank, package));
        }
    }
    found.sort_by(|(rank, a), (other, b)| {
        (rank, &a.name, &a.catalog).cmp(&(other, &b.name, &b.catalog))
    });
    let mut packages: Vec<_> = found.into_iter().map(|(_, package)| package).collect();
    // From whole catalogs it costs no requests.
    complete(offers, &mut packages, every || all_read).await?;
    let mut meant = Vec::new();
    if packages.is_empty() {
        let names = terms.iter().flat_map(|term| near(term, &blobs));
        meant.extend(names.map(|(name, _)| quote(name)).take(MOST_NEAR));
    }
    let catalogs = selected.into_keys().collect();
    Ok(Found { packages, catalogs, near: meant, unknown })
}

impl Package {
    fn of(catalog: &str, blob: &Value) -> Self {
        let text = |key: &str| plain(blob[key].as_str().unwrap_or_default());
        Self {
            name: text("name"),
            catalog: catalog.to_owned(),
            default_channel: text("defaultChannel"),
            description: text("description"),
            icon: icon(blob).map(|(media_type, _)| media_type.to_owned()),
            ..Self::default()
        }
    }

    /// Takes over what the bundles of the package say.
    fn describe(&mut self, summary: &Summary) {
        let text = |text: &Option<String>| text.as_deref().map(plain);
        self.display_name = text(&summary.display_name);
        self.provider = text(&summary.provider);
        self.description = text(&summary.description).unwrap_or_default();
        self.categories = Some(summary.categories.iter().map(|it| plain(it)).collect());
        let names = summary.channels.iter().map(|it| plain(&it.name));
        self.channels = Some(names.collect());
        let versions = summary.bundles.iter().filter_map(|it| it.version.clone());
        self.versions = Some(versions.collect());
        let words = summary.keywords.iter().chain(&summary.categories);
        self.keywords = words.flat_map(|it| [" ", it]).collect();
        let kinds = summary.bundles.iter().flat_map(|it| &it.kinds);
        self.kinds = kinds.map(|it| it.kind.to_lowercase()).collect();
        let channel = summary.channels.iter().find(|it| it.default);
        let head = channel
            .and_then(|channel| summary.bundles.iter().find(|it| it.version == channel.head));
        let messages = [
            ("package", &summary.deprecated),
            ("channel", channel.map_or(&None, |it| &it.deprecated)),
            ("bundle", head.map_or(&None, |it| &it.deprecated)),
        ];
        let told = messages.into_iter().filter_map(|(what, message)| {
            Some(Deprecated { what: what.to_owned(), message: message.clone()? })
        });
        self.deprecated = Some(told.collect());
    }

    /// Returns its description, after its deprecations.
    fn about(&self) -> String {
        let deprecated: Vec<_> =
            self.deprecated.iter().flatten().map(|it| it.what.as_str()).collect();
        match deprecated.as_slice() {
            [] => self.description.clone(),
            what => format!("({} deprecated) {}", what.join(" and "), self.description),
        }
    }

    /// Returns the rank of a match, the best being lowest; nothing if a term does not match.
    fn rank(&self, terms: &[String]) -> Option<u8> {
        let name = self.name.to_lowercase();
        let others =
            [&self.display_name, &self.provider].map(|it| it.as_deref().unwrap_or_default());
        let description = format!("{} {}{}", self.description, others.join(" "), self.keywords);
        let description = description.to_lowercase();
        let mut rank = 0;
        for term in terms {
            let term = term.to_lowercase();
            if let Some(kind) = term.strip_prefix(KIND) {
                let kind = format!("kind={kind}");
                self.kinds.iter().find(|known| known.ends_with(&kind))?;
                continue;
            }
            let this = match name.find(&term) {
                Some(_) if name == term => 0,
                Some(0) => 1,
                Some(_) => 2,
                None if description.contains(&term) => 3,
                None => return None,
            };
            rank = rank.max(this);
        }
        Some(rank)
    }
}

/// Adds what the cluster knows of packages: who has them installed, and, of not too many, which
/// version a new extension would get.
async fn complete(offers: &Offers, found: &mut [Package], every: bool) -> anyhow::Result<()> {
    let extensions = offers.extensions().await?;
    for package in found.iter_mut() {
        package.installed_as = installed_as(&extensions, &package.name);
    }
    if found.len() > VERSIONS && !every {
        return Ok(());
    }
    let offered = found.iter().map(|package| {
        let filter = CatalogFilter {
            package_name: package.name.clone(),
            selector: Some(only(&package.catalog)),
            ..CatalogFilter::default()
        };
        async move { chosen(&offers.offered(filter).await?) }
    });
    let offered = few(offered.collect()).await;
    for (package, offered) in found.iter_mut().zip(offered) {
        package.installable = Some(offered.is_ok());
        match offered {
            Ok(chosen) => {
                package.version = Some(chosen.version);
                package.channel = chosen.channel;
            }
            Err(error) => package.reasons.push(one_line(&error)),
        }
    }
    Ok(())
}

/// Returns the extensions that have a package installed.
pub(crate) fn installed_as(extensions: &[ClusterExtension], package: &str) -> Vec<String> {
    let having = extensions.iter().filter(|it| it.package() == Some(package));
    having.filter(|it| it.installed().is_some()).map(ClusterExtension::name_any).collect()
}

fn table(found: &[Package], args: &SearchArgs) -> Table {
    let all = |all: bool, one: &str, every: &Option<Vec<String>>| match every {
        Some(every) if all => every.join(","),
        _ => one.to_owned(),
    };
    let mut table = Table::new(&[
        "NAME",
        if args.versions { "VERSIONS" } else { "VERSION" },
        if args.channels { "CHANNELS" } else { "CHANNEL" },
        "CATALOG",
        "INSTALLED AS",
        "DESCRIPTION",
    ]);
    let cell = |text: &str| cell(Some(text).filter(|text| !text.is_empty()));
    for package in found {
        let version = package.version.as_deref().unwrap_or_default();
        let channel = package.channel.as_ref().unwrap_or(&package.default_channel);
        table.row(vec![
            package.name.clone(),
            cell(&all(args.versions, version, &package.versions)),
            cell(&all(args.channels, channel, &package.channels)),
            package.catalog.clone(),
            cell(&package.installed_as.join(",")),
            cell(&package.about()),
        ]);
    }
    table
}

impl Found {
    /// Explains why nothing was found, with suggestions.
    fn nothing(&self, is_selected: bool) -> Vec<String> {
        if self.catalogs.is_empty() {
            return if is_selected {
                vec!["no catalog matches --catalog".to_owned()]
            } else {
                vec!["no catalog is served".to_owned(), format!("hint: {ADD_CATALOG}")]
            };
        }
        let mut lines = vec!["no package matches".to_owned()];
        if !self.near.is_empty() {
            lines.push(format!("hint: similar packages: {}", self.near.join(", ")));
        }
        lines
    }

    /// Leaves out what was not looked up, and what no version can be installed of.
    pub(crate) fn installable(mut self) -> Self {
        let packages = &mut self.packages;
        packages.retain(|package| package.installable == Some(true));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{cases, flags};

    #[test]
    fn packages_match() {
        for (case, (terms, name, want)) in
            cases::<(Vec<String>, String, Option<u8>)>("packages_match")
        {
            let blob = json!({"name": name, "description": "Runs Queues"});
            assert_eq!(Package::of("c", &blob).rank(&terms), want, "{case}");
        }
    }

    #[test]
    fn nothing_found_has_a_reason() {
        type Case = (Vec<String>, Vec<String>, bool, Vec<String>);
        for (name, case) in cases::<Case>("nothing_found_has_a_reason") {
            let (catalogs, near, is_selected, want) = case;
            let found = Found { packages: Vec::new(), catalogs, near, unknown: Vec::new() };
            assert_eq!(found.nothing(is_selected), want, "{name}");
        }
    }

    /// Returns what is printed of a package.
    fn printed(package: Package) -> String {
        let mut out = Vec::new();
        table(&[package], &flags::<SearchArgs>("")).write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    // The channel beside a version is one that has it.
    #[test]
    fn a_version_stands_beside_its_channel() {
        let blob = json!({"name": "hive", "defaultChannel": "alpha"});
        let mut package = Package::of("c", &blob);
        package.version = Some("2.5.0".to_owned());
        package.channel = Some("beta".to_owned());
        let text = printed(package);
        assert!(
            text.contains("2.5.0") && text.contains("beta") && !text.contains("alpha"),
            "{text}"
        );
    }

    // plugin.md U12
    #[test]
    fn text_of_a_catalog_stays_in_its_cell() {
        let blob = json!({"name": "a", "defaultChannel": "s\u{1b}[31m",
            "description": format!("one\ntwo \u{202e}{}", "x".repeat(100))});
        insta::assert_snapshot!(printed(Package::of("c", &blob)));
    }
}
