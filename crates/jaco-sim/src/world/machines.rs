//! The machines of a world, and when each of them is due next.

use std::cell::Cell;
use std::ops::{Index, IndexMut};

use jaco_types::Timestamp;

use crate::machine::Machine;
use crate::network::MachineIx;

/// A moment that follows from the state of a part, and is not planned ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Engine(MachineIx),
    Agent(MachineIx),
    Pass(MachineIx),
}

/// The machines in the order in which they came. Most events change one of them, and the next timer is asked for
/// before each event: it is computed again only for machines that were borrowed mutably since.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    all: Vec<Machine>,
    due: Vec<Cell<Due>>,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    /// The machine may have changed.
    Unknown,
    Known(Option<(Timestamp, Timer)>),
}

impl Machines {
    pub(crate) fn push(&mut self, machine: Machine) {
        self.all.push(machine);
        self.due.push(Cell::new(Due::Unknown));
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Machine> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Machine> {
        self.due.fill(Cell::new(Due::Unknown));
        self.all.iter_mut()
    }

    /// The timer that rings next, by true time.
    pub(crate) fn next_timer(&self) -> Option<(Timestamp, Timer)> {
        let each = self.all.iter().zip(&self.due).enumerate();
        let timers = each.filter_map(|(at, (machine, due))| match due.get() {
            Due::Known(next) => next,
            Due::Unknown => {
                let next = next_of(MachineIx(at), machine);
                due.set(Due::Known(next));
                next
            }
        });
        timers.min()
    }
}

fn next_of(ix: MachineIx, machine: &Machine) -> Option<(Timestamp, Timer)> {
    let engine = machine.driver.next_at().map(|at| (at, Timer::Engine(ix)));
    let daemon = machine.daemon.as_ref();
    let agent = daemon.and_then(|daemon| {
        Some((machine.true_time(daemon.core.wake_at()?, &daemon.own_time), Timer::Agent(ix)))
    });
    let pass = daemon.and_then(|daemon| {
        let due = daemon.leading.as_ref()?.due_at()?;
        Some((machine.true_time(due, &daemon.time), Timer::Pass(ix)))
    });
    let timers = [engine, agent, pass];
    timers.into_iter().flatten().min()
}

impl Index<usize> for Machines {
    type Output = Machine;

    fn index(&self, at: usize) -> &Machine {
        &self.all[at]
    }
}

impl IndexMut<usize> for Machines {
    fn index_mut(&mut self, at: usize) -> &mut Machine {
        self.due[at].set(Due::Unknown);
        &mut self.all[at]
    }
}
