//! What is written comes back, whole and the same.

use std::io::{self, Read};

use jaco_proto::storage::{
    decode_author, decode_outcome, decode_payload, encode_author, encode_outcome, encode_payload,
    read_snapshot, write_snapshot,
};
use jaco_state::{ClusterState, Table};
use jaco_types::StateIndex;
use proptest::prelude::*;

use crate::strategy;

pub(crate) fn snapshot(state: &ClusterState) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_snapshot(state, &mut bytes).unwrap();
    bytes
}

/// The same rows, put in from the last to the first.
fn rebuilt<K: Ord + Clone, V: Clone>(table: &Table<K, V>) -> Table<K, V> {
    let mut other = Table::default();
    for (key, row) in table.iter().rev() {
        other.insert(key.clone(), row.clone());
    }
    other
}

/// Gives one byte at a time, as a slow peer may.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

proptest! {
    /// A log entry means the same on every node that reads it.
    #[test]
    fn log_entries_come_back(payload in strategy::payload()) {
        let bytes = encode_payload(&payload);
        let read = decode_payload(&bytes).unwrap();
        prop_assert_eq!(&read, &payload);
        let entry = read.into_entry(StateIndex(7));
        prop_assert_eq!((entry.index, entry.command), (StateIndex(7), payload.command));
    }

    #[test]
    fn outcomes_come_back(outcome in strategy::outcome()) {
        prop_assert_eq!(decode_outcome(&encode_outcome(&outcome)).unwrap(), outcome);
    }

    #[test]
    fn authors_come_back(author in strategy::author()) {
        prop_assert_eq!(decode_author(&encode_author(&author)).unwrap(), author);
    }

    /// Law ST-3: a snapshot is the state, and reading it gives that state again.
    #[test]
    fn st_3_a_snapshot_is_the_state(state in strategy::state()) {
        let bytes = snapshot(&state);
        prop_assert_eq!(&read_snapshot(&mut bytes.as_slice()).unwrap(), &state);
        prop_assert_eq!(read_snapshot(&mut Trickle(&bytes)).unwrap(), state);
    }

    /// Law ST-3: equal states are equal bytes, whatever became of them on the way: here one whose
    /// rows came in another order, and one that was read back and shares nothing any more.
    #[test]
    fn st_3_equal_states_are_equal_bytes(state in strategy::state()) {
        let bytes = snapshot(&state);
        let other = ClusterState {
            nodes: rebuilt(&state.nodes),
            deployments: rebuilt(&state.deployments),
            scheduling: rebuilt(&state.scheduling),
            slots: rebuilt(&state.slots),
            observed: rebuilt(&state.observed),
            ..state.clone()
        };
        prop_assert_eq!(&snapshot(&other), &bytes);
        prop_assert_eq!(&snapshot(&read_snapshot(&mut bytes.as_slice()).unwrap()), &bytes);
    }
}

#[test]
fn a_state_before_cluster_init_has_a_snapshot() {
    let state = ClusterState::default();
    assert_eq!(read_snapshot(&mut snapshot(&state).as_slice()).unwrap(), state);
}
