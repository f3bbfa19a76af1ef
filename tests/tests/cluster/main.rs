//! Real daemons on loopback with a pretended engine: consensus, membership, access and recovery.

mod access;
mod allocations;
mod audit;
mod backup;
mod bad_input;
mod company;
mod crash;
mod disk;
mod doctor;
mod durability;
mod exec;
mod facts;
mod failover;
mod membership;
mod planning;
mod rebalance;
mod revisions;
mod rolling;
mod scenario;
mod stopping;
