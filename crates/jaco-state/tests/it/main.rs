//! What `apply` promises: examples that read like a session, and laws over random histories.

#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "what a test did not expect ends it, wherever that is"
)]

mod attached;
mod audit;
mod backups;
mod bounds;
mod broken;
mod cluster;
mod collecting;
mod contents;
mod convergence;
mod data_moves;
mod deployment;
mod digests;
mod disabled;
mod effects;
mod fields;
mod history;
mod images;
mod instances;
mod job_runs;
mod jobs;
mod kek;
mod kek_laws;
mod laws;
mod network_laws;
mod networks;
mod notifications;
mod orders;
mod planner_batch;
mod policy;
mod port_laws;
mod ports;
mod reasons;
mod refusals;
mod registries;
mod replica_bound;
mod retention;
mod revision;
mod rotation;
mod rotation_laws;
mod route_laws;
mod routes;
mod serving;
mod steps;
mod terminations;
