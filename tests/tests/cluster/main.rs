//! Real daemons on loopback with a pretended engine: consensus, membership, access and recovery.

mod access;
mod bad_input;
mod crash;
mod durability;
mod failover;
mod membership;
mod scenario;
