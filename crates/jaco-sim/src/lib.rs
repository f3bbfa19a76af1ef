//! jaco-sim.
