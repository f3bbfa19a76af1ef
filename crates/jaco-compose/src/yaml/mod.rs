//! From text to trees of values with positions, and back to text.

pub(crate) mod access;
pub(crate) mod builder;
pub(crate) mod json;
pub mod key;
mod mapping;
pub mod node;
pub(crate) mod parse;
mod repair;
pub(crate) mod scalar;
mod tag;
pub mod write;
