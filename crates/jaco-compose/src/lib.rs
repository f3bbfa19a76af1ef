//! Compose files and jaco.yaml, read as people write them: texts and variables in, a checked model
//! out, with every problem of all files at its place.
//!
//! Pure: files come through [`Files`], variables as a map. No disk, clock, network or environment.
//! The phases of [`load()`] are the modules, in order: `parse`, `interpolate`, `shape` (check and
//! normalise by the table in [`support`]), `extends`, `merge`, `project`, `consistency`.

mod audit;
pub mod canonical;
mod complete;
mod consistency;
mod container;
pub mod dotenv;
pub mod environment;
mod extends;
pub mod facts;
mod from_json;
mod interpolate;
pub mod key;
mod links;
mod load;
mod merge;
pub mod model;
mod nearest;
pub mod node;
mod nodes;
pub mod overlay;
mod parse;
pub mod paths;
mod place;
mod ports;
mod problem;
mod project;
mod relaxed;
mod resolve;
pub mod restart;
mod scalar;
mod service_facts;
mod shape;
mod shell;
mod shipping;
mod short;
mod source;
pub mod support;
mod tidy;
pub mod tree;
mod unique;
pub mod units;
mod usage;
mod volumes;

pub use audit::Images;
pub use container::{Container, Contents};
pub use environment::Environment;
pub use load::{EnvFiles, FileError, Files, Input, load};
pub use nearest::nearest;
pub use overlay::JacoYaml;
pub use parse::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NODES};
pub use problem::{Code, MAX_LISTED, Problem, Problems, Severity};
pub use project::{Loaded, Project, Reference, ReferenceKind, from_model, normalise_name};
pub use resolve::{
    ALLOW_PRIVILEGED_LABEL, CONSTRAINTS_EXTENSION, Options, Override, Resolved, ResolvedService,
    Route, resolve,
};
pub use shipping::{Access, Fault, FaultKind, SecretText, Shipment, ShipmentKind, ShipmentSource};
pub use source::{FileId, Pos, Sources};
