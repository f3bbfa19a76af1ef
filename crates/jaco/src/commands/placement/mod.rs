//! Commands for where replicas run.

pub(crate) mod constraints;
pub(crate) mod explain;
pub(crate) mod rebalance;
pub(crate) mod top;
pub(crate) mod whatif;
