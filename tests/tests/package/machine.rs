//! A fresh Debian with systemd in a container of its own: its process table, network, control groups and `/run`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jaco_testkit::{ran, succeeded};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::control_groups::ControlGroups;
use crate::debian::Debian;
use crate::scratch;

/// A busy machine starts one in some seconds.
const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Control groups of the first version are shown read-only to a container, in which an engine has to make its own.
const WRITABLE: &str = r#"mount -o remount,rw /sys/fs/cgroup
while read -r device place kind rest; do
  if [ "$kind" = cgroup ]; then mount -o remount,rw,bind "$place"; fi
done < /proc/mounts"#;

/// A machine that has started.
pub(crate) struct Machine {
    folder: TempDir,
    name: String,
    container: Child,
    /// Its first process.
    init: u32,
    /// Removed after its processes have ended.
    _groups: ControlGroups,
}

/// What a machine is wired to.
pub(crate) enum Network {
    /// To nothing.
    None,
    /// To what this namespace is.
    Namespace(PathBuf),
}

impl Machine {
    /// Starts one with a copy of a fresh disk.
    pub(crate) fn start(debian: &Debian, hostname: &str, network: &Network) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = scratch::folder();
        let root = folder.path().join("root");
        debian.copy_to(&root);
        fs::write(root.join("etc/hostname"), format!("{hostname}\n")).expect("written");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("jaco-package-{}-{number}", std::process::id());
        let groups = ControlGroups::make(&name);
        let log = File::create(folder.path().join("log")).expect("a new file");
        let mut boot = Command::new("sh");
        // It has to be in its groups before it makes others below them.
        boot.args([
            "-c",
            "for group in $GROUPS_OF_IT; do echo $$ > $group; done; exec \"$@\"",
            "sh",
        ]);
        let entrances: Vec<_> = groups.entrances().map(|path| path.display().to_string()).collect();
        boot.env("GROUPS_OF_IT", entrances.join(" "));
        boot.env("SYSTEMD_NSPAWN_API_VFS_WRITABLE", "network");
        boot.args(["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot"]);
        boot.arg(format!("--machine={name}")).arg("--directory").arg(&root);
        boot.arg(match network {
            Network::None => "--private-network".to_owned(),
            Network::Namespace(file) => format!("--network-namespace-path={}", file.display()),
        });
        // What an engine and a router need beyond what a container gets.
        boot.args(["--capability=all", "--system-call-filter=add_key keyctl bpf"]);
        boot.arg("--bind=/dev/net/tun");
        let errors = log.try_clone().expect("a descriptor is free");
        let container = boot.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let container = container.expect("a shell is there");
        let mut machine = Self { folder, name, container, init: 0, _groups: groups };
        machine.await_boot();
        machine.run(&["sh", "-c", WRITABLE]);
        machine
    }

    fn await_boot(&mut self) {
        let container = self.container.id();
        let children = format!("/proc/{container}/task/{container}/children");
        // Another process of the container's comes before, which has the processes of this machine.
        let is_first = |pid: &u32| {
            let of = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
            of(&pid.to_string()).is_some_and(|theirs| Some(theirs) != of("self"))
        };
        self.init = self.eventually("it has a first process", || {
            let children = fs::read_to_string(&children).ok()?;
            children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(is_first)
        });
        self.eventually("it has started", || {
            let state = self.output(&["systemctl", "is-system-running"]);
            let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
            // Some units of Debian need more rights than a container has.
            ["running", "degraded"].contains(&state.as_str()).then_some(())
        });
    }

    /// Looks until it sees something.
    pub(crate) fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
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

    /// What runs the appended command in it, from the home of its administrator.
    pub(crate) fn command(&self) -> Command {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.init.to_string(), "--all", "--"]);
        // Nothing of the caller's, such as a language that is not installed there.
        enter.args(["env", "--chdir=/root", "--ignore-environment", "HOME=/root"]);
        enter.arg("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        enter.arg("DEBIAN_FRONTEND=noninteractive");
        enter
    }

    /// Runs a command in it.
    pub(crate) fn output(&self, command: &[&str]) -> Output {
        self.command().args(command).stdin(Stdio::null()).output().expect("nsenter is there")
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

    /// A property of a unit.
    pub(crate) fn unit(&self, unit: &str, property: &str) -> String {
        self.run(&["systemctl", "show", "--property", property, "--value", unit])
    }

    /// A path of it, as seen from here.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    /// Copies a file into its `/root`, and returns its path there.
    pub(crate) fn bring(&self, file: &Path) -> String {
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        ran(Command::new("cp").arg(file).arg(self.path("/root").join(name)));
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
