//! The router of a site: carries out what `jaco-dataplane` says, and observes what is there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jaco_dataplane::{InterfaceName, Names, Policy, Seen, SitePlan, Step, diff};

use crate::error::NetError;
use crate::kernel::{Kernel, Worker};
use crate::namespace::Namespace;
use crate::resolver::Resolver;
use crate::tunnel::{AnyTunnel, Backend, Identity, PrivateKey};

/// What a router is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the file is that the namespace is bound to, such as `/run/jaco/net`. One folder per container
    /// engine; it need not survive the machine's restart.
    pub runtime_dir: PathBuf,
    /// The key of this site.
    pub key: PrivateKey,
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
/// namespace of the container engine but the outer ends of ports, in bridges that are named by the plan.
///
/// # Privileges
/// CAP_SYS_ADMIN (to make and enter the namespace) and CAP_NET_ADMIN in the user namespace of the container
/// engine's network namespace, access to `/dev/net/tun` without WireGuard in the kernel, the program `nft` 1.0 or
/// newer in `PATH`, and a kernel 5.6 or newer. The calling process must be in the network namespace of the
/// container engine, with all threads of its runtime.
#[derive(Debug)]
pub struct Router {
    namespace: Arc<Namespace>,
    worker: Worker,
    tunnel: AnyTunnel,
    names: Arc<RwLock<Names>>,
    resolvers: Vec<SocketAddr>,
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
        let identity = Identity { key: options.key, port: options.port };
        let tunnel = AnyTunnel::open(backend, identity, &worker).await?;
        Ok(Self {
            namespace,
            worker,
            tunnel,
            names: Arc::default(),
            resolvers: options.resolvers,
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

    /// Makes the router what `plan` says, in the order that [`diff`] gives.
    ///
    /// Compares with what was observed last and what it did since; where others may have changed something, call
    /// [`Router::observe`] first.
    ///
    /// # Errors
    /// If a step fails; those before it have been carried out, and the next call observes first. A port that
    /// cannot be made is reported and keeps nothing else from being done.
    pub async fn apply(&mut self, plan: &SitePlan) -> Result<Applied, NetError> {
        let mut seen = match self.seen.take() {
            Some(seen) => seen,
            None => self.read().await?,
        };
        let steps = diff(plan, &seen);
        let mut applied = Applied { steps: steps.len(), failed_ports: BTreeMap::new() };
        let mut steps = steps.into_iter().peekable();
        while let Some(step) = steps.next() {
            let mut group = vec![step];
            // Ports are made and removed together: one request each costs more than the port.
            while let Some(next) = steps.next_if(|next| same_kind(&group[0], next)) {
                group.push(next);
            }
            let failed = self.carry_out(&group, &seen).await?;
            group.iter().for_each(|step| seen.carry_out(step));
            applied.failed_ports.extend(failed);
        }
        // A port that failed is not there, and which others with it is not known.
        self.seen = applied.failed_ports.is_empty().then_some(seen);
        Ok(applied)
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

    async fn read(&self) -> Result<Seen, NetError> {
        let observed = self.worker.call(Kernel::observe).await?;
        let (tunnel, peers) = self.tunnel.observe(observed.tunnel, &self.worker).await?;
        Ok(Seen {
            policy: observed.policy,
            tunnel,
            ports: observed.ports,
            peers,
            routes: observed.routes,
            names: self.names.read().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    /// Carries out steps of one kind, and says which ports could not be made.
    async fn carry_out(&mut self, group: &[Step], seen: &Seen) -> Result<FailedPorts, NetError> {
        let (first, worker) = (group[0].clone(), &self.worker);
        match first {
            Step::LoadPolicy(policy) => load(worker, policy).await?,
            Step::ChangeNames(change) => {
                self.names.write().unwrap_or_else(PoisonError::into_inner).change(&change);
            }
            Step::RemoveRoutes(routes) => {
                worker.call(move |kernel| kernel.remove_routes(&routes)).await?;
            }
            Step::AddRoutes(routes) => {
                worker.call(move |kernel| kernel.add_routes(&routes)).await?;
            }
            Step::RemovePeer(key) => self.tunnel.remove_peer(key, worker).await?,
            Step::SetPeer { key, peer } => {
                let before = seen.peers.get(&key).cloned();
                self.tunnel.set_peer(key, peer, before, worker).await?;
            }
            Step::AddTunnel(tunnel) => self.tunnel.add(tunnel, worker).await?,
            Step::RemoveTunnel => self.tunnel.remove(worker).await?,
            Step::CloseScopes(scopes) => {
                worker.call(move |kernel| kernel.rules().close(&scopes)).await?;
            }
            Step::OpenScopes(scopes) => {
                worker.call(move |kernel| kernel.rules().open(&scopes)).await?;
            }
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
