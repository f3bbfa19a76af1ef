//! The instances of a service at one port, and who of them gets the next request.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use jaco_dataplane::edge::Target;

use crate::balance::choose;
use crate::instance::InFlight;
use crate::upstream::{Protocol, Upstream};

/// What tells backends apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BackendKey {
    pub(crate) target: Target,
    pub(crate) protocol: Protocol,
}

/// The instances of a service at one port.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    endpoints: ArcSwap<Endpoints>,
    budget: Budget,
}

/// The instances of a service that are ready.
#[derive(Debug, Default)]
pub(crate) struct Endpoints {
    pub(crate) here: Vec<Arc<Upstream>>,
    pub(crate) elsewhere: Vec<Arc<Upstream>>,
}

/// An instance that was chosen, and has it on its account.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) in_flight: InFlight,
}

impl Backend {
    /// From now on these are ready.
    pub(crate) fn set(&self, endpoints: Endpoints) {
        self.endpoints.store(Arc::new(endpoints));
    }

    /// Those that are ready.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        let endpoints = self.endpoints.load();
        endpoints.here.iter().chain(&endpoints.elsewhere).cloned().collect()
    }

    /// Chooses an instance that is none of `tried`. `None`: there is none.
    pub(crate) fn pick(&self, tried: &[Arc<Upstream>]) -> Option<Picked> {
        // An instance leaves only after it was taken out of the set: who meets one that has left reads an old set, and
        // the next one is there already. So this ends; the bound is for the case that it is read slower than it changes.
        (0..SETS_READ_MAX).find_map(|_| match self.pick_of_set(tried) {
            None => Some(None),
            Some(upstream) => {
                let in_flight = upstream.instance.enter()?;
                Some(Some(Picked { upstream, in_flight }))
            }
        })?
    }

    fn pick_of_set(&self, tried: &[Arc<Upstream>]) -> Option<Arc<Upstream>> {
        let endpoints = self.endpoints.load();
        let Endpoints { here, elsewhere } = &**endpoints;
        let is_new = |one: &Arc<Upstream>| !tried.iter().any(|tried| Arc::ptr_eq(tried, one));
        let load_of_any = |one: &Arc<Upstream>| is_new(one).then(|| one.instance.in_flight());
        let load = |one: &Arc<Upstream>| load_of_any(one).filter(|_| !one.is_ejected());
        let random = |below| fastrand::usize(..below);
        // Better one that failed a moment ago than none.
        choose(here, elsewhere, load, random)
            .or_else(|| choose(here, elsewhere, load_of_any, random))
            .map(Arc::clone)
    }

    /// The instance that a sticky cookie names, if it is ready and was of use lately.
    pub(crate) fn pick_sticky(&self, sticky: u64) -> Option<Picked> {
        let endpoints = self.endpoints.load();
        let mut all = endpoints.here.iter().chain(&endpoints.elsewhere);
        let upstream = all.find(|one| one.sticky == sticky && !one.is_ejected())?;
        let in_flight = upstream.instance.enter()?;
        Some(Picked { upstream: Arc::clone(upstream), in_flight })
    }

    /// Notes a request, for the budget of repeated ones.
    pub(crate) fn note_request(&self) {
        self.budget.earn();
    }

    /// Whether a request that an instance may have seen may be sent once more.
    pub(crate) fn may_repeat(&self) -> bool {
        self.budget.spend()
    }
}

/// Bounds how many requests are repeated: a fifth of all, and a few more after a quiet time. Without it, an
/// instance that breaks every connection would double the load of all others.
#[derive(Debug)]
struct Budget(AtomicI64);

/// So many sets of endpoints are read for one choice.
const SETS_READ_MAX: usize = 16;

/// The price of a repeated request, in what one request earns.
const PRICE: i64 = 5;
/// So many repeated requests at most are saved up.
const SAVED_MAX: i64 = 20 * PRICE;

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicI64::new(SAVED_MAX / 2))
    }
}

impl Budget {
    fn earn(&self) {
        if self.0.load(Ordering::Relaxed) < SAVED_MAX {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn spend(&self) -> bool {
        let spent = |saved: i64| (saved >= PRICE).then(|| saved - PRICE);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_requests_may_be_repeated() {
        let budget = Budget::default();
        let spent = || (0..1000).filter(|_| budget.spend()).count();
        assert_eq!(spent(), 10);
        for _ in 0..50 {
            budget.earn();
        }
        assert_eq!(spent(), 10);
        for _ in 0..10_000 {
            budget.earn();
        }
        assert_eq!(spent(), 20, "what is saved up is bounded");
    }
}
