//! The planner's laws and its rules, on whole states. Each test names the row it proves.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may panic like the tests")]

mod attributes;
mod audit;
mod changes;
mod cluster;
mod colocation;
mod constraints;
mod dependencies;
mod disabled;
mod drains;
mod events;
mod explain;
mod explained_numbers;
mod forecasts;
mod gpus;
mod greatest;
mod hypotheses;
mod instance_limit;
mod jobs;
mod laws;
mod networks;
mod nomad_scoring;
mod operators;
mod packing;
mod placed_reasons;
mod placement;
mod preference;
mod prepull;
mod published_ports;
mod rebalance;
mod rebalance_goals;
mod rebalance_room;
mod rebalanced_days;
mod refusal_words;
mod respread;
mod rollouts;
mod schedules;
mod spread;
mod suggestion;
mod surplus;
mod terminating;
mod volumes;
mod whole_returns;
