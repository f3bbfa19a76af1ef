//! `spread`: replica *i* prefers the node that a stable hash names, among those that have the
//! fewest replicas of the service (R-PLACE-1).
//!
//! The hash alone would put two of three replicas on one of three nodes every other time; counting
//! alone would put every service's first replica on the same node.

use std::rc::Rc;

use jaco_types::{Ordinal, ServiceKey};

use super::limit::Room;
use crate::node_table::NodeIx;

/// Nodes by how many replicas of the service they have, lowest first.
///
/// The nodes that have the fewest form a level. `next` leads from any place to the first node at or
/// after it that is still in the level; leaving it is a union in a union-find, so filling a level
/// costs next to nothing per replica, however many nodes there are.
pub(crate) struct Spread {
    seed: Seed,
    candidates: Rc<[NodeIx]>,
    counts: Vec<u32>,
    level: u32,
    next: Vec<usize>,
}

/// A count that no level reaches: the node is full.
const FULL: u32 = u32::MAX;

impl Spread {
    /// `candidates` in order; `on_nodes` names the node of each replica there is.
    pub(crate) fn new(
        seed: Seed,
        candidates: Rc<[NodeIx]>,
        on_nodes: impl Iterator<Item = NodeIx>,
    ) -> Self {
        let mut counts = vec![0; candidates.len()];
        for node in on_nodes {
            if let Ok(at) = candidates.binary_search(&node) {
                counts[at] += 1;
            }
        }
        let mut spread = Self { seed, candidates, counts, level: 0, next: Vec::new() };
        spread.open_level();
        spread
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>, ordinal: &Ordinal) -> Option<NodeIx> {
        let size = self.candidates.len();
        if size == 0 {
            return None;
        }
        let start = self.seed.start(ordinal, size);
        while self.level != FULL {
            let Some(at) = self.first_from(start).or_else(|| self.first_from(0)) else {
                self.open_level();
                continue;
            };
            self.next[at] = at + 1;
            if room.is_on(self.candidates[at]) {
                self.counts[at] += 1;
                return Some(self.candidates[at]);
            }
            self.counts[at] = FULL;
        }
        None
    }

    /// Gathers the nodes that have the fewest now.
    fn open_level(&mut self) {
        self.level = self.counts.iter().copied().min().unwrap_or(FULL);
        let level = self.level;
        self.next.clear();
        let places = self.counts.iter().enumerate();
        self.next.extend(places.map(|(at, count)| if *count == level { at } else { at + 1 }));
        self.next.push(self.candidates.len());
    }

    /// The first node of the level at or after `start`, halving the path on the way.
    fn first_from(&mut self, start: usize) -> Option<usize> {
        let mut at = start;
        while self.next[at] != at {
            self.next[at] = self.next[self.next[at]];
            at = self.next[at];
        }
        (at < self.candidates.len()).then_some(at)
    }
}

/// Where a service's replicas begin to look for a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    pub(crate) fn of(service: &ServiceKey) -> Self {
        // A zero byte ends each part, so that `a` + `bc` and `ab` + `c` differ.
        let hash = fnv1a(OFFSET_BASIS, service.deployment.as_str().as_bytes());
        let hash = fnv1a(fnv1a(hash, &[0]), service.service.as_str().as_bytes());
        Self(fnv1a(hash, &[0]))
    }

    /// How many of `size` nodes have their turn before the one at `place`.
    pub(super) fn turn(self, ordinal: &Ordinal, place: usize, size: usize) -> usize {
        (place + size - self.start(ordinal, size)) % size.max(1)
    }

    fn start(self, ordinal: &Ordinal, size: usize) -> usize {
        let hash = match ordinal {
            Ordinal::Index(index) => fnv1a(self.0, &index.to_be_bytes()),
            Ordinal::Host(host) => fnv1a(self.0, host.as_str().as_bytes()),
        };
        let place = mix(hash) % u64::try_from(size.max(1)).expect("a usize fits into 64 bits");
        usize::try_from(place).expect("less than a usize")
    }
}

/// FNV-1a, 64 bits, with the parameters of its authors.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Spreads the hash's entropy to its low bits, which the remainder keeps (the finaliser of
/// MurmurHash3).
pub(super) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
