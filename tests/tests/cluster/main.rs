//! Real daemons on loopback with a pretended engine: consensus, membership, access and recovery.

mod access;
mod bad_input;
mod failover;
mod membership;
mod scenario;
