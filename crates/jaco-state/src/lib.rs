//! jaco-state.
