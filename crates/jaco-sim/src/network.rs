//! Who can send to whom, and how long that takes.

use std::collections::BTreeSet;

use jaco_types::Millis;

use crate::rng::Rng;

/// A machine's place in the world's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MachineIx(pub(crate) usize);

/// The links between machines. A message on a closed link is lost; a connection needs both ways.
#[derive(Debug)]
pub(crate) struct Network {
    closed: BTreeSet<(MachineIx, MachineIx)>,
    rng: Rng,
}

impl Network {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { closed: BTreeSet::new(), rng }
    }

    /// Whether a message gets from one to the other.
    pub(crate) fn is_open(&self, from: MachineIx, to: MachineIx) -> bool {
        !self.closed.contains(&(from, to))
    }

    /// Whether the two can ask each other something and get an answer.
    pub(crate) fn is_connected(&self, one: MachineIx, other: MachineIx) -> bool {
        self.is_open(one, other) && self.is_open(other, one)
    }

    /// Closes every link between different groups.
    pub(crate) fn partition(&mut self, groups: &[Vec<MachineIx>]) {
        for (at, group) in groups.iter().enumerate() {
            for other in groups.iter().enumerate().filter(|(other, _)| *other != at) {
                for from in group {
                    self.closed.extend(other.1.iter().map(|to| (*from, *to)));
                }
            }
        }
    }

    /// Closes one direction.
    pub(crate) fn cut(&mut self, from: MachineIx, to: MachineIx) {
        self.closed.insert((from, to));
    }

    /// Opens every link.
    pub(crate) fn heal(&mut self) {
        self.closed.clear();
    }

    /// How long the next message takes: a local network, 1 to 5 ms.
    pub(crate) fn latency(&mut self) -> Millis {
        Millis(self.rng.between(1, 5))
    }

    /// A random choice that belongs to the network, for example who wins an election.
    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
}
