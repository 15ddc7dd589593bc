//! The file with what a move changes or deletes: a YAML document for each Subscription, written and
//! synced before the first change. What is in it stays; a Subscription that is moved again gets another
//! document, and the last one counts.

use std::io::Write as _;

use olm_core::classic::takeover::remembered;
use olm_core::object::items;
use olm_image::present;

use crate::commands::prelude::*;
use crate::private;

/// Marks a document as ours, and its form.
const FORM: &str = "olm-classic-backup/1";

/// The file.
#[derive(Debug)]
pub(super) struct Backup {
    path: PathBuf,
    cluster: String,
    entries: Vec<Entry>,
}

/// The backup of one Subscription.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Name of the extension.
    pub(super) extension: String,
    pub(super) subscription: Object,
    /// The CSV that it had installed.
    pub(super) csv: Object,
    /// Its `InstallPlan`s, and the `OperatorGroup`.
    pub(super) others: Vec<Object>,
    /// Names, labels and owners of what runs.
    pub(super) running: Vec<Object>,
}

impl Entry {
    /// Makes an entry of what Classic has and what runs.
    pub(super) fn new(
        extension: &str,
        subscription: &Object,
        csv: &Object,
        (others, running): (&[&Object], &[Object]),
    ) -> Self {
        let kept = |object: &Object| {
            let mut object = object.clone();
            object.metadata_mut().remove("managedFields");
            object
        };
        Self {
            extension: extension.to_owned(),
            subscription: kept(subscription),
            csv: kept(csv),
            others: others.iter().copied().map(kept).collect(),
            running: running.iter().map(remembered).collect(),
        }
    }

    fn read(document: &Value) -> Option<Self> {
        let list = |key: &str| items(&document[key]).cloned().filter_map(Object::from_value);
        let mut others: Vec<_> = list("objects").collect();
        let mut first = |kind: &str| {
            let at = others.iter().position(|object| object.kind() == kind)?;
            Some(others.remove(at))
        };
        Some(Self {
            subscription: first("Subscription")?,
            csv: first("ClusterServiceVersion")?,
            extension: document["extension"].as_str()?.to_owned(),
            others,
            running: list("running").collect(),
        })
    }

    fn document(&self, cluster: &str) -> Value {
        let objects: Vec<_> = self.objects().map(|object| &object.0).collect();
        let running: Vec<_> = self.running.iter().map(|object| &object.0).collect();
        json!({"form": FORM, "cluster": cluster, "extension": self.extension,
            "namespace": self.subscription.namespace(), "subscription": self.subscription.name(),
            "objects": objects, "running": running})
    }

    /// Returns the objects of Classic.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Object> {
        [&self.subscription, &self.csv].into_iter().chain(&self.others)
    }

    /// Returns the other objects of a kind.
    pub(super) fn others(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.others.iter().filter(move |object| object.kind() == kind)
    }
}

impl Backup {
    /// Reads the file, if it is there. One that is not a backup of this cluster is refused.
    pub(super) fn open(path: &Path, cluster: &str) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = present(std::fs::read_to_string(path)).with_context(|| shown.to_string())?;
        let mut entries = Vec::new();
        let documents = text.filter(|text| !text.is_empty()).map(|text| yaml::to_json(&text));
        let documents = documents.transpose().with_context(|| shown.to_string())?;
        for document in documents.into_iter().flatten() {
            if document["form"] != FORM {
                bail!("{shown} already exists and is not a backup: --backup names another file");
            }
            if document["cluster"] != cluster {
                bail!("{shown} is the backup of another cluster: --backup names another file");
            }
            let entry = Entry::read(&document);
            entries.push(entry.with_context(|| {
                format!("{shown}: an entry lacks its Subscription or its ClusterServiceVersion: --backup names another file")
            })?);
        }
        Ok(Self { path: path.to_owned(), cluster: cluster.to_owned(), entries })
    }

    /// Returns the last entry of each Subscription.
    pub(super) fn last(&self) -> Vec<&Entry> {
        let mut last: Vec<&Entry> = Vec::new();
        for entry in &self.entries {
            last.retain(|it| it.subscription.place() != entry.subscription.place());
            last.push(entry);
        }
        last
    }

    /// Adds entries: all of the file is written anew beside it, synced, and takes its place.
    pub(super) fn add(&mut self, entries: impl IntoIterator<Item = Entry>) -> anyhow::Result<()> {
        let before = self.entries.len();
        self.entries.extend(entries);
        if self.entries.len() == before {
            return Ok(());
        }
        let documents = self.entries.iter().map(|it| it.document(&self.cluster));
        let documents: Vec<Value> = documents.collect();
        let text = yaml::to_yaml_stream(&documents);
        let shown = self.path.display().to_string();
        let write = || {
            let mut beside = self.path.clone().into_os_string();
            beside.push(".new");
            let mut file = private::create(Path::new(&beside))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)?;
            sync_folder(&self.path)
        };
        write().with_context(|| format!("writing {shown}"))
    }
}

/// Has the name of a file survive as well; Windows opens no folder as a file.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    if cfg!(windows) {
        return Ok(());
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
impl Entry {
    /// The entry of a Subscription, whose extension has its name.
    pub(super) fn example(name: &str) -> Self {
        let object = |kind: &str, name: &str| {
            Object::from_value(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": "light", "managedFields": [{}]}}))
            .unwrap()
        };
        let csv = object("ClusterServiceVersion", "lamp.v1.0.0");
        let running = std::slice::from_ref(&csv);
        Self::new(name, &object("Subscription", name), &csv, (&[], running))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_in_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.yaml");
        Backup::open(&path, "here").unwrap().add([Entry::example("lamp")]).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut backup = Backup::open(&path, "here").unwrap();
        backup.add([Entry::example("bulb"), Entry::example("lamp")]).unwrap();
        let backup = Backup::open(&path, "here").unwrap();
        assert_eq!(backup.entries.len(), 3);
        let last = backup.last();
        let places: Vec<_> = last.iter().map(|it| it.subscription.place()).collect();
        assert_eq!(places, ["light/bulb", "light/lamp"]);
        assert_eq!(last[0].csv.name(), "lamp.v1.0.0");
        assert_eq!(last[0].subscription.pointer("/metadata/managedFields"), None);
        assert_eq!(last[0].running[0].namespace(), "light");
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.yaml");
        Backup::open(&path, "here").unwrap().add([Entry::example("lamp")]).unwrap();
        let error = Backup::open(&path, "there").unwrap_err().to_string();
        assert!(error.ends_with("is the backup of another cluster: --backup names another file"));
        std::fs::write(&path, "kind: ConfigMap\n").unwrap();
        let error = Backup::open(&path, "here").unwrap_err().to_string();
        assert!(error.ends_with("and is not a backup: --backup names another file"), "{error}");
    }
}
