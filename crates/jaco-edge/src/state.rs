//! From one plan to the next: only what differs is made anew, and everything that is in flight keeps its account.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jaco_dataplane::edge::{
    EdgePlan, EdgeService, EndpointReadiness, Listener, ListenerKey, Locality, PlannedRoute, Target,
};
use jaco_types::route::RouteAction;
use jaco_types::{InstanceId, RouteKey, ServiceKey};
use ring::digest;
use rustls::crypto::CryptoProvider;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::auth::Guard;
use crate::backend::{Backend, BackendKey, Endpoints};
use crate::counters::RouteCounts;
use crate::difference::{Difference, differences};
use crate::instance::Instance;
use crate::table::Table;
use crate::tls::{Certificates, Store};
use crate::upstream::{Place, Protocol, Upstream};
use crate::view::{ReadyAction, ReadyEdits, Role, RouteEntry, View, hsts_value};

/// What is said of a listener of the plan without a socket.
const NO_SOCKET: &str = "nobody has handed over a socket for it: does the router of this node run, and is the port free?";

/// What an edge knows between two plans.
#[derive(Debug)]
pub(crate) struct State {
    plan: Arc<EdgePlan>,
    certificates: Arc<Certificates>,
    store: Arc<Store>,
    provider: Arc<CryptoProvider>,
    routes: Table<Arc<RouteEntry>>,
    backends: BTreeMap<BackendKey, Known>,
    /// Those that are in the plan.
    instances: BTreeMap<InstanceId, Arc<Instance>>,
    /// Those that leave and may have something to finish, and until when.
    leaving: BTreeMap<InstanceId, (Arc<Instance>, Instant)>,
    problems: Problems,
    finished: Arc<Notify>,
}

/// A backend and the instances that it has or had.
#[derive(Debug, Default)]
struct Known {
    backend: Arc<Backend>,
    upstreams: Vec<Arc<Upstream>>,
}

/// What of a plan could not be carried out: by what it is about.
#[derive(Debug, Default)]
struct Problems {
    routes: BTreeMap<RouteKey, String>,
    certificates: BTreeMap<String, String>,
}

/// What is left to do once the new view is in use.
#[derive(Debug)]
#[must_use]
pub(crate) struct Departures(Vec<(Arc<Instance>, Duration)>);

impl State {
    /// Nothing. `finished` is told when an instance that leaves has finished.
    pub(crate) fn new(provider: Arc<CryptoProvider>, finished: Arc<Notify>) -> Self {
        Self {
            plan: Arc::default(),
            certificates: Arc::default(),
            store: Arc::default(),
            provider,
            routes: Table::default(),
            backends: BTreeMap::new(),
            instances: BTreeMap::new(),
            leaving: BTreeMap::new(),
            problems: Problems::default(),
            finished,
        }
    }

    /// Takes the next plan: what to look up in from now on, and what to do once that is in use.
    pub(crate) fn update(
        &mut self,
        plan: Arc<EdgePlan>,
        certificates: Arc<Certificates>,
    ) -> (View, Departures) {
        // Views and requests hold what they may still use.
        self.backends.retain(|_, known| Arc::strong_count(&known.backend) > 1);
        let old = std::mem::replace(&mut self.plan, plan);
        let plan = Arc::clone(&self.plan);
        let departures = self.update_services(&old.services, &plan.services);
        self.update_routes(&old, &plan);
        let listeners = self.roles(&plan);
        if *self.certificates != *certificates {
            let (store, problems) = self.store.update(&certificates, &self.provider);
            self.store = Arc::new(store);
            self.problems.certificates = problems;
            self.certificates = certificates;
        }
        let view = View {
            routes: self.routes.clone(),
            listeners,
            challenges: Arc::new(plan.challenges.clone()),
            trusted: Arc::new(plan.trusted_proxies.clone()),
            certificates: Arc::clone(&self.store),
        };
        (view, departures)
    }

    /// Lets instances leave, once nobody can find them any more.
    pub(crate) fn depart(&mut self, departures: Departures) {
        let now = Instant::now();
        for (instance, drain) in departures.0 {
            instance.leave();
            let since = self.leaving.remove(&instance.id).map(|(_, until)| until);
            let until = since.unwrap_or(now + drain);
            self.leaving.insert(instance.id.clone(), (instance, until));
        }
        for known in self.backends.values_mut() {
            known.upstreams.retain(|upstream| {
                let leaves = upstream.instance.is_leaving();
                if leaves {
                    upstream.tidy();
                }
                !leaves
            });
        }
    }

    /// The instances that leave and are not done, after the drain time of others has ended.
    pub(crate) fn busy(&mut self) -> BTreeSet<InstanceId> {
        let now = Instant::now();
        self.leaving.retain(|_, (instance, until)| {
            if *until <= now {
                instance.release();
            }
            instance.is_busy()
        });
        self.leaving.keys().cloned().collect()
    }

    /// When the next drain time ends.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.leaving.values().map(|(_, until)| *until).min()
    }

    /// Closes connections to instances that nobody uses.
    pub(crate) fn tidy(&self) {
        let upstreams = self.backends.values().flat_map(|known| &known.upstreams);
        upstreams.for_each(|upstream| upstream.tidy());
    }

    /// What of the plan cannot be carried out, by what it is about.
    pub(crate) fn problems(&self, sockets: &BTreeSet<ListenerKey>) -> BTreeMap<String, String> {
        let missing = self.plan.listeners.keys().filter(|key| !sockets.contains(key));
        let missing = missing.map(|key| (format!("listener {key}"), NO_SOCKET.to_owned()));
        let routes = self.problems.routes.iter();
        let routes = routes.map(|(key, problem)| (format!("route {key}"), problem.clone()));
        routes.chain(self.problems.certificates.clone()).chain(missing).collect()
    }

    /// What was counted, by route.
    pub(crate) fn counts(&self) -> BTreeMap<RouteKey, RouteCounts> {
        let keys = self.plan.routes.keys();
        let counted = keys.filter_map(|key| {
            let entry = self.routes.get(key)?;
            Some((key.clone(), entry.counters.read()))
        });
        counted.collect()
    }

    fn update_services(
        &mut self,
        old: &BTreeMap<ServiceKey, Arc<EdgeService>>,
        new: &BTreeMap<ServiceKey, Arc<EdgeService>>,
    ) -> Departures {
        let mut departures = Vec::new();
        for (key, change) in differences(old, new) {
            let (before, after) = match change {
                Difference::Added(after) => (None, Some(after)),
                Difference::Changed(before, after) => (Some(before), Some(after)),
                Difference::Removed(before) => (Some(before), None),
            };
            self.update_instances(before, after, &mut departures);
            let ports = Target { service: key.clone(), port: 0 };
            let first = BackendKey { target: ports, protocol: Protocol::FIRST };
            let keys: Vec<BackendKey> = (self.backends.range(first..))
                .take_while(|(other, _)| other.target.service == *key)
                .map(|(key, _)| key.clone())
                .collect();
            for key in keys {
                self.fill(&key, after.map(|service| &**service));
            }
        }
        Departures(departures)
    }

    /// Makes instances that are new, and finds those that leave.
    fn update_instances(
        &mut self,
        before: Option<&Arc<EdgeService>>,
        after: Option<&Arc<EdgeService>>,
        departures: &mut Vec<(Arc<Instance>, Duration)>,
    ) {
        let endpoints = |service: Option<&Arc<EdgeService>>| {
            service.map(|service| service.endpoints.clone()).unwrap_or_default()
        };
        let drain_of = |service: &Arc<EdgeService>| Duration::from_millis(service.drain.0);
        let drain = after.or(before).map(drain_of).unwrap_or_default();
        let after = endpoints(after);
        for (id, endpoint) in &after {
            let known = self.instances.get(id);
            match (endpoint.readiness, known) {
                (EndpointReadiness::Ready, Some(instance)) => {
                    if instance.is_leaving() {
                        instance.stay();
                        self.leaving.remove(id);
                    }
                }
                (EndpointReadiness::Ready, None) => {
                    // One that had left altogether and comes back keeps its account.
                    let former = self.leaving.remove(id).map(|(instance, _)| instance);
                    let instance = former.unwrap_or_else(|| {
                        Arc::new(Instance::new(id.clone(), Arc::clone(&self.finished)))
                    });
                    instance.stay();
                    self.instances.insert(id.clone(), instance);
                }
                (EndpointReadiness::Leaving, Some(instance)) => {
                    if !instance.is_leaving() {
                        departures.push((Arc::clone(instance), drain));
                    }
                }
                // It never got anything from here.
                (EndpointReadiness::Leaving, None) => {}
            }
        }
        for id in endpoints(before).keys().filter(|id| !after.contains_key(*id)) {
            if let Some(instance) = self.instances.remove(id)
                && !instance.is_leaving()
            {
                departures.push((instance, drain));
            }
        }
    }

    fn update_routes(&mut self, old: &EdgePlan, new: &EdgePlan) {
        for row in new.routes.changed_since(&old.routes) {
            if row.old == row.new {
                continue;
            }
            self.problems.routes.remove(row.key);
            match new.routes.get_shared(row.key) {
                Some(planned) => {
                    let entry = self.entry(row.key, planned);
                    self.routes.insert(row.key, Arc::new(entry));
                }
                None => self.routes.remove(row.key),
            }
        }
    }

    fn entry(&mut self, key: &RouteKey, planned: Arc<PlannedRoute>) -> RouteEntry {
        let route = &planned.route;
        let action = match &route.action {
            RouteAction::Forward(upstream) => {
                let target = planned.target(upstream);
                let protocol = Protocol::Http(upstream.protocol);
                let backend = self.backend(BackendKey { target, protocol });
                ReadyAction::forward(backend, upstream.forwarded_path)
            }
            RouteAction::Redirect(redirect) => ReadyAction::redirect(redirect),
        };
        let guard = (!route.users.is_empty()).then(|| Guard::new(&route.users));
        // A route that cannot be guarded lets nobody in.
        let guard = guard.transpose().unwrap_or_else(|problem| {
            self.problems.routes.insert(key.clone(), problem);
            Some(Guard::closed())
        });
        let counters = self.routes.get(key).map(|entry| Arc::clone(&entry.counters));
        RouteEntry {
            key: key.clone(),
            action,
            request_headers: ReadyEdits::new(&route.headers.request),
            response_headers: ReadyEdits::new(&route.headers.response),
            hsts: route.hsts.map(hsts_value),
            guard: guard.map(Box::new),
            counters: counters.unwrap_or_default(),
            planned,
        }
    }

    fn roles(&mut self, plan: &EdgePlan) -> HashMap<ListenerKey, Role> {
        let roles = plan.listeners.iter().map(|(key, listener)| {
            let role = match listener {
                Listener::Http => Role::Http,
                Listener::Https => Role::Https,
                Listener::Forward(forwarding) => {
                    let target = forwarding.target.clone();
                    let backend = self.backend(BackendKey { target, protocol: Protocol::Raw });
                    Role::forward(backend, forwarding)
                }
            };
            (*key, role)
        });
        roles.collect()
    }

    fn backend(&mut self, key: BackendKey) -> Arc<Backend> {
        if let Some(known) = self.backends.get(&key) {
            return Arc::clone(&known.backend);
        }
        self.backends.insert(key.clone(), Known::default());
        let service = self.plan.services.get(&key.target.service).cloned();
        self.fill(&key, service.as_deref());
        Arc::clone(&self.backends[&key].backend)
    }

    /// Gives a backend the ready instances of its service.
    fn fill(&mut self, key: &BackendKey, service: Option<&EdgeService>) {
        let Some(known) = self.backends.get_mut(key) else { return };
        let mut endpoints = Endpoints::default();
        for (id, endpoint) in service.into_iter().flat_map(|service| &service.endpoints) {
            let Some(instance) = self.instances.get(id) else { continue };
            if endpoint.readiness == EndpointReadiness::Leaving {
                continue;
            }
            let (port, protocol) = (key.target.port, key.protocol);
            let place = Place { address: endpoint.address, port, protocol };
            let is_this = |upstream: &&Arc<Upstream>| {
                Arc::ptr_eq(&upstream.instance, instance) && upstream.is_at(&place)
            };
            let upstream = match known.upstreams.iter().find(is_this) {
                Some(upstream) => Arc::clone(upstream),
                None => {
                    let sticky = sticky_id(&key.target.service, id);
                    let new = Arc::new(Upstream::new(Arc::clone(instance), place, sticky));
                    known.upstreams.push(Arc::clone(&new));
                    new
                }
            };
            match endpoint.locality {
                Locality::Here => endpoints.here.push(upstream),
                Locality::Elsewhere => endpoints.elsewhere.push(upstream),
            }
        }
        known.backend.set(endpoints);
    }
}

/// What a sticky cookie calls an instance.
fn sticky_id(service: &ServiceKey, instance: &InstanceId) -> u64 {
    let text = format!("{service}\n{instance}");
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    let first = digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    u64::from_be_bytes(*first)
}
