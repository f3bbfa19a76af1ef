//! Docker's own orchestrator over three engines, one of which can be lost as a machine is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::engines::{Engines, Member};
use crate::swarm::LOOK;

const SERVICE: &str = "jaco-bench";
const PORT: u16 = 2377;
const LIMIT: Duration = Duration::from_secs(120);

/// Makes engines one swarm; the first manages it.
pub(crate) fn join(engines: &Engines) -> Result<()> {
    let (manager, workers) = engines.members.split_first().context("there are three")?;
    let at = |member: &Member| ["--advertise-addr".to_owned(), member.address.clone()];
    manager.docker(&["swarm", "init", &at(manager)[0], &at(manager)[1]])?;
    let token = manager.docker(&["swarm", "join-token", "--quiet", "worker"])?;
    let remote = format!("{}:{PORT}", manager.address);
    for worker in workers {
        let [flag, own] = at(worker);
        worker.docker(&["swarm", "join", "--token", token.trim(), &flag, &own, &remote])?;
    }
    Ok(())
}

/// Three engines that are one swarm.
#[derive(Debug)]
pub(crate) struct Trio(Engines);

impl Trio {
    /// Three engines with this image, joined.
    pub(crate) fn start(image: &str) -> Result<Self> {
        let engines = Engines::start(image)?;
        join(&engines)?;
        Ok(Self(engines))
    }

    /// Starts a service and waits until it runs on all three.
    pub(crate) fn create(&self, replicas: usize, image: &str) -> Result<()> {
        let count = replicas.to_string();
        let args = ["service", "create", "--detach", "--quiet", "--no-resolve-image"];
        let rest = ["--name", SERVICE, "--replicas", &count, image];
        self.0.members[0].docker(&[&args[..], &rest].concat())?;
        self.until_running(replicas)?;
        let last = self.0.members.last().context("there are three")?;
        ensure!(last.running()? > 0, "the last engine has no replica to lose");
        Ok(())
    }

    /// Kills the last engine and what it runs, and waits for as many replicas as before on the others.
    pub(crate) fn lose_one(&mut self, replicas: usize) -> Result<Duration> {
        let lost = self.0.members.pop().context("there are three")?;
        let begun = Instant::now();
        drop(lost);
        self.until_running(replicas)?;
        Ok(begun.elapsed())
    }

    fn until_running(&self, replicas: usize) -> Result<()> {
        let begun = Instant::now();
        loop {
            let running = self.0.running()?;
            if running == replicas {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "swarm runs {running} of {replicas}");
            std::thread::sleep(LOOK);
        }
    }
}
