//! Text forms of quantities, times, tables and YAML. Pure.

pub mod quantity;
pub mod table;
pub mod time;
pub mod yaml;
