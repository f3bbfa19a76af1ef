//! Damage of stored audit events, seen through their chain.

use jaco_proto::storage::read_snapshot;
use jaco_state::audit::Broken;
use jaco_state::audit::{AuditKey, AuditKind};
use jaco_state::command::AuditNote;
use jaco_state::{ClusterState, Command, Entry, apply};
use jaco_types::{Identity, NodeId, Origin, RequestId, StateIndex, Timestamp, TokenId};

use crate::round_trip::snapshot;

/// A state with nothing but a chain of events, some of them from before it was begun.
fn chained() -> ClusterState {
    let note = |n: u32| {
        AuditNote::new(
            AuditKind::AccessRefused,
            [("n".to_owned(), n.to_string()), ("why".to_owned(), String::new())].into(),
        )
        .into()
    };
    let mut state = ClusterState::default();
    let commands = [note(0), note(1), Command::AuditBegin, note(2), note(3)];
    for (index, command) in (1..).zip(commands) {
        let by = Identity::Operator { token: TokenId::new("ops-1").unwrap() };
        let request = Some(RequestId::new(&format!("r-{index}")).unwrap());
        let at = Timestamp(1_700_000_000_000 + index);
        let origin = Some(Origin::Member { node: NodeId(7) }).filter(|_| index % 2 == 0);
        let index = StateIndex(index);
        apply(&mut state, &Entry { index, at, by, origin, request, command });
    }
    // The outcomes of requests are rows of their own, and no part of the chain.
    ClusterState { audit: state.audit, index: state.index, ..ClusterState::default() }
}

/// R-CLI-5: flip any bit of the stored chain, and it is not read, or `verify` says which event it was.
#[test]
fn a_flipped_bit_is_located() {
    let state = chained();
    assert_eq!(state.audit.verify().unwrap().events, 5);
    let bytes = snapshot(&state);
    let (mut refused, mut located) = (0, 0);
    // The header says nothing of the chain, and the trailer counts rows.
    for (row, frame) in frames(&bytes).into_iter().enumerate().skip(1).take(6) {
        // The last row is the head, which vouches for the newest event.
        let event = (row - 1).min(4);
        for bit in frame.start * 8..frame.end * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let Ok(read) = read_snapshot(&mut damaged.as_slice()) else {
                refused += 1;
                continue;
            };
            let keys: Vec<AuditKey> = read.audit.events.keys().copied().collect();
            let broken = read.audit.verify();
            let expected = Err(Broken::Altered { key: keys[event] });
            assert!(
                broken == expected || (row == 6 && broken == Err(Broken::NotBegun)),
                "bit {bit} of row {row}: {broken:?}"
            );
            located += 1;
        }
    }
    assert!(refused > 100 && located > 1000, "{refused} refused, {located} located");
}

/// Where each frame lies, its length included.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut frames = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let length = u32::from_le_bytes(bytes[start..start + 4].try_into().unwrap());
        let end = start + 4 + usize::try_from(length).unwrap();
        frames.push(start..end);
        start = end;
    }
    frames
}
