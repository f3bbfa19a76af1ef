//! The loop: looks at the state and at plans, and records.

use std::sync::Arc;
use std::time::SystemTime;

use jaco_controller::AgreedPlan;
use jaco_server::Member;
use jaco_state::ClusterState;
use jaco_state::view::slots_of;
use jaco_store::Store as _;
use jaco_trace::{Kind, Span, Status, Timer, Tracer, derived_span_id};
use jaco_types::{DeploymentName, DesiredState, InstanceId, NodeId, Slot};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::engine::EngineSpans;
use super::instance::{Following, Started, is_settled, plan_id};
use super::open::{End, Open, OpenApplies, PATIENCE};
use super::work::moment;

/// See the module.
pub(crate) struct TraceLoop {
    member: Arc<Member>,
    tracer: Tracer,
    engine: Arc<EngineSpans>,
    applies: OpenApplies,
}

impl TraceLoop {
    pub(crate) fn new(member: Arc<Member>, tracer: Tracer, engine: Arc<EngineSpans>) -> Self {
        Self { member, tracer, engine, applies: OpenApplies::default() }
    }

    /// Runs until the store has stopped.
    pub(crate) async fn run(mut self, mut plans: mpsc::Receiver<AgreedPlan>) {
        let mut index = self.member.store.watch_index();
        let mut tick = interval(std::time::Duration::from_millis(PATIENCE.0 / 60));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = index.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.look(None);
                }
                plan = plans.recv() => match plan {
                    Some(plan) => self.look(Some(plan)),
                    None => return,
                },
                // What does not converge ends without a change.
                _ = tick.tick() => self.look(None),
            }
        }
    }

    /// Looks at the state, and at a plan that was agreed on.
    fn look(&mut self, plan: Option<AgreedPlan>) {
        let state = self.member.store.snapshot();
        let now = self.member.clock.now();
        for (name, open) in self.applies.look(&state, now) {
            self.end(&state, &name, open, End::Superseded);
        }
        if self.applies.open.is_empty() {
            return;
        }
        if let Some(plan) = plan {
            self.planned(&state, plan);
        }
        self.follow_instances(&state);
        for (name, open, end) in self.applies.ended(&state, now) {
            self.end(&state, &name, open, end);
        }
    }

    /// Records a plan in the trace of each deployment that it placed instances of.
    fn planned(&self, state: &ClusterState, plan: AgreedPlan) {
        let timer = Timer::started(plan.begun.elapsed());
        let took = plan.done.duration_since(plan.begun);
        for (name, open) in &self.applies.open {
            let placed = slots_of(state, name).filter(|slot| slot.current.raft_index == plan.index);
            let placed = placed.count();
            if placed == 0 {
                continue;
            }
            self.tracer.record(Span {
                place: open.place,
                id: plan_id(&open.place, plan.index.0),
                kind: Kind::Internal,
                name: "plan",
                began: timer.began(),
                took,
                attributes: vec![
                    ("jaco.deployment", name.to_string()),
                    ("jaco.raft_index", plan.index.to_string()),
                    ("jaco.replicas", placed.to_string()),
                ],
                status: Status::Done,
            });
        }
    }

    /// Notes instances that are new on this node, and records those that are healthy or have failed.
    fn follow_instances(&mut self, state: &ClusterState) {
        let (own, now) = (self.member.id, SystemTime::now());
        for (name, open) in &mut self.applies.open {
            for id in instances(state, name, open, own) {
                open.instances.entry(id).or_insert(Following::Starting(now));
            }
            for (id, following) in &mut open.instances {
                let Following::Starting(seen) = *following else { continue };
                let observed = state.observed.get(id).filter(|one| is_settled(one));
                if observed.is_none() {
                    continue;
                }
                *following = Following::Recorded;
                let works = self.engine.take(id);
                let started = Started { place: open.place, id, seen, observed, works, now };
                started.spans().into_iter().for_each(|span| self.tracer.record(span));
            }
        }
    }

    /// Records the instances that did not get healthy, and, on the leader, the rollout.
    fn end(&self, state: &ClusterState, name: &DeploymentName, open: Open, end: End) {
        let now = SystemTime::now();
        let Open { revision, place, applied_at, instances, .. } = open;
        for (id, following) in &instances {
            let Following::Starting(seen) = *following else { continue };
            let (observed, works) = (state.observed.get(id), self.engine.take(id));
            let started = Started { place, id, seen, observed, works, now };
            started.spans().into_iter().for_each(|span| self.tracer.record(span));
        }
        if !self.member.store.leads() {
            return;
        }
        let (outcome, status) = match end {
            End::Converged => ("converged", Status::Done),
            End::Failed(why) => (why, Status::Failed(why.to_owned())),
            End::Superseded => ("superseded", Status::Failed("superseded".to_owned())),
            End::Unfinished => ("unfinished", Status::Failed("unfinished".to_owned())),
        };
        let began = moment(applied_at);
        self.tracer.record(Span {
            place,
            id: derived_span_id(&place, "rollout", &revision.to_string()),
            kind: Kind::Internal,
            name: "rollout",
            began,
            took: now.duration_since(began).unwrap_or_default(),
            attributes: vec![
                ("jaco.deployment", name.to_string()),
                ("jaco.revision", revision.to_string()),
                ("jaco.rollout.outcome", outcome.to_owned()),
            ],
            status,
        });
    }
}

/// The instances of an apply on one node.
fn instances(
    state: &ClusterState,
    name: &DeploymentName,
    open: &Open,
    node: NodeId,
) -> Vec<InstanceId> {
    let slots = slots_of(state, name).filter(|slot| {
        let current = &slot.current;
        slot.desired_state == DesiredState::Active
            && current.node == node
            && current.revision == open.revision
            && current.raft_index > open.applied
    });
    slots.map(Slot::current_id).collect()
}
