//! What judging all slots of a service once has found. It holds until a slot, the goal or a
//! colocated service is edited.

/// The phases of a pass that carry verdicts about slots out, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Stops what operators disabled.
    Disable,
    /// Removes replicas that are not wanted.
    Remove,
    /// Completes handovers, restarts what failed, counts failures. Nothing here takes room.
    Repair,
    /// Moves replicas off nodes that cannot or should not keep them, and restarts what lost its
    /// partner.
    Move,
    /// Starts what operators enabled.
    Start,
    /// Replaces what is outdated, at the pace of the rollout.
    Roll,
    /// Updates the definitions of disabled replicas.
    Define,
}

/// Which phases have something to do for a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Agenda {
    phases: u8,
    waits: bool,
}

impl Agenda {
    /// Adds a slot that this phase has to do with.
    pub(crate) fn add(&mut self, phase: Phase) {
        self.phases |= 1 << phase as u8;
    }

    /// Adds a slot that waits for something, or about which something changes with time.
    pub(crate) fn add_waiting(&mut self) {
        self.waits = true;
    }

    /// Whether some slot is this phase's to handle.
    pub(crate) fn has(self, phase: Phase) -> bool {
        self.phases & (1 << phase as u8) != 0
    }

    /// Whether all slots are kept as they are, and would be however much time passes.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}
