//! What is taken of one node: counted in and out as instances come and go.

use jaco_types::spec::{HostPort, ServiceSpec};

/// What is taken of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Slots whose current instance is here, of any service.
    pub(crate) replicas: u32,
    /// The reservations of all instances here, retiring ones included. Wider than the amounts
    /// themselves, so that no sum of them overflows.
    pub(crate) cpu: u128,
    pub(crate) memory: u128,
    /// How many instances hold each port of the host.
    ports: Vec<(HostPort, u32)>,
}

impl Usage {
    /// Counts an instance in.
    pub(crate) fn take(&mut self, spec: &ServiceSpec) {
        self.cpu += u128::from(spec.reservation.cpu.0);
        self.memory += u128::from(spec.reservation.memory.0);
        for port in &spec.host_ports {
            match self.ports.iter_mut().find(|(known, _)| known == port) {
                Some((_, holders)) => *holders += 1,
                None => self.ports.push((*port, 1)),
            }
        }
    }

    /// Counts an instance out.
    pub(crate) fn release(&mut self, spec: &ServiceSpec) {
        self.cpu -= u128::from(spec.reservation.cpu.0);
        self.memory -= u128::from(spec.reservation.memory.0);
        for port in &spec.host_ports {
            if let Some(at) = self.ports.iter().position(|(known, _)| known == port) {
                self.ports[at].1 -= 1;
                if self.ports[at].1 == 0 {
                    self.ports.swap_remove(at);
                }
            }
        }
    }

    /// Whether an instance holds this port of the host.
    pub(crate) fn has_port(&self, port: HostPort) -> bool {
        self.ports.iter().any(|(known, _)| *known == port)
    }
}
