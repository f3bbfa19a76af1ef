//! Members and the facts that they report.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;

use jaco_state::command::NewNode;
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Availability, Drain, Gpu, Machine, Millis, Node, NodeEdge, NodeFacts, NodeId, NodeRouter,
    NodeStatus, RouterLink, StateIndex, Timestamp, TunnelBackend, VolumeClass,
};

use super::convert::{Wire, ascending, list, optional, required, to_list, wire_enum};
use super::error::Problem;
use super::observed::port_number;
use super::wire;

wire_enum!(NodeStatus, "node status", [Joining, Ready, Down, EngineDown, DiskFull]);
wire_enum!(TunnelBackend, "tunnel backend", [Kernel, Userspace]);
wire_enum!(Availability, "availability", [Active, Cordoned, Draining]);

impl Wire for Node {
    type Message = wire::Node;

    fn to_wire(&self) -> wire::Node {
        wire::Node {
            id: self.id.0,
            hostname: self.hostname.to_wire(),
            address: self.address.clone(),
            mesh_address: self.mesh_address.map(Ipv4Addr::to_bits),
            key_fingerprint: self.key_fingerprint.to_wire(),
            status: self.status.to_wire(),
            status_reason: self.status_reason.clone(),
            availability: self.availability.to_wire(),
            availability_reason: self.availability_reason.clone(),
            drain: self.drain.map(|drain| drain.to_wire()),
            facts: Some(self.facts.to_wire()),
            labels: self.labels.to_wire(),
            joined_at_ms: self.joined_at.0,
            modified: self.modified.0,
        }
    }

    fn from_wire(message: wire::Node) -> Result<Self, Problem> {
        Ok(Self {
            id: NodeId(message.id),
            hostname: Wire::from_wire(message.hostname)?,
            address: message.address,
            mesh_address: message.mesh_address.map(Ipv4Addr::from_bits),
            key_fingerprint: Wire::from_wire(message.key_fingerprint)?,
            status: Wire::from_wire(message.status)?,
            status_reason: message.status_reason,
            availability: Wire::from_wire(message.availability)?,
            availability_reason: message.availability_reason,
            drain: message.drain.map(Wire::from_wire).transpose()?,
            facts: required("facts", message.facts)?,
            labels: Wire::from_wire(message.labels)?,
            joined_at: Timestamp(message.joined_at_ms),
            modified: StateIndex(message.modified),
        })
    }
}

impl Wire for Drain {
    type Message = wire::Drain;

    fn to_wire(&self) -> wire::Drain {
        wire::Drain {
            timeout_ms: self.timeout.0,
            progress_at_ms: self.progress_at.0,
            before: self.before.to_wire(),
        }
    }

    fn from_wire(message: wire::Drain) -> Result<Self, Problem> {
        Ok(Self {
            timeout: Millis(message.timeout_ms),
            progress_at: Timestamp(message.progress_at_ms),
            before: Wire::from_wire(message.before)?,
        })
    }
}

impl Wire for NewNode {
    type Message = wire::NewNode;

    fn to_wire(&self) -> wire::NewNode {
        wire::NewNode {
            hostname: self.hostname.to_wire(),
            address: self.address.clone(),
            key_fingerprint: self.key_fingerprint.to_wire(),
            facts: Some(self.facts.to_wire()),
        }
    }

    fn from_wire(message: wire::NewNode) -> Result<Self, Problem> {
        Ok(Self {
            hostname: Wire::from_wire(message.hostname)?,
            address: message.address,
            key_fingerprint: Wire::from_wire(message.key_fingerprint)?,
            facts: required("facts", message.facts)?,
        })
    }
}

impl Wire for NodeFacts {
    type Message = wire::NodeFacts;

    fn to_wire(&self) -> wire::NodeFacts {
        wire::NodeFacts {
            version: self.version.clone(),
            os: self.os.clone(),
            arch: self.arch.clone(),
            engine: self.engine.clone(),
            capacity: Some(self.capacity.to_wire()),
            labels: self.labels.to_wire(),
            storage_bytes: self.storage.0,
            gpus: to_list(&self.gpus),
            machine: (self.machine != Machine::default()).then(|| self.machine.to_wire()),
            router: self.router.as_ref().map(Wire::to_wire),
            edge: self.edge.as_ref().map(Wire::to_wire),
            instances_max: self.instances_max.map_or(0, NonZeroU32::get),
            volume_classes: self.volume_classes.iter().map(offered_to_wire).collect(),
        }
    }

    fn from_wire(message: wire::NodeFacts) -> Result<Self, Problem> {
        Ok(Self {
            version: message.version,
            os: message.os,
            arch: message.arch,
            engine: message.engine,
            capacity: required("capacity", message.capacity)?,
            labels: Wire::from_wire(message.labels)?,
            storage: Bytes(message.storage_bytes),
            gpus: list(message.gpus)?,
            machine: machine_from_wire(message.machine)?,
            router: optional(message.router)?,
            edge: optional(message.edge)?,
            instances_max: NonZeroU32::new(message.instances_max),
            volume_classes: ascending(
                "volume classes",
                message.volume_classes.into_iter().map(offered_from_wire),
            )?,
        })
    }
}

fn offered_to_wire((class, capacity): (&VolumeClass, &Bytes)) -> wire::OfferedVolumes {
    wire::OfferedVolumes { class: class.to_wire(), capacity_bytes: capacity.0 }
}

fn offered_from_wire(message: wire::OfferedVolumes) -> Result<(VolumeClass, Bytes), Problem> {
    Ok((Wire::from_wire(message.class)?, Bytes(message.capacity_bytes)))
}

impl Wire for NodeRouter {
    type Message = wire::NodeRouter;

    fn to_wire(&self) -> wire::NodeRouter {
        wire::NodeRouter {
            link: self.link.as_ref().map(Wire::to_wire),
            problem: self.problem.clone(),
        }
    }

    fn from_wire(message: wire::NodeRouter) -> Result<Self, Problem> {
        Ok(Self { link: optional(message.link)?, problem: message.problem })
    }
}

impl Wire for NodeEdge {
    type Message = wire::NodeEdge;

    fn to_wire(&self) -> wire::NodeEdge {
        wire::NodeEdge { problem: self.problem.clone() }
    }

    fn from_wire(message: wire::NodeEdge) -> Result<Self, Problem> {
        Ok(Self { problem: message.problem })
    }
}

impl Wire for RouterLink {
    type Message = wire::RouterLink;

    fn to_wire(&self) -> wire::RouterLink {
        wire::RouterLink {
            key: self.key.to_wire(),
            port: self.port.into(),
            backend: self.backend.to_wire(),
        }
    }

    fn from_wire(message: wire::RouterLink) -> Result<Self, Problem> {
        Ok(Self {
            key: Wire::from_wire(message.key)?,
            port: port_number("router port", message.port)?,
            backend: Wire::from_wire(message.backend)?,
        })
    }
}

/// A machine of which nothing is known is not written, and so is refused where it is.
fn machine_from_wire(message: Option<wire::Machine>) -> Result<Machine, Problem> {
    match optional(message)? {
        Some(machine) if machine == Machine::default() => {
            Err(Problem::Missing("machine of which something is known"))
        }
        Some(machine) => Ok(machine),
        None => Ok(Machine::default()),
    }
}

impl Wire for Gpu {
    type Message = wire::Gpu;

    fn to_wire(&self) -> wire::Gpu {
        wire::Gpu {
            id: self.id.to_string(),
            driver: self.driver.clone(),
            model: self.model.clone(),
            memory_bytes: self.memory.0,
        }
    }

    fn from_wire(message: wire::Gpu) -> Result<Self, Problem> {
        Ok(Self {
            id: message.id.into(),
            driver: message.driver,
            model: message.model,
            memory: Bytes(message.memory_bytes),
        })
    }
}

impl Wire for Machine {
    type Message = wire::Machine;

    fn to_wire(&self) -> wire::Machine {
        wire::Machine {
            kernel: self.kernel.clone(),
            cores: self.cores,
            mhz: self.mhz,
            memory_bytes: self.memory.0,
            disk_bytes: self.disk.0,
            disk_free_bytes: self.disk_free.0,
        }
    }

    fn from_wire(message: wire::Machine) -> Result<Self, Problem> {
        Ok(Self {
            kernel: message.kernel,
            cores: message.cores,
            mhz: message.mhz,
            memory: Bytes(message.memory_bytes),
            disk: Bytes(message.disk_bytes),
            disk_free: Bytes(message.disk_free_bytes),
        })
    }
}

impl Wire for Resources {
    type Message = wire::Resources;

    fn to_wire(&self) -> wire::Resources {
        wire::Resources { cpu_milli_cores: self.cpu.0, memory_bytes: self.memory.0 }
    }

    fn from_wire(message: wire::Resources) -> Result<Self, Problem> {
        Ok(Self { cpu: MilliCores(message.cpu_milli_cores), memory: Bytes(message.memory_bytes) })
    }
}
