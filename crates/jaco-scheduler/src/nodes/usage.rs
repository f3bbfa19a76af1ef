//! What is reserved of one node: counted in and out as instances come and go.

use std::sync::Arc;

use jaco_types::VolumeDemand;
use jaco_types::spec::{HostPort, ServiceSpec};

/// What is reserved of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Slots whose current instance is here, of any service.
    pub(crate) replicas: u32,
    /// All instances here, retiring ones included.
    pub(crate) instances: u32,
    /// The reservations of all instances here, retiring ones included. Wider than the amounts
    /// themselves, so that no sum of them overflows.
    pub(crate) cpu: u128,
    pub(crate) memory: u128,
    /// What only one may have and what several share, where anything of it is held. Apart, so that what is asked for with each
    /// replica stands close together.
    held: Option<Box<Held>>,
}

/// What only one replica of a node may have, and the volumes that several share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Held {
    /// How many instances hold each port of the host.
    ports: Vec<(HostPort, u32)>,
    /// How many instances have each GPU: one, or two while the first ends.
    gpus: Vec<(Arc<str>, u32)>,
    /// How many instances mount each volume of a class, or are to once they are enabled.
    volumes: Vec<(VolumeDemand, u32)>,
}

impl Usage {
    /// Counts an instance in that has these GPUs.
    pub(crate) fn take<'g>(
        &mut self,
        spec: &ServiceSpec,
        gpus: impl IntoIterator<Item = &'g Arc<str>>,
    ) {
        self.instances += 1;
        self.cpu += u128::from(spec.reservation.cpu.0);
        self.memory += u128::from(spec.reservation.memory.0);
        for id in gpus {
            hold(&mut self.held.get_or_insert_default().gpus, id);
        }
        self.take_lasting(spec);
    }

    /// Reserves what a disabled replica with data keeps: the ports of the host that its spec publishes and the space
    /// of its volumes, and nothing else of it.
    pub(crate) fn take_lasting(&mut self, spec: &ServiceSpec) {
        for port in &spec.host_ports {
            hold(&mut self.held.get_or_insert_default().ports, port);
        }
        for volume in &spec.volumes {
            hold(&mut self.held.get_or_insert_default().volumes, volume);
        }
    }

    /// Frees what [`Usage::take_lasting`] reserved.
    pub(crate) fn release_lasting(&mut self, spec: &ServiceSpec) {
        let Some(held) = &mut self.held else { return };
        for port in &spec.host_ports {
            unhold(&mut held.ports, port);
        }
        for volume in &spec.volumes {
            unhold(&mut held.volumes, volume);
        }
        if **held == Held::default() {
            self.held = None;
        }
    }

    /// Counts an instance out that had these GPUs.
    pub(crate) fn release<'g>(
        &mut self,
        spec: &ServiceSpec,
        gpus: impl IntoIterator<Item = &'g Arc<str>>,
    ) {
        self.instances -= 1;
        self.cpu -= u128::from(spec.reservation.cpu.0);
        self.memory -= u128::from(spec.reservation.memory.0);
        if let Some(held) = &mut self.held {
            for id in gpus {
                unhold(&mut held.gpus, id);
            }
        }
        self.release_lasting(spec);
    }

    /// Whether an instance holds this port of the host.
    pub(crate) fn has_port(&self, port: HostPort) -> bool {
        self.held.as_ref().is_some_and(|held| held.ports.iter().any(|(known, _)| *known == port))
    }

    /// Whether an instance has this GPU for itself.
    pub(crate) fn has_gpu(&self, id: &str) -> bool {
        self.held.as_ref().is_some_and(|held| held.gpus.iter().any(|(known, _)| **known == *id))
    }

    /// The volumes of a class that instances mount. One may be there with several sizes, of different revisions.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = &VolumeDemand> {
        self.held.iter().flat_map(|held| held.volumes.iter().map(|(volume, _)| volume))
    }
}

fn hold<T: Clone + PartialEq>(holders: &mut Vec<(T, u32)>, what: &T) {
    match holders.iter_mut().find(|(known, _)| known == what) {
        Some((_, count)) => *count += 1,
        None => holders.push((what.clone(), 1)),
    }
}

fn unhold<T: PartialEq>(holders: &mut Vec<(T, u32)>, what: &T) {
    if let Some(at) = holders.iter().position(|(known, _)| known == what) {
        holders[at].1 -= 1;
        if holders[at].1 == 0 {
            holders.swap_remove(at);
        }
    }
}
