use std::sync::{Arc, Mutex};

use http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use olm_api::keys::name;
use olm_core::render::CertificateRequest;
use olm_core::revision::Extension;
use proptest::prelude::*;
use rstest::rstest;

use super::Issuer;
use super::leaf::{CA, CERTIFICATE, KEY, Leaf, RenewReason, Verdict, judge};
use super::state::{PROFILE, State};
use crate::cluster::answering::{answering, refusal};
use crate::x509::{Authority, Ca, Data, Issued, Validity, certificate, issued, leaf_due, validity};

const SUPERSEDED: Verdict = Verdict::Issue(RenewReason::Superseded);
const DUE: Verdict = Verdict::Issue(RenewReason::Due);
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const DAY: SignedDuration = SignedDuration::from_hours(24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after(days: i64) -> Timestamp {
    start() + DAY * i32::try_from(days).unwrap()
}

fn names() -> Vec<String> {
    ["pot.ops", "pot.ops.svc", "pot.ops.svc.cluster.local"].map(str::to_owned).into()
}

fn request() -> CertificateRequest {
    CertificateRequest {
        secret: "pot-cert".to_owned(),
        namespace: "ops".to_owned(),
        dns_names: names(),
    }
}

fn data(issued: &Issued) -> Data {
    let entries = [(CERTIFICATE, &issued.certificate), (KEY, &issued.key), (CA, &issued.ca)];
    entries.map(|(key, pem)| (key.to_owned(), ByteString(pem.clone().into_bytes()))).into()
}

fn leaf(issued: &Issued) -> Leaf {
    Leaf::parse(&data(issued)).map_err(String::from).unwrap()
}

fn issue(ca: &Ca, now: Timestamp) -> Leaf {
    leaf(&ca.issue(&names(), "pot-cert", now).unwrap())
}

fn state() -> State {
    State::new(Vec::new(), start()).unwrap()
}

fn authority() -> Authority {
    state().authority
}

fn verdict(leaf: Leaf, authority: &Authority, published: bool, now: Timestamp) -> Verdict {
    judge(&Ok(leaf), authority, &names(), published, now)
}

// rendering.md 4.11: one year, renewed at two thirds of its life
#[test]
fn a_certificate_is_renewed_at_two_thirds_of_a_year() {
    let authority = authority();
    let made = issue(&authority.newest, start());
    let due = start() + HOUR * (365 * 24 * 2 / 3);
    let Verdict::Keep(until) = verdict(made, &authority, true, start()) else {
        panic!("it is fresh");
    };
    assert!(until.duration_since(due).abs() < HOUR, "{until}");
    let judged = |now| verdict(issue(&authority.newest, start()), &authority, true, now);
    assert_eq!(judged(until), DUE);
    assert!(matches!(judged(until - HOUR), Verdict::Keep(_)));
    assert_eq!(judged(after(366)), DUE);
}

// rendering.md 4.11: ten years, followed one year before the end
#[test]
fn a_ca_is_followed_a_year_before_its_end() {
    let mut state = state();
    let due = state.authority.newest.due();
    assert_eq!(due, after(3650 - 365));
    let first = state.authority.newest.pem.clone();
    assert!(!state.advance(&[], due - HOUR).unwrap());
    assert_eq!(state.authority.bundle(), first);
    assert!(state.advance(&[], due).unwrap());
    assert_eq!(state.authority.bundle(), format!("{}{first}", state.authority.newest.pem));
    assert_ne!(state.authority.newest.pem, first);
}

// rendering.md 4.11: servers follow once callers know the new CA, and the old one goes once no
// server can show it any more
#[test]
fn callers_learn_a_ca_before_servers_use_it() {
    let mut state = state();
    let now = state.authority.newest.due();
    let first = state.data();
    let old = || issue(&authority_of(&first), now);
    state.advance(&[], now).unwrap();

    assert!(matches!(verdict(old(), &state.authority, false, now), Verdict::Keep(_)));
    let unpublished = leaf(&state.authority.signer(false).issue(&names(), "x", now).unwrap());
    assert_eq!(unpublished.ca, authority_of(&first).pem);
    assert_eq!(verdict(old(), &state.authority, true, now), SUPERSEDED);
    assert!(!state.advance(&[Some(&old())], now + DAY).unwrap(), "a server shows it");

    let new = issue(state.authority.signer(true), now);
    assert!(!state.advance(&[Some(&new)], now + HOUR / 2).unwrap(), "pods may lag");
    assert_eq!(state.next(&[Some(&new)]), now + HOUR);
    assert!(!state.advance(&[None], now + DAY).unwrap(), "nobody knows");
    assert!(state.advance(&[Some(&new)], now + HOUR).unwrap());
    assert_eq!(state.authority.bundle(), state.authority.newest.pem);
    assert!(matches!(verdict(new, &state.authority, true, now + HOUR), Verdict::Keep(_)));
}

fn authority_of(data: &Data) -> Ca {
    State::parse(data, start()).unwrap().authority.newest
}

#[test]
fn a_lost_ca_stays_trusted_while_servers_show_it() {
    let lost = Ca::generate(&PROFILE, &[], start()).unwrap();
    let shown = issue(&lost, start());
    let ca = shown.trusted_ca(&names(), start()).unwrap();
    assert_eq!(ca, lost.pem);
    let mut state = State::new(vec![ca], start()).unwrap();
    assert_eq!(state.authority.bundle(), format!("{}{}", state.authority.newest.pem, lost.pem));
    assert!(matches!(verdict(shown, &state.authority, false, start()), Verdict::Keep(_)));
    let shown = issue(&lost, start());
    assert_eq!(verdict(shown, &state.authority, true, start()), SUPERSEDED);
    let new = issue(&state.authority.newest, start());
    assert!(state.advance(&[Some(&new)], start() + HOUR).unwrap());
    assert_eq!(state.authority.bundle(), state.authority.newest.pem);
}

#[test]
fn a_trusted_ca_ends_with_its_certificate() {
    let old = Ca::generate(&PROFILE, &[], start() - DAY * 3600).unwrap();
    let mut state = State::new(vec![old.pem.clone()], start()).unwrap();
    assert!(!state.advance(&[None], after(49)).unwrap());
    assert!(state.advance(&[None], after(51)).unwrap());
    assert!(!state.authority.bundle().contains(&old.pem));
}

// The Secret is all the state there is.
#[test]
fn an_authority_survives_its_secret() {
    let mut state = state();
    state.authority.trusted = vec![
        Ca::generate(&PROFILE, &[], start()).unwrap().pem,
        Ca::generate(&PROFILE, &[], start()).unwrap().pem,
    ];
    let now = state.authority.newest.due();
    state.advance(&[None], now).unwrap();
    assert!(state.record(&[request()]));
    assert!(!state.record(&[request()]), "once is enough");
    let read = State::parse(&state.data(), now).unwrap();
    assert_eq!(read.authority.bundle(), state.authority.bundle());
    assert_eq!(read.issued, [request()]);
    assert_eq!(read.authority.roots().len(), 4);
    assert_eq!(read.authority.signer(false).pem, state.authority.signer(false).pem);
    assert_eq!(read.data(), state.data());
    let made = issue(&read.authority.newest, now);
    assert!(matches!(verdict(made, &state.authority, true, now), Verdict::Keep(_)));
}

#[rstest]
#[case::empty(|data: &mut Data| data.clear(), 0, "its certificate cannot be read")]
#[case::no_key(|data: &mut Data| drop(data.remove("ca.key")), 0, "its key cannot be read")]
#[case::other_key(|data: &mut Data| other_key(data, "ca.key"), 0, "its certificates are not accepted")]
#[case::garbage(|data: &mut Data| garbage(data, "ca.crt"), 0, "its certificate is not PEM")]
#[case::expired(|_: &mut Data| {}, 3651, "it has expired")]
fn an_unusable_authority_says_why(
    #[case] spoil: fn(&mut Data),
    #[case] days: i64,
    #[case] want: &str,
) {
    let mut data = state().data();
    spoil(&mut data);
    assert_eq!(State::parse(&data, after(days)).err(), Some(want));
}

fn other_key(data: &mut Data, key: &str) {
    let other = Ca::generate(&PROFILE, &[], start()).unwrap().key_pem();
    data.insert(key.to_owned(), ByteString(other.into_bytes()));
}

fn garbage(data: &mut Data, key: &str) {
    data.insert(key.to_owned(), ByteString(vec![0xff, 0, 1]));
}

#[rstest]
#[case::empty(|data: &mut Data| data.clear(), "it holds no certificate")]
#[case::no_key(|data: &mut Data| drop(data.remove(KEY)), "it holds no key")]
#[case::garbage(|data: &mut Data| garbage(data, CERTIFICATE), "its certificate cannot be read")]
#[case::garbled_key(|data: &mut Data| garbage(data, KEY),
    "its key does not match its certificate")]
#[case::other_key(|data: &mut Data| other_key(data, KEY),
    "its key does not match its certificate")]
fn unusable_content_of_a_secret_says_why(#[case] spoil: fn(&mut Data), #[case] want: &str) {
    let made = authority().newest.issue(&names(), "x", start()).unwrap();
    let mut data = data(&made);
    spoil(&mut data);
    assert_eq!(Leaf::parse(&data).err(), Some(want));
}

#[test]
fn a_certificate_of_another_ca_or_for_other_names_is_replaced() {
    let authority = authority();
    let why = "it was not issued by our CA for the names of the Service";
    let foreign = issue(&Ca::generate(&PROFILE, &[], start()).unwrap(), start());
    let renamed = authority.newest.issue(&["pot.ops".to_owned()], "x", start());
    let mut other = data(&authority.newest.issue(&names(), "x", start()).unwrap());
    other.remove(CA);
    let leaves = [
        (Ok(foreign), RenewReason::Unusable(why)),
        (Ok(leaf(&renamed.unwrap())), RenewReason::Unusable(why)),
        (
            Ok(Leaf::parse(&other).map_err(String::from).unwrap()),
            RenewReason::Unusable("it contains a CA that did not issue it"),
        ),
        (Err(RenewReason::Missing), RenewReason::Missing),
    ];
    for (leaf, why) in leaves {
        let judged = judge(&leaf, &authority, &names(), true, start());
        assert_eq!(judged, Verdict::Issue(why));
    }
}

// A self-signed certificate, as cert-manager makes them for webhooks, is its own CA.
#[test]
fn certificates_of_another_source_stay_trusted_while_servers_show_them() {
    let made = rcgen::generate_simple_self_signed(names()).unwrap();
    let pem = made.cert.pem();
    let data = data(&Issued {
        certificate: pem.clone(),
        key: made.signing_key.serialize_pem(),
        ca: pem.clone(),
        validity: issued(start(), HOUR, DAY, None),
    });
    let Ok(theirs) = Leaf::parse(&data) else {
        panic!("it can be served");
    };
    let trusted = theirs.trusted_ca(&names(), start()).unwrap();
    let authority = State::new(vec![trusted], start()).unwrap().authority;
    assert!(matches!(verdict(theirs, &authority, false, start()), Verdict::Keep(_)));
}

// Kubernetes allows a namespace of digits alone.
#[test]
fn a_certificate_for_a_namespace_of_digits_is_kept() {
    let authority = authority();
    let names = ["pot.1234", "pot.1234.svc", "pot.1234.svc.cluster.local"].map(str::to_owned);
    let made = leaf(&authority.newest.issue(&names, "pot-cert", start()).unwrap());
    assert!(made.trusted_ca(&names, start()).is_some());
    let verdict = judge(&Ok(made), &authority, &names, true, start());
    assert!(matches!(verdict, Verdict::Keep(_)), "{verdict:?}");
    let other = issue(&authority.newest, start());
    assert!(matches!(judge(&Ok(other), &authority, &names, true, start()), Verdict::Issue(_)));
}

#[test]
fn a_certificate_never_outlives_its_ca() {
    let authority = authority();
    let late = after(3600);
    let made = issue(&authority.newest, late);
    assert_eq!(made.validity.not_after, authority.newest.validity.not_after);
    assert!(leaf_due(made.validity, 0.0) > late);
}

#[rstest]
#[case("1999-12-31T23:59:59Z", "2049-12-31T23:59:59Z")]
#[case("2026-01-01T00:00:00Z", "2050-01-01T00:00:00Z")]
fn validity_is_read_in_both_forms(#[case] not_before: Timestamp, #[case] not_after: Timestamp) {
    let mut params = rcgen::CertificateParams::default();
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap();
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    params.not_before = at(not_before);
    params.not_after = at(not_after);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = params.self_signed(&key).unwrap();
    let want = Validity { not_before, not_after };
    assert_eq!(validity(made.der()), Some(want));
    assert_eq!(certificate(made.pem().as_bytes()).as_ref(), Some(made.der()));
}

proptest! {
    #[test]
    fn reading_certificates_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let data = Data::from([(CERTIFICATE.to_owned(), ByteString(bytes.clone()))]);
        let _ = Leaf::parse(&data);
        let data = Data::from([
            ("ca.crt".to_owned(), ByteString(bytes.clone())),
            ("issued.json".to_owned(), ByteString(bytes)),
        ]);
        let _ = State::parse(&data, start());
    }

    // Damage anywhere in a certificate is either noticed or harmless.
    #[test]
    fn validity_of_a_damaged_certificate_never_panics(at in 0_usize..300, byte: u8) {
        let made = authority().newest.der;
        let mut bytes = made.to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = validity(&bytes);
    }
}

// rendering.md 4.11: callers of the webhooks trust the CA that the revision publishes, and no other
#[tokio::test]
async fn a_ca_that_a_foreground_deletion_took_comes_back_as_it_was() {
    let before = Secret {
        type_: Some(name::WEBHOOK_CA_SECRET_TYPE.to_owned()),
        data: Some(state().data()),
        ..Secret::default()
    };
    let stored = Arc::new(Mutex::new(Some(before.clone())));
    let there = Arc::clone(&stored);
    let client = answering(move |request| {
        let mut stored = there.lock().unwrap();
        if request.method() == Method::POST {
            *stored = Some(serde_json::from_value(request.body().clone()).unwrap());
        }
        stored.as_ref().map_or_else(|| refusal(404), |found| (200, serde_json::json!(found)))
    });
    let (issuer, _woken) = Issuer::new(client, "system".to_owned());
    let owner = Extension { name: "teapot".to_owned(), uid: "1".to_owned() };
    let take = || stored.lock().unwrap().take();
    issuer.restore(&owner, start()).await.unwrap();
    assert_eq!(take(), Some(before.clone()), "it is there, and nothing is written");
    issuer.restore(&owner, start()).await.unwrap();
    let again = take().expect("it is written again");
    assert_eq!((&again.data, &again.type_), (&before.data, &before.type_));
    assert_eq!(again.metadata.owner_references.unwrap()[0].uid, "1");
    issuer.forget(&owner);
    issuer.restore(&owner, start()).await.unwrap();
    assert_eq!(take(), None);
}
