//! A replicated log without the messages of the protocol, which has a simulation of its own in `jaco-raft`. Here is
//! what the rest of JACO sees of it: who leads, which entries are committed, and which are lost or of unknown
//! outcome when a leader fails.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::{Command, Entry};
use jaco_types::{Identity, RequestId, StateIndex, Timestamp, voter_target};

use crate::network::MachineIx;

/// Who proposed, and so waits for the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The planner of the leader that it was sent from.
    Planner { machine: MachineIx, life: u64 },
    /// The rebalancing loop of this machine.
    Rebalancer { machine: MachineIx },
    /// The loop of this machine that begins runs of jobs.
    Jobs { machine: MachineIx },
    /// A node's observations.
    Reporter { machine: MachineIx, life: u64 },
    /// The router of a node that attaches as an endpoint consumer.
    Consumer { machine: MachineIx, life: u64 },
    /// A user's request, by its place in the list, sent to this machine.
    Client { request: usize, entry: MachineIx },
}

impl Origin {
    /// The machine that the answer goes to.
    pub(crate) fn machine(self) -> MachineIx {
        match self {
            Self::Planner { machine, .. }
            | Self::Rebalancer { machine }
            | Self::Jobs { machine }
            | Self::Reporter { machine, .. }
            | Self::Consumer { machine, .. } => machine,
            Self::Client { entry, .. } => entry,
        }
    }
}

/// Something to be written.
#[derive(Debug, Clone)]
pub(crate) struct Proposal {
    pub(crate) origin: Origin,
    pub(crate) by: Identity,
    pub(crate) request: Option<RequestId>,
    pub(crate) command: Command,
}

/// When a leader appended an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// By the cluster's time, as that leader knew it.
    pub(crate) at: Timestamp,
    /// In truth.
    pub(crate) truly: Timestamp,
}

/// A proposal in the leader's log that is not committed yet.
#[derive(Debug)]
struct Appended {
    proposal: Proposal,
    moment: Moment,
    /// When a majority could have it, if it can be reached.
    ready_at: Timestamp,
    /// The machines that could be reached when it was appended: any of them may have it.
    reached: BTreeSet<MachineIx>,
}

/// The log, and who may write to it.
#[derive(Debug, Default)]
pub(crate) struct Consensus {
    entries: BTreeMap<StateIndex, Entry>,
    /// When leaders appended them, in truth.
    appended: BTreeMap<StateIndex, Timestamp>,
    last: StateIndex,
    tail: Vec<Appended>,
    pub(crate) term: u64,
    /// Who won the election of this term. It may have died or be cut off since.
    pub(crate) leader: Option<MachineIx>,
    voters: BTreeSet<MachineIx>,
    members: BTreeSet<MachineIx>,
    stored: BTreeMap<MachineIx, StateIndex>,
}

impl Consensus {
    /// The last committed index.
    pub(crate) fn last(&self) -> StateIndex {
        self.last
    }

    /// Number of committed entries; raft's own do not count.
    pub(crate) fn commits(&self) -> usize {
        self.entries.len()
    }

    /// The entries after one index, up to another.
    pub(crate) fn entries(
        &self,
        after: StateIndex,
        upto: StateIndex,
    ) -> impl Iterator<Item = &Entry> {
        let range = StateIndex(after.0 + 1)..StateIndex(upto.0.max(after.0) + 1);
        self.entries.range(range).map(|(_, entry)| entry)
    }

    /// When a leader appended a committed entry, in truth.
    pub(crate) fn appended_at(&self, index: StateIndex) -> Timestamp {
        self.appended[&index]
    }

    pub(crate) fn stored(&self, machine: MachineIx) -> StateIndex {
        self.stored.get(&machine).copied().unwrap_or_default()
    }

    /// The machine has everything up to there on its disk.
    pub(crate) fn store(&mut self, machine: MachineIx, upto: StateIndex) {
        let stored = self.stored.entry(machine).or_default();
        *stored = upto.max(*stored);
        self.promote();
    }

    pub(crate) fn add_member(&mut self, machine: MachineIx) {
        self.members.insert(machine);
        self.promote();
    }

    /// Another member votes in its place, if there is one.
    pub(crate) fn remove_member(&mut self, machine: MachineIx) {
        self.members.remove(&machine);
        self.voters.remove(&machine);
        self.promote();
    }

    pub(crate) fn is_member(&self, machine: MachineIx) -> bool {
        self.members.contains(&machine)
    }

    /// R-NODE-4: only so many vote, and no member that lags behind becomes a voter.
    fn promote(&mut self) {
        let wanted = voter_target(self.members.len());
        let up_to_date = self.members.iter().filter(|machine| self.stored(**machine) == self.last);
        let candidates: Vec<MachineIx> =
            up_to_date.filter(|machine| !self.voters.contains(machine)).copied().collect();
        let missing = wanted - self.voters.len().min(wanted);
        // An even number of voters on the way would tolerate less than before.
        if candidates.len() >= missing {
            self.voters.extend(candidates.into_iter().take(missing));
        }
    }

    pub(crate) fn is_voter(&self, machine: MachineIx) -> bool {
        self.voters.contains(&machine)
    }

    /// Whether these machines, all up and reachable, have a majority of the votes.
    pub(crate) fn is_majority(&self, machines: &BTreeSet<MachineIx>) -> bool {
        self.voters.intersection(machines).count() * 2 > self.voters.len()
    }

    /// The leader writes a proposal into its own log.
    pub(crate) fn append(
        &mut self,
        proposal: Proposal,
        moment: Moment,
        ready_at: Timestamp,
        reached: BTreeSet<MachineIx>,
    ) {
        self.tail.push(Appended { proposal, moment, ready_at, reached });
    }

    /// Commits what was appended long enough ago, with these machines as the majority.
    pub(crate) fn agree(
        &mut self,
        now: Timestamp,
        with: &BTreeSet<MachineIx>,
    ) -> Vec<(Origin, StateIndex)> {
        let ready = self.tail.iter().take_while(|appended| appended.ready_at <= now).count();
        let ready: Vec<Appended> = self.tail.drain(..ready).collect();
        let agreed = ready.into_iter().map(|appended| self.commit(appended)).collect();
        for machine in with {
            self.store(*machine, self.last);
        }
        agreed
    }

    fn commit(&mut self, appended: Appended) -> (Origin, StateIndex) {
        let Appended { proposal, moment: Moment { at, truly }, .. } = appended;
        self.last = StateIndex(self.last.0 + 1);
        let Proposal { origin, by, request, command } = proposal;
        let entry = Entry { index: self.last, at, by, origin: None, request, command };
        self.entries.insert(self.last, entry);
        self.appended.insert(self.last, truly);
        (origin, self.last)
    }

    /// Whether the machine has every committed entry; no other can win an election.
    pub(crate) fn is_complete(&self, machine: MachineIx) -> bool {
        self.stored(machine) == self.last
    }

    /// A new leader. Of the uncommitted entries it has at most the first `luck` entries, and none that
    /// could not reach it. Their proposers learn only that the outcome is unknown.
    pub(crate) fn elect(
        &mut self,
        winner: MachineIx,
        luck: usize,
        with: &BTreeSet<MachineIx>,
    ) -> Vec<Origin> {
        let tail = std::mem::take(&mut self.tail);
        let in_doubt = tail.iter().map(|appended| appended.proposal.origin).collect();
        let survivors = tail.into_iter().take(luck);
        for appended in survivors.take_while(|appended| appended.reached.contains(&winner)) {
            self.commit(appended);
        }
        self.term += 1;
        self.leader = Some(winner);
        // Its first entry is raft's own.
        self.last = StateIndex(self.last.0 + 1);
        for machine in with {
            self.store(*machine, self.last);
        }
        in_doubt
    }

    /// Number of uncommitted entries.
    pub(crate) fn uncommitted(&self) -> usize {
        self.tail.len()
    }
}
