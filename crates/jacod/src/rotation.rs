//! Carries out what the state asks of this node for a rotation of the authority, and reports it; on the leader, goes on once
//! all members have reported (ADR 0121). Decides nothing: `rotation_duty` does.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jaco_pki::{CertificateStore, Fingerprint, Protocol};
use jaco_server::Member;
use jaco_state::command::{AuthorityReport, AuthoritySettle};
use jaco_state::rotation::{AuthorityRotation, RotationPhase, RotationStep};
use jaco_state::view::{HeldConnections, HeldTrust, RotationDuty, rotation_duty};
use jaco_state::{Command, Outcome};
use jaco_store::{Proposal, Store};
use jaco_types::{Identity, NodeId, StateIndex};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::renewal::Renewer;

/// Interval of checks as long as nothing is to be done.
const IDLE: Duration = Duration::from_millis(500);

/// Interval of checks in a rotation.
const BUSY: Duration = Duration::from_millis(100);

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// How much later each next member renews its certificate: the leader signs them one after the other.
const RENEWAL_TURN: Duration = Duration::from_millis(200);

/// How long connections have to end by themselves. After that they are closed: streams that users hold open, and those to
/// a member that does not answer.
const WINDING_DOWN: Duration = Duration::from_secs(10);

/// The loop of one node.
pub(crate) struct RotationLoop {
    member: Arc<Member>,
    store: Arc<CertificateStore>,
    renewer: Renewer,
    /// Since when this node was to renew its certificate, and in which rotation.
    renewing: Option<(StateIndex, Instant)>,
    reconnecting: Option<Reconnecting>,
}

/// Connections of this node are being opened anew.
struct Reconnecting {
    rotation: StateIndex,
    since: Instant,
    /// The member whose raft streams are being replaced, and since when: one after the other, so that never more than
    /// one follower could be without one.
    streams: Option<(NodeId, Instant)>,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Idle,
    Waiting,
    AtOnce,
}

impl RotationLoop {
    pub(crate) fn new(member: Arc<Member>, store: Arc<CertificateStore>, renewer: Renewer) -> Self {
        Self { member, store, renewer, renewing: None, reconnecting: None }
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
                    warn!(error, "step of the authority's rotation failed, will retry");
                    RETRY
                }
            };
            sleep(pause).await;
        }
    }

    async fn look(&mut self) -> anyhow::Result<Next> {
        let id = self.member.id;
        let is_done = |rotation: &AuthorityRotation| {
            rotation.phase.is_last() && rotation.reports.get(&id) == Some(&RotationStep::Dropped)
        };
        let rotation = self.member.store.read(|state| state.rotation.clone());
        let Some(rotation) = rotation.filter(|rotation| !is_done(rotation)) else {
            return Ok(Next::Idle);
        };
        // An old state must not bring back what was dropped before a restart.
        if !self.member.has_caught_up() {
            return Ok(Next::Idle);
        }
        self.go_on(&rotation).await?;
        let Some(duty) = self.duty(&rotation) else { return Ok(Next::Waiting) };
        if duty == RotationDuty::Trust {
            // A renewal may have brought what the state here does not say yet.
            self.member.store.catch_up().await?;
            let newest = self.member.store.read(|state| state.rotation.clone());
            if newest.as_ref() != Some(&rotation) {
                return Ok(Next::AtOnce);
            }
        }
        match duty {
            RotationDuty::Trust => self.trust().await,
            RotationDuty::Renew => self.renew(&rotation).await,
            RotationDuty::Reconnect => Ok(self.reconnect(&rotation)),
            RotationDuty::Report(step) => self.report(&rotation, step).await,
        }
    }

    fn duty(&self, rotation: &AuthorityRotation) -> Option<RotationDuty> {
        let trust = self.store.trust();
        let trusted: BTreeSet<_> =
            trust.authorities().iter().map(|one| *one.fingerprint().as_bytes()).collect();
        let outdated = self.store.outgoing().not_of(signs(rotation));
        let connections = match outdated.is_empty() {
            true => HeldConnections::Current,
            false => HeldConnections::Outdated,
        };
        let signed_by = Some(*self.store.signer().as_bytes());
        let held = HeldTrust { trusted, signed_by, connections };
        self.member.store.read(|state| rotation_duty(state, self.member.id, &held))
    }

    /// Trusts what the state says, and ends what was opened with a certificate that is not trusted any more.
    async fn trust(&self) -> anyhow::Result<Next> {
        let pem = self.member.store.read(|state| {
            state.meta.as_ref().map(|meta| meta.ca_certificate.clone()).unwrap_or_default()
        });
        self.renewer.trust(&pem).await?;
        let trust = self.store.trust();
        let closed = self.member.connections.close_distrusted(&self.store);
        if let [only] = trust.authorities() {
            for connection in self.store.outgoing().not_of(only.fingerprint()) {
                self.store.outgoing().close(connection);
            }
        }
        let fingerprints = trust.authorities().iter().map(|one| one.fingerprint().to_string());
        let trusted = fingerprints.collect::<Vec<_>>().join(", ");
        info!(trusted, closed, "trusted authorities changed");
        Ok(Next::AtOnce)
    }

    /// Renews the certificate once it is this node's turn: the leader's first, so that whoever joins finds it.
    async fn renew(&mut self, rotation: &AuthorityRotation) -> anyhow::Result<Next> {
        let since = match self.renewing {
            Some((id, since)) if id == rotation.id => since,
            Some(_) | None => Instant::now(),
        };
        self.renewing = Some((rotation.id, since));
        let own = self.member.id;
        let before = self
            .member
            .store
            .read(|state| state.nodes.values().filter(|node| node.id < own).count());
        let turn = match self.member.store.leads() {
            true => 0,
            false => u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1),
        };
        if since.elapsed() < RENEWAL_TURN.saturating_mul(turn) {
            return Ok(Next::Waiting);
        }
        self.renewer.renew().await?;
        info!(authority = %self.store.signer(), "certificate renewed for the rotation of the authority");
        Ok(Next::Waiting)
    }

    /// Opens connections anew. A leader is the last to do so, and each of its raft streams ends once its successor stands.
    fn reconnect(&mut self, rotation: &AuthorityRotation) -> Next {
        if self.member.store.leads() && self.others_are_due(rotation) {
            return Next::Waiting;
        }
        let is_new = self.reconnecting.as_ref().is_none_or(|now| now.rotation != rotation.id);
        if is_new {
            self.member.peers.reopen();
        }
        let outgoing = self.store.outgoing();
        let outdated = outgoing.not_of(signs(rotation));
        let now = Instant::now();
        let fresh = Reconnecting { rotation: rotation.id, since: now, streams: None };
        let reconnecting = match is_new {
            true => self.reconnecting.insert(fresh),
            false => self.reconnecting.get_or_insert(fresh),
        };
        let is_stream = |protocol| protocol == Protocol::Raft;
        let streams = outdated.iter().filter(|one| is_stream(one.protocol));
        let (peers, mut streams): (BTreeSet<_>, Vec<_>) =
            (streams.clone().filter_map(|one| one.node).collect(), streams.copied().collect());
        match reconnecting.streams {
            Some((peer, since)) if peers.contains(&peer) => {
                streams.retain(|one| one.node == Some(peer) && since.elapsed() > WINDING_DOWN);
                for late in streams {
                    outgoing.close(late);
                }
            }
            Some(_) | None => {
                reconnecting.streams = peers.first().map(|peer| (*peer, now));
                if let Some(peer) = peers.first() {
                    self.member.peers.streams().request(peer.0);
                }
            }
        }
        if reconnecting.since.elapsed() > WINDING_DOWN {
            for late in outdated.into_iter().filter(|one| !is_stream(one.protocol)) {
                outgoing.close(late);
            }
        }
        Next::Waiting
    }

    fn others_are_due(&self, rotation: &AuthorityRotation) -> bool {
        let own = self.member.id;
        self.member.store.read(|state| {
            let mut others = state.nodes.values().filter(|node| node.id != own);
            others.any(|node| rotation.reports.get(&node.id) < Some(&RotationStep::Reconnected))
        })
    }

    async fn report(
        &self,
        rotation: &AuthorityRotation,
        step: RotationStep,
    ) -> anyhow::Result<Next> {
        let own = self.member.id;
        let command = AuthorityReport::new(rotation.id, own, step).into();
        self.propose(Identity::Node { id: own }, command).await?;
        info!(step = step.as_str(), "reported for the rotation of the authority");
        Ok(Next::Waiting)
    }

    /// As the leader: leaves *renewing* once all members have reported.
    async fn go_on(&self, rotation: &AuthorityRotation) -> anyhow::Result<()> {
        let is_due = rotation.phase == RotationPhase::Renewing
            && self.member.store.leads()
            && self
                .member
                .store
                .read(|state| rotation.all_have(RotationStep::Reconnected, &state.nodes));
        if is_due {
            self.propose(Identity::Scheduler, AuthoritySettle::new(rotation.id).into()).await?;
            info!("rotation of the authority settled");
        }
        Ok(())
    }

    async fn propose(&self, by: Identity, command: Command) -> anyhow::Result<()> {
        let proposal = Proposal { by, request: None, command };
        match self.member.store.propose(proposal).await?.outcome {
            Outcome::Rejected(rejection) => anyhow::bail!("{}", rejection.message),
            Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => Ok(()),
        }
    }
}

fn signs(rotation: &AuthorityRotation) -> Fingerprint {
    Fingerprint::from_bytes(rotation.signs().fingerprint)
}
