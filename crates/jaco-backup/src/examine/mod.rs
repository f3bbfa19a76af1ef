//! What would come back of a backup (ADR 0146): each of its objects, decoded as a restore does.

mod examined;
mod extent;
mod files;
mod kind;
mod manifest;
mod run;
#[cfg(test)]
mod tests;

pub use examined::{Detail, Examined, Fault, Model, Object};
pub use extent::{Extent, referenced};
pub use files::{content_id, list};
pub use kind::{Kind, label};
pub use run::examine;
