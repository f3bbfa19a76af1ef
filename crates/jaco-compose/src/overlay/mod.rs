//! jaco.yaml: the optional overlay over a compose file, with a closed schema.
//!
//! Reads one text into typed values and checks what can be known without the compose file. The two
//! files together are checked by `resolve`.

mod amounts;
mod constraints;
mod loss;
mod parse;
mod read;
mod rename;
mod roles;
mod routes;
mod rules;
mod schedule;
mod schema;
mod service;
mod table;
pub(crate) mod types;
mod value;
mod volumes;

pub(crate) use amounts::{
    parse_cpu as read_cpu, parse_memory as read_memory, update as read_update,
};
pub(crate) use constraints::constraints as read_constraints;
pub use rename::{Renamed, Renames};
pub use schema::json_schema;
pub use types::{
    Acme, JacoYaml, RouteOverlay, Selectors, ServiceOverlay, UpdateOverlay, VolumeOverlay,
};
