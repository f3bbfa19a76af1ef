//! Our edge in a process of its own: this program, started again. It takes orders by lines on its standard input, and
//! answers each by a line with how long that took.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use jaco_dataplane::edge::{
    EdgeEndpoint, EdgePlan, EdgeService, EndpointReadiness, Listener, ListenerKey, Locality,
    PlannedRoute, Transport,
};
use jaco_edge::{CertificatePem, Certificates, Edge, Options};
use jaco_types::route::{BodyLimit, RouteAction, RouteTls, Upstream};
use jaco_types::unit::Bytes;
use jaco_types::{
    InstanceId, Millis, ReplicaId, Revision, Route, RouteKey, ServiceKey, StateIndex,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

use super::proxy::Proxy;
use super::site::{CLEAR, ORIGIN, Place, Site, TLS, serving as serving_at};

/// Has this program serve; not for people.
pub(crate) const COMMAND: &str = "serve-edge";

/// What it is told to do.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Order {
    /// So many more routes, in clear.
    Routes(usize),
    /// A change of one of them.
    Update,
    /// One instance begins to leave, and the one that left before is replaced.
    Replace,
}

/// The process, its output and its input.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) proxy: Proxy,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// What it is started with.
#[derive(Debug, Serialize, Deserialize)]
struct Beginning {
    address: Ipv4Addr,
    origins: [Ipv4Addr; 2],
    chain: String,
    key: String,
}

/// A domain of the many routes.
pub(super) fn extra_domain(number: usize) -> String {
    format!("shop-{number}.customers.example")
}

impl Served {
    /// Starts it with one thread for requests.
    pub(super) async fn start(site: &Site) -> Result<Self> {
        let address = site.address(5);
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the edge")?;
        let input = child.stdin.take().context("no input")?;
        let output = child.stdout.take().context("no output")?;
        let mut served = Self {
            proxy: Proxy::new("JACO", address, child),
            input: ChildStdin::from_std(input)?,
            output: BufReader::new(ChildStdout::from_std(output)?).lines(),
        };
        let (chain, key) = (site.chain.clone(), site.key.clone());
        let beginning = Beginning { address, origins: site.origins(), chain, key };
        served.say(&serde_json::to_string(&beginning)?).await?;
        Ok(served)
    }

    /// Tells it to do something; how long that took, in milliseconds.
    pub(super) async fn tell(&mut self, order: Order) -> Result<f64> {
        self.say(&serde_json::to_string(&order)?).await
    }

    async fn say(&mut self, line: &str) -> Result<f64> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        self.input.flush().await?;
        let answer = self.output.next_line().await?.context("the edge has ended")?;
        Ok(answer.parse()?)
    }
}

/// Serves until there are no more orders.
///
/// # Errors
/// If an order cannot be read or carried out.
pub(crate) fn run() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let first = lines.next().context("nothing was said")??;
    let beginning: Beginning = serde_json::from_str(&first)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let _context = runtime.enter();
    let mut serving = Serving::begin(&beginning)?;
    answer(0.0);
    for line in lines {
        let order: Order = serde_json::from_str(&line?)?;
        let begun = Instant::now();
        serving.carry_out(order)?;
        answer(begun.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "stdout is where the answers go")]
fn answer(millis: f64) {
    println!("{millis}");
}

/// The edge, and what it was told.
struct Serving {
    edge: Edge,
    plan: EdgePlan,
    certificates: Arc<Certificates>,
    version: u64,
    origins: [Ipv4Addr; 2],
    instances: u64,
}

impl Serving {
    fn begin(beginning: &Beginning) -> Result<Self> {
        let Beginning { address, origins, chain, key } = beginning;
        let name = "bench".parse()?;
        let pem = CertificatePem { chain: chain.clone().into(), key: key.clone().into() };
        let by_name = BTreeMap::from([(name, Arc::new(pem))]);
        let mut serving = Self {
            edge: Edge::new(Options::default())?,
            plan: EdgePlan::default(),
            certificates: Arc::new(Certificates { by_name, ..Certificates::default() }),
            version: 0,
            origins: *origins,
            instances: 0,
        };
        serving.route(CLEAR, |_| {})?;
        serving.route(TLS, |route| {
            route.tls = RouteTls::Certificate("bench".parse().expect("it is a name"));
        })?;
        serving.start_instances()?;
        for (place, port, listener) in
            [(Place::Clear, 80, Listener::Http), (Place::Tls, 443, Listener::Https)]
        {
            let key = ListenerKey { transport: Transport::Tcp, address: None, port };
            serving.plan.listeners.insert(key, listener);
            serving.edge.add_listener(key, TcpListener::bind(serving_at(*address, place))?)?;
        }
        serving.apply()?;
        Ok(serving)
    }

    fn carry_out(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Routes(count) => {
                (0..count).try_for_each(|number| self.route(&extra_domain(number), |_| {}))?;
            }
            Order::Update => {
                let body_max = BodyLimit::new(Bytes(1 << 20))?;
                self.route(&extra_domain(77), |route| route.body_max = Some(body_max))?;
            }
            Order::Replace => self.start_instances()?,
        }
        self.apply()
    }

    fn apply(&mut self) -> Result<()> {
        self.version += 1;
        let (version, plan) = (StateIndex(self.version), Arc::new(self.plan.clone()));
        self.edge.apply(version, plan, Arc::clone(&self.certificates));
        let status = self.edge.status();
        let (applied, problems) = (status.borrow().applied, status.borrow().problems.clone());
        if applied != Some(version) || !problems.is_empty() {
            bail!("the edge has applied {applied:?} of {version}: {problems:?}");
        }
        Ok(())
    }

    /// The newest instance leaves, and another is ready at the other address.
    fn start_instances(&mut self) -> Result<()> {
        self.instances += 1;
        let newest = self.instances;
        let mut endpoints = BTreeMap::new();
        for number in newest.saturating_sub(1).max(1)..=newest {
            let id = InstanceId {
                replica: ReplicaId::parse(&format!("bench-web-{number}"))?,
                raft_index: StateIndex(number),
            };
            let readiness = match number == newest {
                true => EndpointReadiness::Ready,
                false => EndpointReadiness::Leaving,
            };
            let address = self.origins[usize::try_from(number % 2)?];
            let (revision, locality) = (Revision(1), Locality::Here);
            endpoints.insert(id, EdgeEndpoint { address, revision, locality, readiness });
        }
        let service = EdgeService { endpoints, drain: Millis(10_000) };
        self.plan.services.insert(web()?, Arc::new(service));
        Ok(())
    }

    fn route(&mut self, domain: &str, change: impl FnOnce(&mut Route)) -> Result<()> {
        let ServiceKey { deployment, service } = web()?;
        let mut route =
            Route::new(RouteAction::Forward(Upstream::new(service, ORIGIN.try_into()?)));
        route.tls = RouteTls::Off;
        change(&mut route);
        let key = RouteKey { domain: domain.parse()?, path: "/".parse()? };
        self.plan.routes.insert(key, PlannedRoute { deployment, route });
        Ok(())
    }
}

fn web() -> Result<ServiceKey> {
    Ok(ServiceKey { deployment: "bench".parse()?, service: "web".parse()? })
}
