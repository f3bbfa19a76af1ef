//! Real daemons on loopback with the fake engine: consensus, membership, access and recovery.

mod access;
mod admission;
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
mod frozen;
mod logs;
mod membership;
mod networks;
mod orders;
mod outages;
#[path = "../pebble.rs"]
mod pebble;
mod planning;
mod pulls;
mod rebalance;
mod recovery;
mod results;
mod revisions;
mod rolling;
mod routes;
mod scenario;
mod stopping;
mod strangers;
mod watchers;
