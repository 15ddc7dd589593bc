//! A control plane for each test that breaks it: a stopped registry, a CRD without its schema, a
//! full disk.

use olm_test::prelude::*;

use super::is_well;

/// A control plane for one test, and its controller.
pub(super) struct Apart {
    pub(super) cluster: Cluster,
    /// Name of the controller and of its state folder.
    name: String,
    pub(super) state: PathBuf,
}

/// Takes a control plane; does not start a controller.
pub(super) async fn apart(name: &str) -> Apart {
    let cluster = cluster::own().await;
    let state = cluster.dir.join(format!("{name}-state"));
    Apart { cluster, name: name.to_owned(), state }
}

impl Apart {
    /// Starts the controller of this test.
    pub(super) async fn start(&self) -> Controller {
        self.start_with(&[]).await
    }

    /// The same, with these flags.
    pub(super) async fn start_with(&self, args: &[&str]) -> Controller {
        start(self.cluster.plane, &self.name, args).await
    }

    /// Asserts that the controller has neither ended nor panicked.
    pub(super) fn is_well(&self) {
        is_well(&self.state);
    }

    /// Returns how many reconciles of an object are in the log.
    pub(super) fn passes(&self, name: &str) -> usize {
        let log = std::fs::read_to_string(self.state.join("log")).expect("the controller logs");
        log.lines()
            .filter(|line| line.contains("reconcile ending"))
            .filter(|line| {
                let name = format!("name={name}");
                let quoted = name.replace('=', "=\"") + "\"";
                [name.clone() + " ", name + "}", quoted].iter().any(|wanted| line.contains(wanted))
            })
            .count()
    }

    /// Waits until the failures are settled, then for `window`, and asserts that only what decision 7 allows was done about these
    /// failing objects meanwhile: reconciles at growing intervals, and no write of a status.
    pub(super) async fn is_calm(&self, objects: &[(&str, &str)], window: Duration) {
        let count = || objects.iter().map(|(_, name)| (*name, self.passes(name)));
        // The first failure is seen before the text of a later one has been written.
        let mut last = (Vec::new(), Instant::now());
        wait::until("nothing is tried within some seconds", window * 6, || {
            let now: Vec<_> = count().collect();
            if now != last.0 {
                last = (now, Instant::now());
            }
            // A pass is logged a moment after its status is written.
            let begun = last.0.iter().all(|(_, passes)| *passes > 0);
            let quiet = begun && last.1.elapsed() >= Duration::from_secs(3);
            async move { if quiet { Ok(()) } else { Err(()) } }
        })
        .await;
        let before: Vec<_> = count().collect();
        // A write is in the log a moment after it is answered, so its time decides.
        let began = Timestamp::now();
        let end = Instant::now() + window;
        wait::until("the window has passed", window * 2, || async {
            if Instant::now() >= end { Ok(()) } else { Err(()) }
        })
        .await;
        for ((name, passes), (_, passes_then)) in count().zip(before) {
            let passes = passes - passes_then;
            // From 5 ms on, eleven doublings fill ten seconds.
            assert!(passes <= 12, "{passes} passes over {name} in {window:?}");
        }
        for (resource, name) in objects {
            let mut writes = super::status_writes(&self.cluster, resource, name);
            writes.retain(|write| write.received > began);
            assert!(writes.is_empty(), "writes of the status of {name}: {writes:#?}");
        }
    }
}
