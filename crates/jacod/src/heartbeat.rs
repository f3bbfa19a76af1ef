//! Tells the leader, wherever it is, that this node lives and whether its engine does; and tells
//! the cluster what this node is when that changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jaco_agent::Contact;
use jaco_proto::v1::HeartbeatRequest;
use jaco_scheduler::input::EngineSignal;
use jaco_server::Member;
use jaco_state::Command;
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, NodeFacts};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::disk::{DiskWatch, Disks};

/// How often a node says that it lives. A fifteenth of the time after which its silence counts.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often the engine is asked whether it lives.
const ENGINE_INTERVAL: u32 = 5;

/// How long an engine may be without an answer before that is said: a restart of it moves nothing.
/// Between the looks at a live engine up to [`ENGINE_INTERVAL`] more may pass.
const ENGINE_PATIENCE: Duration = Duration::from_secs(10);

/// How long a sign of life may take.
const DEADLINE: Duration = Duration::from_secs(1);

/// What this node says about itself, apart from the engine's version.
#[derive(Debug, Clone)]
pub(crate) struct SelfDescription {
    pub(crate) address: String,
    pub(crate) facts: NodeFacts,
}

/// Runs until `shutdown`.
pub(crate) async fn run(
    member: Arc<Member>,
    description: SelfDescription,
    contact: Contact,
    disks: Disks,
    shutdown: CancellationToken,
) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut engine = EngineWatch::default();
    let mut disks = DiskWatch::new(disks);
    let mut round: u32 = 0;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if round.is_multiple_of(ENGINE_INTERVAL) || engine.signal != EngineSignal::Up {
            engine.look(&member).await;
            disks.look();
        }
        round = round.wrapping_add(1);
        let signal = match (&engine.signal, disks.full()) {
            (EngineSignal::Up, Some(full)) => EngineSignal::DiskFull(full.to_owned()),
            (signal, _) => signal.clone(),
        };
        beat(&member, &signal, &contact).await;
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

impl EngineWatch {
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

async fn beat(member: &Member, engine: &EngineSignal, contact: &Contact) {
    let sent_at = contact.now();
    if member.store.leads() {
        if member.store.has_quorum() {
            contact.note(sent_at);
        }
        member.signals.record(member.id, engine.clone(), member.clock.now());
        return;
    }
    let Some((node, address)) = member.store.leader_elsewhere() else { return };
    let node_id = member.id.0;
    let (engine_up, engine_error, disk_full) = match engine {
        EngineSignal::Up => (true, String::new(), String::new()),
        EngineSignal::DiskFull(full) => (true, String::new(), full.clone()),
        EngineSignal::Down(reason) => (false, reason.clone(), String::new()),
    };
    let message = HeartbeatRequest { node: node_id, engine_up, engine_error, disk_full };
    match member.peers.heartbeat((node, &address), message, DEADLINE).await {
        Ok(answer) if answer.has_quorum => contact.note(sent_at),
        Ok(_) => debug!(leader = %node, "the leader has lost its quorum"),
        // The leader may just be changing; what matters is its silence, which it notices itself.
        Err(error) => debug!(leader = %node, %error, "sign of life was not taken"),
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
