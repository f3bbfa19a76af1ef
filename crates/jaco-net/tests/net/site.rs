//! The process of one site: a router that does what it is told on standard input.
//!
//! `cluster` begins the lines of a cluster, which a dot ends; `apply`, `change`, `observe`, `serve` and `names` act. Each answer
//! is one line.

use std::io::BufRead;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use jaco_dataplane::{PlanChange, SitePlan, plan};
use jaco_net::{Options, Resolver, Router};
use jaco_types::NodeId;

use crate::scenario::{PORT, Scenario, key};

/// `site RUNTIME_DIR NUMBER [RESOLVER]`
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let [folder, number, resolvers @ ..] = arguments else { return ExitCode::FAILURE };
    let number: u8 = number.parse().unwrap();
    let resolvers = resolvers.iter().map(|resolver| resolver.parse::<SocketAddr>().unwrap());
    let options = Options {
        runtime_dir: PathBuf::from(folder),
        key: key(number),
        next_key: None,
        port: PORT,
        backend: None,
        resolvers: resolvers.collect(),
    };
    runtime.block_on(async {
        match Router::open(options).await {
            Ok(router) => {
                println!("ok backend={:?}", router.backend());
                let (plan, before) = (SitePlan::default(), SitePlan::default());
                let mut site = Site { number, router, plan, before, resolver: None };
                let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
                while let Some(command) = lines.next() {
                    println!("{}", site.act(&command, &mut lines).await);
                }
            }
            Err(error) => println!("error {}", chain(&error)),
        }
    });
    ExitCode::SUCCESS
}

struct Site {
    number: u8,
    router: Router,
    plan: SitePlan,
    /// The plan before it.
    before: SitePlan,
    resolver: Option<Resolver>,
}

impl Site {
    async fn act(&mut self, command: &str, lines: &mut impl Iterator<Item = String>) -> String {
        let begun = Instant::now();
        let result = match command {
            "cluster" => {
                let lines = lines.take_while(|line| line != ".").collect();
                let topology = Scenario { lines }.topology();
                let begun = Instant::now();
                let next = plan(&topology, NodeId(self.number.into()));
                self.before = std::mem::replace(&mut self.plan, next);
                return format!("ok micros={}", begun.elapsed().as_micros());
            }
            "apply" => self.router.apply(&self.plan).await.map(|applied| {
                let failed: Vec<String> =
                    applied.failed_ports.values().map(|error| chain(error)).collect();
                format!("steps={} failed={} {failed:?}", applied.steps, failed.len())
            }),
            "change" => {
                let change = PlanChange::between(&self.before, &self.plan);
                let changed = self.router.change(&self.plan, &change).await;
                changed.map(|applied| {
                    format!("steps={} failed={}", applied.steps, applied.failed_ports.len())
                })
            }
            "observe" => self.router.observe().await.map(|seen| {
                let (ports, routes) = (seen.ports.len(), seen.routes.len());
                format!("ports={ports} routes={routes} policy={}", seen.policy.is_some())
            }),
            "serve" => self.router.serve_names().await.map(|resolver| {
                self.resolver = Some(resolver);
                String::new()
            }),
            other => panic!("unknown command {other:?}"),
        };
        match result {
            Ok(said) => format!("ok {said} micros={}", begun.elapsed().as_micros()),
            Err(error) => format!("error {}", chain(&error)),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text.replace('\n', " ")
}
