//! Compose files and jaco.yaml as users write them: texts and variables in, a checked model out,
//! with every problem of all files at its position.
//!
//! Pure: files come through [`Files`], variables as a map. No disk, clock, network or environment.
//! The phases of [`load()`], in order: `yaml` (parse), `load::interpolate`, `normalise` (check and
//! rewrite by the tables of [`support`]), `load::extends`, `load::merge`, `load::complete` (defaults,
//! profiles, consistency). [`resolve()`] lays jaco.yaml over the loaded [`Project`] and gives what the
//! scheduler and the engine need: [`facts`] and canonical containers, which [`model`] reads.

mod diagnostics;
pub mod environment;
pub mod facts;
mod load;
pub mod model;
mod normalise;
mod notation;
pub mod overlay;
mod project;
pub mod reach;
mod resolve;
pub mod restart;
pub mod scale;
pub mod support;
mod upload;
mod yaml;

pub use diagnostics::code::Code;
pub use diagnostics::nearest::nearest;
pub use diagnostics::problem::{MAX_LISTED, Problem, Problems, Severity};
pub use diagnostics::source::{FileId, Pos, Sources};
pub use environment::Environment;
pub use load::{EnvFiles, FileError, Files, Input, dotenv, from_model, load};
pub use notation::name::normalise_name;
pub use notation::{paths, units};
pub use overlay::JacoYaml;
pub use project::{CONSTRAINTS_EXTENSION, Loaded, Project, Reference, ReferenceKind, SecretText};
pub use resolve::{
    ALLOW_PRIVILEGED_LABEL, Container, Contents, Images, NetworkIn, Networks, Options, Override,
    Resolved, ResolvedService, resolve,
};
pub use upload::{
    Access, UploadItem, UploadKind, UploadProblem, UploadProblemKind, UploadSource, tree,
};
pub use yaml::builder::{MAX_DEPTH, MAX_NODES};
pub use yaml::parse::MAX_FILE_BYTES;
pub use yaml::{key, node, write as canonical};
