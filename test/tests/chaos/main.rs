//! Failures of the controller and of what it depends on change neither the end state nor what must
//! hold meanwhile.
//!
//! `make chaos ROUNDS=n` plays install, upgrade, rollback (asked for, or because a rollout has timed
//! out) and one of uninstall, orphaning deletion and deletion of the whole folder, of three packages,
//! some of whose CRDs come and go with a version. Once undisturbed, then again and again while the
//! controller is killed at random times, a share of its requests fails ([`olm_test::proxy`]), a quota
//! refuses writes, revisions, their content and objects are deleted by hand, a second tenant makes
//! ClusterObjectSets that name the extensions, and a catalog with held content is edited; then once
//! more while API server, etcd and registry are stopped in each stage and etcd is set back to a backup.
//! Each must end with the very same objects, and [`life`] checks
//! what must hold all the time: above all that every object of a user lives on, by its UID.
//!
//! `WORLDS=n` plays the rounds on this many control planes at once, because most of the time is
//! waiting. `SEED=n` reproduces the times and the choices of a run, as far as the machine does;
//! `FAULTS` is how many of a thousand requests fail, `SILENCE_SECONDS` how long some of them get no
//! response in every sixth round (a tenth of it in another), `ETCD_SECONDS` and `REGISTRY_SECONDS` how
//! long those are stopped, `VERBOSITY` how much the controller logs, and `OLM_TEST_KEEP=1` keeps the
//! logs.

mod acts;
mod cast;
mod ends;
mod faults;
mod folder;
mod hands;
mod holds;
mod kills;
mod life;
mod planted;
mod stage;
mod tally;
mod tenant;
mod user;
mod world;

/// The tests that share a control plane compare all of it, so they run one after the other. Outages
/// have a control plane of their own, and most of their time is waiting.
static STAGE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns a number from an environment variable.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .filter(|text| !text.is_empty())
        .map_or(default, |text| text.parse().expect("a number"))
}
