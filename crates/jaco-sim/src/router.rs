//! The router of a machine. What its namespace holds stays when the daemon dies, and changes step by step, as the
//! plans of the daemon ask for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use jaco_agent::engine::{ContainerId, ContainerRequest};
use jaco_dataplane::{Found, InterfaceName, Names, Owner, Port, Seen, SitePlan, Step, diff};
use jaco_types::{
    InstanceId, Ipv4Prefix, Millis, NetworkId, NodeRouter, RouterLink, StateIndex, Subnet,
    Timestamp, TunnelBackend,
};

use crate::sabotage::Sabotage;

/// How long those who were told an address use it, after it was answered last.
pub(crate) const REMEMBERED: Millis = Millis(1250);

/// The router of a machine.
#[derive(Debug, Default)]
pub(crate) struct Router {
    /// What its namespace holds, and its resolver.
    pub(crate) seen: Seen,
    process: Process,
    /// What it should hold.
    plan: Option<Planned>,
    /// The steps that are left of those that lead there from what it held.
    steps: VecDeque<Step>,
    /// Plans that were carried out, oldest first, and until when what they removed is remembered.
    waiting: VecDeque<(StateIndex, Timestamp)>,
    /// Of the newest of them, nobody remembers what it removed.
    forgotten: Option<StateIndex>,
    /// Until when something may be remembered that has no name any more.
    remembered_until: Timestamp,
    /// The networks of the ports that it ever had.
    networks: BTreeMap<InterfaceName, NetworkId>,
    /// Whether its daemon is about to look at what it should hold.
    pub(crate) look: Due,
    /// Whether its next step is about to be taken.
    pub(crate) work: Due,
    /// Containers that start once it holds their addresses.
    starting: Vec<ContainerRequest>,
    /// Running containers that are to be attached to their networks.
    joining: Vec<(ContainerRequest, ContainerId)>,
}

/// Whether the process that keeps a router runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Process {
    #[default]
    Runs,
    Away,
}

/// What a router should hold.
#[derive(Debug)]
struct Planned {
    /// The first state that asks for it.
    since: StateIndex,
    /// The newest state that does.
    newest: StateIndex,
    plan: SitePlan,
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
    pub(crate) fn take(&mut self, index: StateIndex, plan: &SitePlan) -> Due {
        if let Some(known) = self.plan.as_mut().filter(|known| known.plan == *plan) {
            known.newest = index;
            return Due::No;
        }
        let networks = plan.ports.iter().map(|(id, port)| (port.interface.clone(), *id));
        self.networks.extend(networks);
        self.plan = Some(Planned { since: index, newest: index, plan: plan.clone() });
        self.steps.clear();
        Due::Yes
    }

    /// Carries out the next step; none where it holds its plan.
    pub(crate) fn step(&mut self, sabotage: Option<Sabotage>, now: Timestamp) -> Option<Step> {
        let Planned { since, plan, .. } = self.plan.as_ref().filter(|_| self.runs())?;
        if self.steps.is_empty() {
            self.steps = steps(plan, &self.seen, sabotage).into();
        }
        let Some(step) = self.steps.pop_front() else {
            self.waiting.push_back((*since, self.remembered_until));
            return None;
        };
        let renames = matches!(step, Step::ChangeNames(_));
        let before = renames.then(|| named(&self.seen.names));
        self.seen.carry_out(&step);
        // Clients asked for them until now.
        if before.is_some_and(|before| !before.is_subset(&named(&self.seen.names))) {
            self.remembered_until = now.after(REMEMBERED);
        }
        Some(step)
    }

    /// The newest state of which it is known that nobody is led any more to what had left by then.
    pub(crate) fn released(
        &mut self,
        sabotage: Option<Sabotage>,
        now: Timestamp,
    ) -> Option<StateIndex> {
        let Planned { since, newest, .. } = self.plan.as_ref().filter(|_| self.runs())?;
        if sabotage == Some(Sabotage::ReleaseAtOnce) {
            return Some(*newest);
        }
        let is_over = |until: Timestamp| until <= now || sabotage == Some(Sabotage::ForgetNames);
        while let Some((index, _)) = self.waiting.front().filter(|(_, until)| is_over(*until)) {
            self.forgotten = Some(*index);
            self.waiting.pop_front();
        }
        // Of a plan that is not carried out, only what was known before it was made counts.
        let before = StateIndex(since.0.saturating_sub(1));
        let forgotten = self.forgotten?;
        Some(if forgotten == *since { *newest } else { forgotten.min(before) })
    }

    /// When something is forgotten next.
    pub(crate) fn forgets_at(&self) -> Option<Timestamp> {
        self.waiting.front().map(|(_, until)| *until)
    }

    /// A container starts only once the router holds its addresses.
    pub(crate) fn wait(&mut self, request: ContainerRequest) {
        self.starting.push(request);
    }

    /// The containers that need not wait any longer.
    pub(crate) fn ready(&mut self) -> Vec<ContainerRequest> {
        let (ready, starting) =
            std::mem::take(&mut self.starting).into_iter().partition(|request| self.holds(request));
        self.starting = starting;
        ready
    }

    /// A running container is attached to networks only once the router holds its addresses.
    pub(crate) fn wait_to_join(&mut self, request: ContainerRequest, container: ContainerId) {
        self.joining.push((request, container));
    }

    /// The running containers that need not wait any longer.
    pub(crate) fn ready_to_join(&mut self) -> Vec<(ContainerRequest, ContainerId)> {
        let joining = std::mem::take(&mut self.joining).into_iter();
        let (ready, joining) = joining.partition(|(request, _)| self.holds(request));
        self.joining = joining;
        ready
    }

    /// A container that waited and is not to start any more.
    pub(crate) fn give_up(&mut self, instance: &InstanceId) -> Option<ContainerRequest> {
        let at = self.starting.iter().position(|request| request.instance == *instance)?;
        Some(self.starting.remove(at))
    }

    /// Its daemon died: what waited is not asked for any more.
    pub(crate) fn daemon_died(&mut self) {
        self.starting.clear();
        self.joining.clear();
        self.look = Due::No;
    }

    fn runs(&self) -> bool {
        self.process == Process::Runs
    }

    /// Its process dies, and with it the resolver, and the tunnel with everything that led into it: that is in
    /// userspace. The ports and their policy stay.
    pub(crate) fn process_died(&mut self) {
        self.process = Process::Away;
        self.steps.clear();
        let Seen { tunnel, peers, routes, names, .. } = &mut self.seen;
        *tunnel = None;
        peers.clear();
        routes.clear();
        *names = Names::default();
        self.waiting.clear();
        self.forgotten = None;
    }

    /// Another process takes its place, and holds the same plan. The one before may have answered until now.
    pub(crate) fn process_started(&mut self, now: Timestamp) {
        self.process = Process::Runs;
        self.remembered_until = now.after(REMEMBERED);
    }

    /// Everything is gone; what is about to happen finds nothing.
    pub(crate) fn lose_power(&mut self) {
        self.seen = Seen::default();
        self.plan = None;
        self.steps.clear();
        self.starting.clear();
        self.joining.clear();
        self.waiting.clear();
        self.forgotten = None;
    }

    /// Whether it has carried out its plan, and this has the addresses of the container.
    fn holds(&self, request: &ContainerRequest) -> bool {
        let Some(Planned { plan, .. }) = self.plan.as_ref().filter(|_| self.runs()) else {
            return false;
        };
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
        let Seen { policy, tunnel, ports, peers, routes, names, listeners } = &self.seen;
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
            listeners: listeners.clone(),
        }
    }
}

/// What leads from what a router holds to its plan.
fn steps(plan: &SitePlan, seen: &Seen, sabotage: Option<Sabotage>) -> Vec<Step> {
    let mut steps = diff(plan, seen);
    match sabotage {
        Some(Sabotage::NamesBeforeRoutes) => steps.reverse(),
        Some(Sabotage::KeepRoutes) => {
            steps.retain(|step| !matches!(step, Step::RemoveRoutes(_) | Step::RemovePeer(_)));
        }
        Some(_) | None => {}
    }
    steps
}

/// The addresses that names lead to.
pub(crate) fn named(names: &Names) -> BTreeSet<Ipv4Addr> {
    let found = names.known.values().flat_map(BTreeMap::values);
    let lists =
        found.flat_map(|it| [&it.ready_here, &it.ready_elsewhere, &it.starting].into_iter());
    lists.flatten().copied().collect()
}

/// How the others reach the router of a machine: each has its own container engine. So many nodes of that name were removed
/// before.
pub(crate) fn facts_of(hostname: &str, before: usize) -> NodeRouter {
    let mut key = [0; 32];
    for (at, byte) in hostname.bytes().enumerate() {
        key[at % 32] ^= byte;
    }
    key[31] ^= u8::try_from(before).expect("a node is seldom removed");
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
