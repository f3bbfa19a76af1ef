//! What happens to ten replicas that run: a new version of them, the death of one, the loss of a node.
//! Beside Docker Swarm on the same engine, and seen there, so that both are held to the same: a
//! replica counts while its container runs, and is healthy where it has a healthcheck.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1;
use jaco_testkit::Engine;
use serde_json::{Value, json};

use crate::Plan;
use crate::docker::{command, get};
use crate::figure::{Figure, say};
use crate::load::millis;
use crate::model::{self, Health, Network, REPLICAS};
use crate::ours::{NODES, Ours};
use crate::swarm::{self, LOOK, Swarm};
use crate::swarm_trio::Trio;

const DEPLOYMENT: &str = "change";
const LIMIT: Duration = Duration::from_secs(120);

/// Measures all of it, both sides in turns.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let mut ours = Ours::start(Engine::Docker).await?;
    let client = ours.client(0)?;
    let mut figures = Vec::new();
    for health in [Health::Unchecked, Health::EverySecond] {
        let (mut started, mut completed) = <((Vec<_>, Vec<_>), (Vec<_>, Vec<_>))>::default();
        let mut commits = Vec::new();
        for round in 1..=plan.rounds {
            let (own, written) = roll(&ours, &client, health).await?;
            let theirs = tokio::task::block_in_place(|| roll_swarm(health))?;
            say(&format!("roll, {}, {round}: {own:?}; {} {theirs:?}", health.name(), swarm::WHO));
            started.0.push(millis(own.started) / 1e3);
            started.1.push(millis(theirs.started) / 1e3);
            completed.0.push(millis(own.completed) / 1e3);
            completed.1.push(millis(theirs.completed) / 1e3);
            commits.push(written);
        }
        let name = format!("10 new replicas running, {}", health.name());
        figures.push(Figure::beside(name, "s", started.0, swarm::WHO, started.1));
        let name = format!("10 replicas rolled, {}", health.name());
        figures.push(Figure::beside(name, "s", completed.0, swarm::WHO, completed.1));
        let name = format!("raft commits per rolled replica, {}", health.name());
        figures.push(Figure::alone(name, "", commits));
    }
    let mut took = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let own = die(&ours, &client).await?;
        let theirs = tokio::task::block_in_place(die_in_swarm)?;
        say(&format!("container killed, {round}: {own:?}; {} {theirs:?}", swarm::WHO));
        took.0.push(millis(own) / 1e3);
        took.1.push(millis(theirs) / 1e3);
    }
    let name = "killed container to its replacement running";
    figures.push(Figure::beside(name, "s", took.0, swarm::WHO, took.1));
    let mut took = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds {
        let own = lose_a_node(&mut ours, &client).await?;
        let theirs = tokio::task::block_in_place(lose_a_node_of_swarm)?;
        say(&format!("node lost, {round}: {own:?}; {} {theirs:?}", swarm::WHO));
        took.0.push(millis(own) / 1e3);
        took.1.push(millis(theirs) / 1e3);
    }
    let name = "node lost to all replicas running";
    figures.push(Figure::beside(name, "s", took.0, swarm::WHO, took.1));
    Ok(figures)
}

/// The containers of one orchestrator.
struct Containers {
    label: String,
}

impl Containers {
    fn of_ours(ours: &Ours) -> Self {
        Self { label: format!("jaco.cluster_id={}", ours.id) }
    }

    fn of_swarm() -> Self {
        Self { label: swarm::LABEL.to_owned() }
    }

    /// Those that run, and are healthy where that is asked for.
    fn running(&self, health: Health) -> Result<BTreeSet<String>> {
        let mut filters = json!({"label": [self.label], "status": ["running"]});
        if health == Health::EverySecond {
            filters["health"] = json!(["healthy"]);
        }
        let filters = filters.to_string();
        let filters = filters.bytes().map(|byte| format!("%{byte:02X}"));
        let path = format!("/containers/json?filters={}", filters.collect::<String>());
        let found = get(&path)?;
        let found = found.as_array().context("containers are a list")?;
        Ok(found.iter().filter_map(|one| one["Id"].as_str().map(str::to_owned)).collect())
    }

    /// Looks until this holds.
    fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !holds(self)? {
            ensure!(begun.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn until_all_run(&self, health: Health) -> Result<()> {
        self.until("all replicas run", |it| Ok(it.running(health)?.len() == REPLICAS))
    }

    /// Until all of the new are there, whether or not some of the old still are.
    fn until_started(&self, old: &BTreeSet<String>, health: Health) -> Result<()> {
        self.until("all new replicas run", |it| {
            Ok(it.running(health)?.difference(old).count() == REPLICAS)
        })
    }

    /// Until none of the old runs and all of the new are there.
    fn until_replaced(&self, old: &BTreeSet<String>, health: Health) -> Result<()> {
        self.until("all replicas are replaced", |it| {
            let all = it.running(Health::Unchecked)?;
            Ok(all.is_disjoint(old) && it.running(health)?.len() == REPLICAS)
        })
    }

    /// Kills one as the kernel would, and waits for as many as before without it.
    fn until_one_is_back(&self) -> Result<Duration> {
        let before = self.running(Health::Unchecked)?;
        let victim = before.first().context("something runs")?.clone();
        let begun = Instant::now();
        command(&["kill", &victim])?;
        self.until("the replacement runs", |it| {
            let now = it.running(Health::Unchecked)?;
            Ok(!now.contains(&victim) && now.len() == before.len())
        })?;
        Ok(begun.elapsed())
    }

    fn until_gone(&self) -> Result<()> {
        let filter = format!("label={}", self.label);
        self.until("nothing is left", |_| {
            Ok(command(&["container", "ls", "-aq", "--filter", &filter])?.trim().is_empty())
        })
    }
}

fn model(image: &str, health: Health) -> Value {
    model::compose(DEPLOYMENT, image, health, Network::Bridge)
}

async fn deploy(ours: &Ours, client: &Client, health: Health) -> Result<Containers> {
    ours.apply(client, model("jaco-hello:v1", health)).await?;
    ours.running(DEPLOYMENT, REPLICAS, LIMIT).await;
    let containers = Containers::of_ours(ours);
    tokio::task::block_in_place(|| containers.until_all_run(health))?;
    Ok(containers)
}

async fn remove(client: &Client, containers: &Containers) -> Result<()> {
    let (deployment, request_id) = (DEPLOYMENT.to_owned(), fresh_request_id());
    client.delete(v1::DeleteRequest { deployment, request_id }).await.context("delete")?;
    tokio::task::block_in_place(|| containers.until_gone())
}

/// How long a new version takes.
#[derive(Debug, Clone, Copy)]
struct Rolled {
    /// Until all new replicas run.
    started: Duration,
    /// Until none of the old runs and the orchestrator calls the rollout complete. Both watch what they started
    /// for 5 s by default: ours before it stops the predecessor, Swarm afterwards.
    completed: Duration,
}

/// How long a new version takes, and how many entries it writes for each replica.
async fn roll(ours: &Ours, client: &Client, health: Health) -> Result<(Rolled, f64)> {
    let containers = deploy(ours, client, health).await?;
    let old = containers.running(Health::Unchecked)?;
    let before = ours.raft_index().await?;
    let begun = Instant::now();
    ours.apply(client, model("jaco-hello:v2", health)).await?;
    tokio::task::block_in_place(|| containers.until_started(&old, health))?;
    let started = begun.elapsed();
    tokio::task::block_in_place(|| containers.until_replaced(&old, health))?;
    ours.cluster.converged(0, DEPLOYMENT).await;
    let rolled = Rolled { started, completed: begun.elapsed() };
    let written = ours.raft_index().await? - before;
    remove(client, &containers).await?;
    #[expect(clippy::cast_precision_loss, reason = "some hundred entries")]
    Ok((rolled, written as f64 / REPLICAS as f64))
}

/// In and out of swarm mode each round, so that an idle swarm takes nothing from our rounds.
fn roll_swarm(health: Health) -> Result<Rolled> {
    let swarm = Swarm::start()?;
    swarm.create(REPLICAS, &model::swarm("jaco-hello:v1", health))?;
    let containers = Containers::of_swarm();
    containers.until_all_run(health)?;
    let old = containers.running(Health::Unchecked)?;
    let begun = Instant::now();
    swarm.update(REPLICAS, &model::swarm("jaco-hello:v2", health))?;
    containers.until_started(&old, health)?;
    let started = begun.elapsed();
    containers.until_replaced(&old, health)?;
    swarm.until_updated()?;
    let completed = begun.elapsed();
    swarm.remove()?;
    Ok(Rolled { started, completed })
}

async fn die(ours: &Ours, client: &Client) -> Result<Duration> {
    let containers = deploy(ours, client, Health::Unchecked).await?;
    let took = tokio::task::block_in_place(|| containers.until_one_is_back())?;
    remove(client, &containers).await?;
    Ok(took)
}

fn die_in_swarm() -> Result<Duration> {
    let swarm = Swarm::start()?;
    swarm.create(REPLICAS, &model::swarm("jaco-hello:v1", Health::Unchecked))?;
    let containers = Containers::of_swarm();
    containers.until_all_run(Health::Unchecked)?;
    let took = containers.until_one_is_back()?;
    swarm.remove()?;
    Ok(took)
}

/// Kills a daemon and the containers of its node, as a power cut would, and waits for as many replicas
/// as before.
async fn lose_a_node(ours: &mut Ours, client: &Client) -> Result<Duration> {
    let containers = deploy(ours, client, Health::Unchecked).await?;
    let leader = ours.cluster.leader().await;
    let lost = (0..NODES).rev().find(|node| *node != leader).context("there are three")?;
    let name = ours.cluster.nodes[lost].name.clone();
    let status = ours.cluster.overview(leader).await.map_err(anyhow::Error::msg)?;
    let on_it = status.replicas.iter().filter(|replica| replica.node == name);
    let on_it: Vec<&str> = on_it.map(|replica| replica.container_id.as_str()).collect();
    ensure!(!on_it.is_empty(), "{name} has no replica to lose");
    let begun = Instant::now();
    ours.cluster.nodes[lost].kill();
    command(&[&["rm", "--force"], on_it.as_slice()].concat())?;
    tokio::task::block_in_place(|| containers.until_all_run(Health::Unchecked))?;
    let took = begun.elapsed();
    ours.cluster.nodes[lost].start();
    ours.cluster.settled().await;
    remove(client, &containers).await?;
    Ok(took)
}

/// The same for an engine and all that it runs.
fn lose_a_node_of_swarm() -> Result<Duration> {
    let image = "jaco-hello:v1";
    let mut trio = Trio::start(image)?;
    trio.create(REPLICAS, image)?;
    trio.lose_one(REPLICAS)
}
