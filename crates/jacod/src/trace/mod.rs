//! Spans of what a traced apply causes on this node (ADR 0152): plans and the end of the rollout on the leader, the start of
//! replicas on the nodes that run them. Nothing of this runs unless a collector is configured, and nothing waits for it.
//!
//! ```text
//! engine     notes what the container engine did for instances
//! open       the applies that are followed, until they have converged
//! follow     the loop: looks at the state and at plans, and records
//! instance   the spans of one instance
//! work       what the engine did, and the times of the state
//! ```

mod engine;
mod follow;
mod instance;
mod open;
mod work;

use std::sync::Arc;

use jaco_agent::EngineObserver;
use jaco_controller::AgreedPlan;
use jaco_server::{Member, RaftStore};
use jaco_trace::{Exporter, Tracer};
use jaco_types::ClusterId;
use tokio::sync::mpsc;

use crate::context::NodeContext;

use engine::EngineSpans;
use follow::TraceLoop;

/// Plans that may wait to be looked at; what does not fit has no span.
const PLANS_MAX: usize = 256;

/// The traces of this node, where a collector is configured.
pub(crate) struct Traces {
    tracer: Tracer,
    engine: Arc<EngineSpans>,
}

impl Traces {
    /// Starts to export spans. `None`: traces are off.
    ///
    /// # Errors
    /// When no exporter can be made of the settings.
    pub(crate) fn start(
        node: &NodeContext,
        cluster: &ClusterId,
        store: &Arc<RaftStore>,
    ) -> anyhow::Result<Option<Self>> {
        let Some((endpoint, sampling)) = node.config.tracing()? else { return Ok(None) };
        let resource = vec![
            ("service.name", "jacod".to_owned()),
            ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("service.instance.id", format!("{cluster}/{}", node.hostname)),
            ("host.name", node.hostname.to_string()),
        ];
        let tally = node.tallies.traces.clone();
        let (tracer, exporter) = Exporter::new(&endpoint, resource, sampling, tally)?;
        node.tasks.spawn(exporter.run(node.shutdown.clone().cancelled_owned()));
        Ok(Some(Self { tracer, engine: Arc::new(EngineSpans::new(Arc::clone(store))) }))
    }

    /// Takes spans.
    pub(crate) fn tracer(&self) -> Tracer {
        self.tracer.clone()
    }

    /// Is to be told what the container engine does.
    pub(crate) fn observer(&self) -> Arc<dyn EngineObserver> {
        Arc::clone(&self.engine) as Arc<dyn EngineObserver>
    }

    /// Follows traced applies. Returns who is to be told of plans.
    pub(crate) fn follow(
        self,
        node: &NodeContext,
        member: &Arc<Member>,
    ) -> mpsc::Sender<AgreedPlan> {
        let (told, plans) = mpsc::channel(PLANS_MAX);
        let follow = TraceLoop::new(Arc::clone(member), self.tracer, self.engine);
        node.run_until_shutdown(follow.run(plans));
        told
    }
}
