//! How long ten replicas take from the request to running, beside Docker Swarm on the same engine.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1;
use jaco_testkit::Engine;
use serde_json::{Value, json};

use crate::Plan;
use crate::docker::command;
use crate::figure::{Figure, say};
use crate::load::millis;
use crate::ours::Ours;
use crate::swarm::{self, LOOK, Swarm};

const DEPLOYMENT: &str = "rollout";
const REPLICAS: usize = 10;
const LIMIT: Duration = Duration::from_secs(120);

/// How the image checks itself: it has no shell.
const TEST: [&str; 4] = ["CMD", "/hello", "check", "http://127.0.0.1:8080/healthz"];

/// What is deployed. Swarm's service is on the engine's default bridge, so ours is too, where that is
/// compared; compose's own default is a network for the project, which the engine takes longer to set
/// up for each container.
#[derive(Debug, Clone, Copy)]
enum Case {
    NoHealthcheck,
    HealthcheckEverySecond,
    ProjectNetwork,
}

impl Case {
    const ALL: [Self; 3] =
        [Self::NoHealthcheck, Self::HealthcheckEverySecond, Self::ProjectNetwork];

    const fn name(self) -> &'static str {
        match self {
            Self::NoHealthcheck => "no healthcheck",
            Self::HealthcheckEverySecond => "1 s healthcheck",
            Self::ProjectNetwork => "in a network of their own",
        }
    }

    fn model(self) -> Value {
        let mut service = json!({"image": "jaco-hello:v1", "deploy": {"replicas": REPLICAS}});
        if let Self::NoHealthcheck | Self::HealthcheckEverySecond = self {
            service["network_mode"] = json!("bridge");
        }
        if let Self::HealthcheckEverySecond = self {
            service["healthcheck"] =
                json!({"test": TEST, "interval": "1s", "timeout": "2s", "retries": 3});
        }
        json!({"name": DEPLOYMENT, "services": {"web": service}})
    }

    /// The same in Swarm's words; durations are nanoseconds.
    fn swarm(self) -> Value {
        let mut container = json!({"Image": "jaco-hello:v1"});
        if let Self::HealthcheckEverySecond = self {
            container["Healthcheck"] = json!({
                "Test": TEST, "Interval": 1_000_000_000_u64, "Timeout": 2_000_000_000_u64, "Retries": 3,
            });
        }
        container
    }
}

/// Measures both in turns, case after case.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let ours = Ours::start(Engine::Docker).await?;
    let client = ours.client(0)?;
    let mut figures = Vec::new();
    for case in Case::ALL {
        let mut took = (Vec::new(), Vec::new());
        for round in 1..=plan.rounds {
            let own = deploy(&ours, &client, case).await?;
            let theirs = tokio::task::block_in_place(|| deploy_swarm(case))?;
            say(&format!("{}, round {round}: {own:?}; {} {theirs:?}", case.name(), swarm::WHO));
            took.0.push(millis(own) / 1e3);
            took.1.push(millis(theirs) / 1e3);
        }
        let name = format!("10 replicas running, {}", case.name());
        figures.push(Figure::beside(name, "s", took.0, swarm::WHO, took.1));
    }
    Ok(figures)
}

/// From the request to all replicas running, as the orchestrator tells; then removes them.
async fn deploy(ours: &Ours, client: &Client, case: Case) -> Result<Duration> {
    let begun = Instant::now();
    ours.apply(client, case.model()).await?;
    while running(client).await? < REPLICAS {
        ensure!(begun.elapsed() < LIMIT, "{REPLICAS} replicas do not run after {LIMIT:?}");
        tokio::time::sleep(LOOK).await;
    }
    let took = begun.elapsed();
    let request_id = fresh_request_id();
    let deployment = DEPLOYMENT.to_owned();
    client.delete(v1::DeleteRequest { deployment, request_id }).await.context("delete")?;
    gone(ours).await?;
    Ok(took)
}

async fn running(client: &Client) -> Result<usize> {
    let status = client.overview(v1::StatusRequest::default()).await?;
    Ok(status.replicas.iter().filter(|replica| replica.state == "running").count())
}

/// Waits until the engine has no container of ours left: removal must not run into the next round.
async fn gone(ours: &Ours) -> Result<()> {
    let filter = format!("label=jaco.cluster_id={}", ours.id);
    let begun = Instant::now();
    while !command(&["container", "ls", "-aq", "--filter", &filter])?.trim().is_empty() {
        ensure!(begun.elapsed() < LIMIT, "containers of a deleted deployment are still there");
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// In and out of swarm mode each round, so that an idle swarm takes nothing from our rounds.
fn deploy_swarm(case: Case) -> Result<Duration> {
    let swarm = Swarm::start()?;
    let took = swarm.create(REPLICAS, &case.swarm())?;
    swarm.remove()?;
    Ok(took)
}
