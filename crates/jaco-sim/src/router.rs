//! The router of a machine. What its namespace holds stays when the daemon dies, and changes step by step, as the
//! plans of the daemon ask for.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jaco_agent::engine::ContainerRequest;
use jaco_dataplane::{Found, InterfaceName, Owner, Port, Seen, SitePlan, Step, diff};
use jaco_types::{
    InstanceId, Ipv4Prefix, NetworkId, NodeRouter, RouterLink, StateIndex, Subnet, TunnelBackend,
};

use crate::sabotage::Sabotage;

/// The router of a machine.
#[derive(Debug, Default)]
pub(crate) struct Router {
    /// What its namespace holds, and its resolver.
    pub(crate) seen: Seen,
    /// What it should hold, and the state that this was planned of.
    plan: Option<(StateIndex, SitePlan)>,
    /// The networks of the ports that it ever had.
    networks: BTreeMap<InterfaceName, NetworkId>,
    /// Whether its daemon is about to look at what it should hold.
    pub(crate) look: Due,
    /// Whether its next step is about to be taken.
    pub(crate) work: Due,
    /// Containers that start once it holds their addresses.
    waiting: Vec<ContainerRequest>,
}

/// Whether something is about to happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Due {
    #[default]
    No,
    Yes,
}

impl Router {
    /// Takes a plan; says whether it is another one than before.
    pub(crate) fn take(&mut self, index: StateIndex, plan: SitePlan) -> Due {
        let networks = plan.ports.iter().map(|(id, port)| (port.interface.clone(), *id));
        self.networks.extend(networks);
        let is_news = self.plan.as_ref().is_none_or(|(_, known)| *known != plan);
        self.plan = Some((index, plan));
        if is_news { Due::Yes } else { Due::No }
    }

    /// Carries out the next step; none where it holds its plan.
    pub(crate) fn step(&mut self, sabotage: Option<Sabotage>) -> Option<Step> {
        let (_, plan) = self.plan.as_ref()?;
        let mut steps = diff(plan, &self.seen);
        match sabotage {
            Some(Sabotage::NamesBeforeRoutes) => steps.reverse(),
            Some(Sabotage::KeepRoutes) => {
                steps.retain(|step| !matches!(step, Step::RemoveRoutes(_) | Step::RemovePeer(_)));
            }
            Some(_) | None => {}
        }
        let step = steps.into_iter().next()?;
        self.seen.carry_out(&step);
        Some(step)
    }

    /// A container starts only once the router holds its addresses.
    pub(crate) fn wait(&mut self, request: ContainerRequest) {
        self.waiting.push(request);
    }

    /// The containers that need not wait any longer.
    pub(crate) fn ready(&mut self) -> Vec<ContainerRequest> {
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|request| self.holds(request));
        self.waiting = waiting;
        ready
    }

    /// A container that waited and is not to start any more.
    pub(crate) fn give_up(&mut self, instance: &InstanceId) -> Option<ContainerRequest> {
        let at = self.waiting.iter().position(|request| request.instance == *instance)?;
        Some(self.waiting.remove(at))
    }

    /// Its daemon died: what waited is not asked for any more.
    pub(crate) fn daemon_died(&mut self) {
        self.waiting.clear();
        self.look = Due::No;
    }

    /// Everything is gone; what is about to happen finds nothing.
    pub(crate) fn lose_power(&mut self) {
        self.seen = Seen::default();
        self.plan = None;
        self.waiting.clear();
    }

    /// Whether it has carried out its plan, and this has the addresses of the container.
    fn holds(&self, request: &ContainerRequest) -> bool {
        let Some((_, plan)) = &self.plan else { return false };
        let has = |address: &Ipv4Addr| plan.names.askers.contains_key(address);
        request.networks.iter().all(|network| has(&network.address))
            && diff(plan, &self.seen).is_empty()
    }

    /// What its namespace holds, as a plan that is carried out in full.
    pub(crate) fn held_by(&self, sabotage: Option<Sabotage>) -> SitePlan {
        let mut held = self.held();
        match sabotage {
            Some(Sabotage::OpenPolicy) => open(&mut held),
            Some(Sabotage::ExchangeOwners) => exchange_owners(&mut held),
            Some(_) | None => {}
        }
        held
    }

    fn held(&self) -> SitePlan {
        let Seen { policy, tunnel, ports, peers, routes, names } = &self.seen;
        let tunnel = match tunnel {
            Some(Found::Sound(tunnel)) => Some(*tunnel),
            Some(Found::Broken) | None => None,
        };
        let sound = ports.values().filter_map(|port| match port {
            Found::Sound(port) => Some((*self.networks.get(&port.interface)?, port.clone())),
            Found::Broken => None,
        });
        let ports: BTreeMap<NetworkId, Port> = sound.collect();
        // A route into a network that has no port leads nowhere.
        let network_of = |address: &Ipv4Addr| {
            let found = ports.iter().find(|(_, port)| port.subnet.prefix().contains(*address));
            found.map(|(id, _)| *id)
        };
        let routes = routes.iter().filter_map(|address| Some((*address, network_of(address)?)));
        let routes = routes.collect();
        SitePlan {
            policy: policy.clone().unwrap_or_default(),
            tunnel,
            ports,
            peers: peers.clone(),
            routes,
            names: names.clone(),
        }
    }
}

/// How the others reach the router of a machine: each has its own container engine.
pub(crate) fn facts_of(hostname: &str) -> NodeRouter {
    let mut key = [0; 32];
    for (at, byte) in hostname.bytes().enumerate() {
        key[at % 32] ^= byte;
    }
    let link = RouterLink { key, port: 51_820, backend: TunnelBackend::Userspace };
    NodeRouter { link: Some(link), problem: None }
}

/// [`Sabotage::OpenPolicy`]: the scope of a network is 4096 addresses wide, and has others in it.
fn open(plan: &mut SitePlan) {
    for scope in plan.policy.scopes.values_mut() {
        let first = scope.subnet.router().to_bits() & !0xfff;
        let wide = Ipv4Prefix::new(Ipv4Addr::from_bits(first), 20);
        scope.subnet = wide.and_then(Subnet::new).expect("a network may be as wide as that");
    }
}

/// [`Sabotage::ExchangeOwners`]: each address has the owner of the next one.
fn exchange_owners(plan: &mut SitePlan) {
    let owners: Vec<Owner> = plan.names.owners.values().cloned().collect();
    let next = owners.into_iter().cycle().skip(1);
    plan.names.owners.values_mut().zip(next).for_each(|(owner, next)| *owner = next);
}
