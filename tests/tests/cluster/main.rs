//! Real daemons on loopback with the fake engine: consensus, membership, access and recovery.

mod access;
mod allocations;
mod audit;
mod backup;
mod bad_input;
mod colocation;
mod contexts;
mod crash;
mod disk;
mod doctor;
mod durability;
mod exec;
mod facts;
mod failover;
mod freshness;
mod logs;
mod membership;
mod outages;
mod planning;
mod rebalance;
mod results;
mod revisions;
mod rolling;
mod scenario;
mod stopping;
mod strangers;
