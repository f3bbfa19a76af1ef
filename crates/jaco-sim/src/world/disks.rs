//! Disks that are full. A member whose log cannot be written ends, and does not start before there is space.

use jaco_agent::fake::Space;
use jaco_scheduler::input::EngineSignal;

use super::World;
use crate::machine::Disk;
use crate::network::MachineIx;

impl World {
    /// How full the disk of a machine is from now on.
    pub(crate) fn set_disk(&mut self, ix: MachineIx, disk: Disk) {
        let machine = &mut self.machines[ix.0];
        machine.disk = disk;
        machine.driver.host.set_space(match disk {
            Disk::Free | Disk::NearlyFull => Space::Left,
            Disk::Full => Space::None,
        });
        self.topology_changed();
    }

    /// Whether a machine can write its log.
    pub(super) fn can_write(&self, ix: MachineIx) -> bool {
        self.machine(ix).disk != Disk::Full
    }

    /// Those of these machines that cannot write what they are sent end.
    pub(super) fn end_where_full(&mut self, machines: impl IntoIterator<Item = MachineIx>) {
        for ix in machines {
            if self.machine(ix).daemon.is_some() && !self.can_write(ix) {
                self.crash(ix);
            }
        }
    }

    /// What a node says of its engine: that it works, or why nothing is to be placed there.
    pub(super) fn engine_signal(&self, ix: MachineIx) -> Option<EngineSignal> {
        let machine = self.machine(ix);
        let engine = machine.daemon.as_ref()?.engine.clone()?;
        Some(match (engine, machine.disk) {
            (EngineSignal::Up, Disk::NearlyFull | Disk::Full) => {
                EngineSignal::DiskFull("/ is 96% full".to_owned())
            }
            (engine, _) => engine,
        })
    }
}
