//! Questions about the cluster that are answered by the planner's own rules: why not here, what would
//! happen, and what would help.

pub(crate) mod compliance;
pub mod explain;
pub mod forecast;
pub mod hypothetical;
pub mod suggestion;
pub mod whatif;
