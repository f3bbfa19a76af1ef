//! How long ten replicas take from the request to running, beside Docker Swarm on the same engine.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1;
use jaco_testkit::Engine;
use serde_json::Value;

use crate::Plan;
use crate::docker::command;
use crate::figure::{Figure, say};
use crate::load::millis;
use crate::model::{self, Health, Network, REPLICAS};
use crate::ours::Ours;
use crate::swarm::{self, LOOK, Swarm};

const DEPLOYMENT: &str = "rollout";
const IMAGE: &str = "jaco-hello:v1";
const LIMIT: Duration = Duration::from_secs(120);

/// What is deployed.
#[derive(Debug, Clone, Copy)]
enum Case {
    Plain(Health),
    /// Beside Swarm's on the default bridge.
    ProjectNetwork,
}

impl Case {
    const ALL: [Self; 3] =
        [Self::Plain(Health::Unchecked), Self::Plain(Health::EverySecond), Self::ProjectNetwork];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain(health) => health.name(),
            Self::ProjectNetwork => "in a network of their own",
        }
    }

    const fn parts(self) -> (Health, Network) {
        match self {
            Self::Plain(health) => (health, Network::Bridge),
            Self::ProjectNetwork => (Health::Unchecked, Network::Project),
        }
    }

    fn model(self) -> Value {
        let (health, network) = self.parts();
        model::compose(DEPLOYMENT, IMAGE, health, network)
    }

    fn swarm(self) -> Value {
        model::swarm(IMAGE, self.parts().0)
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
    let status = client.read_status(v1::StatusRequest::default()).await?;
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
