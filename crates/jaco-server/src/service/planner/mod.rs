//! The planner service. The leader answers, because only it receives the reports of all nodes.

mod explain;
mod input;
mod rebalance;
mod top;
mod whatif;

use async_trait::async_trait;
use jaco_proto::v1::planner_server::Planner;

use super::context::{Context, on_leader};

/// The service.
#[derive(Debug)]
pub(crate) struct PlannerService {
    context: Context,
}

impl PlannerService {
    /// The service over this context.
    #[must_use]
    pub(crate) fn new(context: Context) -> Self {
        Self { context }
    }
}

#[async_trait]
impl Planner for PlannerService {
    jaco_proto::leader_methods!(Planner, on_leader);
}
