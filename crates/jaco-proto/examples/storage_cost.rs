//! What the storage format costs: `cargo run --release -p jaco-proto --example storage_cost`.
//!
//! Log entries of the three common shapes, and a snapshot of 1,000 nodes and 20,000 replicas with
//! the logs of requests and events full. Prints the best of several rounds.
#![allow(clippy::print_stdout, reason = "it is a program that prints figures")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use jaco_proto::storage::{Payload, decode_payload, encode_payload, read_snapshot, write_snapshot};
use jaco_state::audit::{AuditEvent, AuditKey, AuditKind, KEPT_EVENTS};
use jaco_state::command::{Batch, NewInstance, Observe};
use jaco_state::requests::KEPT_REQUESTS;
use jaco_state::{Change, ClusterState, Outcome};
use jaco_types::slot::SlotData;
use jaco_types::{
    Availability, DeploymentName, DesiredState, Hostname, Identity, Instance, InstanceId,
    InstanceObserved, Node, NodeFacts, NodeId, NodeStatus, Ordinal, ReplicaId, ReplicaState,
    RequestId, RestartCount, Revision, ServiceKey, ServiceName, Slot, SpecHash, StateIndex,
    Timestamp,
};

const NODES: u64 = 1_000;
const REPLICAS: u64 = 20_000;

fn main() {
    payloads();
    snapshot();
}

fn payloads() {
    let create = |index| Change::SlotCreate {
        id: ReplicaId::new(&service(), &Ordinal::Index(index)),
        service: service(),
        ordinal: Ordinal::Index(index),
        instance: NewInstance {
            node: NodeId(index),
            revision: Revision(1),
            spec_hash: SpecHash([7; 32]),
            gpus: Vec::new(),
        },
        desired_state: DesiredState::Active,
    };
    let batch =
        |changes| Batch::new(StateIndex(1_000_000), (0..changes).map(create).collect()).into();
    let one = Observe::new(NodeId(7)).observed(vec![observed(7)]).into();
    let shapes = [("observe of 1", one), ("batch of 16", batch(16)), ("batch of 256", batch(256))];
    for (name, command) in shapes {
        let payload =
            Payload { at: NOW, by: Identity::Scheduler, origin: None, request: None, command };
        let bytes = encode_payload(&payload);
        let rounds = 200_000 / bytes.len().max(100);
        let encode = best(rounds, || drop(black_box(encode_payload(black_box(&payload)))));
        let decode = best(rounds, || drop(black_box(decode_payload(black_box(&bytes)))));
        let (encode, decode) = (encode.as_nanos(), decode.as_nanos());
        println!("{name}: {} bytes, encode {encode} ns, decode {decode} ns", bytes.len());
    }
}

fn snapshot() {
    let state = state();
    let mut bytes = Vec::new();
    write_snapshot(&state, &mut bytes).expect("the state is consistent");
    let write = best(1, || write_snapshot(&state, &mut std::io::sink()).expect("as before"));
    let read = best(1, || drop(black_box(read_snapshot(&mut bytes.as_slice()))));
    assert_eq!(read_snapshot(&mut bytes.as_slice()).expect("it was just written"), state);
    println!(
        "snapshot of {NODES} nodes, {REPLICAS} replicas: {} bytes, write {write:.1?}, read {read:.1?}",
        bytes.len()
    );
}

/// The shortest mean over `rounds` of ten tries: what is longer was the machine's other business.
fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    let rounds = u32::try_from(rounds.max(1)).expect("a small number");
    let mut mean = || {
        let begin = Instant::now();
        (0..rounds).for_each(|_| work());
        begin.elapsed() / rounds
    };
    (0..10).map(|_| mean()).min().expect("ten is more than none")
}

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn state() -> ClusterState {
    let mut state = ClusterState { index: StateIndex(1_000_000), ..ClusterState::default() };
    state.nodes = (1..=NODES).map(|id| (NodeId(id), node(id))).collect();
    state.slots = (1..=REPLICAS).map(slot).map(|slot| (slot.id.clone(), slot)).collect();
    state.observed = (1..=REPLICAS).map(observed).map(|seen| (seen.id.clone(), seen)).collect();
    for index in (1..).take(KEPT_REQUESTS) {
        let request = RequestId::new(&format!("{index:032x}")).expect("hex digits are allowed");
        state.requests.order.insert(StateIndex(index), request.clone());
        state.requests.outcomes.insert(request, Outcome::Done);
    }
    let events = (1..).map(StateIndex).take(KEPT_EVENTS);
    state.audit.events = events.map(|index| (AuditKey { index, number: 0 }, event())).collect();
    state
}

fn node(id: u64) -> Node {
    Node {
        id: NodeId(id),
        hostname: Hostname::new(&format!("node-{id}")).expect("letters and digits"),
        address: "10.0.0.7:7000".to_owned(),
        mesh_address: None,
        key_fingerprint: [3; 32],
        status: NodeStatus::Ready,
        status_reason: String::new(),
        availability: Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: NodeFacts::default(),
        labels: BTreeMap::new(),
        joined_at: NOW,
        modified: StateIndex(id),
    }
}

fn slot(index: u64) -> Slot {
    Slot {
        id: ReplicaId::new(&service(), &Ordinal::Index(index)),
        service: service(),
        ordinal: Ordinal::Index(index),
        desired_state: DesiredState::Active,
        current: Instance {
            raft_index: StateIndex(index),
            node: NodeId(index % NODES + 1),
            revision: Revision(1),
            spec_hash: SpecHash([7; 32]),
            addresses: Vec::new(),
            joining_since: None,
            gpus: Vec::new(),
        },
        retiring: None,
        data: SlotData::default(),
        restarts: RestartCount::default(),
        terminations: Vec::new(),
        modified: StateIndex(index),
    }
}

fn observed(index: u64) -> InstanceObserved {
    let replica = ReplicaId::new(&service(), &Ordinal::Index(index));
    InstanceObserved {
        id: InstanceId { replica, raft_index: StateIndex(index) },
        service: service(),
        node: NodeId(index % NODES + 1),
        state: ReplicaState::Running,
        code: None,
        details: BTreeMap::new(),
        container_id: "c".repeat(64),
        ports: [(80, "10.0.0.7:32768".to_owned())].into(),
        started_at: Some(NOW),
        since: NOW,
        exit: None,
    }
}

fn event() -> AuditEvent {
    let facts = [("replica", "shop-web-1"), ("node", "node-1"), ("revision", "1"), ("cause", "")];
    AuditEvent {
        kind: AuditKind::ReplicaPlaced,
        at: NOW,
        by: Identity::Scheduler,
        origin: None,
        request: None,
        payload: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        previous: None,
    }
}

fn service() -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new("shop").expect("letters"),
        service: ServiceName::new("web").expect("letters"),
    }
}
