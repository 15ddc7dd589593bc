//! The exported metrics, with their descriptions and updates.

use std::fmt;

use prometheus_client::encoding::text;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Declares a group of metrics: of each its type, its name and what it means, and how it begins
/// unless with nothing.
macro_rules! metrics {
    (@begin) => { Default::default() };
    (@begin $begin:expr) => { $begin };
    (
        $(#[$doc:meta])*
        $group:ident {
            $($metric:ident: $kind:ty = $name:literal, $help:literal $(, $begin:expr)?;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub(super) struct $group {
            $($metric: $kind,)*
        }

        impl $group {
            pub(super) fn new(registered: &mut Registered) -> Self {
                Self {
                    $($metric: registered.register($name, $help, metrics!(@begin $($begin)?)),)*
                }
            }
        }
    };
}
pub(super) use metrics;

/// One exported metric, as a reader of the answer sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Description {
    /// Its name, with the suffix of its kind.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    pub help: String,
}

#[derive(Default)]
pub(super) struct Registered {
    registry: Registry,
    described: Vec<Description>,
    refreshes: Vec<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("described", &self.described).finish_non_exhaustive()
    }
}

impl Registered {
    /// Adds a metric, and returns it. The encoder appends `_total` to counters.
    pub(super) fn register<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        let kind = metric.metric_type();
        let suffix = if matches!(kind, MetricType::Counter) { "_total" } else { "" };
        self.described.push(Description {
            name: format!("{name}{suffix}"),
            kind: kind.as_str().to_owned(),
            help: help.to_owned(),
        });
        self.registry.register(name, help, metric.clone());
        metric
    }

    /// Has `refresh` called before each answer, for metrics that show what others hold.
    pub(super) fn refresh_with(&mut self, refresh: impl Fn() + Send + Sync + 'static) {
        self.refreshes.push(Box::new(refresh));
    }

    pub(super) fn described(&self) -> Vec<Description> {
        self.described.clone()
    }

    /// Returns all metrics in the text form both Prometheus and `OpenMetrics` parsers read.
    pub(super) fn encode(&self) -> String {
        for refresh in &self.refreshes {
            refresh();
        }
        let mut body = String::new();
        // Writing to a string fails only when a metric cannot be encoded, which would be seen in
        // the tests; what was written until then is still useful.
        if text::encode(&mut body, &self.registry).is_err() {
            tracing::error!("a metric cannot be encoded");
        }
        bounds_last(&body)
    }
}

/// Puts the bound of a bucket behind its other labels, where Go's client has it: scripts look for
/// `name_bucket{code="200"`.
fn bounds_last(body: &str) -> String {
    let moved = |line: &str| {
        let (name, rest) = line.split_once("_bucket{le=\"")?;
        let (bound, rest) = rest.split_once("\",")?;
        let (labels, value) = rest.rsplit_once('}')?;
        Some(format!("{name}_bucket{{{labels},le=\"{bound}\"}}{value}"))
    };
    body.split_inclusive('\n').map(|line| moved(line).unwrap_or_else(|| line.to_owned())).collect()
}
