//! Which accounts this controller acts as: not its own, not those that flags reserve, and nothing
//! new while the policies on who may name an account are not in force.
//!
//! Whoever names an account has it act. The API server asks first: the policies of `config/policy`
//! require verb `use` (or `impersonate`) on the account where an extension is created, deleted or
//! changed in spec or policy annotations, or a revision in what it applies or as whom; finalizers,
//! status and the garbage collector's writes pass. This module asks again in every reconcile,
//! whoever named the account.
//!
//! In: the policies and their bindings, watched; the controller's own name, asked once. Out: an
//! answer to every reconcile, a metric, and a warning. Source: deploying.md 6.2.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, Resource};
use olm_api::conditions::Reason;
use olm_core::error::{Classify, Disposition};
use olm_core::guard::{AccountPolicy, Policy, Reserved, ReservedAccount, in_force, waits};
use olm_core::revision::Account;
use tokio::sync::{OnceCell, watch};

use crate::cluster::{self, ApiError, Repeated, Sentence, retry_after};
use crate::telemetry::Metrics;

/// The interval of checks of the policies without a change.
const RESYNC: Duration = Duration::from_mins(10);
/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(10);
/// The time in which changes are collected before a check.
const TOGETHER: Duration = Duration::from_millis(200);
/// The interval of checks while waiting for a policy.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Why an account is not acted as.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// Nothing is ever installed with it.
    #[error(transparent)]
    Reserved(#[from] ReservedAccount),
    /// Nobody asked the one who named it whether they may.
    #[error(
        "admission policy {:?} is not in force: new installs wait (--account-policy)",
        .0.name()
    )]
    NotInForce(Policy),
    /// Nobody asked the one who approved whether they may.
    #[error(
        "admission policy {:?} is not in force: approvals do not count (--account-policy)",
        Policy::Approve.name()
    )]
    ApproveNotInForce,
    /// It might be the controller's own.
    #[error("finding out the controller's own account")]
    Own(#[source] ApiError),
}

impl Classify for GuardError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Reserved(_) => Disposition::Terminal(Reason::InvalidConfiguration),
            Self::NotInForce(_) | Self::ApproveNotInForce => Disposition::Wait(LOOK_AGAIN),
            Self::Own(error) => {
                retry_after(&error.0).map_or(Disposition::Retry, Disposition::RetryAfter)
            }
        }
    }
}

/// Whether each policy is in force; `None` until somebody looked.
type Enforced = Option<BTreeMap<Policy, bool>>;

/// Decides whether an account may be impersonated.
pub struct Guard {
    client: Client,
    reserved: Reserved,
    decided: AccountPolicy,
    own: OnceCell<Option<Account>>,
    enforced: watch::Sender<Enforced>,
    metrics: Metrics,
}

impl Guard {
    pub fn new(
        client: Client,
        reserved: Reserved,
        decided: AccountPolicy,
        metrics: Metrics,
    ) -> Self {
        Self {
            client,
            reserved,
            decided,
            own: OnceCell::new(),
            enforced: watch::Sender::new(None),
            metrics,
        }
    }

    /// Returns the controller's own account, if it has one.
    pub async fn own(&self) -> Result<Option<&Account>, GuardError> {
        let own = self.own.get_or_try_init(|| super::own(&self.client)).await;
        Ok(own.map_err(|error| GuardError::Own(ApiError(error)))?.as_ref())
    }

    /// Fails when nothing may be installed with `account`, whoever named it.
    pub async fn permit(&self, account: &Account) -> Result<(), GuardError> {
        Ok(self.reserved.check(account, self.own().await?)?)
    }

    /// Fails while the policy has to be in force and is not, unless the account `was_admitted`
    /// before.
    pub async fn admit(&self, policy: Policy, was_admitted: bool) -> Result<(), GuardError> {
        if !waits(self.decided, false, was_admitted) {
            return Ok(());
        }
        let mut enforced = self.enforced.subscribe();
        // The sender lives as long as we do, so that somebody will have looked.
        let known = enforced.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
        let in_force = known.is_some_and(|known| known.get(&policy) == Some(&true));
        if waits(self.decided, in_force, was_admitted) {
            return Err(match policy {
                Policy::Approve => GuardError::ApproveNotInForce,
                _ => GuardError::NotInForce(policy),
            });
        }
        Ok(())
    }

    /// Keeps what is known about the policies current. Never returns.
    pub async fn run(&self) {
        if self.decided == AccountPolicy::Off {
            return std::future::pending().await;
        }
        let mut changes = stream::select(
            changes::<ValidatingAdmissionPolicy>(&self.client),
            changes::<ValidatingAdmissionPolicyBinding>(&self.client),
        );
        let mut failure = Repeated::default();
        loop {
            let pause = match self.look().await {
                Ok(found) => {
                    failure.over();
                    self.note(found);
                    RESYNC
                }
                Err(error) => {
                    failure.log(Sentence(&error).to_string(), "admission policies cannot be read");
                    // What was known may still hold; what never was known does not.
                    if self.enforced.borrow().is_none() {
                        self.note(self.looked_for().map(|policy| (policy, false)).collect());
                    }
                    RETRY
                }
            };
            // Either something changes or the pause ends; both call for a look.
            if tokio::time::timeout(pause, changes.next()).await.is_ok() {
                // Policies and bindings are made together, and a watch begins with all of them.
                tokio::time::sleep(TOGETHER).await;
                while futures::poll!(changes.next()).is_ready() {}
            }
        }
    }

    fn looked_for(&self) -> impl Iterator<Item = Policy> {
        let has_default = self.reserved.default.is_some();
        let all = Policy::ALL.into_iter();
        all.filter(move |policy| has_default || *policy != Policy::DefaultAccount)
    }

    async fn look(&self) -> Result<BTreeMap<Policy, bool>, kube::Error> {
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(self.client.clone());
        let bindings = bindings.list(&ListParams::default()).await?.items;
        let policies = Api::<ValidatingAdmissionPolicy>::all(self.client.clone());
        let mut found = BTreeMap::new();
        for policy in self.looked_for() {
            let object = policies.get_opt(policy.name()).await?;
            let enforced = object.is_some_and(|object| in_force(&object, &bindings));
            found.insert(policy, enforced);
        }
        Ok(found)
    }

    fn note(&self, found: BTreeMap<Policy, bool>) {
        for (policy, enforced) in &found {
            let before = self.enforced.borrow();
            let before = before.as_ref().and_then(|known| known.get(policy).copied());
            let name = policy.name();
            match (before, enforced) {
                (Some(false), true) => tracing::info!(policy = name, "in force"),
                (None | Some(true), false) => tracing::warn!(
                    policy = name,
                    decided = ?self.decided,
                    "admission policy is not in force: {}",
                    policy.without_it()
                ),
                (Some(false), false) | (None | Some(true), true) => {}
            }
            self.metrics.policy_enforced(name, *enforced);
        }
        self.enforced.send_replace(Some(found));
    }
}

fn changes<K>(client: &Client) -> stream::BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + Send + 'static,
    PartialObjectMeta<K>: Send,
{
    let all = Api::<PartialObjectMeta<K>>::all(client.clone());
    cluster::changes(all, watcher::Config::default()).map(drop).boxed()
}
