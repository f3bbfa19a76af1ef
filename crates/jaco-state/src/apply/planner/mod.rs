//! Changes of the planner and the rebalancer, observed state, and endpoint consumers.

pub(super) mod batch;
pub(super) mod observe;
pub(super) mod rebalance;
mod rollout;
pub(super) mod routing;
mod termination;
