//! Evaluates a constraint against the installed bundles and the served kinds.
//!
//! Source: resolution.md 5.3 and 5.4.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{FoundKind, FoundVersion, Judgement, Node, Test, Verdict};
use crate::catalog::{Constraint, Declared, Demand, GroupVersionKind, Rule, Steps};
use crate::resolve::environment::{Environment, Knowledge, Provider, ProviderOrigin};
use crate::version::SkipRange;

/// Installed bundles, with a cache of which of them match the rules evaluated so far.
pub(crate) struct Installed<'a> {
    providers: Vec<&'a Provider>,
    matching: RefCell<BTreeMap<String, Vec<Option<bool>>>>,
}

/// What matches a rule.
struct Matching<'a> {
    origins: Vec<&'a ProviderOrigin>,
    /// Whether all parties were looked at.
    is_known: bool,
}

/// What a constraint is judged against.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) environment: &'a Environment,
    /// Whose constraints are judged: it may meet them itself, except negated ones.
    pub(crate) subject: &'a Provider,
    /// Whether it is to be installed: the kinds that it provides need not be served before.
    pub(crate) is_new: bool,
    /// The installed version of the subject.
    pub(crate) now: Option<&'a Provider>,
    /// Other installed bundles.
    pub(crate) others: &'a Installed<'a>,
    /// The step that would be taken, when the constraints of others are judged as if it had been.
    pub(crate) step: Option<Step<'a>>,
    /// What rules may take.
    pub(crate) steps: &'a Steps,
}

/// A bundle that replaces the installed one.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) from: &'a Provider,
    pub(crate) to: &'a Provider,
}

impl<'a> Installed<'a> {
    pub(crate) fn new(providers: impl IntoIterator<Item = &'a Provider>) -> Self {
        let mut providers: Vec<_> = providers.into_iter().collect();
        providers.sort_by(|a, b| a.origin.cmp(&b.origin));
        Self { providers, matching: RefCell::default() }
    }

    pub(crate) fn providers(&self) -> &[&'a Provider] {
        &self.providers
    }

    /// Returns the installed bundles that match a rule; cached, as bundles often share a rule.
    fn matching(&self, rule: &Rule, steps: &Steps) -> Matching<'a> {
        let origins = self.providers.iter().map(|it| &it.origin);
        let mut known = self.matching.borrow_mut();
        if let Some(matches) = known.get(rule.text()) {
            return Matching::of(origins.zip(matches.iter().copied()));
        }
        let matches = self.providers.iter().map(|it| rule.matches(it.facts(), steps));
        let matches: Vec<_> = matches.collect();
        let found = Matching::of(origins.zip(matches.iter().copied()));
        if found.is_known {
            known.insert(rule.text().to_owned(), matches);
        }
        found
    }
}

impl<'a> Matching<'a> {
    fn of(judged: impl Iterator<Item = (&'a ProviderOrigin, Option<bool>)>) -> Self {
        let mut found = Self { origins: Vec::new(), is_known: true };
        for (origin, matches) in judged {
            found.is_known &= matches.is_some();
            found.origins.extend((matches == Some(true)).then_some(origin));
        }
        found
    }
}

impl<'a> View<'a> {
    /// Judges a constraint without an explanation.
    pub(crate) fn verdict(&self, constraint: &Constraint) -> Verdict {
        self.verdict_within(constraint, false)
    }

    /// Judges a declared constraint, with an explanation.
    pub(crate) fn judge(&self, declared: &Declared, constraint: &Constraint) -> Judgement {
        let place = (declared.index, declared.property.as_str());
        Judgement::new(place, self.explain(constraint, false), self.single_provider(constraint))
    }

    fn verdict_within(&self, constraint: &Constraint, negated: bool) -> Verdict {
        match &constraint.demand {
            Demand::Package { package, range, .. } => {
                let mut parties = self.parties(negated);
                self.found(parties.any(|party| party.is_package(package, range)))
            }
            Demand::Kind(kind) => self.served(kind, negated).0,
            Demand::Cel(rule) => self.matched(&self.matching(rule, negated)),
            Demand::All(children) => {
                all(children.iter().map(|it| self.verdict_within(it, negated)))
            }
            Demand::Any(children) => {
                any(children.iter().map(|it| self.verdict_within(it, negated)))
            }
            Demand::Not(children) => none(children.iter().map(|it| self.verdict_within(it, true))),
        }
    }

    fn explain(&self, constraint: &Constraint, negated: bool) -> Node {
        let children = |children: &[Constraint], negated: bool| -> Vec<_> {
            children.iter().map(|it| self.explain(it, negated)).collect()
        };
        let verdict = |it: &Node| it.verdict;
        let (verdict, test) = match &constraint.demand {
            Demand::Package { package, text, range } => {
                let found = self.versions(package, range, negated);
                let test = Test::Package { package: package.clone(), range: text.clone(), found };
                (self.verdict_within(constraint, negated), test)
            }
            Demand::Kind(kind) => {
                let (verdict, found) = self.served(kind, negated);
                let kind = kind.clone();
                (verdict, Test::Kind { kind, found })
            }
            Demand::Cel(rule) => {
                let matching = self.matching(rule, negated);
                let verdict = self.matched(&matching);
                let test = Test::Cel {
                    rule: rule.text().to_owned(),
                    met_by: matching.origins.into_iter().cloned().collect(),
                    is_evaluated: matching.is_known,
                };
                (verdict, test)
            }
            Demand::All(parts) => {
                let constraints = children(parts, negated);
                (all(constraints.iter().map(verdict)), Test::All { constraints })
            }
            Demand::Any(parts) => {
                let constraints = children(parts, negated);
                (any(constraints.iter().map(verdict)), Test::Any { constraints })
            }
            Demand::Not(parts) => {
                let constraints = children(parts, true);
                (none(constraints.iter().map(verdict)), Test::Not { constraints })
            }
        };
        Node::new(verdict, constraint.message.clone(), test)
    }

    /// Returns what may meet a constraint; the subject itself cannot violate a negated one.
    fn parties(&self, negated: bool) -> impl Iterator<Item = &'a Provider> {
        self.others.providers.iter().copied().chain(self.own_parties(negated))
    }

    /// Returns those of them that are not among the others.
    fn own_parties(&self, negated: bool) -> impl Iterator<Item = &'a Provider> + use<'a> {
        let subject = (!negated).then_some(self.subject);
        self.step.map(|step| step.to).into_iter().chain(subject)
    }

    /// Returns the verdict, given whether an installed bundle has what is required.
    fn found(&self, found: bool) -> Verdict {
        if found { Verdict::Met } else { self.environment.providers.absence() }
    }

    /// Returns the verdict on a rule.
    fn matched(&self, matching: &Matching<'_>) -> Verdict {
        match self.found(!matching.origins.is_empty()) {
            Verdict::Unmet if !matching.is_known => Verdict::Unknown,
            verdict => verdict,
        }
    }

    fn versions(&self, package: &str, range: &SkipRange, negated: bool) -> Vec<FoundVersion> {
        let version = |party: &Provider| {
            let becomes = |step: Step<'_>| step.to.origin == party.origin;
            Some(FoundVersion {
                version: party.version_of(package)?.to_owned(),
                origin: party.origin.clone(),
                matches: party.is_package(package, range),
                would_become: self.step.is_some_and(becomes),
            })
        };
        let mut found: Vec<_> = self.parties(negated).filter_map(version).collect();
        found.sort();
        found
    }

    fn matching(&self, rule: &Rule, negated: bool) -> Matching<'a> {
        let mut found = self.others.matching(rule, self.steps);
        let rest = self.own_parties(negated);
        let rest = rest.map(|party| (&party.origin, rule.matches(party.facts(), self.steps)));
        let rest = Matching::of(rest);
        found.origins.extend(rest.origins);
        found.origins.sort();
        found.is_known &= rest.is_known;
        found
    }

    /// Says whether a kind is served, and where it was found.
    fn served(&self, kind: &GroupVersionKind, negated: bool) -> (Verdict, FoundKind) {
        if self.is_new && !negated && self.subject.provides(kind) {
            return (Verdict::Met, FoundKind::Itself);
        }
        if self.step.is_some_and(|step| step.to.provides(kind)) {
            return (Verdict::Met, FoundKind::Served);
        }
        let served = match &self.environment.served {
            Knowledge::Known(served) => served,
            unknown => return (unknown.absence(), FoundKind::Unknown),
        };
        let hidden = negated && self.only_subject_defines(kind);
        if served.kinds.contains(kind) && !hidden && !self.goes_away(kind) {
            return (Verdict::Met, FoundKind::Served);
        }
        if served.unreadable_groups.contains(&kind.group) && !hidden {
            return (Verdict::Unknown, FoundKind::Unknown);
        }
        let mut providers = self.others.providers.iter();
        let provider = providers.find(|it| it.provides(kind) && !served.kinds.contains(kind));
        let not_yet = |it: &&Provider| FoundKind::NotServedYet(it.origin.clone());
        (Verdict::Unmet, provider.map_or(FoundKind::Nowhere, not_yet))
    }

    fn only_subject_defines(&self, kind: &GroupVersionKind) -> bool {
        let mut others = self.others.providers.iter();
        self.now.is_some_and(|now| now.defines(kind)) && !others.any(|other| other.defines(kind))
    }

    /// Says whether a kind is removed together with the bundle that the step replaces: no other
    /// installed bundle defines it.
    fn goes_away(&self, kind: &GroupVersionKind) -> bool {
        let Some(step) = self.step else { return false };
        let stays = |provider: &&Provider| provider.defines(kind);
        let others = self.others.providers.iter().any(stays);
        step.from.defines(kind) && !self.subject.defines(kind) && !others
    }

    /// Returns an installed bundle that meets the whole constraint by itself, as OLM Classic
    /// required.
    fn single_provider(&self, constraint: &Constraint) -> Option<String> {
        let mut parties: Vec<_> = self.parties(false).collect();
        parties.sort_by_key(|party| &party.origin);
        let mut parties = parties.into_iter();
        let party = parties.find(|party| meets_alone(party, constraint, self.steps))?;
        Some(party.origin.name().to_owned())
    }
}

/// Says whether one bundle meets a constraint by itself, as OLM Classic requires.
fn meets_alone(party: &Provider, constraint: &Constraint, steps: &Steps) -> bool {
    let alone = |constraint: &Constraint| meets_alone(party, constraint, steps);
    match &constraint.demand {
        Demand::Package { package, range, .. } => party.is_package(package, range),
        Demand::Kind(kind) => party.provides(kind),
        Demand::Cel(rule) => rule.matches(party.facts(), steps) == Some(true),
        Demand::All(children) => children.iter().all(alone),
        Demand::Any(children) => children.iter().any(alone),
        Demand::Not(children) => !children.iter().any(alone),
    }
}

/// Combines verdicts when all parts must be met.
fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    first_of(verdicts, [Verdict::Unmet, Verdict::Unknown, Verdict::NotJudged], Verdict::Met)
}

/// Combines verdicts when one part must be met.
fn any(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    first_of(verdicts, [Verdict::Met, Verdict::NotJudged, Verdict::Unknown], Verdict::Unmet)
}

/// Combines verdicts when no part may be met.
fn none(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    match any(verdicts) {
        Verdict::Met => Verdict::Unmet,
        Verdict::Unmet => Verdict::Met,
        open => open,
    }
}

/// Returns the first verdict of the ranking that occurs; once that is the very first, others are not
/// asked for.
fn first_of(
    verdicts: impl IntoIterator<Item = Verdict>,
    ranking: [Verdict; 3],
    otherwise: Verdict,
) -> Verdict {
    let mut best = ranking.len();
    for verdict in verdicts {
        let rank = ranking.iter().position(|it| *it == verdict);
        best = best.min(rank.unwrap_or(best));
        if best == 0 {
            break;
        }
    }
    ranking.get(best).copied().unwrap_or(otherwise)
}
