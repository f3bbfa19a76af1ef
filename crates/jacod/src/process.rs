//! The processes beside the daemon, `jacod net` and `jacod edge`: this daemon starts them where no service manager
//! does.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jaco_process::error_file;
use tracing::{info, warn};

use crate::part::own_program;

/// Who starts the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starter {
    /// This daemon.
    Daemon,
    /// The service manager, which has a unit of its own for it.
    ServiceManager,
}

impl Starter {
    /// systemd says which process it has started: a daemon that runs as a unit has no privilege to start a
    /// router.
    pub(crate) fn of_this_process() -> Self {
        let started = std::env::var("SYSTEMD_EXEC_PID").ok();
        Self::of(started.as_deref(), std::process::id())
    }

    fn of(started: Option<&str>, own: u32) -> Self {
        match started.and_then(|pid| pid.parse::<u32>().ok()) {
            Some(pid) if pid == own => Self::ServiceManager,
            Some(_) | None => Self::Daemon,
        }
    }
}

/// A process beside the daemon, as it is started.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// What it is, for people.
    pub(crate) name: &'static str,
    /// Its unit, where the service manager starts it.
    pub(crate) unit: &'static str,
    /// What this program is started with.
    pub(crate) arguments: Vec<OsString>,
}

/// A process beside the daemon, if this daemon has started it.
#[derive(Debug)]
pub(crate) struct Process {
    starter: Starter,
    program: Program,
    child: Option<Child>,
    /// Those that another has taken the place of, until they have ended.
    former: Vec<Child>,
}

impl Process {
    /// It is not started by this.
    pub(crate) fn new(starter: Starter, program: Program) -> Self {
        Self { starter, program, child: None, former: Vec::new() }
    }

    /// Who starts it.
    pub(crate) fn starter(&self) -> Starter {
        self.starter
    }

    /// Starts the process unless one is being started. Returns why there is none, as far as it is known.
    pub(crate) fn ensure(&mut self, runtime_dir: &Path) -> Option<String> {
        let said = || std::fs::read_to_string(error_file(runtime_dir)).ok();
        if self.starter == Starter::ServiceManager {
            let unit = format!("start its unit: systemctl enable --now {}", self.program.unit);
            return Some(said().map_or_else(|| unit.clone(), |why| format!("{why}; {unit}")));
        }
        let ended = match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => return None,
            Some(Ok(Some(status))) => Some(format!("its process ended with {status}")),
            Some(Err(error)) => Some(error.to_string()),
            None => None,
        };
        if let Some(ended) = &ended {
            warn!(process = self.program.name, reason = %ended, "not running, starting it again");
        }
        let ended = ended.map(|ended| said().unwrap_or(ended));
        match self.start() {
            Ok(child) => {
                info!(process = self.program.name, pid = child.id(), "process started");
                self.child = Some(child);
                ended
            }
            Err(error) => Some(format!("its process cannot be started: {error}")),
        }
    }

    /// Waits no longer for a process to serve that only finishes what it has, if it is among these.
    pub(crate) fn set_aside(&mut self, finishing: &BTreeSet<u32>) {
        let child = self.child.take_if(|child| finishing.contains(&child.id()));
        self.former.extend(child);
    }

    /// Takes note of a process that has ended, so that nothing of it is left in the system: one that another has taken the
    /// place of is not started again.
    pub(crate) fn reap(&mut self) {
        let has_ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)));
        self.child.take_if(has_ended);
        self.former.retain_mut(|child| !has_ended(child));
    }

    /// Ends the process, if this daemon has started it.
    pub(crate) fn stop(mut self) {
        for mut child in self.child.take().into_iter().chain(self.former) {
            // It may have ended by itself.
            let _ended = child.kill().is_err();
            let _ended = child.wait().is_err();
        }
    }

    /// In a process group of its own: it goes on when this daemon ends, however that is.
    fn start(&self) -> anyhow::Result<Child> {
        let mut command = Command::new(own_program()?);
        command.args(&self.program.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command.env_remove("SYSTEMD_EXEC_PID").process_group(0).spawn()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_unit_of_its_own_has_a_unit_beside_it() {
        assert_eq!(Starter::of(None, 7), Starter::Daemon);
        assert_eq!(Starter::of(Some("7"), 7), Starter::ServiceManager);
        assert_eq!(Starter::of(Some("1"), 7), Starter::Daemon, "a child of a unit");
    }
}
