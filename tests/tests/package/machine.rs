//! A fresh Debian with systemd in a container of its own: its process table, network and `/run`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use jaco_testkit::{ran, succeeded};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// A busy machine starts one in some seconds.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A machine that has started.
pub(crate) struct Machine {
    folder: TempDir,
    name: String,
    container: Child,
    /// Its first process.
    init: u32,
}

impl Machine {
    /// Makes one of the distribution's own release, so that programs that were built here start there.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("temporary files can be made");
        let root = folder.path().join("root");
        let release = fs::read_to_string("/etc/os-release").expect("this is a Debian");
        let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=essential", "--include=systemd-sysv,procps"]);
        make.args(["--dpkgopt=force-unsafe-io", codename.expect("a release has one")]);
        ran(make.arg(&root));
        let name = format!("jaco-package-{}", std::process::id());
        let log = File::create(folder.path().join("log")).expect("a new file");
        let mut boot = Command::new("systemd-nspawn");
        boot.args(["--quiet", "--register=no", "--keep-unit", "--private-network", "--boot"]);
        boot.arg(format!("--machine={name}")).arg("--directory").arg(&root);
        let errors = log.try_clone().expect("a descriptor is free");
        let container = boot.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let container = container.expect("systemd-nspawn is there");
        let mut machine = Self { folder, name, container, init: 0 };
        machine.await_boot();
        machine
    }

    fn await_boot(&mut self) {
        let container = self.container.id();
        let children = format!("/proc/{container}/task/{container}/children");
        self.init = self.eventually("it has a first process", || {
            let children = fs::read_to_string(&children).ok()?;
            children.split_whitespace().last()?.parse().ok()
        });
        self.eventually("it has started", || {
            let state = self.output(&["systemctl", "is-system-running"]);
            let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
            // Some units of Debian need more rights than a container has.
            ["running", "degraded"].contains(&state.as_str()).then_some(())
        });
    }

    fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}\n{}", log());
            std::thread::sleep(PAUSE);
        }
    }

    /// Runs a command in it.
    pub(crate) fn output(&self, command: &[&str]) -> Output {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.init.to_string(), "--all", "--"]);
        // Nothing of the caller's, such as a language that is not installed there.
        enter.args(["env", "--chdir=/", "--ignore-environment", "HOME=/root"]);
        enter.args(["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"]);
        enter.args(command);
        enter.stdin(Stdio::null()).output().expect("nsenter is there")
    }

    /// Runs one that must succeed, and returns what it prints.
    pub(crate) fn run(&self, command: &[&str]) -> String {
        succeeded(&self.output(command))
    }

    /// Runs one until it succeeds.
    pub(crate) fn await_success(&self, command: &[&str]) -> String {
        self.eventually(&command.join(" "), || {
            let out = self.output(command);
            out.status.success().then(|| succeeded(&out))
        })
    }

    /// A path of it, as seen from here.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    /// Copies a file into its `/root`, and returns its path there.
    pub(crate) fn bring(&self, file: &Path) -> String {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        fs::copy(file, self.path("/root").join(name)).expect("copied");
        format!("/root/{name}")
    }

    /// All paths on its disk.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let listed = self.run(&["find", "/", "-xdev"]);
        listed.lines().map(str::to_owned).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // All its processes end with the first one, and the container with it.
        match i32::try_from(self.init).ok().and_then(Pid::from_raw) {
            Some(init) => rustix::process::kill_process(init, Signal::KILL).ok(),
            None => self.container.kill().ok(),
        };
        self.container.wait().ok();
        for kind in ["propagate", "unix-export"] {
            fs::remove_dir_all(format!("/run/systemd/nspawn/{kind}/{}", self.name)).ok();
        }
    }
}
