//! The file with what a move changes or deletes: a YAML document for each Subscription, written and
//! synced before the first change. What is in it stays; a Subscription that is moved again gets another
//! document, and the last one counts.

use std::io::Write as _;

use olm_core::classic::takeover::remembered;
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
pub(super) struct Entry(Value);

impl Entry {
    /// Makes an entry of what Classic has and what runs.
    pub(super) fn new(
        cluster: &str,
        extension: &str,
        subscription: &Object,
        csv: &Object,
        (objects, running): (&[&Object], &[Object]),
    ) -> Self {
        let objects: Vec<Value> = [subscription, csv]
            .into_iter()
            .chain(objects.iter().copied())
            .map(|object| {
                let mut object = object.clone();
                object.metadata_mut().remove("managedFields");
                object.into_value()
            })
            .collect();
        let running: Vec<Value> = running.iter().map(remembered).collect();
        Self(json!({"form": FORM, "cluster": cluster, "extension": extension,
            "namespace": subscription.namespace(), "subscription": subscription.name(),
            "objects": objects, "running": running}))
    }

    fn list(&self, key: &str) -> Vec<Object> {
        let list = self.0[key].as_array().into_iter().flatten();
        list.cloned().filter_map(Object::from_value).collect()
    }

    /// Returns namespace and name of the Subscription.
    pub(super) fn key(&self) -> (String, String) {
        let text = |key: &str| self.0[key].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("subscription"))
    }

    /// Returns the name of the extension.
    pub(super) fn extension(&self) -> &str {
        self.0["extension"].as_str().unwrap_or_default()
    }

    /// Returns the objects of Classic.
    pub(super) fn objects(&self) -> Vec<Object> {
        self.list("objects")
    }

    /// Returns those of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<Object> {
        self.objects().into_iter().filter(|object| object.kind() == kind).collect()
    }

    /// Returns the Subscription, and the CSV that it had installed.
    pub(super) fn moved(&self) -> anyhow::Result<(Object, Object)> {
        let first = |kind| self.of_kind(kind).into_iter().next();
        first("Subscription")
            .zip(first("ClusterServiceVersion"))
            .context("the backup lacks a Subscription or its ClusterServiceVersion")
    }

    /// Returns the running objects: names, labels and owners.
    pub(super) fn running(&self) -> Vec<Object> {
        self.list("running")
    }
}

impl Backup {
    /// Reads the file, if it is there. One that is not a backup of this cluster is refused.
    pub(super) fn open(path: &Path, cluster: &str) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = present(std::fs::read_to_string(path)).with_context(|| shown.to_string())?;
        let text = text.unwrap_or_default();
        let mut entries = Vec::new();
        let documents = if text.is_empty() {
            Vec::new()
        } else {
            yaml::to_json(&text).with_context(|| shown.to_string())?
        };
        for document in documents {
            if document["form"] != FORM {
                bail!("{shown} already exists and is not a backup: --backup names another file");
            }
            if document["cluster"] != cluster {
                bail!("{shown} is the backup of another cluster: --backup names another file");
            }
            entries.push(Entry(document));
        }
        Ok(Self { path: path.to_owned(), cluster: cluster.to_owned(), entries })
    }

    /// Returns the cluster that it is of.
    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the last entry of each Subscription.
    pub(super) fn last(&self) -> Vec<&Entry> {
        let mut last: Vec<&Entry> = Vec::new();
        for entry in &self.entries {
            last.retain(|it| it.key() != entry.key());
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
        let documents: Vec<Value> = self.entries.iter().map(|it| it.0.clone()).collect();
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
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn entry(cluster: &str, name: &str) -> Entry {
        let object = |kind: &str, name: &str| {
            Object::from_value(json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": "light", "managedFields": [{}]}}))
            .unwrap()
        };
        let csv = object("ClusterServiceVersion", "lamp.v1.0.0");
        Entry::new(
            cluster,
            "lamp",
            &object("Subscription", name),
            &csv,
            (&[], std::slice::from_ref(&csv)),
        )
    }

    #[test]
    fn what_is_in_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.yaml");
        Backup::open(&path, "here").unwrap().add([entry("here", "lamp")]).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let mut backup = Backup::open(&path, "here").unwrap();
        backup.add([entry("here", "bulb"), entry("here", "lamp")]).unwrap();
        let backup = Backup::open(&path, "here").unwrap();
        assert_eq!(backup.entries.len(), 3);
        let last: Vec<_> = backup.last().into_iter().map(Entry::key).collect();
        assert_eq!(last, ["bulb", "lamp"].map(|name| ("light".to_owned(), name.to_owned())));
        let (subscription, csv) = backup.last()[0].moved().unwrap();
        assert_eq!((subscription.name(), csv.name()), ("bulb", "lamp.v1.0.0"));
        assert_eq!(subscription.pointer("/metadata/managedFields"), None);
        assert_eq!(backup.last()[0].running()[0].namespace(), "light");
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup.yaml");
        Backup::open(&path, "here").unwrap().add([entry("here", "lamp")]).unwrap();
        let error = Backup::open(&path, "there").unwrap_err().to_string();
        assert!(error.ends_with("is the backup of another cluster: --backup names another file"));
        std::fs::write(&path, "kind: ConfigMap\n").unwrap();
        let error = Backup::open(&path, "here").unwrap_err().to_string();
        assert!(error.ends_with("and is not a backup: --backup names another file"), "{error}");
    }
}
