//! The nodes as a pass sees them: the members, and what is reserved of each. Kept up to date while
//! the pass edits, so that it never gives away the same room twice.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use jaco_types::spec::{
    Constraint, Placement, SchedulingPolicy, ServiceSpec, SpreadCriterion, Storage,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Availability, Hostname, Node, NodeId, NodeStatus, Timestamp};

use super::gpu::{Shortage, grant};
use super::grouping::Grouping;
use super::index::NodeIx;
use super::lasting::Lasting;
use super::usage::Usage;
use super::volume::{self, Lack};
use crate::attribute::{ClusterDemands, Gate, Greatest};

/// All members.
pub(crate) struct NodeTable<'a> {
    rows: Vec<NodeRow<'a>>,
    by_id: Vec<(NodeId, NodeIx)>,
    /// The nodes that take new replicas: ready, and neither cordoned nor draining. In order.
    open: Rc<[NodeIx]>,
    memory: RefCell<Memory<'a>>,
    lasting: RefCell<Lasting>,
    /// What the cluster asks of nodes where a service says nothing.
    pub(crate) demands: ClusterDemands,
    greatest: Greatest,
}

/// The selectors and constraints of a policy, and the keys that are its own.
type Demands<'a> = (&'a BTreeSet<String>, &'a [Constraint], &'a BTreeSet<String>);

/// What many services ask in the same words, and so is worked out once in a pass.
#[derive(Default)]
struct Memory<'a> {
    allowed: BTreeMap<Demands<'a>, Rc<[NodeIx]>>,
    by_domain: BTreeMap<(Demands<'a>, Vec<&'a str>), ByDomain>,
}

/// Nodes by domain.
type ByDomain = Rc<[Rc<[NodeIx]>]>;

/// One member and what is reserved of it.
#[derive(Clone)]
pub(crate) struct NodeRow<'a> {
    /// Its id, which is asked for with each replica; the member itself is far away in memory.
    pub(crate) id: NodeId,
    /// The member.
    pub(crate) node: &'a Node,
    /// Its status as this pass judges it.
    pub(crate) status: NodeStatus,
    /// Whether it takes new replicas, as this pass judges it.
    pub(crate) availability: Availability,
    /// Why it has that status, where it is not the one that is written.
    pub(crate) reason: Option<String>,
    /// Since when no heartbeat came.
    pub(crate) silent_since: Timestamp,
    /// What it has to give; zero of what is not enforced. Beside what is taken, because both are looked
    /// at for each replica.
    capacity: Resources,
    instances_max: Option<NonZeroU32>,
    /// What is taken of it.
    pub(crate) usage: Usage,
}

/// What is left of a node; `None` where it declares no capacity and nothing is enforced.
pub(crate) struct Left {
    pub(crate) cpu: Option<MilliCores>,
    pub(crate) memory: Option<Bytes>,
}

impl<'a> NodeTable<'a> {
    /// A table of `nodes`, each with what is taken of it. Quick where they come by host name.
    pub(crate) fn new(
        nodes: impl Iterator<Item = (&'a Node, Usage)>,
        demands: ClusterDemands,
    ) -> Self {
        let row = |(node, usage): (&'a Node, Usage)| NodeRow {
            id: node.id,
            node,
            status: node.status,
            availability: node.availability,
            reason: None,
            silent_since: Timestamp(0),
            capacity: node.facts.capacity,
            instances_max: node.facts.instances_max,
            usage,
        };
        let mut rows: Vec<_> = nodes.map(row).collect();
        rows.sort_unstable_by_key(|row| (&row.node.hostname, row.id));
        let mut by_id: Vec<_> =
            rows.iter().enumerate().map(|(ix, row)| (row.id, NodeIx(ix))).collect();
        by_id.sort_unstable();
        let (open, memory, lasting) = (Rc::default(), RefCell::default(), RefCell::default());
        Self { rows, by_id, open, memory, lasting, demands, greatest: Greatest::default() }
    }

    /// The same table, with what is known of these nodes from an earlier pass.
    pub(crate) fn with_lasting(self, lasting: Lasting) -> Self {
        Self { lasting: RefCell::new(lasting), ..self }
    }

    /// What was worked out, for a later pass over the same nodes.
    pub(crate) fn lasting(&self) -> Lasting {
        self.lasting.borrow().clone()
    }

    pub(crate) fn find(&self, id: NodeId) -> Option<NodeIx> {
        let at = self.by_id.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        Some(self.by_id[at].1)
    }

    pub(crate) fn find_host(&self, host: &Hostname) -> Option<NodeIx> {
        self.rows.binary_search_by_key(&host, |row| &row.node.hostname).ok().map(NodeIx)
    }

    pub(crate) fn row(&self, ix: NodeIx) -> &NodeRow<'a> {
        &self.rows[ix.0]
    }

    pub(crate) fn row_mut(&mut self, ix: NodeIx) -> &mut NodeRow<'a> {
        &mut self.rows[ix.0]
    }

    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = (NodeIx, &NodeRow<'a>)> {
        self.rows.iter().enumerate().map(|(ix, row)| (NodeIx(ix), row))
    }

    /// Notes which nodes take new replicas, once the statuses of this pass are known.
    pub(crate) fn note_open(&mut self) {
        self.open = self.rows().filter(|(_, row)| row.takes_replicas()).map(|(ix, _)| ix).collect();
        self.memory.take();
    }

    /// The nodes that take new replicas and that the policy's selectors and constraints allow.
    pub(crate) fn allowed(&self, policy: &'a SchedulingPolicy) -> Rc<[NodeIx]> {
        let key = demands(policy);
        let work_out = || {
            let gate = self.gate(policy);
            if gate.is_open() {
                return Rc::clone(&self.open);
            }
            let admitted = self.admitted(policy, &gate);
            let mut admitted = admitted.iter().peekable();
            let is_admitted = |open: &&NodeIx| {
                while admitted.next_if(|at| at < open).is_some() {}
                admitted.peek() == Some(open)
            };
            self.open.iter().filter(is_admitted).copied().collect()
        };
        Rc::clone(self.memory.borrow_mut().allowed.entry(key).or_insert_with(work_out))
    }

    /// The nodes that a policy admits, in order, whether or not they take replicas.
    fn admitted(&self, policy: &SchedulingPolicy, gate: &Gate<'_>) -> Arc<[NodeIx]> {
        let (selectors, constraints, own_keys) = demands(policy);
        let key = (selectors.clone(), constraints.to_vec(), own_keys.clone());
        self.lasting.borrow_mut().admitted(key, || {
            let rows = self.rows().filter(|(_, row)| gate.admits(row.node));
            rows.map(|(at, _)| at).collect()
        })
    }

    /// What a policy and the cluster ask a node to carry and to satisfy.
    pub(crate) fn gate<'p>(&'p self, policy: &'p SchedulingPolicy) -> Gate<'p> {
        let nodes = || self.rows.iter().map(|row| row.node);
        self.demands.gate(policy, |attribute| self.greatest.of(attribute, nodes()))
    }

    /// The domains of all nodes under these criteria.
    pub(crate) fn grouping(&self, criteria: &[&'a SpreadCriterion]) -> Arc<Grouping> {
        let key = attributes(criteria).into_iter().map(str::to_owned).collect();
        self.lasting.borrow_mut().grouping(key, || {
            let nodes: Vec<_> = self.rows.iter().map(|row| row.node).collect();
            Grouping::new(&nodes, criteria)
        })
    }

    /// What [`NodeTable::allowed`] gives, sorted by domain.
    pub(crate) fn allowed_by_domain(
        &self,
        policy: &'a SchedulingPolicy,
        criteria: &[&'a SpreadCriterion],
        sort: impl FnOnce() -> ByDomain,
    ) -> ByDomain {
        let key = (demands(policy), attributes(criteria));
        if let Some(known) = self.memory.borrow().by_domain.get(&key) {
            return Rc::clone(known);
        }
        let sorted = sort();
        self.memory.borrow_mut().by_domain.insert(key, Rc::clone(&sorted));
        sorted
    }
}

fn demands(policy: &SchedulingPolicy) -> Demands<'_> {
    (&policy.selectors, &policy.constraints, &policy.own_keys)
}

fn attributes<'a>(criteria: &[&'a SpreadCriterion]) -> Vec<&'a str> {
    criteria.iter().map(|criterion| &*criterion.attribute).collect()
}

impl NodeRow<'_> {
    /// Whether the node takes new replicas of any service.
    pub(crate) fn takes_replicas(&self) -> bool {
        self.status == NodeStatus::Ready && self.availability == Availability::Active
    }

    /// Whether what was here, and does not run now, may start here again as this spec: on a full disk only what has its data
    /// there, which can start nowhere else.
    pub(crate) fn may_start_again(&self, spec: &ServiceSpec) -> bool {
        self.status != NodeStatus::DiskFull || spec.storage == Storage::Stateful
    }

    /// Whether the placement allows this node at all.
    pub(crate) fn is_named_by(&self, placement: &Placement) -> bool {
        match placement {
            Placement::Hosts(hosts) => hosts.contains(&self.node.hostname),
            Placement::Spread | Placement::Pack | Placement::Global => true,
        }
    }

    /// Why it has its status, in words.
    pub(crate) fn status_reason(&self) -> &str {
        self.reason.as_deref().unwrap_or(&self.node.status_reason)
    }

    pub(crate) fn left(&self) -> Left {
        Left {
            cpu: left_of(self.capacity.cpu.0, self.usage.cpu).map(MilliCores),
            memory: left_of(self.capacity.memory.0, self.usage.memory).map(Bytes),
        }
    }

    /// Whether at least this is left. Where it declares no capacity, that is unknown, and so it is not.
    pub(crate) fn has_left(&self, minimum: Resources) -> bool {
        let left = self.left();
        minimum.cpu <= left.cpu.unwrap_or_default()
            && minimum.memory <= left.memory.unwrap_or_default()
    }

    /// Whether one more instance of `spec` fits beside all that is here.
    pub(crate) fn fits(&self, spec: &ServiceSpec) -> bool {
        let (left, needs) = (self.left(), spec.reservation);
        left.cpu.is_none_or(|left| needs.cpu <= left)
            && left.memory.is_none_or(|left| needs.memory <= left)
            && self.too_many_instances().is_none()
            && !spec.host_ports.iter().any(|port| self.usage.has_port(*port))
            && self.lacks_gpus(spec).is_none()
            && self.lacks_volumes(spec).is_empty()
            && self.lacks_network(spec).is_none()
    }

    /// The most instances that it takes, if there are as many.
    pub(crate) fn too_many_instances(&self) -> Option<NonZeroU32> {
        self.instances_max.filter(|max| self.usage.instances >= max.get())
    }

    /// Why replicas of `spec` cannot reach the networks of the cluster here, if they are to be in any. A node
    /// that has reported nothing of a router is not judged: its agent starts nothing before one works.
    pub(crate) fn lacks_network(&self, spec: &ServiceSpec) -> Option<String> {
        let router = self.node.facts.router.as_ref().filter(|_| !spec.networks.is_empty())?;
        let unknown = || "it was not started yet".to_owned();
        (!router.works()).then(|| router.problem.clone().unwrap_or_else(unknown))
    }

    /// How far its free GPUs are from what one more instance of `spec` has for itself.
    pub(crate) fn lacks_gpus(&self, spec: &ServiceSpec) -> Option<Shortage> {
        let demand = spec.gpus.as_ref()?;
        grant(self.node, &self.usage, demand, &[]).err()
    }

    /// What it lacks of the classes of volumes that one more instance of `spec` mounts.
    pub(crate) fn lacks_volumes<'s>(&self, spec: &'s ServiceSpec) -> Vec<Lack<'s>> {
        match spec.volumes.is_empty() {
            true => Vec::new(),
            false => volume::lacks(self.node, &self.usage, spec),
        }
    }
}

/// Zero declares nothing; more reserved than there is leaves nothing.
fn left_of(capacity: u64, reserved: u128) -> Option<u64> {
    let left = capacity.saturating_sub(u64::try_from(reserved).unwrap_or(u64::MAX));
    (capacity > 0).then_some(left)
}
