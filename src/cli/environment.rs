//! The state of a cluster as given by files and flags: the installed bundles, the served kinds,
//! and the version of Kubernetes. Constraints are judged by what is given and nothing else.

use std::str::FromStr;
use std::sync::Arc;

use olm_core::catalog::Property;
use olm_core::resolve::{
    Environment, GroupVersionKind, Knowledge, Provider, ProviderOrigin, ServedKinds,
};
use olm_core::version::Version;

use crate::output::UsageError;
use crate::prelude::*;

/// Flags that tell of a cluster.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EnvironmentFlags {
    /// The installed bundle; or a file (.yaml, .yml or .json) with the bundles that are installed
    /// on the cluster; both may be given
    ///
    /// The file is a list of objects: `extension`, `package` and `version`, and if needed
    /// `properties` and `constraints`, lists of `type` and `value` as catalogs have them, and
    /// `kinds`, the kinds it defines, written as in the file of --served-kinds. Example:
    /// `[{extension: blue, package: blue, version: 1.4.0}]`. Required packages and CEL rules are
    /// judged by it, and updates that would break a constraint in it are held.
    #[arg(long, value_name = "NAME@VERSION|FILE")]
    installed: Vec<InstalledFlag>,
    /// File with the kinds that the cluster serves, to check required APIs against
    ///
    /// A YAML or JSON list; an element is `group/version, Kind`, for the core group
    /// `version, Kind`, or an object with `group`, `version` and `kind`. Example:
    /// `["apps/v1, Deployment", "v1, ConfigMap"]`.
    #[arg(long, value_name = "FILE")]
    served_kinds: Option<PathBuf>,
    /// Version of Kubernetes, to check `minKubeVersion` of bundles against
    #[arg(long, value_name = "VERSION", value_parser = kube_version)]
    kube_version: Option<Version>,
}

/// The value of the flag `--installed`.
#[derive(Debug, Clone)]
enum InstalledFlag {
    /// The installed bundle of the package that is resolved.
    Bundle(Installed),
    /// A file that lists the bundles installed on the cluster.
    File(PathBuf),
}

/// The installed bundle as given by a flag or in a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Installed {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl FromStr for Installed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Neither separator can be in a name or a version.
        let split = text.rsplit_once(['@', '/']);
        let split = split.filter(|(name, version)| !name.is_empty() && !version.is_empty());
        let (name, version) = split.ok_or("must be NAME@VERSION")?;
        Ok(Self { name: name.to_owned(), version: version.to_owned() })
    }
}

impl Installed {
    /// Returns the bundle of a package as a revision would record it.
    pub(crate) fn into_record(self, package: &str) -> BundleRecord {
        BundleRecord {
            name: self.name,
            package: package.to_owned(),
            version: self.version,
            release: None,
            image: String::new(),
            constraints: None,
        }
    }
}

impl From<Installed> for olm_core::resolve::Installed {
    fn from(installed: Installed) -> Self {
        Self { name: installed.name, version: installed.version, release: None }
    }
}

/// An installed bundle in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    extension: String,
    package: String,
    version: String,
    #[serde(default)]
    properties: Vec<PropertyEntry>,
    #[serde(default)]
    constraints: Vec<PropertyEntry>,
    #[serde(default)]
    kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PropertyEntry {
    r#type: String,
    #[serde(default)]
    value: Value,
}

/// A kind in a file.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "must be `group/version, Kind` or an object with group, version and kind"
)]
enum Kind {
    Text(String),
    Members(KindMembers),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindMembers {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

impl EnvironmentFlags {
    /// Returns the installed bundle of the package that is resolved.
    pub(crate) fn bundle(&self) -> Option<&Installed> {
        self.installed.iter().rev().find_map(|flag| match flag {
            InstalledFlag::Bundle(bundle) => Some(bundle),
            InstalledFlag::File(_) => None,
        })
    }

    /// Fails if a flag tells of a cluster, where a cluster tells of itself.
    pub(crate) fn refuse(&self) -> Result<(), UsageError> {
        let is_file = |flag: &InstalledFlag| matches!(flag, InstalledFlag::File(_));
        let told = [
            ("--served-kinds", self.served_kinds.is_some()),
            ("--kube-version", self.kube_version.is_some()),
            ("--installed FILE", self.installed.iter().any(is_file)),
        ];
        match told.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(UsageError(format!("{flag} counts only with --from"))),
            None => Ok(()),
        }
    }

    /// Reads the files; what no flag gives is not judged.
    pub(crate) fn read(&self) -> anyhow::Result<Environment> {
        let mut providers = Vec::new();
        let mut told = false;
        for flag in &self.installed {
            if let InstalledFlag::File(path) = flag {
                told = true;
                for entry in read_list::<Entry>(path)? {
                    providers.push(entry.provider().with_context(|| shown(path))?);
                }
            }
        }
        let served = self.served_kinds.as_deref().map(|path| {
            let kinds = read_list::<Kind>(path)?.into_iter().map(Kind::parse);
            let kinds = kinds.collect::<anyhow::Result<_>>();
            anyhow::Ok(ServedKinds {
                kinds: kinds.with_context(|| shown(path))?,
                ..ServedKinds::default()
            })
        });
        Ok(Environment {
            resolving: String::new(),
            kube_version: self.kube_version.clone(),
            served: known(served.transpose()?.map(Arc::new)),
            providers: known(told.then(|| Arc::new(providers))),
        })
    }
}

/// Returns the environment with the name of the extension that a package is resolved for: the one
/// that has it installed, or else one with the name of the package.
pub(crate) fn resolving(environment: &Environment, package: &str) -> Environment {
    let providers = environment.providers.known();
    let mut providers = providers.into_iter().flat_map(|providers| providers.iter());
    let same = providers.find(|provider| provider.package == package);
    let name = same.map_or(package, |provider| provider.origin.name());
    Environment { resolving: name.to_owned(), ..environment.clone() }
}

impl FromStr for InstalledFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extension = Path::new(text).extension();
        // No version ends with such an extension.
        if extension.is_some_and(|it| it == "yaml" || it == "yml" || it == "json") {
            return Ok(Self::File(text.into()));
        }
        text.parse().map(Self::Bundle).map_err(|error: String| {
            format!("{error}, or a file that ends with .yaml, .yml or .json")
        })
    }
}

fn kube_version(text: &str) -> Result<Version, String> {
    Version::parse_tolerant(text).map_err(|error| error.to_string())
}

fn known<T>(told: Option<T>) -> Knowledge<T> {
    told.map_or(Knowledge::NotTold, Knowledge::Known)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Reads a file that contains one list.
fn read_list<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let text = std::fs::read_to_string(path).with_context(|| shown(path))?;
    let documents = yaml::to_json(&text)
        .map_err(|error| anyhow::anyhow!("{}", Chain(&error)))
        .with_context(|| shown(path))?;
    let mut documents = documents.into_iter();
    let (Some(list), None) = (documents.next(), documents.next()) else {
        anyhow::bail!("{}: must be one list", shown(path));
    };
    serde_json::from_value(list).with_context(|| shown(path))
}

impl Entry {
    fn provider(self) -> anyhow::Result<Provider> {
        let property =
            |it: PropertyEntry| Property { kind: it.r#type, value: it.value.to_string() };
        let properties = |list: Vec<_>| list.into_iter().map(property).collect::<Vec<_>>();
        let origin = ProviderOrigin::ClusterExtension(self.extension);
        let apis = self.kinds.into_iter().map(Kind::parse).collect::<anyhow::Result<_>>()?;
        Ok(Provider::new(origin, self.package, self.version)
            .with_properties(properties(self.properties))
            .with_constraints(&properties(self.constraints))
            .with_apis(apis))
    }
}

impl Kind {
    fn parse(self) -> anyhow::Result<GroupVersionKind> {
        let text = match self {
            Self::Members(KindMembers { group, version, kind }) => {
                return Ok(GroupVersionKind { group, version, kind });
            }
            Self::Text(text) => text,
        };
        let (api, kind) = text
            .split_once(',')
            .with_context(|| format!("`{text}` is not `group/version, Kind`"))?;
        let (group, version) = api.trim().split_once('/').unwrap_or(("", api.trim()));
        // Messages about constraints print `Kind=`.
        let kind = kind.trim();
        let kind = kind.strip_prefix("Kind=").unwrap_or(kind);
        Ok(GroupVersionKind {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        })
    }
}
