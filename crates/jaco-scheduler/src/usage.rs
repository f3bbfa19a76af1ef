//! What is taken of one node: counted in and out as instances come and go.

use std::sync::Arc;

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
    /// How many instances have each GPU: one, or two while the first ends.
    gpus: Vec<(Arc<str>, u32)>,
}

impl Usage {
    /// Counts an instance in that has these GPUs.
    pub(crate) fn take<'g>(
        &mut self,
        spec: &ServiceSpec,
        gpus: impl IntoIterator<Item = &'g Arc<str>>,
    ) {
        for id in gpus {
            match self.gpus.iter_mut().find(|(known, _)| known == id) {
                Some((_, holders)) => *holders += 1,
                None => self.gpus.push((Arc::clone(id), 1)),
            }
        }
        self.cpu += u128::from(spec.reservation.cpu.0);
        self.memory += u128::from(spec.reservation.memory.0);
        for port in &spec.host_ports {
            match self.ports.iter_mut().find(|(known, _)| known == port) {
                Some((_, holders)) => *holders += 1,
                None => self.ports.push((*port, 1)),
            }
        }
    }

    /// Counts an instance out that had these GPUs.
    pub(crate) fn release<'g>(
        &mut self,
        spec: &ServiceSpec,
        gpus: impl IntoIterator<Item = &'g Arc<str>>,
    ) {
        for id in gpus {
            if let Some(at) = self.gpus.iter().position(|(known, _)| known == id) {
                self.gpus[at].1 -= 1;
                if self.gpus[at].1 == 0 {
                    self.gpus.swap_remove(at);
                }
            }
        }
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

    /// Whether an instance has this GPU for itself.
    pub(crate) fn has_gpu(&self, id: &str) -> bool {
        self.gpus.iter().any(|(known, _)| **known == *id)
    }
}
