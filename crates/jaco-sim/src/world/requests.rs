//! Requests of users, the way `jaco` does: any node will do, a lost answer is asked for again
//! under the same request id, and after a while it gives up (R-CLI-9).

use std::collections::BTreeSet;

use jaco_state::ClusterMeta;
use jaco_state::command::{AuditRetention, ClusterInit, JoinTokenIssue, NewNode, NodeAdmit};
use jaco_state::token::{JoinToken, OperatorToken};
use jaco_state::{Command, Outcome};
use jaco_store::ProposeError;
use jaco_types::{
    ErrorCode, Hostname, Identity, Millis, NodeFacts, NodeId, RequestId, Timestamp, TokenId,
};

use super::{Happening, World};
use crate::consensus::{Origin, Proposal};
use crate::machine::{Membership, cluster_id};
use crate::network::MachineIx;
use crate::router::facts_of;

/// How long a client goes on trying.
const PATIENCE: Millis = Millis(10_000);
/// How long it waits before it tries again.
const PAUSE: Millis = Millis(200);

/// A user's request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) command: Command,
    /// The only machine to ask, if the person chose one.
    pub(crate) via: Option<MachineIx>,
    pub(crate) state: RequestState,
    give_up_at: Timestamp,
    attempts: usize,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// No answer yet.
    Waiting,
    /// It was written.
    Done(Outcome),
    /// It was refused, or its outcome is unknown to the client.
    Refused(ErrorCode),
}

impl World {
    /// Sends a request. Returns its place in the list.
    pub(crate) fn request(&mut self, command: Command, via: Option<MachineIx>) -> usize {
        let id = format!("r{}", self.requests.len());
        let id = RequestId::new(&id).expect("printable and short");
        self.request_as(id, command, via)
    }

    /// Sends a request under an id of the caller's choice.
    pub(crate) fn request_as(
        &mut self,
        id: RequestId,
        command: Command,
        via: Option<MachineIx>,
    ) -> usize {
        let request = self.requests.len();
        self.requests.push(Request {
            id,
            command,
            via,
            state: RequestState::Waiting,
            give_up_at: self.now.after(PATIENCE),
            attempts: 0,
        });
        self.plan_in(Millis(0), Happening::Try { request });
        request
    }

    /// Waits for the answer, and hands it over.
    pub(crate) fn await_request(&mut self, request: usize) -> RequestState {
        let answered = |world: &Self| world.requests[request].state != RequestState::Waiting;
        self.run_until(Millis(PATIENCE.0 * 2), answered);
        self.requests[request].state.clone()
    }

    pub(super) fn try_request(&mut self, request: usize) {
        let asked = &mut self.requests[request];
        let (via, attempts) = (asked.via, asked.attempts);
        asked.attempts += 1;
        let is_up =
            |ix: &MachineIx| self.machine(*ix).daemon.is_some() && self.consensus.is_member(*ix);
        let up: Vec<MachineIx> = self.all().filter(is_up).collect();
        let entry = match via {
            Some(ix) => up.contains(&ix).then_some(ix),
            None => (!up.is_empty()).then(|| up[attempts % up.len()]),
        };
        let Some(entry) = entry else {
            self.ask_again(request, ErrorCode::Unavailable);
            return;
        };
        let asked = &self.requests[request];
        let proposal = Proposal {
            origin: Origin::Client { request, entry },
            by: Identity::Local { uid: 0 },
            request: Some(asked.id.clone()),
            command: asked.command.clone(),
        };
        self.propose(entry, proposal);
    }

    pub(super) fn answer_client(&mut self, request: usize, result: Result<Outcome, ProposeError>) {
        if self.requests[request].state != RequestState::Waiting {
            return;
        }
        match result {
            Ok(outcome) => {
                self.checker.acknowledged(&self.requests[request].command, &outcome);
                self.requests[request].state = RequestState::Done(outcome);
            }
            Err(ProposeError::NoLeader) => self.ask_again(request, ErrorCode::NoLeader),
            Err(ProposeError::QuorumLost) => self.ask_again(request, ErrorCode::QuorumLost),
            Err(ProposeError::Overloaded) => self.ask_again(request, ErrorCode::Overloaded),
            Err(
                ProposeError::Unknown
                | ProposeError::Stopped { .. }
                | ProposeError::TooLarge { .. },
            ) => self.ask_again(request, ErrorCode::TimedOut),
        }
    }

    fn ask_again(&mut self, request: usize, code: ErrorCode) {
        let asked = &mut self.requests[request];
        if asked.via.is_some() || self.now >= asked.give_up_at {
            asked.state = RequestState::Refused(code);
        } else {
            self.plan_in(PAUSE, Happening::Try { request });
        }
    }

    /// The first node creates the cluster.
    pub(super) fn create(&mut self, hostname: Hostname) {
        let ix = self.add_machine(hostname.clone(), NodeId::FIRST);
        let meta = ClusterMeta {
            id: cluster_id(),
            name: "sim".to_owned(),
            ca_certificate: String::new(),
            sealed_ca_key: Vec::new(),
            created_at: self.now,
        };
        let token = OperatorToken {
            id: TokenId::new("operator").expect("a valid name"),
            proof: jaco_state::token::Proof::Secret([0; 32]),
            issued_at: self.now,
            issued_by: Identity::Local { uid: 0 },
            revoked_at: None,
            expires_at: None,
            rights: None,
            last_used_at: None,
        };
        let router = Some(facts_of(hostname.as_str(), 0));
        let node = new_node(&hostname, 0, NodeFacts { router, ..NodeFacts::default() });
        self.win(ix);
        let request = self.request(ClusterInit::new(meta, node, token).into(), None);
        self.await_request(request);
        // What a daemon that leads writes once all members are of its version.
        for command in
            [Command::AuditBegin, AuditRetention::new(Millis::from_secs(7_776_000)).into()]
        {
            let request = self.request(command, None);
            self.await_request(request);
        }
    }

    /// A machine joins with a fresh token. Its daemon starts as soon as it is a member.
    ///
    /// # Errors
    /// Why it could not.
    pub(crate) fn join(
        &mut self,
        hostname: &Hostname,
        facts: NodeFacts,
    ) -> Result<MachineIx, RequestState> {
        let id = format!("join-{}", self.requests.len());
        let token = JoinToken {
            id: TokenId::new(&id).expect("a valid name"),
            secret_hash: [0; 32],
            issued_at: self.now,
            issued_by: Identity::Local { uid: 0 },
            expires_at: self.now.after(Millis::from_secs(600)),
            uses_left: 1,
            revoked_at: None,
        };
        let id = token.id.clone();
        let issued = self.request(JoinTokenIssue::new(token).into(), None);
        self.await_request(issued);
        let before = self.machines.iter().filter(|machine| machine.hostname == *hostname).count();
        let router = Some(facts_of(hostname.as_str(), before));
        let node = new_node(hostname, before, NodeFacts { router, ..facts });
        let request = self.request(NodeAdmit::new(node, id).into(), None);
        let answer = self.await_request(request);
        let RequestState::Done(Outcome::NodeAdmitted { id }) = answer else { return Err(answer) };
        Ok(self.add_machine(hostname.clone(), id))
    }

    /// Whether some request still waits for an answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.requests.iter().any(|request| request.state == RequestState::Waiting)
    }

    /// The hosts whose daemons run.
    pub(crate) fn up(&self) -> BTreeSet<&str> {
        let up = self
            .machines
            .iter()
            .filter(|machine| machine.daemon.is_some() && machine.membership == Membership::Member);
        up.map(|machine| machine.hostname.as_str()).collect()
    }
}

/// A node with a key of its own, also where so many of that name were removed before.
fn new_node(hostname: &Hostname, before: usize, facts: NodeFacts) -> NewNode {
    let mut key_fingerprint = [0; 32];
    for (at, byte) in hostname.as_str().bytes().enumerate() {
        key_fingerprint[at % 32] ^= byte;
    }
    key_fingerprint[31] ^= u8::try_from(before).expect("a node is seldom removed");
    NewNode {
        hostname: hostname.clone(),
        address: format!("{hostname}:7000"),
        key_fingerprint,
        facts,
    }
}
