//! Notes what the container engine did for instances of traced revisions, until the loop takes it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jaco_agent::EngineObserver;
use jaco_agent::engine::{ContainerRequest, PullError, PullRequest, StartError};
use jaco_server::RaftStore;
use jaco_state::ClusterState;
use jaco_types::{InstanceId, Sampled, Timestamp};

use super::work::{Work, moment};

/// Instances of which something is kept; the first by name make room.
const INSTANCES_MAX: usize = 512;

/// Work kept of one instance; later attempts are left out.
const WORKS_MAX: usize = 16;

/// Images whose last pull is kept; the oldest make room.
const PULLS_MAX: usize = 64;

/// How far the clock of this node may be behind that of the leader which admitted an apply.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

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
        if let Some(applied_at) = self.store.read(|state| traced_since(state, &request.instance)) {
            self.notes().add(request, work, moment(applied_at) - CLOCKS_DIFFER);
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

    /// Adds what was done, and the pull of its image that came before, unless that was for an earlier apply.
    fn add(&mut self, request: &ContainerRequest, work: Work, since: SystemTime) {
        let pull = self.pulls.iter().find(|(image, _)| *image == request.image);
        let pull = pull.map(|(_, pull)| pull.clone()).filter(|pull| pull.began >= since);
        if !self.works.contains_key(&request.instance) && self.works.len() == INSTANCES_MAX {
            self.works.pop_first();
        }
        let works = self.works.entry(request.instance.clone()).or_default();
        if works.len() < WORKS_MAX {
            let pull = pull.filter(|pull| !works.contains(pull));
            works.extend(pull.into_iter().chain([work]));
        }
    }
}

/// When the revision of an instance was applied, if its trace is recorded.
fn traced_since(state: &ClusterState, id: &InstanceId) -> Option<Timestamp> {
    let slot = state.slots.get(&id.replica)?;
    if slot.current.raft_index != id.raft_index {
        return None;
    }
    let deployment = state.deployments.get(&slot.service.deployment)?;
    let record = deployment.revisions.get(&slot.current.revision)?;
    let trace = record.trace.filter(|trace| trace.sampled() == Sampled::Yes);
    trace.map(|_| record.applied_at)
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
        // The agent asks for the image in this way: it is no attempt.
        if !matches!(result, Err(StartError::ImageAbsent { .. })) {
            self.note(request, Work::that_took("start container", took, result.is_ok()));
        }
    }
}
