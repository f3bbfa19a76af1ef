//! The process of the router: `jacod net`, as it is started, and as this daemon starts it where no service
//! manager does.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use jaco_net::{ServiceOptions, serve};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

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

/// The process, if this daemon has started it.
#[derive(Debug)]
pub(crate) struct Process {
    starter: Starter,
    config: PathBuf,
    child: Option<Child>,
}

impl Process {
    /// `config` is the file that the process reads as well.
    pub(crate) fn new(starter: Starter, config: PathBuf) -> Self {
        Self { starter, config, child: None }
    }

    /// Starts the process unless one is being started. Returns why there is none, as far as it is known.
    pub(crate) fn ensure(&mut self, runtime_dir: &Path) -> Option<String> {
        let said = || std::fs::read_to_string(error_file(runtime_dir)).ok();
        if self.starter == Starter::ServiceManager {
            let unit = "start its unit: systemctl enable --now jacod-net";
            return Some(said().map_or_else(|| unit.to_owned(), |why| format!("{why}; {unit}")));
        }
        let ended = match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(None)) => return None,
            Some(Ok(Some(status))) => Some(format!("its process ended with {status}")),
            Some(Err(error)) => Some(error.to_string()),
            None => None,
        };
        if let Some(ended) = &ended {
            warn!(reason = %ended, "router not running, starting it again");
        }
        let ended = ended.map(|ended| said().unwrap_or(ended));
        match self.start() {
            Ok(child) => {
                info!(pid = child.id(), "router process started");
                self.child = Some(child);
                ended
            }
            Err(error) => Some(format!("its process cannot be started: {error}")),
        }
    }

    /// Ends the process, if this daemon has started it.
    pub(crate) fn stop(mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ended = child.kill().is_err();
            let _ended = child.wait().is_err();
        }
    }

    /// In a process group of its own: it goes on when this daemon ends, however that is.
    fn start(&self) -> std::io::Result<Child> {
        let program = std::env::current_exe()?;
        let arguments = [OsStr::new("net"), OsStr::new("--config"), self.config.as_os_str()];
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        command.env_remove("SYSTEMD_EXEC_PID").process_group(0).spawn()
    }
}

/// Runs as the process of the router, until `stop`.
pub(crate) async fn run(options: ServiceOptions, stop: CancellationToken) -> anyhow::Result<()> {
    let errors = error_file(&options.runtime_dir);
    // Nothing is there to remove but for what an earlier process left.
    drop(std::fs::remove_file(&errors));
    let served = serve(options, stop.cancelled_owned()).await.context("the router has failed");
    if let Err(error) = &served {
        // For the daemon, which tells the operators. Where not even this can be written, the log has it.
        drop(std::fs::write(&errors, format!("{error:#}")));
    }
    served
}

/// Why the last process ended.
fn error_file(runtime_dir: &Path) -> PathBuf {
    runtime_dir.join("error")
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
