//! The nodes as a pass sees them: who is there, and what is taken of each. Kept up to date while
//! the pass edits, so that it never gives away the same room twice.

use jaco_types::spec::{HostPort, ServiceSpec};
use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{Hostname, Node, NodeId, NodeStatus};

use crate::eligibility::is_open;

/// A node's place in the table. The order is that of the host names, so that nothing depends on
/// the order in which nodes joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeIx(pub(crate) usize);

/// All members.
pub(crate) struct NodeTable<'a> {
    rows: Vec<NodeRow<'a>>,
    by_id: Vec<(NodeId, NodeIx)>,
    /// The nodes that take new replicas, in order; see [`NodeTable::open`].
    open: Vec<NodeIx>,
}

/// One member and what is taken of it.
#[derive(Clone)]
pub(crate) struct NodeRow<'a> {
    /// The member.
    pub(crate) node: &'a Node,
    /// Its status as this pass judges it.
    pub(crate) status: NodeStatus,
    /// Slots whose current instance is here, of any service.
    pub(crate) replicas: u32,
    /// The reservations of all instances here, retiring ones included. Wider than the amounts
    /// themselves, so that no sum of them overflows.
    reserved_cpu: u128,
    reserved_memory: u128,
    /// How many instances hold each port of the host.
    ports: Vec<(HostPort, u32)>,
}

/// What is left of a node; `None` where it declares no capacity and nothing is enforced.
pub(crate) struct Left {
    pub(crate) cpu: Option<MilliCores>,
    pub(crate) memory: Option<Bytes>,
}

impl<'a> NodeTable<'a> {
    pub(crate) fn new(nodes: impl Iterator<Item = &'a Node>) -> Self {
        let mut rows: Vec<_> = nodes.map(NodeRow::new).collect();
        rows.sort_unstable_by_key(|row| (&row.node.hostname, row.node.id));
        let mut by_id: Vec<_> =
            rows.iter().enumerate().map(|(ix, row)| (row.node.id, NodeIx(ix))).collect();
        by_id.sort_unstable();
        Self { rows, by_id, open: Vec::new() }
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

    /// The nodes that take new replicas: ready, and neither cordoned nor draining.
    pub(crate) fn open(&self) -> &[NodeIx] {
        &self.open
    }

    /// Computes [`NodeTable::open`], once the statuses of this pass are known.
    pub(crate) fn note_open(&mut self) {
        self.open = self.rows().filter(|(_, row)| is_open(row)).map(|(ix, _)| ix).collect();
    }
}

impl<'a> NodeRow<'a> {
    fn new(node: &'a Node) -> Self {
        Self {
            node,
            status: node.status,
            replicas: 0,
            reserved_cpu: 0,
            reserved_memory: 0,
            ports: Vec::new(),
        }
    }

    /// Counts an instance in.
    pub(crate) fn take(&mut self, spec: &ServiceSpec) {
        self.reserved_cpu += u128::from(spec.reservation.cpu.0);
        self.reserved_memory += u128::from(spec.reservation.memory.0);
        for port in &spec.host_ports {
            match self.ports.iter_mut().find(|(known, _)| known == port) {
                Some((_, holders)) => *holders += 1,
                None => self.ports.push((*port, 1)),
            }
        }
    }

    /// Counts an instance out.
    pub(crate) fn release(&mut self, spec: &ServiceSpec) {
        self.reserved_cpu -= u128::from(spec.reservation.cpu.0);
        self.reserved_memory -= u128::from(spec.reservation.memory.0);
        for port in &spec.host_ports {
            if let Some(at) = self.ports.iter().position(|(known, _)| known == port) {
                self.ports[at].1 -= 1;
                if self.ports[at].1 == 0 {
                    self.ports.swap_remove(at);
                }
            }
        }
    }

    pub(crate) fn has_port(&self, port: HostPort) -> bool {
        self.ports.iter().any(|(known, _)| *known == port)
    }

    pub(crate) fn left(&self) -> Left {
        let capacity = self.node.facts.capacity;
        Left {
            cpu: left_of(capacity.cpu.0, self.reserved_cpu).map(MilliCores),
            memory: left_of(capacity.memory.0, self.reserved_memory).map(Bytes),
        }
    }

    /// Whether one more instance of `spec` fits beside all that is here.
    pub(crate) fn fits(&self, spec: &ServiceSpec) -> bool {
        let (left, needs) = (self.left(), spec.reservation);
        left.cpu.is_none_or(|left| needs.cpu <= left)
            && left.memory.is_none_or(|left| needs.memory <= left)
            && !spec.host_ports.iter().any(|port| self.has_port(*port))
    }
}

/// Zero declares nothing; more reserved than there is leaves nothing.
fn left_of(capacity: u64, reserved: u128) -> Option<u64> {
    let left = capacity.saturating_sub(u64::try_from(reserved).unwrap_or(u64::MAX));
    (capacity > 0).then_some(left)
}
