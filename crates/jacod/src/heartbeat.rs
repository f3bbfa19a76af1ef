//! Sends this node's heartbeats, with the state of its engine, to the leader, and updates the
//! node's facts in the replicated state when they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jaco_agent::engine::{EngineError, EngineVersion};
use jaco_agent::measure::NodeUsage;
use jaco_agent::{AgentStatus, LeaderContact, StateAge};
use jaco_proto::v1::{HeartbeatRequest, HeartbeatResponse, PrepullStatus};
use jaco_scheduler::input::EngineSignal;
use jaco_server::Member;
use jaco_state::command::NodeReport;
use jaco_store::{Applied, ClusterClock, Proposal, ProposeError, Store};
use jaco_types::{
    Identity, ImageDigest, ImageNeed, ImagePull, ImageReadiness, Millis, NodeEdge, NodeFacts,
    NodeId, NodeRouter, Timestamp,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::disk::{DiskWatch, Disks};
use crate::edge::EdgeView;
use crate::pressure::{self, Measured};
use crate::router::RouterView;

/// Interval of heartbeats; an eighth of the time after which a node counts as down.
const INTERVAL: Duration = Duration::from_secs(1);

/// The engine is probed every so many heartbeats.
const ENGINE_INTERVAL: u32 = 5;

/// How long the engine may be unreachable before it is reported: a restart of it moves no replica, also where the daemon is
/// restarted with it.
/// Up to [`ENGINE_INTERVAL`] heartbeats may pass between two probes.
const ENGINE_GRACE: Duration = Duration::from_secs(10);

/// Time limit of one heartbeat.
const DEADLINE: Duration = Duration::from_secs(1);

/// Readiness of the images that rollouts pre-pull on this node.
type Images = BTreeMap<ImageNeed, ImageReadiness>;

/// Address and facts of this node, without the engine's version.
#[derive(Debug, Clone)]
pub(crate) struct NodeDescription {
    pub(crate) address: String,
    pub(crate) facts: NodeFacts,
}

/// What a leader's answer tells this node.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) contact: LeaderContact,
    pub(crate) clock: Arc<ClusterClock>,
}

/// What heartbeats report besides the engine.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) disks: Disks,
    pub(crate) measured: Measured,
    /// What is known of the node's router, where it can have one.
    pub(crate) router: Option<watch::Receiver<RouterView>>,
    /// What is known of the node's edge, where it can have one.
    pub(crate) edge: Option<watch::Receiver<EdgeView>>,
}

/// Runs until `shutdown`.
pub(crate) async fn run(
    member: Arc<Member>,
    description: NodeDescription,
    heard: Heard,
    sources: Sources,
    shutdown: CancellationToken,
) {
    let Sources { disks, mut measured, router, edge } = sources;
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut engine = EngineWatch::begin(Instant::now());
    let mut disks = DiskWatch::new(disks);
    let mut agent = member.agent.status();
    let mut readiness = agent.borrow_and_update().prepulls.clone();
    let mut round: u32 = 0;
    let mut unreported = String::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
            // A rollout waits for this, so it is reported at once.
            () = prepull_change(&mut agent, &mut readiness) => {
                let pulls = agent.borrow().image_pulls();
                let signal = engine.signal(&disks);
                let report = Report { engine: signal, images: &readiness, pulls, load: None };
                send(&member, report, &heard).await;
                continue;
            }
        }
        if round.is_multiple_of(ENGINE_INTERVAL) || engine.signal != EngineSignal::Up {
            engine.probe(&member).await;
            disks.measure();
        }
        round = round.wrapping_add(1);
        let news = measured.has_changed().unwrap_or(false);
        let load = news.then(|| measured.borrow_and_update().clone()).flatten();
        let has_load = load.is_some();
        let pulls = agent.borrow().image_pulls();
        let report = Report { engine: engine.signal(&disks), images: &readiness, pulls, load };
        if send(&member, report, &heard).await == Delivery::Rejected && has_load {
            measured.mark_changed();
        }
        let parts = Parts {
            router: router.as_ref().and_then(|view| view.borrow().report.clone()),
            edge: edge.as_ref().and_then(|view| view.borrow().clone()),
        };
        let version = (engine.signal == EngineSignal::Up).then_some(engine.version.as_str());
        update_facts(&member, &description, version, parts, &mut unreported).await;
    }
}

/// What is known of the processes beside the daemon.
struct Parts {
    router: Option<NodeRouter>,
    edge: Option<NodeEdge>,
}

/// State of the engine as last probed.
struct EngineWatch {
    signal: EngineSignal,
    version: String,
    /// When it answered last, or when it was first asked.
    answered_at: Instant,
}

/// Waits until the readiness of a pre-pulled image changes.
async fn prepull_change(agent: &mut watch::Receiver<AgentStatus>, readiness: &mut Images) {
    loop {
        if agent.changed().await.is_err() {
            // The agent has ended: the daemon is shutting down.
            return std::future::pending().await;
        }
        let prepared = agent.borrow_and_update().prepulls.clone();
        if prepared != *readiness {
            *readiness = prepared;
            return;
        }
    }
}

impl EngineWatch {
    fn begin(now: Instant) -> Self {
        Self { signal: EngineSignal::Unknown, version: String::new(), answered_at: now }
    }

    /// The signal to report, from the engine and the disks.
    fn signal(&self, disks: &DiskWatch) -> EngineSignal {
        match (&self.signal, disks.full()) {
            (EngineSignal::Up, Some(full)) => EngineSignal::DiskFull(full.to_owned()),
            (signal, _) => signal.clone(),
        }
    }

    async fn probe(&mut self, member: &Member) {
        let answer = member.engine.version().await;
        self.note(answer, Instant::now());
    }

    fn note(&mut self, answer: Result<EngineVersion, EngineError>, now: Instant) {
        match answer {
            Ok(version) => {
                if self.signal != EngineSignal::Up {
                    info!(engine = %version.name, version = %version.version, "engine reachable");
                }
                self.signal = EngineSignal::Up;
                self.answered_at = now;
                self.version = format!("{} {}", version.name, version.version);
            }
            Err(error) => {
                let is_reported = matches!(self.signal, EngineSignal::Down(_));
                if !is_reported && now.duration_since(self.answered_at) < ENGINE_GRACE {
                    debug!(%error, "engine unreachable, it may be restarting");
                    return;
                }
                if !is_reported {
                    warn!(%error, "engine unreachable");
                }
                self.signal = EngineSignal::Down(error.to_string());
            }
        }
    }
}

/// Content of a heartbeat.
struct Report<'a> {
    engine: EngineSignal,
    images: &'a Images,
    pulls: Vec<ImagePull>,
    /// Resource usage, if there is a new sample.
    load: Option<Arc<NodeUsage>>,
}

/// Whether the leader accepted a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Accepted,
    Rejected,
}

async fn send(member: &Member, report: Report<'_>, heard: &Heard) -> Delivery {
    let Report { engine, images, pulls, load } = report;
    let contact = &heard.contact;
    let (sent_at, begun) = (contact.now(), Instant::now());
    if member.store.leads() {
        if member.store.has_quorum() {
            record(member, contact, sent_at).await;
        }
        let now = member.clock.now();
        member.signals.record_images(member.id, images.clone());
        member.signals.record_pulls(member.id, pulls);
        member.signals.record(member.id, engine, now);
        if let Some(load) = load {
            pressure::record_own(member, &load, now);
        }
        return Delivery::Accepted;
    }
    let Some((node, address)) = member.store.leader_elsewhere() else { return Delivery::Rejected };
    let node_id = member.id.0;
    let engine_unknown = engine == EngineSignal::Unknown;
    let (engine_up, engine_error, disk_full) = match engine {
        EngineSignal::Up => (true, String::new(), String::new()),
        EngineSignal::DiskFull(full) => (true, String::new(), full),
        EngineSignal::Down(reason) => (false, reason, String::new()),
        EngineSignal::Unknown => (false, "not known yet".to_owned(), String::new()),
    };
    let images = images.iter().map(|(need, readiness)| prepared_image(need, readiness)).collect();
    let message = HeartbeatRequest {
        node: node_id,
        engine_up,
        engine_error,
        engine_unknown,
        disk_full,
        prepulls: true,
        images,
        load: load.map(|load| pressure::message(&load)),
        pulls: pulls.iter().map(jaco_server::pull_message).collect(),
    };
    match member.peers.heartbeat((node, &address), message, DEADLINE).await {
        Ok(answer) => {
            let taken = begun.elapsed();
            time_told(&answer, taken).into_iter().for_each(|time| heard.clock.follow(time));
            if answer.has_quorum {
                record(member, contact, sent_at).await;
            } else {
                debug!(leader = %node, "leader has lost its quorum");
            }
            Delivery::Accepted
        }
        // Leadership may be changing. The leader itself notices missing heartbeats.
        Err(error) => {
            debug!(leader = %node, %error, "heartbeat rejected");
            Delivery::Rejected
        }
    }
}

/// The cluster's time by an answer that took so long: half of that is its way here. A leader without a quorum may be another one's
/// predecessor; a process that was frozen may read an answer long after it came; and leaders before 0.2.0 say no time.
fn time_told(answer: &HeartbeatResponse, taken: Duration) -> Option<Timestamp> {
    let says = answer.has_quorum && taken <= DEADLINE && answer.cluster_time_ms > 0;
    let half = u64::try_from(taken.as_millis() / 2).ok()?;
    says.then(|| Timestamp(answer.cluster_time_ms).after(Millis(half)))
}

/// Records the contact. After a lapse it also brings the state up to date: what was decided about this node's replicas
/// meanwhile decides whether they start.
async fn record(member: &Member, contact: &LeaderContact, sent_at: Millis) {
    if contact.record(sent_at) == StateAge::Current {
        return;
    }
    match tokio::time::timeout(DEADLINE, member.store.catch_up()).await {
        Ok(Ok(_)) => contact.caught_up(sent_at),
        Ok(Err(error)) => debug!(%error, "state not brought up to date after a lapse of contact"),
        Err(_) => debug!("state not brought up to date after a lapse of contact within a second"),
    }
}

fn prepared_image(need: &ImageNeed, readiness: &ImageReadiness) -> PrepullStatus {
    let text = |digest: &Option<ImageDigest>| digest.as_ref().map(ToString::to_string);
    let asked = PrepullStatus {
        spec_hash: need.spec.0.to_vec().into(),
        wanted_digest: text(&need.digest).unwrap_or_default(),
        ..PrepullStatus::default()
    };
    match readiness {
        ImageReadiness::Ready { digest } => {
            PrepullStatus { ready: true, digest: text(digest).unwrap_or_default(), ..asked }
        }
        ImageReadiness::Waiting { reason } => PrepullStatus { reason: reason.clone(), ..asked },
        ImageReadiness::Failed { reason } => {
            PrepullStatus { failed: true, reason: reason.clone(), ..asked }
        }
    }
}

/// Updates the node's address and facts in the replicated state, if they differ. While its engine does not answer, and its
/// version is not known, only a new address is reported. `unreported` is the address of which it was said that it could
/// not be reported: once is enough.
async fn update_facts(
    member: &Member,
    description: &NodeDescription,
    engine: Option<&str>,
    parts: Parts,
    unreported: &mut String,
) {
    let known = member.store.read(|state| {
        let node = state.nodes.get(&member.id)?;
        let mut versions = state.nodes.values().map(|node| &node.facts.version);
        let are_alike = versions.all(|version| *version == description.facts.version);
        Some((node.address.clone(), node.facts.clone(), are_alike))
    });
    let Some((known_address, known_facts, are_alike)) = known else { return };
    // A member of an older version would stop at it.
    let (instances_max, volume_classes) = match are_alike {
        true => (description.facts.instances_max, description.facts.volume_classes.clone()),
        false => (known_facts.instances_max, known_facts.volume_classes.clone()),
    };
    let facts = match engine {
        Some(engine) => NodeFacts {
            engine: engine.to_owned(),
            // What is not known yet after a start is as it was reported.
            router: parts.router.or_else(|| known_facts.router.clone()),
            edge: parts.edge.or_else(|| known_facts.edge.clone()),
            instances_max,
            volume_classes,
            ..description.facts.clone()
        },
        None => known_facts.clone(),
    };
    let address = description.address.clone();
    let has_moved = known_address != address;
    if !has_moved && known_facts == facts {
        return;
    }
    let command = NodeReport::new(member.id, address.clone(), facts).into();
    let proposal = Proposal { by: Identity::Node { id: member.id }, request: None, command };
    let told = match member.store.propose(proposal.clone()).await {
        Err(ProposeError::NoLeader) if has_moved => tell_the_others(member, proposal).await,
        told => told,
    };
    match told {
        Ok(_) if has_moved => {
            info!(from = %known_address, to = %description.address, "new address reported");
        }
        Ok(_) => {}
        Err(error) if has_moved && *unreported != address => {
            warn!(address, %error, "new address not reported to the cluster yet, will retry");
            *unreported = address;
        }
        Err(error) => debug!(%error, "node facts update failed, will retry"),
    }
}

/// A node with a new address hears of no leader: the leader calls it where it was. Whichever of the others leads takes
/// the report. All are asked at once, so that one that does not answer delays no heartbeat more than it has to.
async fn tell_the_others(member: &Member, proposal: Proposal) -> Result<Applied, ProposeError> {
    let others: Vec<(NodeId, String)> = member.store.read(|state| {
        let others = state.nodes.values().filter(|node| node.id != member.id);
        others.map(|node| (node.id, node.address.clone())).collect()
    });
    let asked = others.into_iter().map(|one| member.store.propose_through(one, proposal.clone()));
    let mut answers: FuturesUnordered<_> = asked.collect();
    let mut told = Err(ProposeError::NoLeader);
    while let Some(answer) = answers.next().await {
        told = answer;
        if told.is_ok() {
            break;
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use jaco_agent::CONTACT_LAPSE;
    use jaco_scheduler::PlannerConfig;

    use super::*;

    /// R-JOB-1: a node takes its state for outdated before the leader counts it as down, also where the leader's clock
    /// counts 11 where the node's counts 10, and with a heartbeat's interval in between.
    #[test]
    fn state_is_outdated_before_the_node_counts_as_down() {
        let by_the_leaders_clock = CONTACT_LAPSE.0 * 11 / 10;
        let interval = u64::try_from(INTERVAL.as_millis()).unwrap();
        assert!(by_the_leaders_clock + interval < PlannerConfig::default().node_down_after.0);
    }

    /// NET-4: a member takes the cluster's time only from a leader that has a quorum, and not from an answer that it reads late.
    #[test]
    fn only_a_leader_with_a_quorum_tells_the_time_and_not_late() {
        let answer =
            |has_quorum, cluster_time_ms| HeartbeatResponse { has_quorum, cluster_time_ms };
        let told = |answer, millis| time_told(&answer, Duration::from_millis(millis));
        assert_eq!(told(answer(true, 7_000), 40), Some(Timestamp(7_020)));
        assert_eq!(told(answer(true, 7_000), 1_000), Some(Timestamp(7_500)));
        assert_eq!(told(answer(true, 7_000), 1_001), None);
        assert_eq!(told(answer(false, 7_000), 40), None);
        assert_eq!(told(answer(true, 0), 40), None);
    }

    /// R-HEAL-1: an engine that does not answer is reported after ten seconds, also by a daemon that has not had an answer yet.
    #[test]
    fn an_engine_is_down_after_its_grace() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let error = || Err(EngineError::Unreachable { reason: "no socket".to_owned() });
        let version = || Ok(EngineVersion { name: "docker".to_owned(), version: "20".to_owned() });
        let mut watch = EngineWatch::begin(begun);
        let mut seen = Vec::new();
        for (seconds, answer) in [
            (0, error()),
            (9, error()),
            (10, error()),
            (11, error()),
            (20, version()),
            (29, error()),
            (30, error()),
        ] {
            watch.note(answer, at(seconds));
            seen.push(match &watch.signal {
                EngineSignal::Up => "up",
                EngineSignal::Down(_) => "down",
                EngineSignal::Unknown => "unknown",
                EngineSignal::DiskFull(_) => "disk full",
            });
        }
        assert_eq!(seen, ["unknown", "unknown", "down", "down", "up", "up", "down"]);
    }
}
