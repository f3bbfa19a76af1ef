//! Tells the leader, wherever it is, that this node lives and whether its engine does; and tells
//! the cluster what this node is when that changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_agent::measure::NodeUse;
use jaco_agent::{AgentStatus, Contact};
use jaco_proto::v1::{HeartbeatRequest, PreparedImage};
use jaco_scheduler::input::EngineSignal;
use jaco_server::Member;
use jaco_state::Command;
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, ImageDigest, ImageNeed, ImageReadiness, NodeFacts};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::disk::{DiskWatch, Disks};
use crate::pressure::{self, Measured};

/// How often a node says that it lives. A fifteenth of the time after which its silence counts.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often the engine is asked whether it lives.
const ENGINE_INTERVAL: u32 = 5;

/// How long an engine may be without an answer before that is said: a restart of it moves nothing.
/// Between the looks at a live engine up to [`ENGINE_INTERVAL`] more may pass.
const ENGINE_PATIENCE: Duration = Duration::from_secs(10);

/// How long a sign of life may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// What this node says about the images that rollouts need here.
type Images = BTreeMap<ImageNeed, ImageReadiness>;

/// What this node says about itself, apart from the engine's version.
#[derive(Debug, Clone)]
pub(crate) struct SelfDescription {
    pub(crate) address: String,
    pub(crate) facts: NodeFacts,
}

/// What is looked at besides the engine.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) disks: Disks,
    pub(crate) measured: Measured,
}

/// Runs until `shutdown`.
pub(crate) async fn run(
    member: Arc<Member>,
    description: SelfDescription,
    contact: Contact,
    watched: Watched,
    shutdown: CancellationToken,
) {
    let Watched { disks, mut measured } = watched;
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut engine = EngineWatch::default();
    let mut disks = DiskWatch::new(disks);
    let mut agent = member.agent.status();
    let mut told = agent.borrow_and_update().prepared.clone();
    let mut round: u32 = 0;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
            // A rollout waits for this: it is told at once.
            () = news_of_images(&mut agent, &mut told) => {
                let said = Said { engine: engine.said(&disks), images: &told, load: None };
                beat(&member, said, &contact).await;
                continue;
            }
        }
        if round.is_multiple_of(ENGINE_INTERVAL) || engine.signal != EngineSignal::Up {
            engine.look(&member).await;
            disks.look();
        }
        round = round.wrapping_add(1);
        let news = measured.has_changed().unwrap_or(false);
        let load = news.then(|| measured.borrow_and_update().clone()).flatten();
        let is_told = load.is_none();
        let said = Said { engine: engine.said(&disks), images: &told, load };
        if beat(&member, said, &contact).await == Taken::No && !is_told {
            measured.mark_changed();
        }
        if engine.signal == EngineSignal::Up {
            describe(&member, &description, &engine.version).await;
        }
    }
}

/// What is known of the engine.
struct EngineWatch {
    signal: EngineSignal,
    version: String,
    answered_at: Option<Instant>,
}

impl Default for EngineWatch {
    fn default() -> Self {
        let signal = EngineSignal::Down("not asked yet".to_owned());
        Self { signal, version: String::new(), answered_at: None }
    }
}

/// Waits until the agent says something else about the images that rollouts need here.
async fn news_of_images(agent: &mut watch::Receiver<AgentStatus>, told: &mut Images) {
    loop {
        if agent.changed().await.is_err() {
            // The agent has ended: the daemon is shutting down.
            return std::future::pending().await;
        }
        let prepared = agent.borrow_and_update().prepared.clone();
        if prepared != *told {
            *told = prepared;
            return;
        }
    }
}

impl EngineWatch {
    /// What is said of the engine and the disks.
    fn said(&self, disks: &DiskWatch) -> EngineSignal {
        match (&self.signal, disks.full()) {
            (EngineSignal::Up, Some(full)) => EngineSignal::DiskFull(full.to_owned()),
            (signal, _) => signal.clone(),
        }
    }

    async fn look(&mut self, member: &Member) {
        match member.engine.version().await {
            Ok(version) => {
                if self.signal != EngineSignal::Up {
                    info!(engine = %version.name, version = %version.version, "engine answers");
                }
                self.signal = EngineSignal::Up;
                self.answered_at = Some(Instant::now());
                self.version = format!("{} {}", version.name, version.version);
            }
            Err(error) => {
                let is_restart = |at: Instant| at.elapsed() < ENGINE_PATIENCE;
                if self.answered_at.is_some_and(is_restart) {
                    debug!(%error, "engine does not answer; it may be restarting");
                    return;
                }
                if self.signal == EngineSignal::Up {
                    warn!(%error, "engine does not answer");
                }
                self.signal = EngineSignal::Down(error.to_string());
            }
        }
    }
}

/// What a sign of life says.
struct Said<'a> {
    engine: EngineSignal,
    images: &'a Images,
    /// What the node measured, where that is news.
    load: Option<Arc<NodeUse>>,
}

/// Whether the leader has taken a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    No,
}

async fn beat(member: &Member, said: Said<'_>, contact: &Contact) -> Taken {
    let Said { engine, images, load } = said;
    let sent_at = contact.now();
    if member.store.leads() {
        if member.store.has_quorum() {
            contact.note(sent_at);
        }
        let now = member.clock.now();
        member.signals.record_images(member.id, images.clone());
        member.signals.record(member.id, engine, now);
        if let Some(load) = load {
            pressure::record_own(member, &load, now);
        }
        return Taken::Yes;
    }
    let Some((node, address)) = member.store.leader_elsewhere() else { return Taken::No };
    let node_id = member.id.0;
    let (engine_up, engine_error, disk_full) = match engine {
        EngineSignal::Up => (true, String::new(), String::new()),
        EngineSignal::DiskFull(full) => (true, String::new(), full),
        EngineSignal::Down(reason) => (false, reason, String::new()),
    };
    let images = images.iter().map(|(need, readiness)| prepared_image(need, readiness)).collect();
    let message = HeartbeatRequest {
        node: node_id,
        engine_up,
        engine_error,
        disk_full,
        prepares: true,
        images,
        load: load.map(|load| pressure::message(&load)),
    };
    match member.peers.heartbeat((node, &address), message, DEADLINE).await {
        Ok(answer) => {
            if answer.has_quorum {
                contact.note(sent_at);
            } else {
                debug!(leader = %node, "the leader has lost its quorum");
            }
            Taken::Yes
        }
        // The leader may just be changing; what matters is its silence, which it notices itself.
        Err(error) => {
            debug!(leader = %node, %error, "sign of life was not taken");
            Taken::No
        }
    }
}

fn prepared_image(need: &ImageNeed, readiness: &ImageReadiness) -> PreparedImage {
    let text = |digest: &Option<ImageDigest>| digest.as_ref().map(ToString::to_string);
    let asked = PreparedImage {
        spec_hash: need.spec.0.to_vec().into(),
        wanted_digest: text(&need.digest).unwrap_or_default(),
        ..PreparedImage::default()
    };
    match readiness {
        ImageReadiness::Ready { digest } => {
            PreparedImage { ready: true, digest: text(digest).unwrap_or_default(), ..asked }
        }
        ImageReadiness::Waiting { reason } => PreparedImage { reason: reason.clone(), ..asked },
        ImageReadiness::Failed { reason } => {
            PreparedImage { failed: true, reason: reason.clone(), ..asked }
        }
    }
}

/// Writes what this node is, if the cluster has it otherwise.
async fn describe(member: &Member, description: &SelfDescription, engine: &str) {
    let facts = NodeFacts { engine: engine.to_owned(), ..description.facts.clone() };
    let known = member.store.read(|state| {
        let node = state.nodes.get(&member.id);
        node.is_none_or(|node| node.facts == facts && node.address == description.address)
    });
    if known {
        return;
    }
    let address = description.address.clone();
    let command = Command::NodeReport { node: member.id, address, facts };
    let by = Identity::Node { id: member.id };
    if let Err(error) = member.store.propose(Proposal { by, request: None, command }).await {
        debug!(%error, "what this node is could not be written; tried again");
    }
}
