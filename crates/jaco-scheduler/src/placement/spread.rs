//! `spread`: replica *i* prefers the node that a stable hash names, among those that have the
//! fewest replicas of the service (R-PLACE-1).
//!
//! The hash alone would put two of three replicas on one of three nodes every other time; counting
//! alone would put every service's first replica on the same node.

use std::rc::Rc;

use jaco_types::{Ordinal, ServiceKey};

use crate::eligibility::Room;
use crate::nodes::NodeIx;

/// Nodes by how many replicas of the service they have, lowest first.
pub(crate) struct Spread {
    seed: Seed,
    candidates: Rc<[NodeIx]>,
    counts: Counts,
}

/// How many replicas each place has.
enum Counts {
    /// Of a few places; all others have none. Where a service has more domains than replicas, most
    /// lists of nodes are asked once or twice, and nothing has to be made for each of their nodes.
    Few(Vec<(usize, u32)>),
    All(Levels),
}

/// The places that have the fewest form a level. `next` leads from any place to the first one at or
/// after it that is still in the level; leaving it is a union in a union-find, so filling a level
/// costs next to nothing per replica, however many nodes there are.
struct Levels {
    counts: Vec<u32>,
    level: u32,
    next: Vec<usize>,
}

/// A count that no level reaches: the node is full.
const FULL: u32 = u32::MAX;

/// From how many on places are counted all.
const MANY: usize = 8;

impl Spread {
    /// `candidates` in order; `on_nodes` names the node of each replica there is.
    pub(crate) fn new(
        seed: Seed,
        candidates: Rc<[NodeIx]>,
        on_nodes: impl Iterator<Item = NodeIx>,
    ) -> Self {
        let places = on_nodes.filter_map(|node| candidates.binary_search(&node).ok());
        let mut places = places.peekable();
        let counts = match places.peek() {
            None => Counts::Few(Vec::new()),
            Some(_) => Counts::All(Levels::new(candidates.len(), places.map(|at| (at, 1)))),
        };
        Self { seed, candidates, counts }
    }

    pub(crate) fn choose(&mut self, room: Room<'_, '_>, ordinal: &Ordinal) -> Option<NodeIx> {
        let size = self.candidates.len();
        if size == 0 {
            return None;
        }
        let start = self.seed.start(ordinal, size);
        while let Some(at) = self.counts.first_from(start, size) {
            let node = self.candidates[at];
            if room.is_on(node) {
                self.counts.add(at, 1);
                return Some(node);
            }
            self.counts.add(at, FULL);
        }
        None
    }
}

impl Counts {
    /// Of the places that have the fewest, the first at or after `start`, or else the first of all. Who
    /// gets it has to add to it.
    fn first_from(&mut self, start: usize, size: usize) -> Option<usize> {
        if let Self::Few(few) = self {
            let is_free = |at: &usize| few.iter().all(|(known, _)| known != at);
            let free = (start..size).chain(0..start).find(is_free);
            if let Some(at) = free.filter(|_| few.len() < MANY) {
                return Some(at);
            }
            *self = Self::All(Levels::new(size, few.drain(..)));
        }
        match self {
            Self::Few(_) => None,
            Self::All(levels) => levels.first_from(start),
        }
    }

    fn add(&mut self, at: usize, more: u32) {
        match self {
            Self::Few(few) => few.push((at, more)),
            Self::All(levels) => levels.add(at, more),
        }
    }
}

impl Levels {
    fn new(size: usize, counted: impl Iterator<Item = (usize, u32)>) -> Self {
        let mut counts = vec![0_u32; size];
        for (at, more) in counted {
            counts[at] = counts[at].saturating_add(more);
        }
        let mut levels = Self { counts, level: 0, next: Vec::new() };
        levels.open();
        levels
    }

    /// Gathers the places that have the fewest now.
    fn open(&mut self) {
        self.level = self.counts.iter().copied().min().unwrap_or(FULL);
        let level = self.level;
        self.next.clear();
        let places = self.counts.iter().enumerate();
        self.next.extend(places.map(|(at, count)| if *count == level { at } else { at + 1 }));
        self.next.push(self.counts.len());
    }

    fn first_from(&mut self, start: usize) -> Option<usize> {
        while self.level != FULL {
            if let Some(at) = self.in_level(start).or_else(|| self.in_level(0)) {
                return Some(at);
            }
            self.open();
        }
        None
    }

    /// The first place of the level at or after `start`, halving the path on the way.
    fn in_level(&mut self, start: usize) -> Option<usize> {
        let mut at = start;
        while self.next[at] != at {
            self.next[at] = self.next[self.next[at]];
            at = self.next[at];
        }
        (at < self.counts.len()).then_some(at)
    }

    /// Takes a place out of the level.
    fn add(&mut self, at: usize, more: u32) {
        self.next[at] = at + 1;
        self.counts[at] = self.counts[at].saturating_add(more);
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
