//! Scripts: one command per line, `#` begins a comment. What a script does and shows is its
//! transcript; the transcripts that are right are kept beside the scripts.
//!
//! ```text
//! nodes n1 n2 n3
//! apply shop web image=web:1 replicas=3
//! settle
//! kill leader
//! show replicas shop
//! expect running shop/web 3
//! ```
//!
//! | command | |
//! | --- | --- |
//! | `seed 7` | all random choices follow from it; before `nodes` |
//! | `nodes n1 n2`, `join n3 [cpu=… memory=… gpus=2 zone=a]` | a cluster, and one more node |
//! | `apply shop web image=… [+ db …] [via n1]` | asks for a deployment, and waits for the answer |
//! | `begin apply …` | the same without waiting |
//! | `change shop web image=…` | applies again what was applied last, with other keys |
//! | `again shop`, `repeat` | applies the same again; sends the last request again under its id |
//! | `delete shop` | |
//! | `rollback shop` | goes back to the revision before |
//! | `run shop/report` | one more run of a job |
//! | `cordon n1`, `uncordon n1`, `drain n1 [within 30s]` | |
//! | `remove n3 [force]` | a node that is empty, or any; `join n3` admits it as another one |
//! | `network begin`, `network create backbone`, `network remove backbone` | networks of the cluster |
//! | `login docker.io 7`, `logout docker.io` | the password that the cluster has for a registry |
//! | `facts n1 cpu=… memory=… gpus=2 zone=a` | what the node reports of itself |
//! | `load n1 95`, `load n1 unknown` | how much of its processors is in use, in percent |
//! | `rebalance spread\|pack` | an operator has up to three replicas moved |
//! | `settle [within 15s]`, `advance 61s` | lets time pass |
//! | `kill n1`, `start n1`, `power-off n1` | the daemon, or the machine; also `leader`, `all` |
//! | `kill-router n1` | the process that keeps the router; another one starts within two seconds |
//! | `partition n1 \| n2 n3`, `cut n1 -> n2`, `heal` | |
//! | `pull web:2 works\|hangs\|takes 5s\|fails "…" [on n1]` | the registry |
//! | `pull web:2 is a` | who fetches it from now on gets this content, called by a hex digit |
//! | `registry docker.io wants 7` | it takes this password alone; before, it needs none |
//! | `image web:2 works\|exits 1 after 5s\|healthy after 5s\|unhealthy after 5s\|refused "…"` | containers |
//! | `kill-container shop-web-0 [code]`, `remove-container …`, `sicken …`, `cure …` | |
//! | `engine n1 down\|up`, `engine all up`, `clock n1 +60s` | |
//! | `disk n1 nearly-full\|full\|free`, `disk all free` | where it is full, its daemon ends as soon as it has to write |
//! | `freeze 60s` | all machines stand still for so long, and their clocks do not |
//! | `drift n1 -90` | its steady clock goes too slowly by so many thousandths |
//! | `show replicas shop`, `rollout shop/web`, `nodes`, `deployments`, `containers`, `audit 5` | |
//! | `show unplaced shop`, `networks`, `addresses shop` | |
//! | `mark`, `expect …` | see `expect.rs` |

mod act;
mod expect;
mod fault;
mod words;

use std::collections::BTreeMap;

use jaco_types::DeploymentName;

use crate::invariants::Violation;
use crate::sabotage::Sabotage;
use crate::service::ServiceText;
use crate::world::World;

use expect::Mark;
use words::Words;

/// A cluster, driven by lines.
#[derive(Debug, Default)]
pub struct Session {
    world: Option<World>,
    seed: u64,
    sabotage: Option<Sabotage>,
    out: String,
    applied: BTreeMap<DeploymentName, Vec<ServiceText>>,
    mark: Mark,
}

/// Why a script stops.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {text}")]
pub struct ScriptError {
    /// The line, counted from 1.
    pub line: usize,
    /// The command.
    pub text: String,
    /// What is wrong.
    #[source]
    pub source: CommandError,
}

/// What is wrong with a command, or with what came of it.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It cannot be understood.
    #[error("{0}")]
    Unclear(String),
    /// What it expects is not so.
    #[error("expected otherwise: {0}")]
    Unexpected(String),
    /// An invariant is broken.
    #[error("{} is broken: {}", .0.broken.id(), .0.broken)]
    Broken(Violation),
}

impl CommandError {
    fn unclear(what: impl Into<String>) -> Self {
        Self::Unclear(what.into())
    }
}

/// Runs a script and hands back its transcript.
///
/// # Errors
/// The first line that cannot be understood, is not as expected, or breaks an invariant.
pub fn run(script: &str) -> Result<String, ScriptError> {
    let mut session = Session::default();
    run_in(&mut session, script)?;
    Ok(session.out)
}

/// Runs a script in a session, which keeps the transcript and the cluster also when the script
/// fails.
///
/// # Errors
/// As [`run`].
pub fn run_in(session: &mut Session, script: &str) -> Result<(), ScriptError> {
    for (number, line) in (1..).zip(script.lines()) {
        session.line(line).map_err(|source| {
            let text = line.to_owned();
            ScriptError { line: number, text, source }
        })?;
    }
    Ok(())
}

impl Session {
    /// A session whose random choices follow from `seed`, with a defect put in.
    #[must_use]
    pub fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self { seed, sabotage, ..Self::default() }
    }

    /// Executes one line.
    ///
    /// # Errors
    /// When it cannot be understood, is not as expected, or an invariant broke under it.
    pub fn line(&mut self, line: &str) -> Result<(), CommandError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            self.out.push_str(line);
            self.out.push('\n');
            return Ok(());
        }
        self.say(&format!("> {line}"));
        let words = Words::split(line)?;
        let result = self.execute(&words);
        // Time stands still after a violation, so later lines do not count.
        let broken = self.world.as_ref().and_then(|world| world.violations().first());
        broken.map_or(result, |violation| Err(CommandError::Broken(violation.clone())))
    }

    /// The services that were applied last and can have any number of replicas: neither jobs nor pinned
    /// to as many hosts.
    pub(crate) fn scalable(&self) -> Vec<String> {
        let all = self.applied.iter();
        let all = all.flat_map(|(name, services)| services.iter().map(move |it| (name, it)));
        let scalable = all.filter(|(_, service)| service.is_scalable());
        scalable.map(|(name, service)| format!("{name}/{}", service.name)).collect()
    }

    /// The jobs that were applied last with a schedule.
    pub(crate) fn scheduled(&self) -> Vec<String> {
        let all = self.applied.iter();
        let all = all.flat_map(|(name, services)| services.iter().map(move |it| (name, it)));
        let scheduled = all.filter(|(_, service)| service.is_scheduled());
        scheduled.map(|(name, service)| format!("{name}/{}", service.name)).collect()
    }

    /// The transcript so far.
    #[must_use]
    pub fn transcript(&self) -> &str {
        &self.out
    }

    /// The cluster, once there is one.
    #[must_use]
    pub fn world(&self) -> Option<&World> {
        self.world.as_ref()
    }

    fn say(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn say_all(&mut self, lines: Vec<String>) {
        for line in lines {
            self.say(&format!("  {line}"));
        }
    }

    fn cluster(&mut self) -> Result<&mut World, CommandError> {
        self.world.as_mut().ok_or_else(|| CommandError::unclear("there are no nodes yet"))
    }
}
