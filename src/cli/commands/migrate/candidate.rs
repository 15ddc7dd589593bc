//! The data for moving a Subscription: its objects, the checks and the objects to write.

use olm_core::classic::takeover::{
    Csv, Facts, Failed, Progress, Verdict, content, dropped, is_certificate, uid,
};
use olm_core::classic::{Answer, Classic, GROUP, Migration, installed};
use olm_core::error::shell_word;
use olm_core::extension::{KnownCatalog, Policy, ValidExtension};
use olm_core::helm;
use olm_core::rbac::{Account, BundleObjects, Options, manifests};

use super::backup::{Backup, Entry};
use super::objects;
use crate::bundle_source::load_image;
use crate::commands::prelude::*;
use crate::commands::render::Rendering;
use crate::target::Installation;

/// A Subscription that is to be moved.
pub(super) struct Candidate {
    pub(super) subscription: Object,
    /// What keeps it.
    pub(super) failed: Vec<Failed>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    pub(super) progress: Progress,
    /// The entry of the backup: the file has it once the Subscription is gone.
    pub(super) entry: Option<Entry>,
    /// Whether it was moved, and what ran was removed since.
    pub(super) is_removed: bool,
    pub(super) plan: Option<Plan>,
}

impl Candidate {
    pub(super) fn verdict(&self) -> Verdict {
        match self.failed.as_slice() {
            [] if self.progress.extended => Verdict::Moved,
            failed => Verdict::of(failed),
        }
    }

    /// Returns the tool that may create the Subscription again.
    pub(super) fn keeper(&self) -> Option<String> {
        changes::keeper_of(&self.subscription).filter(|_| self.progress.subscribed)
    }

    /// Returns whether it is moved, or Classic has nothing of it any more, so that nobody there can need
    /// it.
    pub(super) fn goes(&self) -> bool {
        self.failed.is_empty() || (!self.progress.subscribed && self.progress.csv == Csv::Gone)
    }
}

/// The objects that are written to move it.
pub(super) struct Plan {
    /// The account and its rights.
    pub(super) rights: Vec<Object>,
    /// The running objects, as the content of the first revision.
    pub(super) stored: Vec<Object>,
    pub(super) extension: Object,
    /// The extension as it follows its channel, where it is to.
    pub(super) follow: Option<Object>,
    pub(super) version: String,
}

/// The data that the candidates of a run share.
pub(super) struct World<'a> {
    cluster: &'a Cluster,
    /// Every object of Classic: as the backup has it, else as it is.
    objects: Vec<Object>,
    /// The entries of the backup whose Subscription is gone, by its place.
    kept: BTreeMap<String, Entry>,
    /// Places of the CSVs that are moved.
    moving: BTreeSet<String>,
    answer: Answer,
    extensions: Vec<ClusterExtension>,
    /// The namespace of the controller.
    pub(super) namespace: String,
    follow: bool,
}

impl<'a> World<'a> {
    /// Finds the Subscriptions of these names, all of them without names; in a namespace if one is
    /// given.
    pub(super) async fn new(
        cluster: &'a Cluster,
        live: Vec<Object>,
        backup: &Backup,
        (names, namespace, follow): (&[String], Option<&str>, bool),
    ) -> anyhow::Result<(Self, Vec<Object>)> {
        let is_subscription = |it: &&Object| it.kind() == "Subscription";
        let there: BTreeSet<_> = live.iter().filter(is_subscription).map(Object::place).collect();
        // While a Subscription is there, nothing of Classic is changed: what was kept is outdated.
        let kept =
            backup.last().into_iter().map(|entry| (entry.subscription.place(), entry.clone()));
        let kept: BTreeMap<_, _> = kept.filter(|(place, _)| !there.contains(place)).collect();
        let mut objects: Vec<Object> = kept.values().flat_map(Entry::objects).cloned().collect();
        for object in live {
            if objects.iter().all(|known| known.key() != object.key()) {
                objects.push(object);
            }
        }
        let is_wanted = |it: &&Object| {
            (names.is_empty() || names.iter().any(|name| name == it.name()))
                && namespace.is_none_or(|namespace| namespace == it.namespace())
        };
        let wanted = objects.iter().filter(is_subscription).filter(is_wanted);
        let mut wanted: Vec<Object> = wanted.cloned().collect();
        if let Some(name) = names.iter().find(|name| wanted.iter().all(|it| it.name() != **name)) {
            bail!("there is no Subscription {name:?}");
        }
        let moving = wanted.iter().filter_map(installed).collect();
        let answer = Classic::new(&objects).convert(&[]);
        wanted.sort_by_key(|wanted| {
            let at = answer.migrations.iter().position(|it| it.subscription.key() == wanted.key());
            at.unwrap_or(usize::MAX)
        });
        let extensions = cluster.extensions().await?;
        let namespace = cluster.system_namespace().await?;
        Ok((Self { cluster, objects, kept, moving, answer, extensions, namespace, follow }, wanted))
    }

    fn client(&self) -> &Client {
        self.cluster.own_client()
    }

    /// Judges Subscriptions. What stays may need what goes: they are judged again, until nobody else
    /// stays.
    pub(super) async fn judge(&mut self, wanted: &[Object]) -> anyhow::Result<Vec<Candidate>> {
        loop {
            let mut candidates = Vec::new();
            for subscription in wanted {
                let candidate = self.candidate(subscription).await;
                let what = || format!("Subscription {}", subscription.place());
                candidates.push(candidate.with_context(what)?);
            }
            let goes = candidates.iter().filter(|it| it.goes());
            let goes: BTreeSet<_> = goes.filter_map(|it| installed(&it.subscription)).collect();
            let before = self.moving.len();
            self.moving.retain(|csv| goes.contains(csv));
            if self.moving.len() == before {
                return Ok(candidates);
            }
        }
    }

    async fn candidate(&self, subscription: &Object) -> anyhow::Result<Candidate> {
        let kept = self.kept.get(&subscription.place());
        let classic = &Classic::new(&self.objects);
        let facts = Facts { subscription, classic, running: &[], moving: &self.moving };
        let mut running = Vec::new();
        if let Some(entry) = kept {
            for known in &entry.running {
                running.extend(objects::live(self.client(), known).await?);
            }
        } else if let Some(csv) = facts.csv() {
            running = objects::running(self.client(), csv, &facts.plans()).await?;
        }
        let facts = Facts { running: &running, ..facts };
        let mut migrations = self.answer.migrations.iter();
        let migration = migrations.find(|it| it.subscription.key() == subscription.key());
        let mut found = Candidate {
            subscription: subscription.clone(),
            failed: Vec::new(),
            notes: Vec::new(),
            progress: self.progress(&facts, migration).await?,
            entry: kept.cloned(),
            is_removed: false,
            plan: None,
        };
        if found.progress.subscribed {
            found.failed = facts.failed();
            found.notes.extend(found.keeper().map(|keeper| {
                format!(
                    "its Subscription is managed by {keeper}, which may create it again: remove it \
                     from its source without deleting it here"
                )
            }));
        }
        if let Some(entry) =
            kept.filter(|_| !found.progress.extended && found.progress.csv == Csv::Gone)
        {
            let is_deployment = |it: &Object| it.kind() == "Deployment";
            found.is_removed =
                entry.running.iter().any(is_deployment) && !running.iter().any(is_deployment);
        }
        let Some(migration) = migration else {
            let text = "it cannot be converted, or another Subscription for its package is";
            let name = subscription.name();
            let hint = format!("kubectl olm migrate from-classic {name} --report names the field");
            found.failed.push(Failed::conflict("package", text, hint));
            return Ok(found);
        };
        if found.progress.extended {
            if let (Some(csv), true) = (facts.csv(), self.follow) {
                match self.plan(&mut Vec::new(), migration, csv, &running).await {
                    Ok(plan) => found.plan = Some(Plan { stored: Vec::new(), ..plan }),
                    Err(failed) => found.failed.push(failed),
                }
            }
            return Ok(found);
        }
        if found.is_removed {
            let hint = "kubectl olm install, or another --backup for a new Subscription";
            let text = "it was moved, and removed since";
            found.failed.push(Failed::conflict("objects", text, hint));
        }
        self.occupied(&mut found, migration);
        if let (Some(csv), []) = (facts.csv(), found.failed.as_slice()) {
            self.add_plan(&mut found, migration, csv, &running).await;
            let others = [facts.plans(), facts.groups()].concat();
            let name = migration.extension.name();
            let made = || Entry::new(name, subscription, csv, (&others, &running));
            found.entry.get_or_insert_with(made);
        }
        Ok(found)
    }

    async fn progress(
        &self,
        facts: &Facts<'_>,
        migration: Option<&Migration>,
    ) -> anyhow::Result<Progress> {
        let subscribed = !self.kept.contains_key(&facts.subscription.place());
        let csv = match facts.csv() {
            None => Csv::Gone,
            Some(csv) => {
                let live = objects::live(self.client(), csv).await?;
                Csv::of(live.filter(|live| uid(live) == uid(csv)).as_ref())
            }
        };
        let extension = migration.map(|it| it.extension.name());
        let mut extensions = self.extensions.iter();
        let installed = extensions
            .any(|it| it.metadata.name.as_deref() == extension && it.installed().is_some());
        let extended = !subscribed && csv == Csv::Gone && installed;
        Ok(Progress { subscribed, csv, extended })
    }

    /// Adds what has the place of the extension.
    fn occupied(&self, found: &mut Candidate, migration: &Migration) {
        let wanted = migration.extension.name();
        let package = migration.extension.text_at("/spec/source/catalog/packageName");
        for extension in &self.extensions {
            let name = extension.metadata.name.as_deref().unwrap_or_default();
            let ours = extension.package() == Some(package);
            // One that this move has made.
            if name == wanted && ours && !found.progress.subscribed {
                continue;
            }
            if name == wanted || ours {
                let text = format!("extension {name} already exists");
                let hint = format!("kubectl olm status {name}");
                found.failed.push(Failed::conflict("extension", text, hint));
            }
        }
    }

    /// Adds what is written, or why it cannot be.
    async fn add_plan(
        &self,
        found: &mut Candidate,
        migration: &Migration,
        csv: &Object,
        running: &[Object],
    ) {
        found.notes.extend(self.answer.lost(&found.subscription).map(|line| {
            format!("not converted: {} {}: {}: {}", line.kind, line.object, line.field, line.text)
        }));
        match self.plan(&mut found.notes, migration, csv, running).await {
            Ok(plan) => {
                if let Err(error) = changes::rehearse(self.client(), &plan.rights).await {
                    let hint = "have an administrator run this";
                    found.failed.push(Failed::new("rights", one_line(&error), hint));
                }
                found.plan = Some(plan);
            }
            Err(failed) => return found.failed.push(failed),
        }
        for live in running.iter().filter(|it| it.group() != GROUP) {
            let kept = content(live);
            let called = changes::named(live);
            match changes::would_change(self.client(), &kept, live).await {
                Ok(paths) => {
                    let path = paths.iter().find(|path| !path.starts_with(".metadata"));
                    if let Some(path) = path {
                        let text = format!("{called} cannot be kept as it is: {path} would change");
                        let hint = "report this: no operator is moved with a restart";
                        found.failed.push(Failed::new("objects", text, hint));
                    }
                }
                Err(why) => {
                    let hint = "have an administrator run this";
                    found.failed.push(Failed::new("rights", format!("{called}: {why}"), hint));
                }
            }
        }
    }

    async fn plan(
        &self,
        notes: &mut Vec<String>,
        migration: &Migration,
        csv: &Object,
        running: &[Object],
    ) -> Result<Plan, Failed> {
        let broken = |why: String| Failed::new("bundle", why, "it cannot be converted yet");
        let failed = |error: anyhow::Error| broken(one_line(&error));
        if !migration.is_decided {
            return Err(broken("the watched namespaces are unknown".to_owned()));
        }
        let follow = migration.follow.as_ref().filter(|_| self.follow);
        if let Some(failed) = follow.and_then(follows_all) {
            return Err(failed);
        }
        let extension = migration.extension.clone();
        let typed: ClusterExtension = serde_json::from_value(extension.clone().into_value())
            .map_err(|error| broken(error.to_string()))?;
        let valid = ValidExtension::of(&typed);
        let valid = valid.ok_or_else(|| broken("it has no package name".to_owned()))?;
        let hint = self.catalog_hint(&migration.subscription, csv).await.map_err(failed)?;
        let missing = |why: String| Failed::new("catalog", why, hint.as_str());
        let offered = self.cluster.offers(valid.filter.clone()).await;
        let offered = offered.and_then(|offered| chosen(&offered));
        let offered = offered.map_err(|error| missing(one_line(&error)))?;
        if offered.name != csv.name() {
            let (catalog, name) = (&offered.catalog, &offered.name);
            return Err(missing(format!("catalog {catalog} has {name}, not {}", csv.name())));
        }
        let (bundle, _) = load_image(&offered.image).await.map_err(failed)?;
        let namespace = valid.spec.namespace.as_str();
        let kept = running.iter().filter(|it| it.group() != GROUP && !is_certificate(it));
        let kept: Vec<Object> = kept.map(content).collect();
        let name = extension.text_at("/spec/serviceAccount/name").to_owned();
        let account = Account { namespace: namespace.to_owned(), name };
        let settings = &self.cluster.settings().await.map_err(failed)?.controller;
        let policy = Policy::of(typed.annotations(), settings.defaults());
        let additions = policy.map_err(|error| broken(error.to_string()))?.additions;
        let proxies = self.cluster.proxies(&additions).await.map_err(failed)?;
        let rendering = Rendering::default().of_extension(&Installation {
            name: extension.name().to_owned(),
            namespace: namespace.to_owned(),
            account: Some(account.clone()),
            inline: valid.inline_config(),
            certificates: settings.certificates(),
            additions,
            installed: None,
        });
        let rendering = rendering.map_err(failed)?.with_proxies(proxies);
        let rendering = rendering.with_copies(Some(self.cluster)).await;
        let rendered = rendering.installed(&bundle, namespace).map_err(failed)?;
        let name = offered.name.as_str();
        let both = [&rendered, &kept].map(|objects| BundleObjects { name, objects });
        let options = Options { stable: self.follow, ..Options::default() };
        let (rights, warnings) =
            manifests(&both, &account, &options).map_err(|error| broken(error.to_string()))?;
        notes.extend(warnings.iter().map(ToString::to_string));
        notes.extend(self.differences(csv, &rendered, running).await);
        let properties = bundle.csv.annotations.get(olm_api::keys::annotation::PROPERTIES);
        let properties = properties.map(String::as_str);
        let (name, record) = (extension.name(), &offered.record);
        let stored = helm::secrets(name, &self.namespace, record, properties, &kept);
        let stored = stored
            .ok_or_else(|| broken("the running objects are too large to store".to_owned()))?;
        let stored = stored.into_iter().filter_map(|it| serde_json::to_value(it).ok());
        Ok(Plan {
            rights,
            stored: stored.filter_map(Object::from_value).collect(),
            extension,
            follow: follow.cloned(),
            version: offered.version,
        })
    }

    /// Returns what to do if no catalog has the installed bundle of a Subscription.
    async fn catalog_hint(&self, subscription: &Object, csv: &Object) -> anyhow::Result<String> {
        let (becomes, found) = Classic::new(&self.objects).catalog(subscription);
        let catalogs = self.cluster.all_catalogs().await?;
        let there = catalogs.iter().find(|it| it.metadata.name.as_deref() == Some(becomes));
        if let Some(there) = there.and_then(KnownCatalog::of)
            && (!there.is_enabled() || there.problem().is_some())
        {
            return Ok(format!(
                "kubectl olm catalog list shows why catalog {becomes} is not served"
            ));
        }
        let image = found.map_or("", |found| found.text_at("/spec/image"));
        Ok(catalog_hint((becomes, image), csv.name(), there.is_some()))
    }

    /// Lists the differences between the running objects and the rendered ones, which stay until
    /// the next version.
    async fn differences(
        &self,
        csv: &Object,
        rendered: &[Object],
        running: &[Object],
    ) -> Vec<String> {
        let mut notes = Vec::new();
        for object in rendered.iter().filter(|it| it.kind() == "Deployment") {
            let same = |it: &&Object| it.identity() == object.identity();
            let Some(live) = running.iter().find(same) else { continue };
            let found = changes::would_change(self.client(), object, live).await;
            let paths = found.unwrap_or_default();
            let mut paths: Vec<_> =
                paths.into_iter().filter(|it| it.starts_with(".spec")).collect();
            paths.extend(dropped(live, object));
            if !paths.is_empty() {
                let named = changes::named(object);
                notes.push(format!("the next version changes {named}: {}", paths.join(", ")));
            }
        }
        let until = csv.pointer("/status/certsRotateAt").and_then(Value::as_str);
        if let Some(until) = until {
            notes.push(format!(
                "its certificate was issued by OLM Classic and is not renewed: install another version before {until}"
            ));
        }
        notes
    }
}

fn catalog_hint((catalog, image): (&str, &str), csv: &str, is_there: bool) -> String {
    match image {
        _ if is_there => format!(
            "upgrade it in OLM Classic first, or have catalog {catalog} serve an image with {csv}"
        ),
        "" => "kubectl olm catalog build builds an image of it, catalog add serves it".to_owned(),
        image => format!("kubectl olm catalog add {catalog} {}", shell_word(image)),
    }
}

/// An extension without channels would follow all of them, where Classic followed the default one.
fn follows_all(follow: &Object) -> Option<Failed> {
    let hint = "set spec.channel of the Subscription; once it is moved, set the channels of the \
                extension, and remove its version";
    let failed = || Failed::new("subscription", "its channel is empty: --follow needs one", hint);
    follow.pointer("/spec/source/catalog/channels").is_none().then(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_that_is_there_is_not_added() {
        let hint = |image: &str, is_there: bool| catalog_hint(("c", image), "lamp.v1", is_there);
        assert_eq!(hint("r/c:1", false), "kubectl olm catalog add c r/c:1");
        assert_eq!(hint("c;id", false), "kubectl olm catalog add c 'c;id'");
        assert!(hint("", false).starts_with("kubectl olm catalog build"));
        for image in ["r/c:1", ""] {
            let want =
                "upgrade it in OLM Classic first, or have catalog c serve an image with lamp.v1";
            assert_eq!(hint(image, true), want);
        }
    }

    #[test]
    fn what_followed_the_default_channel_does_not_follow_all() {
        let follow = |catalog: Value| {
            Object::from_value(json!({"apiVersion": olm_api::API_VERSION,
                "kind": "ClusterExtension", "metadata": {"name": "lamp"},
                "spec": {"source": {"catalog": catalog}}}))
            .unwrap()
        };
        assert!(follows_all(&follow(json!({"packageName": "lamp"}))).is_some());
        assert!(follows_all(&follow(json!({"channels": ["stable"]}))).is_none());
    }
}
