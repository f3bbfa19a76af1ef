//! Docker's own orchestrator on the same engine, one node, reachable on loopback only.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::docker::{command, get, post};
use crate::figure::say;

/// How Swarm is called in the table.
pub(crate) const WHO: &str = "swarm";
const SERVICE: &str = "jaco-bench";
/// What its containers carry.
pub(crate) const LABEL: &str = "com.docker.swarm.service.name=jaco-bench";
/// How often the tasks are looked at, as on our side.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(120);

/// An engine in swarm mode. Dropping it leaves the swarm, which removes its services.
#[derive(Debug)]
pub(crate) struct Swarm(());

impl Swarm {
    /// Turns swarm mode on.
    pub(crate) fn start() -> Result<Self> {
        let state = get("/info")?["Swarm"]["LocalNodeState"].clone();
        // A swarm that existed before is not left.
        ensure!(state == "inactive", "the engine is part of a swarm already ({state})");
        command(&["swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1"])?;
        Ok(Self(()))
    }

    /// From the request to all replicas running, as the orchestrator tells.
    pub(crate) fn create(&self, replicas: usize, container: &Value) -> Result<Duration> {
        let service = service(replicas, container);
        let begun = Instant::now();
        post("/services/create", &service)?;
        while self.running()? < replicas {
            ensure!(begun.elapsed() < LIMIT, "swarm did not start {replicas} replicas");
            std::thread::sleep(LOOK);
        }
        Ok(begun.elapsed())
    }

    /// Asks for another version, as ours is asked for: one at a time, each started before the one that
    /// it replaces stops. All else is as Swarm has it.
    pub(crate) fn update(&self, replicas: usize, container: &Value) -> Result<()> {
        let found = get(&format!("/services/{SERVICE}"))?;
        let version = found["Version"]["Index"].as_u64().context("a service has a version")?;
        let mut service = service(replicas, container);
        service["UpdateConfig"] = json!({"Parallelism": 1, "Order": "start-first"});
        post(&format!("/services/{SERVICE}/update?version={version}"), &service)?;
        Ok(())
    }

    /// Waits until it calls the update complete, which it does a monitoring period after the last task.
    pub(crate) fn until_updated(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let found = get(&format!("/services/{SERVICE}"))?;
            match found["UpdateStatus"]["State"].as_str() {
                Some("completed") => return Ok(()),
                Some("updating") | None => {}
                Some(other) => bail!("the update of swarm is {other}"),
            }
            ensure!(begun.elapsed() < LIMIT, "swarm did not complete its update");
            std::thread::sleep(LOOK);
        }
    }

    fn running(&self) -> Result<usize> {
        let filters = format!("%7B%22service%22%3A%5B%22{SERVICE}%22%5D%7D");
        let tasks = get(&format!("/tasks?filters={filters}"))?;
        let tasks = tasks.as_array().context("tasks are a list")?;
        Ok(tasks.iter().filter(|task| task["Status"]["State"] == "running").count())
    }

    /// Removes the service and waits until its containers are gone.
    pub(crate) fn remove(&self) -> Result<()> {
        command(&["service", "rm", SERVICE])?;
        let filter = format!("label={LABEL}");
        let begun = Instant::now();
        while !command(&["container", "ls", "-aq", "--filter", &filter])?.trim().is_empty() {
            ensure!(begun.elapsed() < LIMIT, "swarm did not remove its containers");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn service(replicas: usize, container: &Value) -> Value {
    json!({
        "Name": SERVICE,
        "TaskTemplate": {"ContainerSpec": container},
        "Mode": {"Replicated": {"Replicas": replicas}},
    })
}

impl Drop for Swarm {
    fn drop(&mut self) {
        // The network that swarm mode made for itself is of no use without it.
        let left = command(&["swarm", "leave", "--force"]);
        if let Err(error) = left {
            say(&format!("the engine is still in swarm mode: {error:#}"));
        }
        command(&["network", "rm", "docker_gwbridge"]).ok();
    }
}
