//! Nothing that can happen to the controller or around it changes how things end.
//!
//! `make chaos ROUNDS=n` plays install, upgrade, forced rollback and uninstall of three packages
//! once undisturbed, then again and again while the controller is killed at random moments; then
//! once more under outages of API server, etcd and registry. Each must end with the very same
//! objects. `SEED=n` repeats the moments of a run, as far as the machine does; `ETCD_SECONDS` and
//! `REGISTRY_SECONDS` say how long those are gone, `VERBOSITY` how much the controller logs, and
//! `OLM_TEST_KEEP=1` keeps the logs.

mod faults;
mod kills;
mod planted;
mod random;
mod world;

/// The tests that share a control plane look at all of it, so they run one after the other. Outages
/// have a control plane of their own, and most of their time is waiting.
static STAGE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns a number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .filter(|text| !text.is_empty())
        .map_or(default, |text| text.parse().expect("a number"))
}
