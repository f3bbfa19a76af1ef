//! The whole product on a real Docker Engine: three daemons share it, and each touches only its own
//! objects.

mod adoption;
mod allocations;
mod colocation;
mod credentials;
mod engine_restart;
mod files;
mod health;
mod honoured;
mod jobs;
mod lifecycle;
mod mesh;
mod minority;
mod networks;
mod node_loss;
mod projects;
mod pulling;
mod rebalance;
mod registry;
mod routing;
mod scenario;
mod stopping;
mod terminations;
