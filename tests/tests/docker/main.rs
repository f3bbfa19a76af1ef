//! The whole product on a real Docker Engine: three daemons that share it, each touching only what
//! is its own.

mod adoption;
mod allocations;
mod company;
mod credentials;
mod endings;
mod engine_restart;
mod files;
mod health;
mod honoured;
mod lifecycle;
mod minority;
mod node_loss;
mod projects;
mod pulling;
mod rebalance;
mod registry;
mod routing;
mod scenario;
mod stopping;
