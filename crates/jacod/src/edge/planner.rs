//! Which plan a process of the edge should be told now, and what of it can be acknowledged.

use std::sync::Arc;

use jaco_dataplane::EdgePlanner;
use jaco_dataplane::edge::EdgePlan;
use jaco_edge::service::EdgeReport;
use jaco_edge::{Certificates, EdgeChange};
use jaco_server::Member;
use jaco_state::ClusterState;
use jaco_types::{Acknowledgement, NodeId, StateIndex};

use super::certificates::CertificateBook;
use super::sessions::Speaker;

/// Plans for one process over one connection, and remembers what it was told.
pub(super) struct Orders {
    node: NodeId,
    planner: EdgePlanner,
    certificates: CertificateBook,
    sent: Option<Sent>,
    /// The newest state that has the last plan, if this node makes the plans.
    current: Option<StateIndex>,
}

/// What the process was told over this connection.
struct Sent {
    /// The state of the last plan.
    index: StateIndex,
    /// The state of the last one that was told whole.
    whole: StateIndex,
    plan: EdgePlan,
    certificates: Arc<Certificates>,
}

/// What the process is to be told.
pub(super) enum Order<'a> {
    /// A whole plan: the first one, and after a change that the process could not take.
    Whole(&'a EdgePlan, &'a Certificates),
    /// What differs from the plan of this state, which it was told before.
    Change(StateIndex, Box<EdgeChange>),
}

impl Orders {
    pub(super) fn new(node: NodeId, certificates: CertificateBook) -> Self {
        let planner = EdgePlanner::new(node);
        Self { node, planner, certificates, sent: None, current: None }
    }

    /// What leads the process to the plan that it should have now, if that is another one than before and this node
    /// makes it.
    pub(super) fn next(&mut self, state: &ClusterState, report: &EdgeReport) -> Option<Order<'_>> {
        let is_changed = self.planner.next(state).is_some();
        let certificates = self.certificates.of(state);
        self.current = (self.planner.keeper() == self.node).then_some(state.index);
        if self.current.is_none() {
            // Another member tells it meanwhile.
            self.sent = None;
            return None;
        }
        let before = self.sent.take().filter(|sent| report.refused <= Some(sent.whole));
        let (index, plan) = (state.index, self.planner.plan().clone());
        let Some(before) = before else {
            let sent = Sent { index, whole: index, plan, certificates };
            let sent = self.sent.insert(sent);
            return Some(Order::Whole(&sent.plan, &sent.certificates));
        };
        if !is_changed && before.certificates == certificates {
            self.sent = Some(before);
            return None;
        }
        let old = (&before.plan, &*before.certificates);
        let change = EdgeChange::between(old, (&plan, &certificates));
        let (base, whole) = (before.index, before.whole);
        self.sent = Some(Sent { index, whole, plan, certificates });
        Some(Order::Change(base, Box::new(change)))
    }

    /// Who speaks for the edge.
    pub(super) fn speaker(&self) -> Speaker {
        if self.current.is_some() { Speaker::Own } else { Speaker::Other }
    }

    /// What the process is done with: of the plan that it was told last, the newest state that has it; of an earlier one
    /// the state that was told with it.
    pub(super) fn acknowledgement(&self, report: &EdgeReport) -> Acknowledgement {
        let applied = report.applied.unwrap_or_default();
        let is_settled = self.sent.as_ref().is_some_and(|sent| sent.index == applied);
        let index = self.current.filter(|_| is_settled).unwrap_or(applied);
        Acknowledgement { index, busy: report.busy.clone() }
    }
}

/// Who speaks for the edge of this node, by the state that it has.
pub(super) fn speaker(member: &Member) -> Speaker {
    let keeper = member.store.read(|state| jaco_dataplane::keeper(state, member.id));
    if keeper == member.id { Speaker::Own } else { Speaker::Other }
}
