//! Real bundles on a real control plane, each with only a service account that `kubectl olm rbac`
//! made: installed, upgraded, repaired, removed; or refused, with nothing half-applied.

/// Makes a test of each bundle. Of several of a kind, one is in the normal run.
macro_rules! bundles {
    ($($(#[$attribute:meta])* $test:ident: $does:ident($($given:expr),*);)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        $(#[$attribute])*
        async fn $test() {
            $does($($given),*).await;
        }
    )* };
}

mod bare;
mod drift;
mod figures;
mod installs;
mod objects;
mod refusals;
mod stage;
mod takeover;
mod updates;
