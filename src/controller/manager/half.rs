//! A part that runs only while the rights of this process are limited and, with leader election,
//! its lease is held.

use anyhow::bail;
use futures::FutureExt as _;
use kube::Client;
use olm_api::keys;
use tokio::sync::watch;
use tokio::task::JoinError;

use super::{Manager, Signal};
use crate::args::Component;
use crate::cluster::within_term;
use crate::lease::{self, Candidacy, Elector, Loss};
use crate::term::Term;

/// The reconcilers under one lease, or without one.
pub(super) struct Half {
    /// Writes in its term only.
    pub(super) client: Client,
    /// Resolves when the half may act.
    pub(super) turn: Signal,
}

impl Manager {
    /// Returns a half, which runs under its lease if leaders are elected, otherwise at once, but
    /// not before the rights of this process are limited.
    pub(super) fn half(&mut self, component: Component) -> Half {
        let limited = self.limited.clone();
        if !self.args.leader_elect {
            let term = Term::unlimited();
            self.terms.push(term.clone());
            let client = within_term(self.client.clone(), term);
            return Half { client, turn: limited };
        }
        let term = Term::pending();
        self.terms.push(term.clone());
        let name = self.args.lease(component);
        let candidacy = Candidacy {
            namespace: name.namespace,
            name: name.name.clone(),
            identity: lease::identity(),
            manager: match component {
                Component::Catalogs => keys::manager::CATALOGD,
                Component::Extensions | Component::Gate => keys::manager::OPERATOR_CONTROLLER,
            },
        };
        let (leading, mut led) = watch::channel(false);
        let metrics = self.metrics.clone();
        let elector = Elector::new(self.client.clone(), candidacy, term.clone(), metrics);
        let mut release = self.release.subscribe();
        self.watchdog.watch_lease(&name.name, term.clone());
        let election = format!("election of {}", name.name);
        self.elections.spawn(self.watchdog.watch(&election, async move {
            // It fails when the sender is gone, and with it everything else.
            let stop = async move { drop(release.wait_for(|stop| *stop).await) };
            let mut stop = std::pin::pin!(stop);
            tokio::select! {
                () = limited => {}
                () = &mut stop => return Ok(()),
            }
            elector.run(leading, stop).await.map_err(|loss| (name.name, loss))
        }));
        let turn = async move {
            // Without a sender there is nobody left who could lead.
            if led.wait_for(|leads| *leads).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Half { client: within_term(self.client.clone(), term), turn: turn.boxed().shared() }
    }

    /// Starts what writes, in its turn; it never starts when the process is to stop before.
    pub(super) fn act(
        &mut self,
        name: &'static str,
        half: &Half,
        part: impl Future<Output = ()> + Send + 'static,
    ) {
        let (turn, shutdown) = (half.turn.clone(), self.shutdown.clone());
        self.parts.act(name, async move {
            tokio::select! {
                biased;
                () = shutdown => {}
                () = turn => part.await,
            }
        });
    }
}

/// Turns the end of an election into that of the process.
pub(super) fn lost(ended: Result<Result<(), (String, Loss)>, JoinError>) -> anyhow::Result<()> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err((name, loss))) => bail!("lease {name} is lost: {loss}"),
        Err(error) => bail!("an election failed: {error}"),
    }
}
