//! What must never be, whatever happens; and what must be once nothing happens any more.
//!
//! | id | meaning |
//! | --- | --- |
//! | ST-5 … ST-10 | the state's own invariants, after every entry (`jaco_state::invariants`) |
//! | SIM-1 | two nodes that executed the same entries hold equal states |
//! | SIM-2 | a node has at most two live containers of one slot |
//! | SIM-3 | an instance is started at most once, as far as its node can know |
//! | SIM-4 | nobody touches a container that is not its own |
//! | SIM-5 | a serving instance is dropped without a successor only for a reason: it failed, its node is lost, or the service cannot run two side by side |
//! | SIM-6 | of one service, no more replicas stop serving because of us than are replaced at a time |
//! | SIM-7 | a slot is removed only if it is not wanted |
//! | SIM-8 | only the leader of the term has its plans written |
//! | SIM-9 | what was acknowledged is there |
//! | SIM-10 | a request takes effect once |
//! | SIM-11 | once all faults are over: every wanted replica runs once, and nothing else is left |
//! | SIM-12 | a cluster at rest writes nothing |
//! | SIM-15 | an instance that stops by itself on a node that is cut off has stopped before its successor starts, while a daemon looks after it |
//! | SIM-16 | what is disabled is never started, and only what people want to rest is disabled |
//! | SIM-14 | time passes: nothing goes in circles within one moment |
//! | SIM-17 | what serves is ended only once it is out of the endpoints |
//! | SIM-18 | what is started of a revision whose image is settled was made from exactly that |
//! | SIM-13 | no agent ends the container of an instance that it knows to be wanted |

mod containers;
mod log;
mod rest;

use std::collections::{BTreeMap, BTreeSet};

use jaco_agent::Effect;
use jaco_agent::engine::{ContainerId, ContainerRequest, ContainerSeen};
use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
use jaco_types::{
    DeploymentName, Hostname, Instance, InstanceId, Millis, NodeId, ReplicaId, RequestId, Revision,
    ServiceKey, Slot, StateIndex, Timestamp,
};

use crate::daemon::before_all_entries;
use crate::network::MachineIx;

/// Something that must never be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub id: &'static str,
    /// When, in simulated milliseconds.
    pub at: Timestamp,
    /// What breaks it.
    pub what: String,
}

/// States are kept for comparison at every so many entries: a node that went astray stays astray,
/// so that a little later is soon enough.
const CHECKPOINT_EVERY: u64 = 8;

/// Looks at everything, and keeps what it needs to judge.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    violations: Vec<Violation>,
    now: Timestamp,
    /// The log executed once more, by nobody's daemon.
    reference: ClusterState,
    checkpoints: BTreeMap<StateIndex, ClusterState>,
    /// The container that each instance got.
    started: BTreeMap<InstanceId, Started>,
    /// Instances that were given up for a reason that is not ours.
    excused: BTreeSet<InstanceId>,
    machines: BTreeMap<MachineIx, BTreeMap<ContainerId, ContainerSeen>>,
    /// Containers that an agent asked to stop or to remove.
    asked_to_end: BTreeSet<ContainerId>,
    /// Slots that stopped serving because an agent ended their container.
    ended_by_us: BTreeMap<ReplicaId, ServiceKey>,
    acknowledged: BTreeMap<DeploymentName, Acknowledged>,
    /// Deployments that were deleted at some time, also by requests whose answer was lost: their
    /// revisions began anew.
    deleted: BTreeSet<DeploymentName>,
    effects: BTreeMap<RequestId, StateIndex>,
    /// Instances that were to stop by themselves, and that were placed elsewhere when their nodes
    /// were lost.
    given_up: BTreeSet<InstanceId>,
    /// Machines that nobody looks after: no daemon runs that was in contact since, or the engine
    /// does not answer it.
    unattended: BTreeSet<MachineIx>,
}

/// The container that an instance got.
#[derive(Debug)]
struct Started {
    container: ContainerId,
    by: Starter,
}

/// A daemon: which machine's, and which of its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Starter {
    pub(crate) machine: MachineIx,
    pub(crate) life: u64,
}

/// The last thing that people were told about a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acknowledged {
    Revision(Revision),
    Deleted,
}

impl Checker {
    /// One that has seen nothing.
    pub(crate) fn new() -> Self {
        Self { reference: before_all_entries(), ..Self::default() }
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The log executed up to its end.
    pub(crate) fn reference(&self) -> &ClusterState {
        &self.reference
    }

    fn broken(&mut self, id: &'static str, what: String) {
        self.violations.push(Violation { id, at: self.now, what });
    }

    /// An entry was agreed on.
    pub(crate) fn committed(&mut self, entry: &Entry, now: Timestamp) {
        self.now = now;
        let before = self.reference.clone();
        let outcome = apply(&mut self.reference, entry);
        for violation in jaco_state::invariants::violations(&self.reference) {
            self.broken(violation.id, violation.what);
        }
        if entry.index.0.is_multiple_of(CHECKPOINT_EVERY) {
            self.checkpoints.insert(entry.index, self.reference.clone());
        }
        self.check_effect_of_request(entry, &outcome);
        if let (Command::Batch { changes, .. }, Outcome::Done) = (&entry.command, &outcome) {
            self.check_changes(&before, changes);
        }
        if let (Command::DeploymentDelete { name }, Outcome::Done) = (&entry.command, &outcome) {
            self.deleted.insert(name.clone());
        }
        let slots = &self.reference.slots;
        self.ended_by_us.retain(|slot, _| slots.contains(slot));
    }

    /// A node executed an entry.
    pub(crate) fn applied(&mut self, host: &Hostname, state: &ClusterState) {
        let known = self.checkpoints.get(&state.index);
        if known.is_some_and(|known| known != state) {
            let what = format!("{host} holds another state at index {}", state.index);
            self.broken("SIM-1", what);
        }
    }

    /// The agent of a node asks its engine for something, while the node holds this state.
    pub(crate) fn effect(
        &mut self,
        effect: &Effect,
        state: &ClusterState,
        node: NodeId,
        silence: Millis,
        now: Timestamp,
    ) {
        self.now = now;
        if let Effect::Start(request) = effect {
            self.check_image(request, state);
        }
        let (Effect::Stop { instance, container } | Effect::Remove { instance, container }) =
            effect
        else {
            return;
        };
        if container.0.starts_with("foreign-") {
            self.broken("SIM-4", format!("{container} was to be ended, as {instance}"));
        }
        let isolated = state.slots.get(&instance.replica).is_some_and(|slot| {
            let mut live = slot.instances().filter(|(id, _)| id == instance);
            live.any(|(_, live)| stops_after(state, slot, live).is_some_and(|it| silence >= it))
        });
        if isolated {
            self.excused.insert(instance.clone());
        }
        let is_wanted = !isolated
            && state.slots.get(&instance.replica).is_some_and(|slot| {
                slot.instances().any(|(id, live)| id == *instance && live.node == node)
            });
        // Its node may be behind: what all have agreed on decides.
        let is_followed = jaco_state::view::in_routing(&self.reference, instance)
            || self.reference.leaving.contains(instance);
        if !isolated && is_followed && self.is_serving(container) {
            let what = format!("{instance} was to be ended, and traffic is sent to it");
            self.broken("SIM-17", what);
        }
        if is_wanted {
            self.broken("SIM-13", format!("{instance} was to be ended, and its node wants it"));
        }
        self.asked_to_end.insert(container.clone());
    }

    /// SIM-18.
    fn check_image(&mut self, request: &ContainerRequest, state: &ClusterState) {
        let Some(slot) = state.slots.get(&request.instance.replica) else { return };
        let mut live = slot.instances().filter(|(id, _)| *id == request.instance);
        let Some((_, live)) = live.next() else { return };
        let settled = state.image_digest(&slot.service, live.revision);
        if let Some(digest) = settled.filter(|digest| digest.as_str() != &*request.image) {
            let (instance, image) = (&request.instance, &request.image);
            self.broken("SIM-18", format!("{instance} runs {image} instead of {digest}"));
        }
    }

    /// A daemon on this machine is in contact with a leader.
    pub(crate) fn attended(&mut self, machine: MachineIx) {
        if self.unattended.remove(&machine) {
            // What was placed elsewhere meanwhile could not be stopped, and is stopped now.
            let there = self.machines.get(&machine).into_iter().flat_map(BTreeMap::values);
            for seen in there {
                self.given_up.remove(&seen.instance);
            }
        }
    }

    /// Nobody could stop anything on this machine, until there is contact again.
    pub(crate) fn unattended(&mut self, machine: MachineIx) {
        self.unattended.insert(machine);
    }

    /// People were told of an outcome.
    pub(crate) fn acknowledged(&mut self, command: &Command, outcome: &Outcome) {
        let told = match (command, outcome) {
            (Command::DeploymentApply { name, .. }, Outcome::Deployed { revision, .. }) => {
                Some((name, Acknowledged::Revision(*revision)))
            }
            (Command::DeploymentDelete { name }, Outcome::Done) => {
                Some((name, Acknowledged::Deleted))
            }
            _ => None,
        };
        if let Some((name, told)) = told {
            self.acknowledged.insert(name.clone(), told);
        }
    }
}

/// After how long without a leader an instance must not run, if it minds.
fn stops_after(state: &ClusterState, slot: &Slot, instance: &Instance) -> Option<Millis> {
    let spec = state.service_spec(&slot.service, instance.revision);
    spec.and_then(|spec| spec.on_node_loss.stops_after())
}
