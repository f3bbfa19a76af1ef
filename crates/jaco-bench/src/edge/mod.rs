//! What a request through the edge costs, and what routes cost, beside HAProxy and Caddy.
//!
//! All of them serve the same two sites, in clear and by TLS, from the same origin, with one thread each; the load is
//! that of `h2load`. Ours is [`served`]: the library that `jacod edge` is made of, in a process of its own.

mod caddy;
mod haproxy;
mod load;
mod proxy;
pub(crate) mod served;
mod site;

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::Plan;
use crate::figure::{Figure, say};
use crate::proc::resident_bytes;
use load::{Load, Sample};
use proxy::Proxy;
use served::{Order, Served};
use site::{Place, Site};

/// Connections of the load that asks for as much as there is.
const CONNECTIONS: u32 = 64;

/// The load under which instances are replaced: connections, and requests a second of each. Well below what any of them
/// can do, as a tail says nothing of a server that is asked for more than it can do.
const CALM: (u32, u32) = (16, 40);

/// How often an instance is replaced meanwhile.
const REPLACEMENT: Duration = Duration::from_millis(250);

/// Routes of the measurement of memory.
const ROUTES: usize = 10_000;

/// How long a process may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(1);

/// Measures all of them in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let site = Site::new()?;
    let _origin = haproxy::origin(&site).await?;
    let mut figures = requests(&site, plan).await?;
    figures.extend(replacements(&site, plan).await?);
    figures.extend(routes(&site, plan).await?);
    Ok(figures)
}

/// The same load on each of the three, in clear and by TLS.
async fn requests(site: &Site, plan: Plan) -> Result<Vec<Figure>> {
    let ours = Served::start(site).await?;
    let (haproxy, caddy) = (haproxy::proxy(site).await?, caddy::start(site, 0).await?);
    let mut figures = Vec::new();
    for place in [Place::Clear, Place::Tls] {
        let mut samples: [Vec<Sample>; 3] = Default::default();
        for round in 1..=plan.rounds {
            for (proxy, samples) in [&ours.proxy, &haproxy, &caddy].into_iter().zip(&mut samples) {
                let load = Load { place, connections: CONNECTIONS, pace: None };
                let sample = load.run(site, proxy, plan.stretch).await?;
                say(&format!("{}, {place}, round {round}: {}", proxy.name, sample.summary()));
                samples.push(sample);
            }
        }
        figures.extend(beside(place, &samples));
    }
    Ok(figures)
}

fn beside(place: Place, [ours, haproxy, caddy]: &[Vec<Sample>; 3]) -> Vec<Figure> {
    let costs = |samples: &[Sample]| samples.iter().map(|sample| sample.processor_us).collect();
    let rates = |samples: &[Sample]| samples.iter().map(|sample| sample.per_second).collect();
    let cost = |who, theirs: &[Sample]| {
        let name = format!("edge, processor per request, {place}, beside {who}");
        Figure::beside(name, "µs", costs(ours), who, costs(theirs))
    };
    let name = format!("edge, requests, {place}, {CONNECTIONS} connections");
    vec![
        cost(haproxy::WHO, haproxy),
        cost(caddy::WHO, caddy),
        Figure::beside(name, "/s", rates(ours), caddy::WHO, rates(caddy)),
    ]
}

/// How much longer the slowest requests take while instances are replaced, each leaving with what it has to finish.
async fn replacements(site: &Site, plan: Plan) -> Result<Vec<Figure>> {
    let mut ours = Served::start(site).await?;
    let (connections, per_second) = CALM;
    let load = Load { place: Place::Clear, connections, pace: Some(per_second) };
    let (mut rest, mut rolled) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        rest.push(load.run(site, &ours.proxy, plan.stretch).await?.p99_ms);
        let proxy = ours.proxy.clone();
        let running = load.run(site, &proxy, plan.stretch);
        let mut running = std::pin::pin!(running);
        let mut replaced = 0_u32;
        let sample = loop {
            tokio::select! {
                sample = &mut running => break sample?,
                () = tokio::time::sleep(REPLACEMENT) => {}
            }
            ours.tell(Order::Replace).await?;
            replaced += 1;
        };
        ensure!(replaced >= 2, "a stretch is too short to replace anything in");
        rolled.push(sample.p99_ms);
        say(&format!(
            "p99, round {round}: {:.2} ms at rest, {:.2} ms with {replaced} replacements",
            rest[round - 1],
            rolled[round - 1]
        ));
    }
    let name = "edge, p99 while instances are replaced";
    Ok(vec![Figure::beside(name, "ms", rolled, "at rest", rest)])
}

/// Memory with many routes, and how long one change among them takes. A process of its own for each round.
async fn routes(site: &Site, plan: Plan) -> Result<Vec<Figure>> {
    let (mut more, mut whole, mut update, mut caddys) = (vec![], vec![], vec![], vec![]);
    for round in 1..=plan.rounds {
        let mut ours = Served::start(site).await?;
        let few = mebibytes(&ours.proxy).await?;
        ours.tell(Order::Routes(ROUTES)).await?;
        let many = mebibytes(&ours.proxy).await?;
        let millis = ours.tell(Order::Update).await?;
        let caddy = mebibytes(&caddy::start(site, ROUTES).await?).await?;
        say(&format!(
            "{ROUTES} routes, round {round}: {few:.1} MiB, then {many:.1} MiB; an update {millis:.2} ms; Caddy {caddy:.1} MiB"
        ));
        more.push(many - few);
        whole.push(many);
        update.push(millis);
        caddys.push(caddy);
    }
    Ok(vec![
        Figure::alone("edge, memory of 10,000 routes", "MiB", more),
        Figure::beside("edge, memory with 10,000 routes", "MiB", whole, caddy::WHO, caddys),
        Figure::alone("edge, one change of 10,000 routes", "ms", update),
    ])
}

async fn mebibytes(proxy: &Proxy) -> Result<f64> {
    tokio::time::sleep(SETTLE).await;
    let bytes = resident_bytes(proxy.pid()).with_context(|| format!("memory of {}", proxy.name))?;
    Ok(f64::from(u32::try_from(bytes / 1024)?) / 1024.0)
}
