//! Laws of a rotation of the key-encryption key over all orders of crashes, reports, joins, removals and writes: members
//! that lag behind the log, carry out what `kek_duty` says, and are killed in between; leaders that seal by an old state
//! (ADR 0127).

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::{
    AuthorityAbandon, AuthorityRotate, ContentPut, KekAbandon, KekAdvance, KekReseal, KekRotate,
    NodeRemove,
};
use jaco_state::contents::{Form, Piece, PieceBytes};
use jaco_state::invariants::violations;
use jaco_state::kek::{KekPhase, KekStep};
use jaco_state::view::{
    HeldKeys, KekDuty, envelopes, kek_duty, key_holders, needed_keys, sealing_key,
};
use jaco_state::{ClusterState, Command, Outcome};
use jaco_types::{ContentId, KekId, NodeId, StateIndex};
use proptest::prelude::*;

use crate::history::History;
use crate::kek::{current, envelope, founded, id, naming, report, resealed};
use crate::{registries, rotation};

/// What a member has on its disk.
#[derive(Debug, Clone)]
struct Member {
    /// `kek`; none before the answer to its join has arrived.
    key: Option<KekId>,
    /// `kek.next`.
    next: Option<KekId>,
    /// How much of the log it has applied.
    applied: usize,
    /// What its snapshots and log can bring back is at least as new as this.
    oldest: usize,
    /// The state in which it was admitted: before that it needs no key.
    admitted: usize,
    /// Whether it has caught up since its start: before that it does nothing.
    caught_up: bool,
}

impl Member {
    fn keys(&self) -> BTreeSet<KekId> {
        self.key.into_iter().chain(self.next).collect()
    }
}

#[derive(Debug, Default)]
struct World {
    history: History,
    /// The state after each entry.
    log: Vec<ClusterState>,
    members: BTreeMap<NodeId, Member>,
    phases: Vec<(StateIndex, KekPhase)>,
    /// The next new key, and the next content.
    next_key: u8,
    next_content: u8,
}

#[derive(Debug, Clone)]
enum Step {
    /// A member applies some of what it lacks.
    Apply(usize, usize),
    /// A member does what it has to do next.
    Act(usize),
    /// The same, and is killed then.
    ActAndCrash(usize),
    Crash(usize),
    /// A node joins.
    Join,
    /// A node joins, and does not get the answer.
    JoinUnheard,
    /// Who did not get it asks again.
    AskAgain(usize),
    Remove(usize),
    /// A leader makes a key and begins.
    Begin(usize),
    /// A leader makes a key, and is killed before it proposes anything.
    BeginAndCrash(usize),
    /// A leader begins, and is lost for good.
    BeginAndLose(usize),
    Advance(KekPhase),
    /// A leader reseals some of what the old key sealed, as it knows it.
    Reseal(usize, usize),
    Abandon,
    /// A leader seals something by its own state, which may be old.
    Write(usize, usize),
    /// A member reports again what it has done before.
    Late(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..4usize;
    prop_oneof![
        8 => (node(), 0..20usize).prop_map(|(node, entries)| Step::Apply(node, entries)),
        12 => node().prop_map(Step::Act),
        2 => node().prop_map(Step::ActAndCrash),
        2 => node().prop_map(Step::Crash),
        1 => Just(Step::Join),
        1 => Just(Step::JoinUnheard),
        1 => node().prop_map(Step::AskAgain),
        1 => node().prop_map(Step::Remove),
        2 => node().prop_map(Step::Begin),
        1 => node().prop_map(Step::BeginAndCrash),
        1 => node().prop_map(Step::BeginAndLose),
        5 => prop_oneof![Just(KekPhase::HandingOut), Just(KekPhase::Resealing)]
            .prop_map(Step::Advance),
        5 => (node(), 0..4usize).prop_map(|(node, some)| Step::Reseal(node, some)),
        1 => Just(Step::Abandon),
        5 => (node(), 0..4usize).prop_map(|(node, what)| Step::Write(node, what)),
        1 => (node(), 0..2usize).prop_map(|(node, step)| Step::Late(node, step)),
    ]
}

impl World {
    fn new() -> Self {
        let mut world = Self { history: founded(), next_key: 2, ..Self::default() };
        world.record();
        world.admitted(NodeId::FIRST);
        world.answered(NodeId::FIRST);
        for host in ["n2", "n3"] {
            world.join(host);
        }
        world
    }

    fn join(&mut self, host: &str) {
        let node = self.history.join(host);
        self.record();
        self.admitted(node);
        self.answered(node);
    }

    fn admitted(&mut self, node: NodeId) {
        let admitted = self.log.len() - 1;
        let (applied, oldest) = (0, 0);
        let member = Member { key: None, next: None, applied, oldest, admitted, caught_up: false };
        self.members.insert(node, member);
    }

    /// The answer to a join: what seals, and the other key that is needed or will be.
    fn answered(&mut self, node: NodeId) {
        let state = &self.history.state;
        let (key, next) = match &state.sealing.rotation {
            Some(rotation) if !rotation.phase.is_last() => (Some(rotation.old), Some(rotation.new)),
            Some(_) | None => (sealing_key(state), None),
        };
        // Of a key that is being handed out the leader may know the name only.
        let is_held =
            next.is_some_and(|next| self.members.values().any(|it| it.keys().contains(&next)));
        let member = self.member(node);
        (member.key, member.next) = (key, next.filter(|_| is_held));
    }

    fn record(&mut self) {
        self.log.push(self.history.state.clone());
        if let Some(rotation) = &self.history.state.sealing.rotation {
            let now = (rotation.id, rotation.phase);
            if self.phases.last() != Some(&now) {
                self.phases.push(now);
            }
        }
    }

    fn commit(&mut self, command: Command) -> Outcome {
        let outcome = self.history.apply(command);
        self.record();
        outcome
    }

    fn nth(&self, number: usize) -> NodeId {
        let nodes: Vec<_> = self.members.keys().copied().collect();
        nodes[number % nodes.len()]
    }

    fn member(&mut self, node: NodeId) -> &mut Member {
        self.members.get_mut(&node).expect("it is one")
    }

    fn seen_by(&self, node: NodeId) -> &ClusterState {
        &self.log[self.members[&node].applied]
    }

    fn runs(&self, node: NodeId) -> bool {
        let member = &self.members[&node];
        member.caught_up && member.key.is_some()
    }

    fn act(&mut self, node: NodeId) {
        if !self.runs(node) {
            return;
        }
        let member = &self.members[&node];
        let oldest = self.log[member.oldest].index;
        let held = HeldKeys { keys: member.keys(), oldest };
        let seen = self.seen_by(node);
        match kek_duty(seen, node, &held) {
            None => {}
            Some(KekDuty::Fetch(key)) => {
                let rotation = seen.sealing.rotation.as_ref().expect("it says what to do");
                let asked = key_holders(rotation).filter_map(|holder| self.members.get(&holder));
                if asked.into_iter().any(|holder| holder.keys().contains(&key)) {
                    self.member(node).next = Some(key);
                }
            }
            Some(KekDuty::Compact(from)) => {
                let applied = self.members[&node].applied;
                assert!(self.log[applied].index >= from, "a snapshot is of what is applied");
                self.member(node).oldest = applied;
            }
            Some(KekDuty::Keep(key)) => {
                let member = self.member(node);
                assert!(member.keys().contains(&key), "it would have none: {member:?}");
                (member.key, member.next) = (Some(key), None);
            }
            Some(KekDuty::Report(step)) => self.report(node, step),
        }
    }

    /// A report for the rotation that the node knows of.
    fn report(&mut self, node: NodeId, step: KekStep) {
        let known = self.seen_by(node).sealing.rotation.as_ref().map(|one| one.id);
        if self.history.state.sealing.rotation.as_ref().map(|one| one.id) == known {
            report(&mut self.history, node, node, step);
            self.record();
        }
    }

    /// It starts again with what it has stored, and with an older state than it had.
    fn crash(&mut self, node: NodeId) {
        let member = self.member(node);
        member.applied = (member.applied / 2).max(member.oldest);
        member.caught_up = false;
    }

    /// Whether a leader makes and stores a key, as it does only if nothing is left of the last rotation.
    fn makes_key(&mut self, node: NodeId) -> Option<KekId> {
        let last = self.log.len() - 1;
        let state = &self.log[last];
        let rotation = state.sealing.rotation.as_ref();
        let may = rotation.is_none_or(|last| last.is_complete(&state.nodes));
        if !self.runs(node) || !may || self.next_key > 60 {
            return None;
        }
        let key = id(self.next_key);
        self.next_key += 1;
        let member = self.member(node);
        (member.applied, member.next) = (last, Some(key));
        Some(key)
    }

    fn begin(&mut self, node: NodeId) {
        let Some(new) = self.makes_key(node) else { return };
        let old = sealing_key(&self.history.state).expect("there is a cluster");
        let names = match self.history.state.sealing.naming_key {
            Some(_) => None,
            None => naming(old.0[0]),
        };
        let outcome = self.commit(KekRotate::new(old, new, node, names).into());
        assert_eq!(outcome, Outcome::Done);
    }

    /// Only a member that has what is needed can lead, and a cluster without one is lost.
    fn remove(&mut self, node: NodeId) {
        let needed = needed_keys(&self.history.state);
        let mut others = self.members.iter().filter(|(other, _)| **other != node);
        let can_lead = |member: &Member| needed.iter().all(|key| member.keys().contains(key));
        if self.members.len() > 2 && others.any(|(_, member)| can_lead(member)) {
            self.commit(NodeRemove::new(node).into());
            self.members.remove(&node);
        }
    }

    fn write(&mut self, node: NodeId, what: usize) {
        let sealed_by = sealing_key(self.seen_by(node));
        let Some(key) = sealed_by.filter(|key| self.members[&node].keys().contains(key)) else {
            return;
        };
        self.next_content = self.next_content.wrapping_add(1);
        let sealed = envelope(key.0[0], self.next_content);
        match what {
            0 | 1 => drop(self.commit(registries::store(["a.io", "b.io"][what], &sealed))),
            2 => {
                let id = ContentId([self.next_content % 8; 32]);
                let piece = Piece { id, form: Form::Sealed, bytes: PieceBytes(sealed.into()) };
                self.commit(ContentPut::new(vec![piece]).into());
            }
            _ => {
                let mut new = rotation::authority(self.next_content);
                new.sealed_key = sealed;
                self.commit(AuthorityRotate::new([1; 32], new).into());
                let begun = self.history.state.rotation.as_ref().map(|one| one.id);
                if let Some(begun) = begun.filter(|_| self.next_content.is_multiple_of(2)) {
                    self.commit(AuthorityAbandon::new(begun).into());
                }
            }
        }
    }

    /// A leader proposes new envelopes for some that it knows of: it needs both keys.
    fn reseal(&mut self, node: NodeId, some: usize) {
        let seen = self.seen_by(node);
        let Some(rotation) = &seen.sealing.rotation else { return };
        let keys = self.members[&node].keys();
        if !self.runs(node) || !keys.contains(&rotation.old) || !keys.contains(&rotation.new) {
            return;
        }
        let mut new = resealed(seen);
        new.truncate(some + 1);
        let command = KekReseal::new(rotation.id, new).into();
        self.commit(command);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Apply(node, entries) => {
                let (node, last) = (self.nth(*node), self.log.len() - 1);
                let member = self.member(node);
                member.applied = (member.applied + entries).min(last);
                member.caught_up |= member.applied == last;
            }
            Step::Act(node) => self.act(self.nth(*node)),
            Step::ActAndCrash(node) => {
                self.act(self.nth(*node));
                self.crash(self.nth(*node));
            }
            Step::Crash(node) => self.crash(self.nth(*node)),
            Step::Join => self.join(&format!("x{}", self.history.state.index)),
            Step::JoinUnheard => {
                let node = self.history.join(&format!("x{}", self.history.state.index));
                self.record();
                self.admitted(node);
            }
            Step::AskAgain(node) => {
                let node = self.nth(*node);
                if self.members[&node].key.is_none() {
                    self.answered(node);
                }
            }
            Step::Remove(node) => self.remove(self.nth(*node)),
            Step::Begin(node) => self.begin(self.nth(*node)),
            Step::BeginAndCrash(node) => {
                let node = self.nth(*node);
                if self.makes_key(node).is_some() {
                    self.crash(node);
                }
            }
            Step::BeginAndLose(node) => {
                let node = self.nth(*node);
                self.begin(node);
                self.remove(node);
            }
            Step::Advance(_) | Step::Abandon if self.history.state.sealing.rotation.is_none() => {}
            Step::Advance(phase) => {
                self.commit(KekAdvance::new(current(&self.history), *phase).into());
            }
            Step::Abandon => drop(self.commit(KekAbandon::new(current(&self.history)).into())),
            Step::Reseal(node, some) => self.reseal(self.nth(*node), *some),
            Step::Write(node, what) => self.write(self.nth(*node), *what),
            Step::Late(node, step) => {
                let (node, step) = (self.nth(*node), KekStep::ALL[*step]);
                let rotation = self.history.state.sealing.rotation.as_ref();
                let known = rotation.and_then(|one| one.reports.get(&node));
                if known >= Some(&step) {
                    self.report(node, step);
                }
            }
        }
    }

    /// Each envelope in each state that a member may still load or receive opens with a key that it has.
    fn check_keys(&self) -> Result<(), TestCaseError> {
        for (node, member) in &self.members {
            // Without an answer to its join it does not run.
            if member.key.is_none() {
                continue;
            }
            let keys = member.keys();
            for state in &self.log[member.oldest.max(member.admitted)..] {
                let closed = envelopes(state).find(|(_, envelope)| {
                    KekId::of_envelope(envelope).is_none_or(|key| !keys.contains(&key))
                });
                prop_assert!(
                    closed.is_none(),
                    "{node} has {keys:?} and may load {closed:?} of {}: {:?}",
                    state.index,
                    self.history.state.sealing.rotation
                );
                let needed = needed_keys(state);
                prop_assert!(
                    needed.iter().all(|key| keys.contains(key)),
                    "{node} lacks {needed:?}"
                );
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let broken = violations(&self.history.state);
        prop_assert!(broken.is_empty(), "{broken:?}");
        let mut once = BTreeSet::new();
        prop_assert!(self.phases.iter().all(|phase| once.insert(*phase)), "{:?}", self.phases);
        let is_ordered = |pair: &[(StateIndex, KekPhase)]| pair[0] < pair[1];
        prop_assert!(self.phases.windows(2).all(is_ordered), "{:?}", self.phases);
        self.check_keys()
    }

    /// All members run, apply everything and do what they have to; the leader goes on where it may. Returns whether
    /// nothing is left to do.
    fn let_run(&mut self) {
        for _ in 0..40 {
            for node in self.members.keys().copied().collect::<Vec<_>>() {
                let last = self.log.len() - 1;
                if self.members[&node].key.is_none() {
                    self.answered(node);
                }
                let member = self.member(node);
                (member.applied, member.caught_up) = (last, true);
                self.act(node);
            }
            self.take(&Step::Advance(KekPhase::HandingOut));
            let last = self.log.len() - 1;
            let leader = self.nth(0);
            self.member(leader).applied = last;
            self.reseal(leader, usize::MAX - 1);
            self.take(&Step::Advance(KekPhase::Resealing));
        }
    }

    /// Whether the only ones that had a key that is handed out are gone.
    fn is_lost(&self) -> bool {
        let Some(rotation) = &self.history.state.sealing.rotation else { return false };
        let has = |member: &Member| member.keys().contains(&rotation.new);
        rotation.phase == KekPhase::HandingOut && !self.members.values().any(has)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Each envelope in the state, and in any state that a member may still load, opens with a key that this member has;
    /// no phase is left before each member's report, and none is entered twice.
    #[test]
    fn members_never_lack_a_key(steps in proptest::collection::vec(step(), 0..250)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            world.check()?;
        }
    }

    /// From wherever it was left, with all members back, a rotation comes to its end: the new key alone opens everything,
    /// and every member has that one alone. One whose key was lost with its leader is abandoned.
    #[test]
    fn a_rotation_of_the_key_comes_to_its_end(steps in proptest::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        if world.is_lost() {
            world.take(&Step::Abandon);
        }
        world.let_run();
        world.take(&Step::Begin(0));
        world.let_run();
        world.check()?;
        let state = &world.history.state;
        let rotation = state.sealing.rotation.as_ref().expect("one has begun");
        prop_assert_eq!(rotation.phase, KekPhase::Settled);
        prop_assert!(rotation.is_complete(&state.nodes));
        for (place, envelope) in envelopes(state) {
            prop_assert_eq!(KekId::of_envelope(envelope), Some(rotation.new), "{}", place);
        }
        for (node, member) in &world.members {
            prop_assert_eq!((member.key, member.next), (Some(rotation.new), None), "{}", node);
        }
    }
}
