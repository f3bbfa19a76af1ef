//! jaco-raft.
