//! What the types accept, refuse and show.

#![expect(clippy::unwrap_used, reason = "what a test did not expect ends it, wherever that is")]

mod allocations;
mod arithmetic;
mod demands;
mod enums;
mod ids;
mod images;
mod jobs;
mod names;
mod network_laws;
mod networks;
mod nodes;
mod orders;
mod ports;
mod quantities;
mod registries;
mod routers;
mod routes;
mod rules;
mod slots;
