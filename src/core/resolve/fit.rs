//! Whether a bundle fits the cluster: its constraints are met, the cluster is new enough, and
//! nothing else that is installed breaks.
//!
//! Source: resolution.md 5.6 and 5.7, decisions 8 and 9.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::constraint::judge::{Installed, Step, View};
use super::constraint::{Breakage, Judgement, Node, Test, Verdict};
use super::environment::{Environment, Knowledge, Provider, ProviderOrigin};
use super::{Dependencies, Query, Request, ValidationError};
use crate::catalog::{Bundle, Constraint, ConstraintError, Declared, Steps};
use crate::version::Version;

/// The state of the cluster around the extension that is resolved.
pub(super) struct ClusterFacts<'r> {
    environment: &'r Environment,
    /// The installed bundle of the extension itself.
    current: Option<Cow<'r, Provider>>,
    /// Other installed bundles.
    others: Installed<'r>,
    dependents: OnceCell<Vec<Dependent<'r>>>,
    /// What it may take to judge whether the rules of other installed bundles are met now.
    steps: Steps,
}

/// Another installed bundle with constraints that are met now.
struct Dependent<'r> {
    provider: &'r Provider,
    /// What is installed, except it and the extension that is resolved.
    others: Installed<'r>,
    met: Vec<(&'r Declared, &'r Constraint)>,
}

impl<'r> ClusterFacts<'r> {
    pub(super) fn new(environment: &'r Environment, request: &Request) -> Self {
        let providers = environment.providers.known();
        let providers = || providers.into_iter().flat_map(|it| it.iter());
        let origin = ProviderOrigin::ClusterExtension(environment.resolving.clone());
        let told = providers().find(|provider| provider.origin == origin);
        let asked = request.installed.as_ref().map(|installed| {
            let package = &request.filter.package_name;
            Cow::Owned(Provider::new(origin.clone(), package, &installed.version))
        });
        Self {
            environment,
            // As read from the cluster, or as given in the request.
            current: told.map(Cow::Borrowed).or(asked),
            others: Installed::new(providers().filter(|provider| provider.origin != origin)),
            dependents: OnceCell::new(),
            steps: Steps::default(),
        }
    }

    /// Returns how many steps the rules of other installed bundles took.
    pub(super) fn work(&self) -> u64 {
        self.steps.taken()
    }

    fn current(&self) -> Option<&Provider> {
        self.current.as_deref()
    }

    /// Returns the other installed bundles with constraints that are met now.
    fn dependents(&self) -> &[Dependent<'r>] {
        let found = || {
            let providers = self.others.providers().iter();
            let with = providers.filter(|provider| !provider.constraints().is_empty());
            with.map(|provider| self.dependent(provider)).filter(|it| !it.met.is_empty()).collect()
        };
        self.dependents.get_or_init(found)
    }

    fn dependent(&self, provider: &'r Provider) -> Dependent<'r> {
        let all = self.others.providers().iter().copied();
        let others: Vec<&'r Provider> =
            all.filter(|other| other.origin != provider.origin).collect();
        let now = Installed::new(others.iter().copied().chain(self.current()));
        let view = View {
            environment: self.environment,
            subject: provider,
            is_new: false,
            now: Some(provider),
            others: &now,
            step: None,
            steps: &self.steps,
        };
        let constraints = provider.constraints().iter();
        let valid = constraints.filter_map(|it| Some((it, it.constraint.as_ref().ok()?)));
        let met = valid.filter(|(_, constraint)| view.verdict(constraint) == Verdict::Met);
        Dependent { provider, met: met.collect(), others: Installed::new(others) }
    }
}

/// Returns the other installed bundles whose constraints are met now, and would or might not be
/// without the extension that the environment is about and the kinds it provides.
pub fn dependents(environment: &Environment) -> Vec<Breakage> {
    let request = Request::default();
    let cluster = ClusterFacts::new(environment, &request);
    let mut without = environment.clone();
    if let (Knowledge::Known(served), Some(gone)) = (&mut without.served, cluster.current()) {
        Arc::make_mut(served).kinds.retain(|kind| !gone.provides(kind));
    }
    let steps = &cluster.steps;
    cluster.dependents().iter().filter_map(|it| it.breakage(&without, None, steps)).collect()
}

impl Dependent<'_> {
    /// Returns what of it is not met any more, if anything.
    fn breakage(
        &self,
        environment: &Environment,
        step: Option<Step<'_>>,
        steps: &Steps,
    ) -> Option<Breakage> {
        let (subject, now, others) = (self.provider, Some(self.provider), &self.others);
        let view = View { environment, subject, is_new: false, now, others, step, steps };
        let unmet = self.met.iter().filter(|(_, constraint)| {
            matches!(view.verdict(constraint), Verdict::Unmet | Verdict::Unknown)
        });
        let judged = unmet.map(|(declared, constraint)| view.judge(declared, constraint));
        let (origin, constraints) = (self.provider.origin.clone(), judged.collect::<Vec<_>>());
        (!constraints.is_empty()).then(|| Breakage::new(origin, constraints))
    }
}

impl Query<'_> {
    /// Returns why a bundle cannot be installed on this cluster. Nothing is checked here under
    /// [`Dependencies::Refuse`]; `SelfCertified` allows breaking other installed bundles. `steps` are
    /// those that are left for the rules of the catalog.
    pub(super) fn fits(&self, bundle: &Bundle, steps: &Steps) -> Result<(), ValidationError> {
        if self.options.dependencies == Dependencies::Refuse {
            return Ok(());
        }
        // What is installed is not refused because of what its successors cost.
        let own = Steps::default();
        let steps = if self.is_installed(bundle) { &own } else { steps };
        let judgements = self.judgements(bundle, steps)?;
        let (unmet, unknown): (Vec<_>, Vec<_>) =
            judgements.into_iter().partition(|it| it.tree.verdict == Verdict::Unmet);
        if !unmet.is_empty() {
            return Err(ValidationError::ConstraintUnmet(unmet));
        }
        if !unknown.is_empty() {
            return Err(ValidationError::ConstraintUnknown(unknown));
        }
        if self.self_certified {
            return Ok(());
        }
        let mut broken = self.broken_by(bundle, steps);
        broken.retain(Breakage::is_certain);
        if broken.is_empty() {
            return Ok(());
        }
        Err(ValidationError::BreaksInstalled(broken))
    }

    /// Returns the other installed bundles that would or might break if a bundle were installed.
    pub(super) fn breaks(&self, bundle: &Bundle) -> Vec<Breakage> {
        if self.options.dependencies == Dependencies::Refuse {
            return Vec::new();
        }
        self.broken_by(bundle, &Steps::default())
    }

    /// Returns what a bundle would be once it is installed.
    fn candidate(&self, bundle: &Bundle) -> Provider {
        let origin = ProviderOrigin::ClusterExtension(self.environment().resolving.clone());
        let package = &self.request.filter.package_name;
        Provider::of_bundle(origin, package, bundle, self.options.release_support)
    }

    /// Returns what the constraints of a candidate are judged against.
    fn view<'q>(&'q self, candidate: &'q Provider, steps: &'q Steps) -> View<'q> {
        let ClusterFacts { environment, others, .. } = &self.cluster;
        let now = self.cluster.current();
        View { environment, subject: candidate, is_new: true, now, others, step: None, steps }
    }

    /// Returns the state of the cluster that the query is about.
    pub(crate) fn environment(&self) -> &Environment {
        self.cluster.environment
    }

    /// Returns the verdicts on all constraints of a bundle that can be parsed, met ones included.
    pub(crate) fn constraints_of(&self, bundle: &Bundle) -> Vec<Judgement> {
        if !self.environment().judges() {
            return Vec::new();
        }
        let (candidate, steps) = (self.candidate(bundle), Steps::default());
        let view = self.view(&candidate, &steps);
        let declared = bundle.constraints.iter();
        let understood = declared.filter_map(|it| Some((it, it.constraint.as_ref().ok()?)));
        understood.map(|(it, constraint)| view.judge(it, constraint)).collect()
    }

    /// Returns the constraints of a bundle that are not met, in the order of its properties.
    fn judgements(
        &self,
        bundle: &Bundle,
        steps: &Steps,
    ) -> Result<Vec<Judgement>, ValidationError> {
        let mut judgements = Vec::new();
        if self.environment().judges() && !bundle.constraints.is_empty() {
            let candidate = self.candidate(bundle);
            let view = self.view(&candidate, steps);
            let parse = |declared| Ok((declared, understood(declared)?));
            let constraints: Vec<_> =
                bundle.constraints.iter().map(parse).collect::<Result<_, _>>()?;
            for (declared, constraint) in constraints {
                match view.verdict(constraint) {
                    Verdict::Met | Verdict::NotJudged => {}
                    Verdict::Unmet | Verdict::Unknown => {
                        judgements.push(view.judge(declared, constraint));
                    }
                }
            }
        }
        judgements.extend(self.kubernetes(bundle)?);
        judgements.sort_by_key(|judgement| judgement.index);
        Ok(judgements)
    }

    /// Returns the verdict on the version of the cluster, if that is too old.
    fn kubernetes(&self, bundle: &Bundle) -> Result<Option<Judgement>, ValidationError> {
        let (Some((index, minimum)), Some(cluster)) =
            (&bundle.min_kube_version, &self.environment().kube_version)
        else {
            return Ok(None);
        };
        let index = *index;
        let property = bundle.properties.get(index).map_or("", |property| &property.kind);
        let least = Version::parse_tolerant(minimum).map_err(|error| {
            ValidationError::ConstraintInvalid {
                index,
                property: property.to_owned(),
                error: ConstraintError(format!("minKubeVersion: {error}")),
            }
        })?;
        // Vendors append suffixes to the version of the cluster that are not prereleases.
        let running = Version { prerelease: Vec::new(), ..cluster.clone() };
        if least.precedence(&running).is_le() {
            return Ok(None);
        }
        let test = Test::Kubernetes { minimum: minimum.clone(), cluster: cluster.to_string() };
        let tree = Node::new(Verdict::Unmet, None, test);
        Ok(Some(Judgement::new((index, property), tree, None)))
    }

    /// Judges the constraints of others as if the step had been taken.
    fn broken_by(&self, bundle: &Bundle, steps: &Steps) -> Vec<Breakage> {
        let Some(from) = self.cluster.current() else { return Vec::new() };
        if self.is_installed(bundle) || self.cluster.dependents().is_empty() {
            return Vec::new();
        }
        let to = self.candidate(bundle);
        let step = Some(Step { from, to: &to });
        let broken = |it: &Dependent<'_>| it.breakage(self.environment(), step, steps);
        self.cluster.dependents().iter().filter_map(broken).collect()
    }
}

fn understood(declared: &Declared) -> Result<&Constraint, ValidationError> {
    let constraint = declared.constraint.as_ref();
    constraint.map_err(|error| ValidationError::ConstraintInvalid {
        index: declared.index,
        property: declared.property.clone(),
        error: error.clone(),
    })
}
