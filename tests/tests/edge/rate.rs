//! How many clients of each kind there are, for so many requests a second.

use std::time::Duration;

use crate::load::Kind;

/// Requests a second that are aimed at, of all clients at all edges together. A client waits for an answer before it asks
/// again, so a machine that is too slow gets fewer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) u64);

/// Beside other processes of the product that end and start: as much as a machine with two processors takes beside the
/// engines, and beside other tests.
pub(crate) const USUAL: Rate = Rate(200);

/// Of each kind: its percentage of the requests, and how long after a request a client makes the next one.
const MIX: [(Kind, u64, u64); 6] = [
    (Kind::Get, 50, 80),
    (Kind::Post, 20, 120),
    (Kind::Call, 15, 120),
    // These take 50 ms and more by themselves.
    (Kind::Watch, 5, 200),
    (Kind::Events, 5, 200),
    (Kind::Socket, 5, 200),
];

impl Rate {
    /// Clients of each edge, at least one of each kind, with the pause of each.
    pub(crate) fn clients(self, edges: usize) -> Vec<(Kind, Duration)> {
        let edges = u64::try_from(edges).expect("it fits");
        let of_kind = |(kind, percent, pause): (Kind, u64, u64)| {
            // A client makes 1000 / pause requests a second.
            let count = (self.0 * percent * pause).div_ceil(edges * 100 * 1000);
            (0..count).map(move |_| (kind, Duration::from_millis(pause)))
        };
        MIX.into_iter().flat_map(of_kind).collect()
    }
}
