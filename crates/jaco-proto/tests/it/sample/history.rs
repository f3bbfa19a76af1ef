//! A log of a cluster whose networks are those of each node: replicas come, are rolled, fail, finish, are
//! disabled and removed, nodes come and go.

use super::*;

/// The payloads of the log in order; the first has the index [`FIRST`].
pub(crate) fn log_before_networks() -> Vec<Payload> {
    let mut log = Log::default();
    let revoked = OperatorToken { revoked_at: None, ..operator_token() };
    log.push(ClusterInit::new(meta(), new_node(), revoked));
    log.push(Command::AuditBegin);
    log.push(AuditRetention::new(Millis(7_776_000_000)));
    log.push(JoinTokenIssue::new(join_token()));
    let second = NewNode {
        hostname: Hostname::new("n8").unwrap(),
        key_fingerprint: [0x44; 32],
        ..new_node()
    };
    let n8 = NodeId(log.push(NodeAdmit::new(second, token_id("join-1"))).0);
    log.push(DeploymentApply::new(deployment_name(), plain_spec("nginx:1.29")));
    let n7 = NodeId::FIRST;
    let ready = [n7, n8].map(|node| {
        let (status, reason) = (NodeStatus::Ready, String::new());
        Change::NodeStatusSet { node, status, reason }
    });
    let slots = (0..6).map(|index| created(index, if index % 2 == 0 { n7 } else { n8 }));
    let first = log.batch(ready.into_iter().chain(slots).collect());
    log.observe(n7, &[0, 2, 4], first, ReplicaState::Running);
    log.observe(n8, &[1, 3, 5], first, ReplicaState::Running);
    log.push(ConsumerAttach::new(consumer_name(), n7, Millis(5000)));
    log.push(DeploymentApply::new(deployment_name(), plain_spec("nginx:1.30")));
    let second = log.batch(vec![
        replaced(0, n7, Previous::Retire, ReplaceCause::SpecChanged),
        replaced(1, n7, Previous::Drop, ReplaceCause::Failed),
    ]);
    log.observe(n7, &[0, 1], second, ReplicaState::Running);
    log.batch(vec![Change::SlotSettle { id: id(0) }]);
    let ended = InstanceId { replica: id(0), raft_index: first };
    log.batch(vec![Change::TerminatingRemove { id: ended.clone() }]);
    log.push(Observe::new(n7).gone(vec![ended]));
    log.observe(n7, &[2], first, ReplicaState::Stopped);
    log.batch(vec![Change::SlotFinish {
        id: id(2),
        completion: jaco_types::Completion::Succeeded,
        consecutive_failures: 0,
    }]);
    log.push(DisabledSet::new(Disabling::Disable, [AllocationScope::Node(n8)].into()));
    log.batch(vec![Change::SlotDisable { id: id(3), instance: new_instance(n8, 2) }]);
    log.batch(vec![Change::SlotRemove { id: id(5) }]);
    log.push(ConsumerDetach::new(consumer_name(), StateIndex(0)));
    log.batch(vec![replaced(4, n8, Previous::Retire, ReplaceCause::Moved)]);
    log.batch(vec![Change::SlotRevert { id: id(4) }]);
    log.push(DeploymentRollback::new(deployment_name()).to(Some(Revision(1))));
    log.push(NodeRemove::new(n8));
    log.payloads
}

/// The index of the first entry.
pub(crate) const FIRST: StateIndex = StateIndex(2);

#[derive(Default)]
struct Log {
    payloads: Vec<Payload>,
}

impl Log {
    /// Adds an entry a second after the one before, and returns its index.
    fn push(&mut self, command: impl Into<Command>) -> StateIndex {
        let index = self.next();
        let at = Timestamp(1_700_000_000_000 + 1000 * index.0);
        let request = Some(RequestId::new(&format!("r-{index}")).unwrap());
        let (by, command) = (Identity::Local { uid: 0 }, command.into());
        self.payloads.push(Payload { at, by, origin: None, request, command });
        index
    }

    fn next(&self) -> StateIndex {
        StateIndex(FIRST.0 + self.payloads.len() as u64)
    }

    fn batch(&mut self, changes: Vec<Change>) -> StateIndex {
        let based_on = StateIndex(self.next().0 - 1);
        self.push(Batch::new(based_on, changes))
    }

    fn observe(
        &mut self,
        node: NodeId,
        slots: &[u64],
        raft_index: StateIndex,
        state: ReplicaState,
    ) {
        let observed = slots.iter().map(|index| InstanceObserved {
            id: InstanceId { replica: id(*index), raft_index },
            node,
            state,
            code: None,
            exit: None,
            ..observed()
        });
        self.push(Observe::new(node).observed(observed.collect()));
    }
}

fn plain_spec(image: &str) -> DeploymentSpec {
    let web = ServiceSpec {
        image: image.into(),
        placement: Placement::Spread,
        depends_on: Vec::new(),
        ..(*spec().services[&ServiceName::new("web").unwrap()]).clone()
    };
    DeploymentSpec { services: [(web.name.clone(), Arc::new(web))].into(), ..spec() }
}

fn id(index: u64) -> ReplicaId {
    ReplicaId::new(&service_key(), &Ordinal::Index(index))
}

fn new_instance(node: NodeId, revision: u64) -> NewInstance {
    NewInstance { node, revision: Revision(revision), spec_hash: hash(), gpus: Vec::new() }
}

fn created(index: u64, node: NodeId) -> Change {
    Change::SlotCreate {
        id: id(index),
        service: service_key(),
        ordinal: Ordinal::Index(index),
        instance: new_instance(node, 1),
        desired_state: DesiredState::Active,
    }
}

fn replaced(index: u64, node: NodeId, previous: Previous, cause: ReplaceCause) -> Change {
    let instance = new_instance(node, 2);
    Change::SlotReplace { id: id(index), instance, previous, cause, consecutive_failures: 0 }
}
