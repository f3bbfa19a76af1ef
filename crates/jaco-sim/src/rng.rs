//! Random numbers that follow from a seed, and from nothing else.

/// SplitMix64 (Steele, Lea and Flood, 2014): small, fast, and good enough to choose faults with.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

/// What a stream of numbers is for. Each use has its own, so that one more draw for one does not
/// change what the others get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// How long messages take, and who wins elections.
    Network = 1,
    /// What happens to the cluster.
    Nemesis = 2,
    /// Which networks services have.
    Networks = 3,
    /// How long routers take.
    Routers = 4,
    /// Which routers fail.
    RouterFaults = 5,
    /// What can happen in a run, and what cannot.
    Swarm = 6,
    /// Which nodes are removed, and join again.
    Members = 7,
    /// Which logins the cluster has at its registry.
    Logins = 8,
    /// Which jobs run on a schedule.
    Schedules = 9,
    /// Whose disks are full.
    Disks = 10,
}

impl Rng {
    pub(crate) fn new(seed: u64, stream: Stream) -> Self {
        let mut rng = Self(seed ^ (stream as u64).rotate_left(32));
        rng.next();
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A place in a list of this length, which is not 0.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        let length = u64::try_from(length).expect("a usize fits into 64 bits");
        usize::try_from(self.below(length)).expect("less than a usize")
    }

    /// One of `choices`, which is not empty.
    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.place(choices.len())]
    }
}
