//! Logs of earlier releases, replayed: they lead to the state that they led to then, byte by byte.

#[path = "../frozen/v1_replay.rs"]
mod v1_replay;

use jaco_proto::storage::{decode_payload, encode_payload};
use jaco_state::{ClusterState, Outcome, apply};
use jaco_types::StateIndex;

use crate::round_trip::snapshot;
use crate::sample;

fn replay(log: &[Vec<u8>]) -> ClusterState {
    let mut state = ClusterState { index: StateIndex(1), ..ClusterState::default() };
    for (payload, index) in log.iter().zip(sample::FIRST.0..) {
        let entry = decode_payload(payload).unwrap().into_entry(StateIndex(index));
        let outcome = apply(&mut state, &entry);
        assert!(!matches!(outcome, Outcome::Rejected(_)), "{index}: {outcome:?}");
    }
    state
}

/// ST-3: a log from before the cluster had networks leads to the snapshot of then.
#[test]
fn a_log_from_before_networks_leads_to_the_same_bytes() {
    let frozen = v1_replay::LOG_BEFORE_NETWORKS;
    let log: Vec<Vec<u8>> = frozen.iter().map(|hex| hex::decode(hex).unwrap()).collect();
    let made: Vec<Vec<u8>> =
        sample::log_before_networks().iter().map(|one| encode_payload(one).to_vec()).collect();
    assert_eq!(made, log, "what is written has changed");
    let state = replay(&log);
    assert_eq!(state.networks, jaco_state::network::Networks::default());
    assert_eq!(state.edges, jaco_state::edge::Edges::default());
    assert_eq!(hex::encode(snapshot(&state)), v1_replay::SNAPSHOT_BEFORE_NETWORKS);
}
