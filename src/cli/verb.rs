//! The common part of commands: the cluster, the confirmation before writes, and the wait
//! afterwards.

use std::error::Error;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, StringValueParser, TypedValueParser};
use strum::VariantNames;

use crate::changes::seconds;
use crate::cluster::{CatalogAccess, Cluster};
use crate::connection::{DryRun, Global};
use crate::output::{Format, UsageError, Written, agreed, notice, written};
use crate::prelude::*;
use crate::settings::SettingsFlags;

/// Takes the name of an extension, alone or behind its kind, as `-o name` prints it.
pub(crate) fn extension() -> impl TypedValueParser<Value = String> {
    StringValueParser::new().map(|text| name_behind(EXTENSION, &text).unwrap_or(&text).to_owned())
}

/// Takes the name of a catalog in the same way.
pub(crate) fn catalog() -> impl TypedValueParser<Value = String> {
    StringValueParser::new().map(|text| name_behind(CATALOG, &text).unwrap_or(&text).to_owned())
}

pub(crate) const EXTENSION: &str = "clusterextension";
pub(crate) const CATALOG: &str = "clustercatalog";

/// Returns the name of an object of a kind where the kind is before it, as `-o name` prints it.
pub(crate) fn name_behind<'a>(kind: &str, text: &'a str) -> Option<&'a str> {
    let (found, name) = text.split_once('/')?;
    let found = found.strip_suffix(".olm.operatorframework.io").unwrap_or(found);
    (found.strip_suffix('s').unwrap_or(found) == kind).then_some(name)
}

/// Reads the reference of an image; an error has all causes.
pub(crate) fn image(text: &str) -> Result<ImageRef, String> {
    text.parse::<ImageRef>().map_err(|error| Chain(&error).to_string())
}

/// Takes the words that stand for the variants of `T`.
pub(crate) fn words<T>() -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Error + Send + Sync + 'static> + VariantNames + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(T::VARIANTS.iter().copied()).try_map(|word| word.parse())
}

/// Flags for the catalogs of a cluster and the settings of its controller.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OnCluster {
    #[command(flatten)]
    pub(crate) access: CatalogAccess,
    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}

impl OnCluster {
    pub(crate) async fn connect(&self, global: &Global) -> anyhow::Result<Cluster> {
        Cluster::over(Cluster::client(global).await?, &self.access, &self.settings)
    }
}

/// The namespace of verbs that act in one.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InNamespace {
    /// Namespace
    #[arg(long, short = 'n', value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

impl InNamespace {
    /// Returns the namespace of `-n`, or a usage error that names the flag.
    pub(crate) fn require(&self) -> Result<&str, UsageError> {
        let namespace = self.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        namespace.ok_or_else(|| UsageError("a namespace is required: -n NAMESPACE".to_owned()))
    }
}

/// The dry run and the output of a command that writes.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Rehearsal {
    /// Write nothing: print what would be written; with `server` the API server checks it
    #[arg(
        long,
        value_enum,
        value_name = "client|server",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "client"
    )]
    dry_run: Option<DryRun>,
    /// Print only objects: with json or yaml instead of writing them, with name after writing them
    #[arg(short, long, value_parser = written())]
    pub(crate) output: Option<Format>,
}

impl Rehearsal {
    /// Returns the options of the connection.
    pub(crate) fn of(self, global: &Global) -> Global {
        if self.dry_run.is_some() {
            notice("note: dry run, nothing is written");
        }
        Global { dry_run: self.effective(), ..global.clone() }
    }

    /// Returns the options of the connection, and the output of the verb.
    pub(crate) fn begin<'a>(
        self,
        global: &Global,
        out: &'a mut dyn Write,
    ) -> (Global, Written<'a>) {
        (self.of(global), self.written(out))
    }

    /// Returns the dry run: objects that are printed are not stored.
    fn effective(self) -> Option<DryRun> {
        self.dry_run.or(self.document().map(|_| DryRun::Client))
    }

    /// Returns the format of objects that are printed instead of being written.
    pub(crate) fn document(self) -> Option<Format> {
        self.output.filter(|output| *output != Format::Name)
    }

    pub(crate) fn written(self, out: &mut dyn Write) -> Written<'_> {
        Written::new(out, self.output)
    }
}

/// Asking before something is written.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Confirm {
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) rehearsal: Rehearsal,
}

impl Confirm {
    /// Asks whether to go on, unless `--yes` is given or nothing is stored; a no is an error that ends the verb. Without
    /// a terminal that is wrong usage, and `instead` is what to do then.
    pub(crate) fn agreed(self, question: &str, instead: &str) -> anyhow::Result<()> {
        let unasked = self.yes || self.rehearsal.effective().is_some();
        if unasked { Ok(()) } else { agreed(question, instead) }
    }
}

/// Waiting for what was written.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Wait {
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    /// Time to wait
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "10m")]
    pub(crate) timeout: u64,
}

impl Wait {
    /// Returns whether there is something to wait for.
    pub(crate) fn is_wanted(self, global: &Global) -> bool {
        !self.no_wait && global.dry_run.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_stand_behind_its_kind() {
        for text in [
            "clusterextension/lamp",
            "clusterextensions/lamp",
            "clusterextension.olm.operatorframework.io/lamp",
        ] {
            assert_eq!(name_behind(EXTENSION, text), Some("lamp"), "{text}");
        }
        for text in ["lamp", "catalog/lamp", "clustercatalog/lamp", "deployment.apps/lamp"] {
            assert_eq!(name_behind(EXTENSION, text), None, "{text}");
        }
    }
}
