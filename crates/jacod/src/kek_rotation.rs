//! Carries out what the state asks of this node for a rotation of the key-encryption key, and reports it; on the leader, seals
//! anew what the old key has sealed, and goes on once all members have reported (ADR 0127). Decides nothing: `kek_duty` does.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jaco_pki::KeyEncryptionKey;
use jaco_server::{Member, resealed};
use jaco_state::command::{KekAdvance, KekReport, KekReseal, Resealed};
use jaco_state::envelope::Place;
use jaco_state::kek::{KekPhase, KekRotation, KekStep};
use jaco_state::view::{HeldKeys, KekDuty, envelopes_of, kek_duty, key_holders};
use jaco_state::{ClusterState, Command, Outcome};
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, KekId, NodeId, StateIndex};
use ring::digest;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Interval of checks as long as nothing is to be done.
const IDLE: Duration = Duration::from_millis(500);

/// Interval of checks in a rotation.
const BUSY: Duration = Duration::from_millis(100);

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// How long a member has to answer with a key.
const FETCH_LIMIT: Duration = Duration::from_secs(3);

/// The most envelopes of one command.
const BATCH_MAX: usize = 256;

/// From this many bytes on a command is full. One envelope more has 1 MiB at most, and an entry 4 MiB.
const BATCH_BYTES: usize = 512 << 10;

/// The loop of one node.
pub(crate) struct KekLoop {
    member: Arc<Member>,
    /// Whether a key that an earlier process made, and that nothing came of, was deleted.
    is_tidy: bool,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Idle,
    Waiting,
    AtOnce,
}

impl KekLoop {
    pub(crate) fn new(member: Arc<Member>) -> Self {
        Self { member, is_tidy: false }
    }

    /// Never returns.
    pub(crate) async fn run(mut self) {
        loop {
            let pause = match self.look().await {
                Ok(Next::AtOnce) => Duration::ZERO,
                Ok(Next::Waiting) => BUSY,
                Ok(Next::Idle) => IDLE,
                Err(error) => {
                    let error = format!("{error:#}");
                    warn!(error, "step of the key-encryption key's rotation failed, will retry");
                    RETRY
                }
            };
            sleep(pause).await;
        }
    }

    async fn look(&mut self) -> anyhow::Result<Next> {
        // An old state must not bring back what was dropped before a restart.
        if !self.member.has_caught_up() {
            return Ok(Next::Idle);
        }
        if !self.is_tidy {
            self.tidy_up().await?;
            self.is_tidy = true;
        }
        let rotation = self.member.store.read(|state| {
            let rotation = state.sealing.rotation.as_ref();
            rotation.filter(|rotation| !rotation.is_complete(&state.nodes)).cloned()
        });
        let Some(rotation) = rotation else { return Ok(Next::Idle) };
        let own = self.member.id;
        let held = self.held()?;
        match self.member.store.read(|state| kek_duty(state, own, &held)) {
            None if self.member.store.leads() => self.go_on(&rotation).await,
            None => Ok(Next::Waiting),
            Some(KekDuty::Fetch(key)) => self.fetch(&rotation, key).await,
            Some(KekDuty::Compact(from)) => {
                self.member.store.raft().forget_before(from.0).await?;
                Ok(Next::Waiting)
            }
            Some(KekDuty::Keep(key)) => self.keep(key).await,
            Some(KekDuty::Report(step)) => self.report(&rotation, step).await,
        }
    }

    fn held(&self) -> anyhow::Result<HeldKeys> {
        let oldest = self.member.store.raft().oldest().context("cannot read the snapshots")?;
        let keys = self.member.cluster_key.ring().ids();
        Ok(HeldKeys { keys, oldest: StateIndex(oldest) })
    }

    /// Deletes a key that was made by an earlier process of this node, if no rotation has come of it. None can any more
    /// once the entries of a later leader are known.
    async fn tidy_up(&self) -> anyhow::Result<()> {
        let keys = &self.member.cluster_key;
        if keys.ring().ids().len() == 1 {
            return Ok(());
        }
        self.member.store.catch_up().await?;
        let made = keys.changing().await;
        if made.is_some() {
            return Ok(());
        }
        let (seals, is_needed) = self.member.store.read(|state| {
            let rotation = state.sealing.rotation.as_ref();
            let is_needed = rotation.is_some_and(|rotation| !rotation.is_complete(&state.nodes));
            (keys.of(state).ok().map(|key| key.id()), is_needed)
        });
        match seals {
            Some(seals) if !is_needed => {
                keys.ring().keep(seals).context("cannot delete a key that was never used")
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Gets a key from a member that has it.
    async fn fetch(&self, rotation: &KekRotation, key: KekId) -> anyhow::Result<Next> {
        let own = self.member.id;
        let holders: Vec<(NodeId, String)> = self.member.store.read(|state| {
            let address = |node| Some((node, state.nodes.get(&node)?.address.clone()));
            key_holders(rotation).filter(|node| *node != own).filter_map(address).collect()
        });
        for (node, address) in holders {
            match self.ask(node, &address, key).await {
                Ok(fetched) => {
                    let _changing = self.member.cluster_key.changing().await;
                    let stored = self.member.cluster_key.ring().store_next(&fetched);
                    stored.context("cannot store the new key-encryption key")?;
                    info!(key = %key, node_id = %node, "new key-encryption key stored");
                    return Ok(Next::AtOnce);
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    debug!(node_id = %node, error, "no key-encryption key from this member");
                }
            }
        }
        anyhow::bail!("no member that has the new key-encryption key answers")
    }

    async fn ask(
        &self,
        node: NodeId,
        address: &str,
        key: KekId,
    ) -> anyhow::Result<KeyEncryptionKey> {
        let peers = &self.member.peers;
        let answer = peers.fetch_kek((node, address), key, FETCH_LIMIT).await;
        let answer = answer.map_err(|rejection| anyhow::anyhow!("{}", rejection.message))?;
        let fetched = KeyEncryptionKey::from_hex(&answer.key_encryption_key);
        fetched.filter(|fetched| fetched.id() == key).context("it has sent another key")
    }

    async fn keep(&self, key: KekId) -> anyhow::Result<Next> {
        let _changing = self.member.cluster_key.changing().await;
        let kept = self.member.cluster_key.ring().keep(key);
        kept.context("cannot delete the other key-encryption key")?;
        info!(key = %key, "other key-encryption key deleted");
        Ok(Next::AtOnce)
    }

    async fn report(&self, rotation: &KekRotation, step: KekStep) -> anyhow::Result<Next> {
        // What is reported is what a restart finds.
        let ring = self.member.cluster_key.ring();
        ring.reload().context("cannot read the key-encryption keys back")?;
        let own = self.member.id;
        let held = self.held()?;
        let duty = self.member.store.read(|state| kek_duty(state, own, &held));
        if duty != Some(KekDuty::Report(step)) {
            return Ok(Next::AtOnce);
        }
        self.propose(Identity::Node { id: own }, KekReport::new(rotation.id, own, step).into())
            .await?;
        info!(step = step.as_str(), "reported for the rotation of the key-encryption key");
        Ok(Next::Waiting)
    }

    /// As the leader: seals anew, and leaves the phase once all members have reported.
    async fn go_on(&self, rotation: &KekRotation) -> anyhow::Result<Next> {
        if rotation.phase.is_last() {
            return Ok(Next::Waiting);
        }
        if rotation.phase == KekPhase::Resealing && self.reseal(rotation).await? {
            return Ok(Next::AtOnce);
        }
        let all_hold =
            self.member.store.read(|state| rotation.all_have(KekStep::Holds, &state.nodes));
        if !all_hold {
            return Ok(Next::Waiting);
        }
        if rotation.phase == KekPhase::Resealing {
            // Whatever this node began to seal in the phase before is in the state after that, and sealed anew first.
            self.member.cluster_key.written().await;
            if self.reseal(rotation).await? {
                return Ok(Next::AtOnce);
            }
        }
        let command = KekAdvance::new(rotation.id, rotation.phase).into();
        self.propose(Identity::Scheduler, command).await?;
        info!(left = rotation.phase.as_str(), "rotation of the key-encryption key goes on");
        Ok(Next::AtOnce)
    }

    /// Seals some of what the old key has sealed anew. Returns whether there was something.
    async fn reseal(&self, rotation: &KekRotation) -> anyhow::Result<bool> {
        let ring = self.member.cluster_key.ring();
        let to = ring.get(rotation.new).context("this node does not have the new key")?;
        let state = self.member.store.snapshot();
        let outdated = batch(&state, rotation.old);
        if outdated.is_empty() {
            return Ok(false);
        }
        let mut envelopes = Vec::new();
        let mut problem = None;
        for (place, old) in outdated {
            match resealed(&state, (&place, old), ring, &to) {
                Ok(None) => {}
                Ok(Some(new)) => {
                    let replaces = digest::digest(&digest::SHA256, old);
                    let replaces = replaces.as_ref().try_into().context("a digest of 32 bytes")?;
                    envelopes.push(Resealed { place, replaces, envelope: new.into() });
                }
                Err(rejection) => problem = Some(rejection.message),
            }
        }
        let count = envelopes.len();
        if count > 0 {
            self.propose(Identity::Scheduler, KekReseal::new(rotation.id, envelopes).into())
                .await?;
            debug!(envelopes = count, "sealed anew");
        }
        match problem {
            // The others of the batch are done, so that nothing but these is left in the end.
            Some(problem) => anyhow::bail!("{problem}: replace or remove it"),
            None => Ok(true),
        }
    }

    async fn propose(&self, by: Identity, command: Command) -> anyhow::Result<()> {
        let proposal = Proposal { by, request: None, command };
        match self.member.store.propose(proposal).await?.outcome {
            Outcome::Rejected(rejection) => anyhow::bail!("{}", rejection.message),
            Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => Ok(()),
        }
    }
}

/// Some of the envelopes that the old key has sealed: as many as go into one command.
fn batch(state: &ClusterState, old: KekId) -> Vec<(Place, &[u8])> {
    let mut bytes = 0;
    let outdated = envelopes_of(state, old).take(BATCH_MAX).take_while(|(_, envelope)| {
        let is_full = bytes >= BATCH_BYTES;
        bytes += envelope.len();
        !is_full
    });
    outdated.collect()
}
