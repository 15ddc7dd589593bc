//! What must hold for an extension at all times, whatever happens; the comparison at the end of a
//! stage does not check this.
//!
//! - After the first success `Installed` is True with a version, until the uninstall begins; it
//!   may be Unknown, upstream's word for a moment in which the revisions could not be read.
//! - CRDs and the objects users made of them survive everything but the uninstall.
//! - In an uninstall those objects are removed before the operator that processes their finalizers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use olm_api::ClusterExtension;
use olm_test::extension::{condition, installed_version};

/// Delay before a broken watch is started again.
const AGAIN: Duration = Duration::from_millis(200);

type Crd = PartialObjectMeta<CustomResourceDefinition>;

/// The stage of an extension's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Age {
    /// No object of it exists.
    #[default]
    Absent,
    /// It is being installed.
    Expected,
    /// It has been installed at least once.
    Installed,
    /// It is being uninstalled.
    Leaving,
    /// It is being deleted and everything it installed is to stay.
    Released,
}

/// What was observed about one extension.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) age: Age,
    /// UID of the object a user made of its CRD.
    pub(crate) instance: Option<String>,
    /// Whether the order of an uninstall no longer counts.
    pub(crate) unordered: bool,
    /// Each value of `Installed` and the version, in order.
    installed: Vec<String>,
}

impl Record {
    /// Records the status; returns what is wrong with it.
    pub(crate) fn says(
        &mut self,
        installed: Option<&str>,
        version: Option<&str>,
    ) -> Option<String> {
        let holds = installed == Some("True") && version.is_some();
        if self.age == Age::Expected && holds {
            self.age = Age::Installed;
        }
        let text =
            format!("{} {}", installed.unwrap_or("absent"), version.unwrap_or("without version"));
        let unread = installed == Some("Unknown");
        let wrong = self.age == Age::Installed && !holds && !unread;
        let wrong = wrong.then(|| {
            let before = self.installed.last().map_or("nothing", String::as_str);
            format!("Installed is {text} after {before}")
        });
        if self.installed.last() != Some(&text) {
            self.installed.push(text);
        }
        wrong
    }

    /// Says whether the CRD and its objects must exist and stay.
    pub(crate) fn keeps_data(&self) -> bool {
        matches!(self.age, Age::Installed | Age::Released)
    }
}

#[derive(Default)]
pub(crate) struct Records {
    pub(crate) all: BTreeMap<String, Record>,
    wrong: Vec<String>,
}

/// Observes all extensions of a world, as the administrator, without the proxy.
#[derive(Clone)]
pub(crate) struct Life {
    records: Arc<Mutex<Records>>,
    since: Instant,
}

impl Life {
    /// Starts to observe; it ends with the test.
    pub(crate) fn observe(client: &kube::Client, crds: BTreeMap<String, String>) -> Self {
        let life = Self { records: Arc::default(), since: Instant::now() };
        for name in crds.values() {
            life.lock().all.insert(name.clone(), Record::default());
        }
        tokio::spawn(life.clone().extensions(Api::all(client.clone())));
        tokio::spawn(life.clone().crds(Api::all(client.clone()), crds));
        life
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that `name` is at this stage of its life from now on.
    pub(crate) fn enters(&self, name: &str, age: Age) {
        let mut records = self.lock();
        let record = records.all.entry(name.to_owned()).or_default();
        record.age = age;
        if age == Age::Absent {
            *record = Record::default();
        }
    }

    /// Records that something happened to `name` that must never happen.
    fn wrong(&self, name: &str, what: &str) {
        self.note(&mut self.lock(), name, what);
    }

    /// Records that the object of `name` was lost at this stage of its life, unless that has ended
    /// meanwhile. Once: everything after it is a consequence.
    pub(crate) fn lost(&self, name: &str, age: Age, what: &str) {
        let mut records = self.lock();
        let record = records.all.get_mut(name).filter(|record| record.age == age);
        if let Some(record) = record {
            record.instance = None;
            record.unordered = true;
            self.note(&mut records, name, what);
        }
    }

    fn note(&self, records: &mut Records, name: &str, what: &str) {
        let line = format!("{name} ({:.1?}): {what}", self.since.elapsed());
        println!("LIFE: {line}");
        records.wrong.push(line);
    }

    /// Returns everything recorded that must never happen, and clears it.
    pub(crate) fn take_wrongs(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().wrong)
    }

    async fn extensions(self, api: Api<ClusterExtension>) {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let (extension, gone) = match event {
                Ok(Event::Apply(extension) | Event::InitApply(extension)) => (extension, false),
                Ok(Event::Delete(extension)) => (extension, true),
                Ok(Event::Init | Event::InitDone) => continue,
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            let name = extension.name_any();
            let installed = condition(&extension, "Installed").map(|found| found.status.as_str());
            let mut records = self.lock();
            let Some(record) = records.all.get_mut(&name) else {
                continue;
            };
            let wrong = if gone {
                (record.age == Age::Installed).then(|| "it is gone".to_owned())
            } else {
                record.says(installed, installed_version(&extension))
            };
            drop(records);
            if let Some(wrong) = wrong {
                self.wrong(&name, &wrong);
            }
        }
    }

    /// `names` maps CRDs to their extensions.
    async fn crds(self, api: Api<Crd>, names: BTreeMap<String, String>) {
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let (crd, gone) = match event {
                Ok(Event::Apply(crd) | Event::InitApply(crd)) => (crd, false),
                Ok(Event::Delete(crd)) => (crd, true),
                Ok(Event::Init | Event::InitDone) => continue,
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
            };
            self.look_at_crd(&names, &crd, gone);
        }
    }

    fn look_at_crd(&self, names: &BTreeMap<String, String>, crd: &Crd, gone: bool) {
        let going = gone || crd.metadata.deletion_timestamp.is_some();
        let Some(name) = names.get(&crd.name_any()).filter(|_| going) else {
            return;
        };
        let keeps = self.lock().all.get(name).is_some_and(Record::keeps_data);
        if keeps {
            self.wrong(name, &format!("its CRD {} is deleted", crd.name_any()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_may_not_go_back_after_the_first_success() {
        let mut record = Record { age: Age::Expected, ..Record::default() };
        assert_eq!(record.says(None, None), None);
        assert_eq!(record.says(Some("False"), None), None);
        assert_eq!(record.says(Some("True"), Some("1.0.0")), None);
        assert_eq!(record.says(Some("Unknown"), None), None);
        assert_eq!(record.says(Some("True"), Some("1.1.0")), None);
        let wrong = record.says(Some("False"), None);
        let text = "Installed is False without version after True 1.1.0";
        assert_eq!(wrong.as_deref(), Some(text));
        assert!(record.says(None, Some("1.1.0")).is_some());
        assert!(record.says(Some("True"), None).is_some());
        record.age = Age::Leaving;
        assert_eq!(record.says(Some("False"), None), None);
    }
}
