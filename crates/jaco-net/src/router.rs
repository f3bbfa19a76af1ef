//! The router of a site: carries out what `jaco-dataplane` says, and observes what is there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_dataplane::{InterfaceName, PlanChange, Policy, Seen, SitePlan, Step, diff, steps};

use crate::counts::{PeerCounts, RouterCounts};
use crate::error::{NetError, refused};
use crate::handover::Listeners;
use crate::kernel::{Kernel, Worker};
use crate::namespace::Namespace;
use crate::netlink::{FilterEvents, Socket};
use crate::probe::{Probe, ProbeQuestion, Work};
use crate::resolver::{Resolver, ServedNames};
use crate::tunnel::{AnyTunnel, Backend, Identity, PrivateKey};

/// What a router is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the file is that the namespace is bound to, such as `/run/jaco/net`. One folder per container
    /// engine; it need not survive the machine's restart.
    pub runtime_dir: PathBuf,
    /// The key of this site.
    pub key: PrivateKey,
    /// The key that takes its place once a plan names it.
    pub next_key: Option<PrivateKey>,
    /// The UDP port of the tunnel, in the namespace of the container engine.
    pub port: u16,
    /// Where the tunnel runs. `None`: in the kernel if it can.
    pub backend: Option<Backend>,
    /// The resolvers for names that are not the cluster's.
    pub resolvers: Vec<SocketAddr>,
}

/// The router of a site.
///
/// It lives in a network namespace of its own, which stays when this process ends: kernel tunnel, routes and
/// rules go on, a userspace tunnel is taken up by the next [`Router::open`]. Nothing is ever written in the
/// namespace of the container engine but the outer ends of ports, in bridges that are named by the plan; the sockets
/// of the edge are opened there.
///
/// # Privileges
/// CAP_SYS_ADMIN (to make and enter the namespace) and CAP_NET_ADMIN in the user namespace of the container
/// engine's network namespace, CAP_NET_RAW there for probes, CAP_NET_BIND_SERVICE for the sockets of the edge, access to `/dev/net/tun` without WireGuard in the kernel, the program `nft` 1.0 or
/// newer in `PATH`, and a kernel 5.6 or newer. The calling process must be in the network namespace of the
/// container engine, with all threads of its runtime.
#[derive(Debug)]
pub struct Router {
    namespace: Arc<Namespace>,
    worker: Worker,
    tunnel: AnyTunnel,
    names: Arc<ServedNames>,
    resolvers: Vec<SocketAddr>,
    listeners: Arc<Listeners>,
    /// What is there, if nobody but this router changed anything since it was observed.
    seen: Option<Seen>,
}

/// What [`Router::apply`] did.
#[derive(Debug, Default)]
pub struct Applied {
    /// Steps that were carried out; none if nothing was missing.
    pub steps: usize,
    /// Ports that could not be made, each with its reason. All else was done.
    pub failed_ports: BTreeMap<InterfaceName, NetError>,
}

/// By the name of the interface in the router.
type FailedPorts = BTreeMap<InterfaceName, NetError>;

impl Router {
    /// Makes the router's namespace or takes up the one that is there. To be called in a tokio runtime.
    ///
    /// # Errors
    /// If the namespace cannot be made or entered, or the tunnel that is there not be taken up.
    pub async fn open(options: Options) -> Result<Self, NetError> {
        let namespace = Arc::new(Namespace::ensure(&options.runtime_dir.join("router"))?);
        let worker = Worker::start(Arc::clone(&namespace)).await?;
        let backend = match options.backend {
            Some(backend) => backend,
            None if worker.call(|kernel| Ok(kernel.try_wireguard())).await? => Backend::Kernel,
            None => Backend::Userspace,
        };
        let identity = Identity { key: options.key, next: options.next_key, port: options.port };
        let tunnel = AnyTunnel::open(backend, identity, &worker).await?;
        Ok(Self {
            namespace,
            worker,
            tunnel,
            names: Arc::new(ServedNames::new(Instant::now())),
            resolvers: options.resolvers,
            listeners: Arc::default(),
            seen: None,
        })
    }

    /// The file that the router's namespace is bound to.
    pub fn namespace(&self) -> &Path {
        self.namespace.path()
    }

    /// Where the tunnel runs.
    pub fn backend(&self) -> Backend {
        self.tunnel.backend()
    }

    /// Lets plans name another key: the tunnel takes it with the first one that does, and the one before is forgotten.
    pub fn offer_key(&mut self, next: PrivateKey) {
        self.tunnel.offer_key(next);
    }

    /// Makes the router what `plan` says, in the order that [`diff`] gives.
    ///
    /// Compares with what was observed last and what it did since; where others may have changed something, call
    /// [`Router::observe`] first.
    ///
    /// # Errors
    /// If a step fails; those before it have been carried out, and the next call observes first. A port that
    /// cannot be made is reported and keeps nothing else from being done.
    pub async fn apply(&mut self, plan: &SitePlan) -> Result<Applied, NetError> {
        self.listeners.plan(&plan.listeners);
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => self.read().await?,
        };
        self.carry_out_all(diff(plan, &seen), seen).await
    }

    /// Makes the router what `plan` says, which differs by `change` from the plan that [`Router::apply`] or this was
    /// given last. It costs as much as the change: nothing else is compared.
    ///
    /// # Errors
    /// As [`Router::apply`].
    pub async fn change(
        &mut self,
        plan: &SitePlan,
        change: &PlanChange,
    ) -> Result<Applied, NetError> {
        let Some(steps) = self.seen.as_ref().and_then(|seen| steps(change, seen)) else {
            return self.apply(plan).await;
        };
        self.listeners.plan(&plan.listeners);
        let seen = self.seen.take().unwrap_or_default();
        self.carry_out_all(steps, seen).await
    }

    /// Reads what is there from the kernel and the tunnel.
    ///
    /// # Errors
    /// If the kernel or `nft` cannot be asked.
    pub async fn observe(&mut self) -> Result<Seen, NetError> {
        self.seen = None;
        let seen = self.read().await?;
        self.seen = Some(seen.clone());
        Ok(seen)
    }

    /// Starts the resolver on the router's addresses; it answers what [`Router::apply`] was given last, until the
    /// returned handle is dropped.
    ///
    /// # Errors
    /// If its sockets cannot be opened in the router's namespace.
    pub async fn serve_names(&self) -> Result<Resolver, NetError> {
        Resolver::start(&self.namespace, Arc::clone(&self.names), self.resolvers.clone()).await
    }

    /// Word of changes of the packet filter, by whomever.
    ///
    /// # Errors
    /// If it cannot be asked for.
    pub(crate) async fn filter_events(&self) -> Result<FilterEvents, NetError> {
        let listen = refused("listen to changes of the rules");
        let socket = self
            .worker
            .call(|_| Socket::filter_events().map_err(refused("listen to changes of the rules")));
        FilterEvents::start(socket.await?).map_err(listen)
    }

    /// Whether another process has changed rules since they were observed.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub(crate) async fn others_changed_rules(&self) -> Result<bool, NetError> {
        self.worker.call(|kernel| kernel.rules().others_changed()).await
    }

    /// The sockets of the edge.
    pub(crate) fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Until when an address may be used under a name that it has lost, because an answer of the resolver may be
    /// remembered. It never moves back.
    pub fn remembered_until(&self) -> Instant {
        self.names.remembered_until()
    }

    /// Begins to find out by packets what holds between this router and others. The router can be changed
    /// meanwhile: what is returned needs it no more.
    ///
    /// # Errors
    /// If the tunnel cannot be asked.
    pub(crate) async fn probe(
        &self,
        plan: &SitePlan,
        question: &ProbeQuestion,
    ) -> Result<Probe, NetError> {
        let tunnel = self.worker.call(Kernel::tunnel_index).await?;
        let links = match tunnel {
            Some(_) => self.tunnel.links(&self.worker).await?,
            None => BTreeMap::new(),
        };
        let namespace = Arc::clone(&self.namespace);
        let addresses = question
            .lookup
            .as_ref()
            .and_then(|(asker, name)| crate::resolver::addresses(&self.names.read(), *asker, name));
        Ok(Probe { namespace, work: Work::of(plan, question), tunnel, links, addresses })
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// If the tunnel cannot be asked.
    pub(crate) async fn counts(&self) -> Result<RouterCounts, NetError> {
        let links = match self.worker.call(Kernel::tunnel_index).await? {
            Some(_) => self.tunnel.links(&self.worker).await?,
            None => BTreeMap::new(),
        };
        let millis = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let peers = links.values().map(|link| PeerCounts {
            handshake_ms: link.handshake.map(millis),
            received: link.received,
            sent: link.sent,
        });
        Ok(RouterCounts { peers: peers.collect(), questions: self.names.counters.read() })
    }

    /// Opens the sockets of the edge that could not be opened before.
    pub(crate) fn open_missing_listeners(&mut self) {
        self.listeners.open_missing();
        self.see_listeners();
    }

    /// Takes note of sockets that came from the edge.
    pub(crate) fn see_listeners(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.listeners = self.listeners.opened();
        }
    }

    async fn read(&self) -> Result<Seen, NetError> {
        let observed = self.worker.call(Kernel::observe).await?;
        let (tunnel, peers) = self.tunnel.observe(observed.tunnel, &self.worker).await?;
        Ok(Seen {
            policy: observed.policy,
            tunnel,
            ports: observed.ports,
            peers,
            routes: observed.routes,
            names: self.names.read().clone(),
            listeners: self.listeners.opened(),
        })
    }

    /// Carries steps out in their order, from what is there.
    async fn carry_out_all(
        &mut self,
        steps: Vec<Step>,
        mut seen: Seen,
    ) -> Result<Applied, NetError> {
        let mut applied = Applied { steps: steps.len(), failed_ports: BTreeMap::new() };
        let mut steps = steps.into_iter().peekable();
        while let Some(step) = steps.next() {
            let mut group = vec![step];
            // Ports are made and removed together: one request each costs more than the port.
            while let Some(next) = steps.next_if(|next| same_kind(&group[0], next)) {
                group.push(next);
            }
            // What is there afterwards is written down while the kernel works; where a step fails nothing of it counts.
            let note = async { group.iter().for_each(|step| seen.carry_out(step)) };
            let (failed, ()) = tokio::join!(self.carry_out(&group), note);
            applied.failed_ports.extend(failed?);
        }
        // A port without a bridge is not there. Of one that failed otherwise it is not known what is left, nor which
        // others failed with it.
        let mut failed = applied.failed_ports.iter();
        let is_known = failed.all(|(_, error)| matches!(error, NetError::NoBridge(_)));
        seen.ports.retain(|interface, _| !applied.failed_ports.contains_key(interface));
        // Those that could not be opened are tried again by whoever asks for it.
        seen.listeners = self.listeners.opened();
        self.seen = is_known.then_some(seen);
        Ok(applied)
    }

    /// Carries out steps of one kind, and says which ports could not be made.
    async fn carry_out(&mut self, group: &[Step]) -> Result<FailedPorts, NetError> {
        let (first, worker) = (group[0].clone(), &self.worker);
        match first {
            Step::LoadPolicy(policy) => load(worker, policy).await?,
            Step::ChangeNames(change) => self.names.change(&change),
            Step::RemoveRoutes(routes) => {
                worker.call(move |kernel| kernel.remove_routes(&routes)).await?;
            }
            Step::AddRoutes(routes) => {
                worker.call(move |kernel| kernel.add_routes(&routes)).await?;
            }
            Step::RemovePeer(key) => self.tunnel.remove_peer(key, worker).await?,
            Step::SetPeer { key, peer } => self.tunnel.set_peer(key, peer, worker).await?,
            Step::ChangePeer { key, change } => {
                self.tunnel.change_peer(key, change, worker).await?;
            }
            Step::AddTunnel(tunnel) => self.tunnel.add(tunnel, worker).await?,
            Step::SetKey(key) => self.tunnel.set_key(key, worker).await?,
            Step::RemoveTunnel => self.tunnel.remove(worker).await?,
            Step::CloseScopes(scopes) => {
                worker.call(move |kernel| kernel.rules().close(&scopes)).await?;
            }
            Step::OpenScopes(scopes) => {
                worker.call(move |kernel| kernel.rules().open(&scopes)).await?;
            }
            Step::CloseServed(served) => {
                worker.call(move |kernel| kernel.rules().serve_no_more(&served)).await?;
            }
            Step::OpenServed(served) => {
                worker.call(move |kernel| kernel.rules().serve(&served)).await?;
            }
            Step::CloseListeners(listeners) => self.listeners.close(&listeners),
            Step::OpenListeners(listeners) => self.listeners.open(&listeners),
            Step::RemovePort(_) => remove_ports(worker, group).await?,
            Step::AddPort(_) => return add_ports(worker, group).await,
        }
        Ok(FailedPorts::new())
    }
}

async fn load(worker: &Worker, policy: Policy) -> Result<(), NetError> {
    worker.call(move |kernel| kernel.load_policy(&policy)).await
}

async fn remove_ports(worker: &Worker, group: &[Step]) -> Result<(), NetError> {
    let names = group.iter().filter_map(|step| {
        if let Step::RemovePort(name) = step { Some(name.clone()) } else { None }
    });
    let names: Vec<_> = names.collect();
    worker.call(move |kernel| kernel.remove_ports(&names)).await
}

async fn add_ports(worker: &Worker, group: &[Step]) -> Result<FailedPorts, NetError> {
    let ports = group
        .iter()
        .filter_map(|step| if let Step::AddPort(port) = step { Some(port.clone()) } else { None });
    let ports: Vec<_> = ports.collect();
    let failed = worker.call(move |kernel| Ok(kernel.add_ports(&ports))).await?;
    Ok(failed.into_iter().collect())
}

fn same_kind(first: &Step, next: &Step) -> bool {
    let both = |is: fn(&Step) -> bool| is(first) && is(next);
    both(|step| matches!(step, Step::AddPort(_)))
        || both(|step| matches!(step, Step::RemovePort(_)))
}
