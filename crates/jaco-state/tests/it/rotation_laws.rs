//! Laws of a rotation over all orders of crashes, reports, joins and removals: members that lag behind the log, carry out
//! what `rotation_duty` says, are killed in between, and connect to each other meanwhile (ADR 0121).

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::{
    AuthorityAbandon, AuthorityContinue, AuthorityRotate, AuthoritySettle, NodeRemove,
    OpenJoinTokens,
};
use jaco_state::invariants::violations;
use jaco_state::rotation::{RotationPhase, RotationStep};
use jaco_state::view::{HeldConnections, HeldTrust, RotationDuty, rotation_duty};
use jaco_state::{ClusterState, Outcome};
use jaco_types::{NodeId, StateIndex};
use proptest::prelude::*;

use crate::history::History;
use crate::rotation::{authority, current, report};

type Fingerprint = [u8; 32];

/// What a member has on its disk, and uses.
#[derive(Debug, Clone)]
struct Member {
    trusted: BTreeSet<Fingerprint>,
    signed_by: Fingerprint,
    /// How much of the log it has applied.
    applied: usize,
    /// Whether it has caught up since its start: before that it does nothing.
    caught_up: bool,
}

/// A connection that is open: who opened it, to whom, and who had signed what the two showed.
type Connection = (NodeId, NodeId, Fingerprint, Fingerprint);

#[derive(Debug, Default)]
struct World {
    history: History,
    /// The state after each entry.
    log: Vec<ClusterState>,
    members: BTreeMap<NodeId, Member>,
    connections: BTreeSet<Connection>,
    phases: Vec<(StateIndex, RotationPhase)>,
    next: u8,
}

#[derive(Debug, Clone)]
enum Step {
    /// A member applies some of what it lacks.
    Apply(usize, usize),
    /// A member does what it has to do next.
    Act(usize),
    /// The same, but it is killed after the first thing that it stores.
    ActAndCrash(usize),
    Crash(usize),
    Connect(usize, usize),
    Disconnect(usize, usize),
    Join,
    Remove(usize),
    Begin,
    Continue,
    Abandon,
    Settle,
    /// A member reports without having done anything for it, as one that is mistaken about the phase would.
    Late(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4usize, 0..20usize).prop_map(|(node, entries)| Step::Apply(node, entries)),
        12 => (0..4usize).prop_map(Step::Act),
        2 => (0..4usize).prop_map(Step::ActAndCrash),
        2 => (0..4usize).prop_map(Step::Crash),
        6 => (0..4usize, 0..4usize).prop_map(|(from, to)| Step::Connect(from, to)),
        1 => (0..4usize, 0..4usize).prop_map(|(from, to)| Step::Disconnect(from, to)),
        1 => Just(Step::Join),
        1 => (0..4usize).prop_map(Step::Remove),
        2 => Just(Step::Begin),
        3 => Just(Step::Continue),
        1 => Just(Step::Abandon),
        3 => Just(Step::Settle),
        1 => (0..4usize, 0..4usize).prop_map(|(node, step)| Step::Late(node, step)),
    ]
}

fn fingerprint(number: u8) -> Fingerprint {
    [number; 32]
}

/// What the state says of the authorities: those that are trusted, and the one that signs.
fn said(state: &ClusterState) -> (BTreeSet<Fingerprint>, Fingerprint) {
    match &state.rotation {
        None => ([fingerprint(0)].into(), fingerprint(0)),
        Some(rotation) => {
            let trusted = rotation.trusted().iter().map(|one| one.fingerprint).collect();
            (trusted, rotation.signs().fingerprint)
        }
    }
}

impl World {
    fn new() -> Self {
        let mut world = Self { history: History::founded(), next: 1, ..Self::default() };
        world.admit(NodeId::FIRST);
        for host in ["n2", "n3"] {
            let node = world.history.join(host);
            world.admit(node);
        }
        world.record();
        world
    }

    /// A member that was just admitted: it has what the reply brought, and no state.
    fn admit(&mut self, node: NodeId) {
        let (trusted, signed_by) = said(&self.history.state);
        let member = Member { trusted, signed_by, applied: 0, caught_up: false };
        self.members.insert(node, member);
    }

    fn record(&mut self) {
        self.log.push(self.history.state.clone());
        if let Some(rotation) = &self.history.state.rotation {
            let now = (rotation.id, rotation.phase);
            if self.phases.last() != Some(&now) {
                self.phases.push(now);
            }
        }
    }

    fn nth(&self, number: usize) -> NodeId {
        let nodes: Vec<_> = self.members.keys().copied().collect();
        nodes[number % nodes.len()]
    }

    fn seen_by(&self, node: NodeId) -> &ClusterState {
        let member = &self.members[&node];
        &self.log[member.applied.min(self.log.len() - 1)]
    }

    fn held(&self, node: NodeId) -> HeldTrust {
        let member = &self.members[&node];
        let (_, signs) = said(self.seen_by(node));
        let is_current = |one: &&Connection| one.2 == signs && one.3 == signs;
        let mut own = self.connections.iter().filter(|one| one.0 == node);
        let connections = match own.all(|one| is_current(&one)) {
            true => HeldConnections::Current,
            false => HeldConnections::Outdated,
        };
        let signed_by = member.trusted.contains(&member.signed_by).then_some(member.signed_by);
        HeldTrust { trusted: member.trusted.clone(), signed_by, connections }
    }

    fn act(&mut self, node: NodeId, crashes: bool) {
        if !self.members[&node].caught_up {
            return;
        }
        let duty = rotation_duty(self.seen_by(node), node, &self.held(node));
        match duty {
            None => {}
            Some(RotationDuty::Trust) => {
                let (trusted, _) = said(self.seen_by(node));
                self.member(node).trusted = trusted;
            }
            Some(RotationDuty::Renew) => {
                // The leader signs once an entry of the renewal is committed.
                let (trusted, signs) = said(&self.history.state);
                self.member(node).trusted = trusted;
                if crashes {
                    self.crash(node);
                    return;
                }
                self.member(node).signed_by = signs;
            }
            Some(RotationDuty::Reconnect) => {
                let (_, signs) = said(self.seen_by(node));
                self.connections.retain(|one| one.0 != node || (one.2 == signs && one.3 == signs));
            }
            Some(RotationDuty::Report(step)) => {
                let id = self.seen_by(node).rotation.as_ref().expect("it says what to do").id;
                if self.history.state.rotation.as_ref().map(|one| one.id) == Some(id) {
                    report(&mut self.history, node, node, step);
                    self.record();
                }
            }
        }
        if crashes {
            self.crash(node);
        }
    }

    fn member(&mut self, node: NodeId) -> &mut Member {
        self.members.get_mut(&node).expect("it is one")
    }

    /// It starts again with what it has stored, and with an older state than it had.
    fn crash(&mut self, node: NodeId) {
        let member = self.member(node);
        member.applied /= 2;
        member.caught_up = false;
        self.connections.retain(|one| one.0 != node && one.1 != node);
    }

    fn connect(&mut self, from: NodeId, to: NodeId) {
        let signers = (self.members[&from].signed_by, self.members[&to].signed_by);
        self.connections.insert((from, to, signers.0, signers.1));
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Apply(node, entries) => {
                let (node, last) = (self.nth(*node), self.log.len() - 1);
                let member = self.member(node);
                member.applied = (member.applied + entries).min(last);
                member.caught_up |= member.applied == last;
            }
            Step::Act(node) => self.act(self.nth(*node), false),
            Step::ActAndCrash(node) => self.act(self.nth(*node), true),
            Step::Crash(node) => self.crash(self.nth(*node)),
            Step::Connect(from, to) => self.connect(self.nth(*from), self.nth(*to)),
            Step::Disconnect(from, to) => {
                let (from, to) = (self.nth(*from), self.nth(*to));
                self.connections.retain(|one| (one.0, one.1) != (from, to));
            }
            Step::Join => {
                let host = format!("x{}", self.history.state.index);
                let node = self.history.join(&host);
                self.record();
                self.admit(node);
            }
            Step::Remove(node) => {
                let node = self.nth(*node);
                if self.members.len() > 2 {
                    self.history.apply(NodeRemove::new(node).into());
                    self.record();
                    self.members.remove(&node);
                    self.connections.retain(|one| one.0 != node && one.1 != node);
                }
            }
            Step::Begin => {
                let (_, signs) = said(&self.history.state);
                let command = AuthorityRotate::new(signs, authority(self.next)).into();
                if self.next < 20 && self.history.apply(command) == Outcome::Done {
                    self.next += 1;
                }
                self.record();
            }
            Step::Continue | Step::Abandon | Step::Settle
                if self.history.state.rotation.is_none() => {}
            Step::Continue => {
                let next = AuthorityContinue::new(current(&self.history));
                self.history.apply(next.join_tokens(OpenJoinTokens::Revoke).into());
                self.record();
            }
            Step::Abandon => {
                self.history.apply(AuthorityAbandon::new(current(&self.history)).into());
                self.record();
            }
            Step::Settle => {
                self.history.apply(AuthoritySettle::new(current(&self.history)).into());
                self.record();
            }
            Step::Late(node, step) => {
                let (node, step) = (self.nth(*node), RotationStep::ALL[*step]);
                let known =
                    self.history.state.rotation.as_ref().and_then(|one| one.reports.get(&node));
                // What it has done before it may say again.
                if known >= Some(&step) {
                    report(&mut self.history, node, node, step);
                    self.record();
                }
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (one, a) in &self.members {
            for (other, b) in &self.members {
                prop_assert!(
                    b.trusted.contains(&a.signed_by),
                    "{other} does not trust the certificate of {one}: {:?} {:?} in {:?}",
                    a,
                    b,
                    self.history.state.rotation
                );
            }
        }
        if let Some(rotation) = &self.history.state.rotation {
            let signer = rotation.signs_for_operators(&self.history.state.nodes).fingerprint;
            for (node, member) in &self.members {
                let is_let_in = member.trusted.contains(&signer);
                prop_assert!(is_let_in, "{node} refuses what an operator gets: {rotation:?}");
            }
        }
        if let Some(rotation) = &self.history.state.rotation
            && rotation.phase == RotationPhase::Settled
        {
            let old = rotation.old.fingerprint;
            let left = self.connections.iter().find(|one| one.2 == old || one.3 == old);
            prop_assert!(left.is_none(), "a connection of the old authority is left: {left:?}");
        }
        let broken = violations(&self.history.state);
        prop_assert!(broken.is_empty(), "{broken:?}");
        let mut once = BTreeSet::new();
        prop_assert!(self.phases.iter().all(|phase| once.insert(*phase)), "{:?}", self.phases);
        let is_ordered = |pair: &[(StateIndex, RotationPhase)]| pair[0] < pair[1];
        prop_assert!(self.phases.windows(2).all(is_ordered), "{:?}", self.phases);
        Ok(())
    }

    /// All members run, apply everything and do what they have to; the leader and an operator go on where they may.
    fn let_run(&mut self) {
        for _ in 0..40 {
            for node in self.members.keys().copied().collect::<Vec<_>>() {
                let last = self.log.len() - 1;
                let member = self.member(node);
                (member.applied, member.caught_up) = (last, true);
                self.act(node, false);
            }
            self.take(&Step::Continue);
            self.take(&Step::Settle);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each certificate that a member uses is signed by an authority that each member trusts; no phase is left before
    /// each member's report, and none is entered twice; once settled, no connection of the old authority is left. What an
    /// operator gets at any moment is accepted by each member.
    #[test]
    fn members_never_stop_believing_each_other(steps in proptest::collection::vec(step(), 0..250)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check()?;
        }
    }

    /// From wherever it was left, with all members back, a rotation comes to its end, and all have dropped the old
    /// authority.
    #[test]
    fn a_rotation_comes_to_its_end(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Begin);
        world.let_run();
        world.check()?;
        let rotation = world.history.state.rotation.as_ref().expect("one has begun");
        prop_assert_eq!(rotation.phase, RotationPhase::Settled);
        prop_assert!(rotation.holders(&world.history.state.nodes).is_empty());
        let only: BTreeSet<_> = [rotation.new.fingerprint].into();
        for member in world.members.values() {
            prop_assert_eq!((&member.trusted, member.signed_by), (&only, rotation.new.fingerprint));
        }
    }
}

/// A test of the law itself: with members that need not report, one of them is left behind.
#[test]
fn the_law_sees_a_phase_that_is_left_too_early() {
    let mut world = World::new();
    world.take(&Step::Begin);
    world.let_run();
    world.take(&Step::Begin);
    let last = world.history.state.rotation.as_mut().expect("it has begun");
    last.phase = RotationPhase::Renewing;
    world.record();
    let node = world.nth(0);
    let all = world.log.len() - 1;
    (world.member(node).applied, world.member(node).caught_up) = (all, true);
    for _ in 0..2 {
        world.act(node, false);
    }
    assert!(world.check().is_err(), "{world:?}");
}
