//! A daemon: a copy of the state, an agent, and the leader's loop while it leads. What `jacod` wires
//! together from the same parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_agent::engine::EngineError;
use jaco_agent::{AgentCore, Event, Owner};
use jaco_scheduler::input::EngineSignal;
use jaco_state::audit::{DEFAULT_AGE, Retention};
use jaco_state::view::{DesiredInstance, desired_on, prepared_on};
use jaco_state::{ClusterState, Entry, Outcome, apply};
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    ImageNeed, ImageReadiness, InstanceId, InstanceObserved, Millis, NodeId, StateIndex,
};

use crate::leader::LeaderLoop;
use crate::outbox::Outbox;

/// A running daemon. All of it is lost when it dies; what it has stored of the log is not.
#[derive(Debug)]
pub(crate) struct Daemon {
    /// Which of the machine's daemons this is.
    pub(crate) life: u64,
    pub(crate) state: ClusterState,
    /// How much of the log is in `state`; raft's own entries count.
    pub(crate) applied: StateIndex,
    /// Whether it has heard from a leader since it started. Before that its state may be old, and
    /// its agent waits.
    pub(crate) view: View,
    pub(crate) core: AgentCore,
    pub(crate) outbox: Outbox,
    pub(crate) leading: Option<LeaderLoop>,
    /// Whether its engine answered last; absent before it was asked.
    pub(crate) engine: Option<EngineSignal>,
    /// For how long there was no contact with a leader, as its agent was told last.
    pub(crate) silence: Millis,
    /// What its agent said last about the images that rollouts need there.
    pub(crate) images: BTreeMap<ImageNeed, ImageReadiness>,
    node: NodeId,
    told: Told,
    asked_to_prepare: BTreeMap<ImageNeed, Arc<ServiceSpec>>,
}

/// How far a daemon's state can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// It may be from before a crash.
    Old,
    /// A leader has brought it up to date since the start.
    Current,
}

/// What a node begins with. All daemons here are of one version, so the audit log tells all that they
/// know from the beginning; real ones find that out first, and write it down.
pub(crate) fn before_all_entries() -> ClusterState {
    let mut state = ClusterState::default();
    state.audit.retention = Some(Retention { age: DEFAULT_AGE, cut: None });
    state
}

/// What the agent was last told of the state.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    desired: BTreeMap<InstanceId, DesiredInstance>,
    observed: BTreeMap<InstanceId, InstanceObserved>,
}

impl Daemon {
    pub(crate) fn new(owner: Owner, life: u64) -> Self {
        Self {
            life,
            state: before_all_entries(),
            applied: StateIndex(0),
            view: View::Old,
            node: owner.node,
            core: AgentCore::new(owner),
            outbox: Outbox::default(),
            leading: None,
            engine: None,
            told: Told::default(),
            silence: Millis(0),
            images: BTreeMap::new(),
            asked_to_prepare: BTreeMap::new(),
        }
    }

    /// Executes the next entry of the log.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Outcome {
        self.applied = entry.index;
        apply(&mut self.state, entry)
    }

    /// What to tell the agent of the state; nothing if it knows, or if the state may be old.
    pub(crate) fn desired(&mut self) -> Option<Event> {
        if self.view == View::Old {
            return None;
        }
        let own = self.state.observed.iter().filter(|(_, seen)| seen.node == self.node);
        let told = Told {
            desired: desired_on(&self.state, self.node),
            observed: own.map(|(id, seen)| (id.clone(), seen.clone())).collect(),
        };
        if told == self.told {
            return None;
        }
        let (desired, observed) = (told.desired.clone(), told.observed.clone());
        self.told = told;
        Some(Event::Desired { index: self.state.index, desired, observed })
    }

    /// Which images to tell the agent of; nothing if it knows, or if the state may be old.
    pub(crate) fn prepare(&mut self) -> Option<Event> {
        if self.view == View::Old {
            return None;
        }
        let asked = prepared_on(&self.state, self.node);
        if asked == self.asked_to_prepare {
            return None;
        }
        self.asked_to_prepare.clone_from(&asked);
        Some(Event::Prepare(asked))
    }

    /// The first word to the agent, even if nothing is wanted here.
    pub(crate) fn first_desired(&mut self) -> Event {
        self.view = View::Current;
        self.desired().unwrap_or(Event::Desired {
            index: self.state.index,
            desired: BTreeMap::new(),
            observed: BTreeMap::new(),
        })
    }

    /// A list is asked for every few seconds, so its answer says whether the engine is there.
    pub(crate) fn note_engine(&mut self, event: &Event) {
        let Event::Listed(result) = event else { return };
        self.engine = Some(match result {
            Ok(_) => EngineSignal::Up,
            Err(error) => EngineSignal::Down(words(error)),
        });
    }
}

fn words(error: &EngineError) -> String {
    error.to_string()
}
