//! jaco-store.
