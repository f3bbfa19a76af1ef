//! Text forms of quantities, times, tables and YAML. Pure.

pub mod table;
pub mod time;
pub mod yaml;

pub use jaco_sentences::quantity;
