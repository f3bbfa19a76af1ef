//! The whole product on a real Docker Engine: three daemons share it, and each touches only its own
//! objects.

mod adoption;
mod allocations;
mod application;
mod colocation;
mod convergence;
mod credentials;
mod dev;
mod engine_events;
mod engine_restart;
mod files;
mod founding;
mod health;
mod honoured;
mod hooks;
mod jobs;
mod lifecycle;
mod mesh;
mod minority;
mod networks;
mod node_loss;
mod orders;
mod packages;
#[path = "../pebble.rs"]
mod pebble;
mod projects;
mod pulling;
mod reach;
mod rebalance;
mod registry;
mod rotation;
mod routing;
mod scenario;
mod stopping;
mod terminations;
mod transfers;
