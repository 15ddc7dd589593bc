use axum::Router;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use proptest::prelude::*;
use rstest::rstest;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::plan::{Change, LOCALHOST, Leaf, PROFILE, Plan, plan, signer, turn};
use crate::server::started;
use crate::server::tls::Certificates;
use crate::tls::CurrentProfile;
use crate::x509::{Authority, Ca, Data, Step, certificate, is_accepted};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn names() -> Vec<String> {
    ["catalogd-service.ops.svc", LOCALHOST, "127.0.0.1", "::1"].map(str::to_owned).into()
}

fn more_names() -> Vec<String> {
    [names(), vec!["olm.example.com".to_owned()]].concat()
}

fn fresh() -> Data {
    Authority::new(&PROFILE, &names(), start()).unwrap().data()
}

fn planned(data: &Data, now: Timestamp) -> Plan {
    plan(data, &names(), now).unwrap()
}

fn read(data: &Data, now: Timestamp) -> Authority {
    let Ok(authority) = Authority::parse(&PROFILE, data, now) else {
        panic!("it is usable");
    };
    authority
}

fn text(data: &Data, key: &str) -> String {
    String::from_utf8(data[key].0.clone()).unwrap()
}

fn put(data: &mut Data, key: &str, text: &[u8]) {
    data.insert(key.to_owned(), ByteString(text.to_vec()));
}

/// When a fresh CA is followed up: at two thirds of a year and an hour.
fn due() -> Timestamp {
    start() + (DAY * 365 + HOUR) * 2 / 3 - HOUR
}

/// Returns the Secret as it is after the follow-up.
fn followed() -> Data {
    planned(&fresh(), due()).authority.data()
}

// deploying.md P14
#[test]
fn a_ca_is_followed_up_at_two_thirds_of_its_life() {
    let data = fresh();
    let plan = planned(&data, start());
    assert_eq!((plan.change, plan.next), (None, due()));
    assert_eq!(planned(&data, due() - MINUTE).change, None);

    let plan = planned(&data, due());
    assert_eq!(plan.change, Some(Change::Rolled(Step::FollowedUp)));
    let both = plan.authority.data();
    let (old, new) = (text(&both, "tls.crt"), text(&both, "next.crt"));
    assert_eq!(old, text(&data, "tls.crt"));
    assert_eq!(text(&both, "ca.crt"), format!("{new}{old}"));
    // Nothing more is written until the last certificate of the old one has expired.
    let over = due() + HOUR + DAY * 7 + HOUR;
    let plan = planned(&both, due());
    assert_eq!((plan.change, plan.next), (None, over));
    assert_eq!(planned(&both, over - MINUTE).change, None);
    let plan = planned(&both, over);
    assert_eq!(plan.change, Some(Change::Rolled(Step::Settled)));
    let alone = plan.authority.data();
    assert_eq!(alone.len(), 3);
    assert_eq!(text(&alone, "ca.crt"), new);
    assert_eq!(planned(&alone, over).change, None);
}

#[test]
fn the_next_ca_signs_an_hour_after_it_is_published() {
    let both = read(&followed(), due());
    let signer = |now| &signer(&both, &names(), now).pem;
    assert_eq!(turn(&both, due()), Some(due() + HOUR));
    assert_eq!(*signer(due() + HOUR - MINUTE), both.previous.as_ref().unwrap().pem);
    assert_eq!(*signer(due() + HOUR), both.newest.pem);
    assert_eq!(turn(&both, due() + HOUR), None);
}

// deploying.md P15
#[rstest]
#[case::empty(|data: &mut Data| data.clear(), "its certificate cannot be read")]
#[case::rubbish(|data: &mut Data| put(data, "tls.crt", b"rubbish"), "its certificate cannot be read")]
#[case::bytes(|data: &mut Data| put(data, "tls.crt", &[0xff, 0]), "its certificate is not PEM")]
#[case::no_key(|data: &mut Data| drop(data.remove("tls.key")), "its key cannot be read")]
#[case::rubbish_key(|data: &mut Data| put(data, "tls.key", b"rubbish"), "its key cannot be read")]
#[case::other_key(|data: &mut Data| put(data, "tls.key", &fresh()["tls.key"].0), "its certificates are not accepted")]
fn a_damaged_ca_is_replaced(#[case] spoil: fn(&mut Data), #[case] why: &'static str) {
    let mut data = fresh();
    let old = text(&data, "tls.crt");
    spoil(&mut data);
    let plan = planned(&data, start());
    assert_eq!(plan.change, Some(Change::Replaced(why)));
    let data = plan.authority.data();
    assert!(!text(&data, "ca.crt").contains(&old), "nobody vouches for it any more");
    assert_eq!(planned(&data, start()).change, None);
}

#[test]
fn an_expired_ca_is_replaced() {
    let plan = planned(&fresh(), start() + DAY * 366);
    assert_eq!(plan.change, Some(Change::Replaced("it has expired")));
}

#[rstest]
#[case::bundle(fresh, |data: &mut Data| put(data, "ca.crt", b"x"))]
#[case::no_bundle(fresh, |data: &mut Data| drop(data.remove("ca.crt")))]
#[case::stray_key(fresh, |data: &mut Data| put(data, "ca.key", b"x"))]
#[case::next_of_no_use(fresh, |data: &mut Data| put(data, "next.crt", b"x"))]
#[case::old_ca_lost(followed, |data: &mut Data| put(data, "tls.key", b"x"))]
fn what_can_be_put_right_is_no_new_ca(#[case] data: fn() -> Data, #[case] spoil: fn(&mut Data)) {
    let mut data = data();
    let newest = text(&data, if data.len() == 5 { "next.crt" } else { "tls.crt" });
    spoil(&mut data);
    let plan = planned(&data, start());
    assert_eq!(plan.change, Some(Change::Repaired));
    assert_eq!(plan.authority.bundle(), newest);
}

// A process that is reached under another name than before, by --external-address.
#[test]
fn a_new_name_is_vouched_for_at_once() {
    let planned = plan(&fresh(), &more_names(), start()).unwrap();
    assert_eq!(planned.change, Some(Change::Rolled(Step::FollowedUp)));
    let both = planned.authority;
    let current = both.previous.as_ref().unwrap();
    assert_eq!(signer(&both, &names(), start()).pem, current.pem);
    assert_eq!(signer(&both, &more_names(), start()).pem, both.newest.pem);
    let leaf = Leaf::issue(&both.newest, &more_names(), 0.0, start()).unwrap();
    assert!(accepted(&both.bundle(), &leaf, &more_names(), start()));
    assert_eq!(plan(&both.data(), &more_names(), start()).unwrap().change, None);
    // Until the leader knows, the name is left out.
    let leaf = Leaf::issue(current, &more_names(), 0.0, start()).unwrap();
    assert!(accepted(&both.bundle(), &leaf, &names(), start()));
    assert!(!accepted(&both.bundle(), &leaf, &more_names(), start()));
    // Another one while that goes on.
    let other = [names(), vec!["other.example.com".to_owned()]].concat();
    let change = plan(&both.data(), &other, start()).unwrap().change;
    assert!(matches!(change, Some(Change::Replaced(_))));
}

// deploying.md 2.4: seven days, renewed at two thirds less up to a tenth
#[rstest]
#[case::late(0.0, 113)]
#[case::early(1.0, 96)]
fn a_certificate_is_renewed_in_time(#[case] early: f64, #[case] hours: i64) {
    let authority = read(&fresh(), start());
    let leaf = Leaf::issue(&authority.newest, &names(), early, start()).unwrap();
    assert_eq!(leaf.validity.not_before, start() - HOUR);
    assert_eq!(leaf.validity.not_after, start() + DAY * 7);
    // Two thirds of 169 hours, counted from an hour before.
    let due = start() + SignedDuration::from_hours(hours) - HOUR;
    assert!(leaf.due.duration_since(due).abs() < HOUR, "{}", leaf.due);
    let current = |now| leaf.is_current(&authority.newest, &names(), now);
    assert!(current(leaf.due - MINUTE) && !current(leaf.due));
    // The clock was ahead when it was issued.
    assert!(current(leaf.validity.not_before) && !current(leaf.validity.not_before - MINUTE));
    assert!(!leaf.is_current(&authority.newest, &more_names(), start()));
    assert!(!leaf.is_current(&read(&fresh(), start()).newest, &names(), start()));
}

fn roots(bundle: &str) -> Vec<CertificateDer<'static>> {
    let all = CertificateDer::pem_slice_iter(bundle.as_bytes());
    all.collect::<Result<_, _>>().unwrap()
}

fn accepted(bundle: &str, leaf: &Leaf, names: &[String], now: Timestamp) -> bool {
    is_accepted(&roots(bundle), &leaf.certificate, names, now)
}

// deploying.md P16
#[rstest]
#[case("catalogd-service.ops.svc", true)]
#[case("localhost", true)]
#[case("127.0.0.1", true)]
#[case("catalogd-service.other.svc", false)]
#[case("kubernetes.default.svc", false)]
#[case("ops.svc", false)]
#[case("quay.io", false)]
#[case("192.0.2.1", false)]
#[case("127.0.0.2", false)]
#[case("2001:db8::1", false)]
fn a_stolen_key_signs_for_nobody_else(#[case] name: &str, #[case] accepted: bool) {
    let data = fresh();
    let (pem, key) = (&data["tls.crt"].0, &data["tls.key"].0);
    let Ok(stolen) = Ca::parse(&PROFILE, pem, key, start()) else {
        panic!("it is usable");
    };
    let names = [name.to_owned()];
    let judged = |ca: &Ca| {
        let made = ca.issue(&names, name, start()).unwrap();
        let leaf = certificate(made.certificate.as_bytes()).unwrap();
        is_accepted(&roots(&ca.pem), &leaf, &names, start())
    };
    assert_eq!(judged(&stolen), accepted);
    // It is the constraints, nothing else.
    assert!(judged(&Ca::generate(&PROFILE, &[], start()).unwrap()));
}

/// What somebody sees who is late.
fn seen(history: &[(Timestamp, Data)], at: Timestamp) -> &Data {
    let before = history.iter().rev().find(|(written, _)| *written <= at);
    &before.unwrap_or(&history[0]).1
}

// deploying.md P14: the leader, a replica and clients, the latter two half an hour behind, over
// two follow-ups.
#[test]
fn clients_accept_every_replica_at_any_time() {
    const LATE: SignedDuration = SignedDuration::from_mins(30);
    let mut history = vec![(start(), fresh())];
    let mut leaves: [Option<Leaf>; 2] = [None, None];
    let mut changes = Vec::new();
    let mut now = start();
    while now < start() + DAY * 520 {
        let plan = planned(&history.last().unwrap().1, now);
        if let Some(change) = plan.change {
            changes.push(change);
            history.push((now, plan.authority.data()));
        }
        let clients = text(seen(&history, now - LATE), "ca.crt");
        for (leaf, lag) in leaves.iter_mut().zip([SignedDuration::ZERO, LATE]) {
            let authority = read(seen(&history, now - lag), now);
            let signer = signer(&authority, &names(), now);
            let current = leaf.take();
            let current = current.filter(|leaf| leaf.is_current(signer, &names(), now));
            let shown = current.unwrap_or_else(|| Leaf::issue(signer, &names(), 0.5, now).unwrap());
            assert!(accepted(&clients, &shown, &names(), now), "{lag:?} late, {now}");
            *leaf = Some(shown);
        }
        // Closely after a change, and around the next one.
        let recent = now.duration_since(history.last().unwrap().0) < HOUR * 3;
        let near = plan.next.duration_since(now) <= DAY;
        now += if recent {
            MINUTE * 10
        } else if near {
            MINUTE * 30
        } else {
            DAY
        };
    }
    let follow_up = [Change::Rolled(Step::FollowedUp), Change::Rolled(Step::Settled)];
    assert_eq!(changes, follow_up.repeat(2));
}

#[tokio::test]
async fn without_a_certificate_nobody_is_answered() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let certificates = Certificates::pending(CurrentProfile::default());
    let url = format!("https://{}/", started(Some(certificates.clone()), Router::new()));
    let now = Timestamp::now();
    let authority = Authority::new(&PROFILE, &names(), now).unwrap();
    let root = reqwest::Certificate::from_pem(authority.bundle().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([root]);
    let client = client.pool_max_idle_per_host(0).build().unwrap();
    assert!(client.get(&url).send().await.is_err());
    let leaf = Leaf::issue(&authority.newest, &names(), 0.0, now).unwrap();
    let chain = vec![leaf.certificate.clone()];
    certificates.present(chain, leaf.key.clone_key()).unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), 404);
}

proptest! {
    #[test]
    fn reading_the_secret_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut data = fresh();
        for key in ["tls.crt", "next.crt", "next.key"] {
            put(&mut data, key, &bytes);
        }
        prop_assert!(Authority::parse(&PROFILE, &data, start()).is_err());
    }
}
