//! The number of connections of a listener, in all and from one address.
//!
//! Source: deploying.md 5.4.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::telemetry::Metrics;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Name of the listener in metrics.
    pub listener: &'static str,
    pub connections: usize,
    pub per_address: usize,
    /// Longest time between two requests, or the start of the connection and the first, with its head.
    pub idle: Duration,
    /// Longest time in which nothing can be written.
    pub stall: Duration,
    /// Longest time one answer may take.
    pub answer: Duration,
}

impl Limits {
    /// Those of the catalog server: many clients, large answers.
    pub const CATALOGS: Self = Self {
        listener: "catalogs",
        connections: 512,
        // Everybody who uses the plugin comes from the addresses of the API servers.
        per_address: 128,
        // Longer than between two scrapes.
        idle: Duration::from_secs(90),
        stall: Duration::from_mins(1),
        answer: Duration::from_mins(15),
    };
    /// Those of the metrics endpoint.
    pub const METRICS: Self = Self {
        listener: "metrics",
        connections: 64,
        per_address: 32,
        answer: Duration::from_mins(5),
        ..Self::CATALOGS
    };
    /// Those of the health endpoints, which the kubelet alone asks.
    pub const HEALTH: Self = Self { listener: "health", per_address: 64, ..Self::METRICS };
}

pub(super) struct Places {
    pub(super) limits: Limits,
    metrics: Metrics,
    /// The number of connections of each address; no entry for none.
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// The place of one connection, given back when it is dropped.
pub(super) struct Place {
    pub(super) places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(limits: Limits, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { limits, metrics, taken: Mutex::default() })
    }

    pub(super) fn take(places: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let limits = places.limits;
        let mut taken = places.taken();
        let all: usize = taken.values().sum();
        let here = taken.get(&address).copied().unwrap_or_default();
        let refused = all >= limits.connections || here >= limits.per_address;
        if !refused {
            taken.insert(address, here + 1);
        }
        places.metrics.connected(limits.listener, all + usize::from(!refused), refused);
        drop(taken);
        (!refused).then(|| Place { places: Arc::clone(places), address })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Entry::Occupied(mut here) = taken.entry(self.address) {
            *here.get_mut() -= 1;
            if *here.get() == 0 {
                here.remove();
            }
        }
        let listener = self.places.limits.listener;
        self.places.metrics.connected(listener, taken.values().sum(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // deploying.md P39
    #[test]
    fn places_are_limited_and_given_back() {
        let places = Places::new(
            Limits { connections: 3, per_address: 2, ..Limits::CATALOGS },
            Metrics::default(),
        );
        let take = |last| Places::take(&places, [192, 0, 2, last].into());
        let (one, two) = (take(1), take(1));
        assert!(one.is_some() && two.is_some());
        assert!(take(1).is_none(), "two from one address");
        let three = take(2);
        assert!(three.is_some());
        assert!(take(3).is_none(), "three in all");
        drop(one);
        assert!(take(3).is_some());
        places.metrics.assert_shows(&[
            "olm_http_connections{listener=\"catalogs\"} 2",
            "olm_http_connections_refused_total{listener=\"catalogs\"} 2",
        ]);
        drop((two, three));
        assert_eq!(*places.taken(), HashMap::new());
    }
}
