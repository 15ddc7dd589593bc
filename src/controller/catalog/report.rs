//! The status of a ClusterCatalog after a reconcile. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use olm_api::conditions::{Reason, types};
use olm_api::{
    CatalogSourceType, CatalogUpdateStatus, ClusterCatalog, ClusterCatalogStatus,
    ClusterCatalogUrls, ResolvedCatalogSource, ResolvedImageSource,
};
use olm_core::catalog::lint::Tally;
use olm_core::error::{Chain, Classify as _, Disposition};
use olm_core::status::{self, Note, Statement, catalog as texts};

use super::error::CatalogError;
use super::store::{Content, Origin, whole_seconds};
use super::taken::Looked;

/// Longest error text in a condition, in characters: enough for any cause, and far from the limit
/// of the API (catalogs.md R11).
const MAX_ERROR_CHARS: usize = 4096;

#[derive(Debug, Clone, Copy)]
pub(super) struct Served<'a> {
    origin: &'a Origin,
    /// When it was unpacked: first, or by this process if another one did that before it began.
    unpacked: Timestamp,
    findings: Option<&'a Tally>,
}

impl<'a> Served<'a> {
    pub(super) fn of(content: &'a Content, began: Timestamp) -> Self {
        let (origin, stored) = (content.origin(), content.stored());
        let again = origin.unpacked < began && stored >= began;
        Self {
            unpacked: if again { whole_seconds(stored) } else { origin.unpacked },
            origin,
            findings: content.findings(),
        }
    }
}

#[derive(Debug)]
pub(super) enum Outcome<'a> {
    /// Content is served as the spec wants it, or newer content is held.
    Served(Served<'a>, &'a Looked),
    /// The content was removed because the catalog is switched off.
    SwitchedOff,
    /// The content was removed because the catalog is being deleted.
    Removed,
    /// Something failed; content from before may still be served.
    Failed(&'a CatalogError, Option<Served<'a>>),
}

/// Returns the status after a reconcile. Conditions of unknown types stay as they are.
///
/// `base` is the address of the catalog server without a path.
pub(super) fn report(
    catalog: &ClusterCatalog,
    outcome: &Outcome<'_>,
    base: &str,
    now: Timestamp,
) -> ClusterCatalogStatus {
    let status = catalog.status.clone().unwrap_or_default();
    let mut draft = Draft { status, generation: catalog.metadata.generation, now };
    let name = catalog.metadata.name.as_deref().unwrap_or_default();
    match outcome {
        Outcome::Served(served, looked) => {
            let status = &mut draft.status;
            status.update.clone_from(&looked.held);
            status.taken.clone_from(&looked.taken);
            polled(status, catalog, served, looked);
            serve(status, served, base, name);
            draft.put(texts::serving());
            draft.examined(served, name, draft.generation);
            draft.put(texts::unpacked());
        }
        Outcome::SwitchedOff => draft.clear(texts::switched_off()),
        Outcome::Removed => draft.clear(texts::removed()),
        Outcome::Failed(error, served) => {
            match served {
                Some(served) => {
                    serve(&mut draft.status, served, base, name);
                    let unpacked_for = draft.still_serving();
                    draft.examined(served, name, unpacked_for);
                }
                None if matches!(error, CatalogError::Pulling(_)) => {}
                None => draft.nothing_served(error),
            }
            let text = shown(error);
            draft.put(match error.disposition() {
                Disposition::Terminal(reason) => status::terminal(reason, text),
                Disposition::Retry
                | Disposition::RetryWithin(_)
                | Disposition::RetryAfter(_)
                | Disposition::Wait(_) => status::retrying(text),
            });
        }
    }
    let Draft { mut status, generation, .. } = draft;
    let held = status.update.as_ref().map(note);
    let ready = status::catalog_ready(&status.conditions, generation, held.as_slice());
    status::put_ready(&mut status.conditions, ready, None, generation, now);
    status
}

/// Returns the note of `Ready` about newer content.
fn note(held: &CatalogUpdateStatus) -> Note {
    Note { reason: held.reason.parse().unwrap_or(Reason::Retrying), message: held.message.clone() }
}

fn serve(status: &mut ClusterCatalogStatus, served: &Served<'_>, base: &str, name: &str) {
    let Served { origin, unpacked, .. } = served;
    // A replica that comes to lead may have unpacked the same content before the last one did.
    let before = status.resolved_source.take().filter(|it| it.image.ref_ == origin.reference);
    let before = status.last_unpacked.take().filter(|_| before.is_some());
    let unpacked = before.map_or(origin.unpacked, |time| time.0).max(*unpacked);
    status.resolved_source = Some(ResolvedCatalogSource {
        type_: CatalogSourceType::Image,
        image: ResolvedImageSource { ref_: origin.reference.clone() },
    });
    status.urls = Some(ClusterCatalogUrls { base: format!("{base}/catalogs/{name}") });
    status.last_unpacked = Some(Time(unpacked));
}

/// Sets the time of the last poll; without polling, a restart alone changes nothing.
fn polled(
    status: &mut ClusterCatalogStatus,
    catalog: &ClusterCatalog,
    served: &Served<'_>,
    looked: &Looked,
) {
    let Some((at, refreshed)) = &looked.polled else { return };
    let resolved = status.resolved_source.as_ref();
    let same = resolved.is_some_and(|it| it.image.ref_ == served.origin.reference);
    let image = catalog.spec.source.image.as_ref();
    let repeats = image.is_some_and(|image| image.poll_interval_minutes.is_some());
    if repeats || !same || status.last_polled.is_none() || status.refreshed != *refreshed {
        status.last_polled = Some(Time(*at));
        status.refreshed.clone_from(refreshed);
    }
}

/// A status that is written, and of which generation and when.
struct Draft {
    status: ClusterCatalogStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Draft {
    fn put(&mut self, statement: Statement) {
        self.put_for(self.generation, statement);
    }

    fn put_for(&mut self, generation: Option<i64>, statement: Statement) {
        statement.put(&mut self.status.conditions, generation, self.now);
    }

    /// Nothing is served. What was taken last is still what newer content is compared with.
    fn clear(&mut self, said: impl IntoIterator<Item = Statement>) {
        let status = &mut self.status;
        status.resolved_source = None;
        status.urls = None;
        status.last_unpacked = None;
        status.last_polled = None;
        status.refreshed = None;
        status.update = None;
        for statement in said {
            self.put(statement);
        }
    }

    /// Sets the condition about the findings of the lint.
    fn examined(&mut self, served: &Served<'_>, name: &str, generation: Option<i64>) {
        if let Some(findings) = served.findings {
            let findings = findings.told(name, Tally::MESSAGE);
            self.put_for(generation, texts::examined(findings));
        }
    }

    /// Old content is still served; its conditions keep the generation it was unpacked for,
    /// which is returned.
    fn still_serving(&mut self) -> Option<i64> {
        let conditions = &self.status.conditions;
        let serving = status::find(conditions, types::SERVING);
        let serving = serving.filter(|_| status::is_true(conditions, types::SERVING));
        let unpacked_for = serving.map_or(self.generation, |it| it.observed_generation);
        self.put_for(unpacked_for, texts::serving());
        unpacked_for
    }

    /// Nothing can be served: either nothing ever was, or the content was lost with its disk.
    fn nothing_served(&mut self, error: &CatalogError) {
        let mut statement = texts::nothing_unpacked();
        if self.status.resolved_source.is_some() {
            // What was lost is still what `ContentValid` speaks of.
            statement.message = shown(error);
        } else {
            self.put(texts::nothing_read());
        }
        self.put(statement);
    }
}

fn shown(error: &CatalogError) -> String {
    Chain(error).to_string().chars().take(MAX_ERROR_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use olm_api::conditions::status::{FALSE, TRUE, UNKNOWN};
    use olm_api::{ClusterCatalogSpec, ImageSource};
    use rstest::rstest;
    use std::io;

    use super::super::store::StoreError;

    const BASE: &str = "https://catalogs.example";

    fn catalog() -> ClusterCatalog {
        let mut catalog = ClusterCatalog::new("acme", ClusterCatalogSpec::default());
        catalog.metadata.generation = Some(3);
        catalog
    }

    fn origin() -> Origin {
        Origin::example("acme", "1")
    }

    fn served(origin: &Origin) -> Served<'_> {
        Served { origin, unpacked: origin.unpacked, findings: None }
    }

    fn disk(text: &str) -> CatalogError {
        let error = io::Error::other(text.to_owned());
        CatalogError::Store(StoreError::Disk("error writing catalog content", error))
    }

    /// Reports that content is served, and at once.
    fn serving(catalog: &ClusterCatalog) -> ClusterCatalogStatus {
        report(catalog, &Outcome::Served(served(&origin()), &Looked::default()), BASE, at(0))
    }

    fn failed(
        catalog: &ClusterCatalog,
        error: &CatalogError,
        served: Option<Served<'_>>,
    ) -> ClusterCatalogStatus {
        report(catalog, &Outcome::Failed(error, served), BASE, at(1))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn said<'a>(status: &'a ClusterCatalogStatus, type_: &str) -> (&'a str, Reason, &'a str) {
        let found = status::find(&status.conditions, type_).unwrap();
        (&found.status, found.reason.parse().unwrap(), &found.message)
    }

    // catalogs.md 2.3
    #[test]
    fn content_that_is_unpacked_again_says_when_and_never_goes_back() {
        let (origin, looked, mut catalog) = (origin(), Looked::default(), catalog());
        let mut told = |unpacked| {
            let outcome = Outcome::Served(Served { unpacked, ..served(&origin) }, &looked);
            let status = report(&catalog, &outcome, BASE, at(99));
            let unpacked = status.last_unpacked.as_ref().unwrap().0;
            catalog.status = Some(status);
            unpacked
        };
        assert_eq!([at(0), at(60), at(30)].map(&mut told), [at(0), at(60), at(60)]);
    }

    #[test]
    fn the_last_poll_is_told_until_nothing_is_served() {
        let mut catalog = catalog();
        let (origin, failed) = (origin(), disk("x"));
        let polled = Some((at(7), Some("now".to_owned())));
        let looked = Looked { polled, ..Looked::default() };
        let outcomes = [
            (Outcome::Served(served(&origin), &looked), Some("now")),
            (Outcome::Failed(&failed, Some(served(&origin))), Some("now")),
            (Outcome::SwitchedOff, None),
        ];
        for (outcome, want) in outcomes {
            let status = report(&catalog, &outcome, BASE, at(99));
            assert_eq!(status.last_polled, want.map(|_| Time(at(7))));
            assert_eq!(status.refreshed.as_deref(), want);
            catalog.status = Some(status);
        }
        let told = |second, text: &str, minutes| {
            let polled = Some((at(second), Some(text.to_owned())));
            let looked = Looked { polled, ..Looked::default() };
            let mut catalog = catalog.clone();
            catalog.status = Some(ClusterCatalogStatus {
                last_polled: Some(Time(at(7))),
                refreshed: Some("now".to_owned()),
                ..report(&catalog, &Outcome::Served(served(&origin), &looked), BASE, at(0))
            });
            catalog.spec.source.image = Some(ImageSource {
                ref_: "example.com/c:1".to_owned(),
                poll_interval_minutes: minutes,
            });
            let outcome = Outcome::Served(served(&origin), &looked);
            report(&catalog, &outcome, BASE, at(99)).last_polled.map(|time| time.0)
        };
        // A restart asks as well.
        assert_eq!(told(8, "now", None), Some(at(7)));
        assert_eq!(told(8, "now", Some(5)), Some(at(8)));
        assert_eq!(told(8, "again", None), Some(at(8)));
    }

    // catalogs.md R1
    #[test]
    fn success_names_source_address_and_time() {
        let status = serving(&catalog());
        assert_eq!(
            status.resolved_source.as_ref().unwrap().image.ref_,
            "example.com/acme@sha256:1"
        );
        assert_eq!(status.urls.as_ref().unwrap().base, "https://catalogs.example/catalogs/acme");
        assert_eq!(status.last_unpacked.as_ref().unwrap().0, at(0));
        assert_eq!(
            said(&status, types::SERVING),
            (TRUE, Reason::Available, "Serving desired content from resolved source")
        );
        assert_eq!(
            said(&status, types::PROGRESSING),
            (
                TRUE,
                Reason::Succeeded,
                "Successfully unpacked and stored content from resolved source"
            )
        );
        assert_eq!(said(&status, types::READY).0, TRUE);
    }

    #[test]
    fn a_second_look_changes_nothing() {
        let mut catalog = catalog();
        let status = serving(&catalog);
        catalog.status = Some(status.clone());
        let (origin, looked) = (origin(), Looked::default());
        let outcome = Outcome::Served(served(&origin), &looked);
        assert_eq!(report(&catalog, &outcome, BASE, at(60)), status);
    }

    // catalogs.md R2, R13
    #[test]
    fn nothing_is_served_before_the_first_success() {
        let mut catalog = catalog();
        let error = disk("no space");
        let status = failed(&catalog, &error, None);
        assert_eq!(
            said(&status, types::SERVING),
            (FALSE, Reason::Unavailable, "Catalog contents have not been unpacked yet")
        );
        let text = "error storing fbc: error writing catalog content: no space";
        assert_eq!(said(&status, types::PROGRESSING), (TRUE, Reason::Retrying, text));
        assert_eq!(said(&status, types::READY), (FALSE, Reason::Retrying, text));
        // Content that was lost is another matter: the status said more before.
        catalog.status = Some(serving(&catalog));
        let status = failed(&catalog, &error, None);
        assert_eq!(said(&status, types::SERVING), (FALSE, Reason::Unavailable, text));
        assert!(status.resolved_source.is_some() && status.urls.is_some());
    }

    // catalogs.md R4; api.md 2.5
    #[test]
    fn old_content_is_served_while_a_newer_one_fails() {
        let mut catalog = catalog();
        catalog.status = Some(serving(&catalog));
        catalog.metadata.generation = Some(4);
        let error = disk("x");
        let status = failed(&catalog, &error, Some(served(&origin())));
        assert_eq!(said(&status, types::SERVING).0, TRUE);
        let generation =
            |type_| status::find(&status.conditions, type_).unwrap().observed_generation;
        assert_eq!(generation(types::SERVING), Some(3));
        assert_eq!(generation(types::PROGRESSING), Some(4));
        assert_eq!(said(&status, types::READY).0, FALSE);
    }

    // catalogs.md R10
    #[rstest]
    #[case(CatalogError::NoImage("acme".to_owned()),
        "error parsing ClusterCatalog \"acme\", image source is nil")]
    #[case(CatalogError::Reference("foo/bar:latest".parse::<olm_image::ImageRef>().unwrap_err()),
        "source catalog content: error parsing image reference \"foo/bar:latest\": \
         repository name must be canonical")]
    fn terminal_errors_block(#[case] error: CatalogError, #[case] want: &str) {
        let status = failed(&catalog(), &error, None);
        assert_eq!(said(&status, types::PROGRESSING), (FALSE, Reason::Blocked, want));
    }

    // catalogs.md R8
    #[test]
    fn switching_off_and_deleting_clear_the_status() {
        let mut catalog = catalog();
        catalog.status = Some(serving(&catalog));
        for (outcome, reason) in [
            (Outcome::SwitchedOff, Reason::UserSpecifiedUnavailable),
            (Outcome::Removed, Reason::Unavailable),
        ] {
            let status = report(&catalog, &outcome, BASE, at(0));
            assert!(status.resolved_source.is_none());
            assert!(status.urls.is_none() && status.last_unpacked.is_none());
            assert_eq!(said(&status, types::SERVING).1, reason);
            assert_eq!(said(&status, types::PROGRESSING).1, Reason::Succeeded);
            assert_eq!(said(&status, types::CONTENT_VALID).1, Reason::NotRead);
        }
    }

    // plugin.md U72
    #[test]
    fn findings_say_what_is_served_and_stop_nothing() {
        let catalog = catalog();
        let (error, origin) = (disk("x"), origin());
        let status = failed(&catalog, &error, None);
        let nothing = "Catalog contents have not been unpacked yet";
        assert_eq!(said(&status, types::CONTENT_VALID), (UNKNOWN, Reason::NotRead, nothing));
        let tally = Tally { errors: 1, ..Tally::default() };
        let bad = Served { findings: Some(&tally), ..served(&origin) };
        let status = report(&catalog, &Outcome::Served(bad, &Looked::default()), BASE, at(0));
        assert_eq!(
            said(&status, types::CONTENT_VALID),
            (FALSE, Reason::Findings, "1 error\nall: kubectl olm catalog lint acme")
        );
        for type_ in [types::SERVING, types::PROGRESSING, types::READY] {
            assert_eq!(said(&status, type_).0, TRUE, "{type_}");
        }
        assert_eq!(said(&status, types::READY).1, Reason::Succeeded);

        // Content that is served on, or was lost, is still what it was when it was read.
        let mut edited = catalog.clone();
        edited.metadata.generation = Some(4);
        edited.status = Some(status);
        for served in [Some(bad), None] {
            let later = failed(&edited, &error, served);
            let valid = status::find(&later.conditions, types::CONTENT_VALID).unwrap();
            assert_eq!((&*valid.status, valid.observed_generation), (FALSE, Some(3)));
        }
        let none = Tally::default();
        let good = Served { findings: Some(&none), ..bad };
        let status = report(&edited, &Outcome::Served(good, &Looked::default()), BASE, at(2));
        let (valid, reason, _) = said(&status, types::CONTENT_VALID);
        assert_eq!((valid, reason), (TRUE, Reason::NoFindings));
    }

    // catalogs.md R7, R11
    #[test]
    fn unknown_conditions_stay_and_long_texts_are_cut() {
        let mut catalog = catalog();
        let mut status = ClusterCatalogStatus::default();
        status::Statement::yes("Theirs", Reason::Compatible, "x").put(
            &mut status.conditions,
            None,
            at(0),
        );
        catalog.status = Some(status);
        let error = disk(&"é".repeat(100_000));
        let status = failed(&catalog, &error, None);
        assert_eq!(said(&status, "Theirs"), (TRUE, Reason::Compatible, "x"));
        assert_eq!(said(&status, types::PROGRESSING).2.chars().count(), 4096);
    }
}
