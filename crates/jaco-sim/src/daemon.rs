//! A daemon: a copy of the state, an agent, and the leader's loop while it leads. What `jacod` wires
//! together from the same parts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_agent::engine::EngineError;
use jaco_agent::{AgentCore, Event, Owner, StateAge, registry};
use jaco_dataplane::Planner;
use jaco_scheduler::input::EngineSignal;
use jaco_state::audit::{DEFAULT_AGE, Retention};
use jaco_state::registries::RegistryLogin;
use jaco_state::view::{DesiredInstance, desired_on, prepull_on};
use jaco_state::{ClusterState, Entry, Outcome, Table, apply};
use jaco_store::ClusterTime;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    ImageNeed, ImageReadiness, InstanceId, InstanceObserved, Millis, NodeId, RegistryName,
    StateIndex,
};

use crate::consumer::RouterConsumer;
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
    /// Whether it has received entries from a leader since it started. Before that its state may be stale,
    /// and its agent waits.
    pub(crate) view: View,
    pub(crate) core: AgentCore,
    pub(crate) outbox: Outbox,
    pub(crate) leading: Option<LeaderLoop>,
    /// Plans what the router of its machine holds.
    pub(crate) site: Planner,
    /// What it does as the endpoint consumer that its router is.
    pub(crate) consumer: RouterConsumer,
    /// What its agent waits by: its own clock, without jumps.
    pub(crate) own_time: RefCell<ClusterTime>,
    /// The cluster's time as it knows it.
    pub(crate) time: RefCell<ClusterTime>,
    /// Whether it has followed a leader since it started, or led.
    pub(crate) knows_time: Cell<bool>,
    /// What its engine answered last; absent before the first answer.
    pub(crate) engine: Option<EngineSignal>,
    /// For how long there was no contact with a leader, as sent to its agent last.
    pub(crate) silence: Millis,
    /// Whether `state` may lack what was decided about the node while it had no contact.
    pub(crate) state_age: StateAge,
    /// Readiness of the images that rollouts need there, as its agent reported it last.
    pub(crate) images: BTreeMap<ImageNeed, ImageReadiness>,
    node: NodeId,
    sent: Sent,
    asked_to_prepare: BTreeMap<ImageNeed, Arc<ServiceSpec>>,
    /// The logins that its agent knows of.
    logins: Table<RegistryName, RegistryLogin>,
}

/// Whether a daemon's state may be stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// It may be from before a crash.
    Old,
    /// A leader has brought it up to date since the start.
    Current,
}

/// The state that a node begins with. All daemons here are of one version, so the audit log has its retention
/// from the beginning; real ones agree on it first.
pub(crate) fn before_all_entries() -> ClusterState {
    let mut state = ClusterState::default();
    state.audit.retention = Some(Retention { age: DEFAULT_AGE, cut: None, clock: None });
    state
}

/// The part of the state that the agent was sent last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
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
            site: Planner::new(owner.node),
            consumer: RouterConsumer::default(),
            core: AgentCore::new(owner),
            outbox: Outbox::default(),
            leading: None,
            own_time: RefCell::default(),
            time: RefCell::default(),
            knows_time: Cell::new(false),
            engine: None,
            sent: Sent::default(),
            silence: Millis(0),
            state_age: StateAge::Current,
            images: BTreeMap::new(),
            asked_to_prepare: BTreeMap::new(),
            logins: Table::default(),
        }
    }

    /// Executes the next entry of the log.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Outcome {
        self.applied = entry.index;
        apply(&mut self.state, entry)
    }

    /// [`crate::Sabotage::SkipReports`].
    pub(crate) fn skip(&mut self, entry: &Entry) -> Outcome {
        self.applied = entry.index;
        self.state.index = entry.index;
        Outcome::Done
    }

    /// The state for the agent, if that changed since it was sent last; none while the state may be stale.
    pub(crate) fn desired(&mut self) -> Option<Event> {
        if self.view == View::Old {
            return None;
        }
        let own = self.state.observed.iter().filter(|(_, seen)| seen.node == self.node);
        let sent = Sent {
            desired: desired_on(&self.state, self.node),
            observed: own.map(|(id, seen)| (id.clone(), seen.clone())).collect(),
        };
        if sent == self.sent {
            return None;
        }
        let (desired, observed) = (sent.desired.clone(), sent.observed.clone());
        self.sent = sent;
        Some(Event::Desired { index: self.state.index, desired, observed })
    }

    /// The images to pull in advance, if they changed since they were sent last; none while the state may be
    /// stale.
    pub(crate) fn prepare(&mut self) -> Option<Event> {
        if self.view == View::Old {
            return None;
        }
        let asked = prepull_on(&self.state, self.node);
        if asked == self.asked_to_prepare {
            return None;
        }
        self.asked_to_prepare.clone_from(&asked);
        Some(Event::Prepull(asked))
    }

    /// The registries whose logins changed since the agent was told last; none while the state may be stale.
    pub(crate) fn logins_changed(&mut self) -> Option<Event> {
        if self.view == View::Old || self.logins.is_same(&self.state.registries) {
            return None;
        }
        let changed = registry::changed(&self.logins, &self.state.registries);
        self.logins = self.state.registries.clone();
        (!changed.is_empty()).then_some(Event::RegistriesChanged(changed))
    }

    /// The first event for the agent, even if nothing is desired here.
    pub(crate) fn first_desired(&mut self) -> Event {
        self.view = View::Current;
        self.desired().unwrap_or(Event::Desired {
            index: self.state.index,
            desired: BTreeMap::new(),
            observed: BTreeMap::new(),
        })
    }

    /// Containers are listed every few seconds, so the answer shows whether the engine works.
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
