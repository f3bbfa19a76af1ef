//! Notes what the container engine did for instances of traced revisions, until the loop takes it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jaco_agent::EngineObserver;
use jaco_agent::engine::{ContainerRequest, PullError, PullRequest, StartError};
use jaco_server::RaftStore;
use jaco_state::ClusterState;
use jaco_trace::Timer;
use jaco_types::{InstanceId, Sampled};

/// Instances of which something is kept; the first by name make room.
const INSTANCES_MAX: usize = 512;

/// Work kept of one instance; later attempts are left out.
const WORKS_MAX: usize = 16;

/// Images whose last pull is kept; the oldest make room.
const PULLS_MAX: usize = 64;

/// What the engine did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    pub(super) name: &'static str,
    pub(super) began: SystemTime,
    pub(super) took: Duration,
    /// Whether it succeeded.
    pub(super) done: bool,
}

impl Work {
    fn that_took(name: &'static str, took: Duration, done: bool) -> Self {
        Self { name, began: Timer::started(took).began(), took, done }
    }
}

/// See the module.
pub(crate) struct EngineSpans {
    store: Arc<RaftStore>,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The last pull by image, the oldest first.
    pulls: VecDeque<(Arc<str>, Work)>,
    works: BTreeMap<InstanceId, Vec<Work>>,
}

impl EngineSpans {
    pub(crate) fn new(store: Arc<RaftStore>) -> Self {
        Self { store, notes: Mutex::default() }
    }

    /// What was done for an instance, which is not asked for again.
    pub(super) fn take(&self, id: &InstanceId) -> Vec<Work> {
        self.notes().works.remove(id).unwrap_or_default()
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, request: &ContainerRequest, work: Work) {
        if self.store.read(|state| is_traced(state, &request.instance)) {
            self.notes().add(request, work);
        }
    }
}

impl Notes {
    fn pulled(&mut self, image: &Arc<str>, work: Work) {
        self.pulls.retain(|(known, _)| known != image);
        if self.pulls.len() == PULLS_MAX {
            self.pulls.pop_front();
        }
        self.pulls.push_back((Arc::clone(image), work));
    }

    fn add(&mut self, request: &ContainerRequest, work: Work) {
        let pull = self.pulls.iter().find(|(image, _)| *image == request.image);
        let pull = pull.map(|(_, pull)| pull.clone());
        if !self.works.contains_key(&request.instance) && self.works.len() == INSTANCES_MAX {
            self.works.pop_first();
        }
        let works = self.works.entry(request.instance.clone()).or_default();
        if works.is_empty() {
            works.extend(pull);
        }
        if works.len() < WORKS_MAX {
            works.push(work);
        }
    }
}

/// Whether the instance is one of a revision whose trace is recorded.
fn is_traced(state: &ClusterState, id: &InstanceId) -> bool {
    let Some(slot) = state.slots.get(&id.replica) else { return false };
    let deployment = state.deployments.get(&slot.service.deployment);
    let record = deployment.and_then(|one| one.revisions.get(&slot.current.revision));
    let trace = record.and_then(|record| record.trace);
    slot.current.raft_index == id.raft_index
        && trace.is_some_and(|trace| trace.sampled() == Sampled::Yes)
}

impl EngineObserver for EngineSpans {
    fn pulled(&self, pull: &PullRequest, took: Duration, result: Result<(), &PullError>) {
        let work = Work::that_took("pull image", took, result.is_ok());
        self.notes().pulled(&pull.image, work);
    }

    fn networked(
        &self,
        request: &ContainerRequest,
        took: Duration,
        result: Result<(), &StartError>,
    ) {
        self.note(request, Work::that_took("make networks", took, result.is_ok()));
    }

    fn started(&self, request: &ContainerRequest, took: Duration, result: Result<(), &StartError>) {
        self.note(request, Work::that_took("start container", took, result.is_ok()));
    }
}
