//! Engines that tests start themselves: that of the machine is shared.

use std::iter;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::docker::IMAGE;
use crate::wait::eventually_within;

const PATIENCE: Duration = Duration::from_secs(180);

/// Names a folder with another `dockerd`, and with what it starts that the machine's own does not have.
const ENGINE_DIR: &str = "JACO_ENGINE_DIR";

/// Whether containers survive their engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveRestore {
    /// They do.
    On,
    /// They end with it.
    Off,
}

/// An engine of a test, in a network namespace, with data and sockets of its own. Dropping it ends it and its containers.
#[derive(Debug)]
pub struct Dockerd {
    folder: TempDir,
    /// Keeps a network namespace for it: an engine removes the bridge `docker0` of another one.
    namespace: Child,
    live_restore: LiveRestore,
    process: Option<Child>,
}

impl Dockerd {
    /// Starts one that has the image of the tests.
    ///
    /// # Panics
    /// When there is no Docker Engine on this machine, or no right to make namespaces.
    pub async fn start(live_restore: LiveRestore) -> Self {
        let folder = tempfile::Builder::new().prefix("jaco-dockerd-").tempdir();
        let folder = folder.expect("temporary files can be made");
        std::fs::write(folder.path().join("daemon.json"), "{}").expect("written");
        let holder = Command::new("unshare").args(["--net", "sleep", "infinity"]).spawn();
        let namespace = holder.expect("we may have a namespace");
        let mut dockerd = Self { folder, namespace, live_restore, process: None };
        eventually_within(PATIENCE, "the namespace is there", || async {
            if dockerd.has_namespace() { Ok(()) } else { Err("it is still ours".to_owned()) }
        })
        .await;
        dockerd.boot().await;
        let mut save = Command::new("docker").args(["save", IMAGE]).stdout(Stdio::piped()).spawn();
        let saved = save.as_mut().expect("docker runs").stdout.take().expect("it is piped");
        let load = dockerd.command(&["load"]).stdin(saved).output().expect("docker runs");
        assert!(load.status.success(), "{load:?}");
        assert!(save.expect("docker runs").wait().expect("it ends").success());
        dockerd
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The number of a process in its network namespace.
    #[must_use]
    pub fn namespace(&self) -> u32 {
        self.namespace.id()
    }

    /// What `DOCKER_HOST` is for it.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.at("sock").display())
    }

    fn has_namespace(&self) -> bool {
        let of = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
        of(&self.namespace.id().to_string()) != of("self")
    }

    /// Has it pull from a registry without TLS, at this address.
    ///
    /// # Panics
    /// When it does not run.
    pub fn trust_registry(&self, address: &str) {
        let settings = format!("{{\"insecure-registries\": [\"{address}\"]}}\n");
        std::fs::write(self.at("daemon.json"), settings).expect("written");
        let pid = self.process.as_ref().expect("it runs").id();
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // It reads its settings again.
        kill_process(pid.expect("a process has a number"), Signal::HUP).expect("an own child");
    }

    /// Starts it, or starts it again. It uses an address range that the machine's own engine does not assign.
    ///
    /// # Panics
    /// When it does not answer in time.
    pub async fn boot(&mut self) {
        let log = std::fs::File::create(self.at("log")).expect("written");
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.namespace.id())).arg("dockerd");
        for (flag, name) in [
            ("--config-file", "daemon.json"),
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            command.arg(flag).arg(self.at(name));
        }
        command.args(["--host", &self.host(), "--storage-driver", "vfs", "--bridge", "none"]);
        command.args(["--default-address-pool", "base=10.213.0.0/16,size=24"]);
        command.arg(format!("--live-restore={}", self.live_restore == LiveRestore::On));
        if let Some(folder) = std::env::var_os(ENGINE_DIR) {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = iter::once(PathBuf::from(folder)).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(folders).expect("no folder has a colon"));
        }
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.process = Some(process.expect("dockerd is there, and we may start it"));
        eventually_within(PATIENCE, "the engine answers", || async {
            let out = self.command(&["version"]).output().expect("docker runs");
            let log = || std::fs::read_to_string(self.at("log")).unwrap_or_default();
            if out.status.success() { Ok(()) } else { Err(format!("{out:?}\n{}", log())) }
        })
        .await;
    }

    /// Ends its process, and waits for that.
    pub fn end(&mut self, signal: Signal) {
        let Some(mut process) = self.process.take() else { return };
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let _gone = kill_process(pid.expect("a process has a number"), signal).is_err();
        let _gone = process.wait().is_err();
    }

    /// A crashed engine takes its containerd down shortly after. An engine started in between takes
    /// the old containerd for alive and fails.
    ///
    /// # Panics
    /// When that takes too long.
    pub async fn is_over(&self) {
        let file = self.at("exec/containerd/containerd.pid");
        let Ok(pid) = std::fs::read_to_string(&file) else { return };
        let stat = PathBuf::from("/proc").join(pid.trim()).join("stat");
        eventually_within(PATIENCE, "the engine's containerd is gone", || async {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next();
            // A zombie is gone as well.
            if state.is_none_or(|state| "ZX".contains(state)) { Ok(()) } else { Err(stat) }
        })
        .await;
        // The next engine would take it for alive.
        std::fs::remove_file(file).expect("it is ours");
    }

    /// A command of docker to it.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg("--host").arg(self.host()).args(args);
        command
    }

    /// Ids and start times of running containers, sorted.
    ///
    /// # Panics
    /// When docker is not there.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let ids = self.command(&["ps", "--quiet", "--no-trunc"]).output().expect("docker runs");
        let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
        let mut seen: Vec<String> = ids.lines().map(|id| self.started(id)).collect();
        seen.sort();
        seen
    }

    fn started(&self, id: &str) -> String {
        let args = ["inspect", "--format", "{{.Id}} {{.State.StartedAt}}", id];
        let out = self.command(&args).output().expect("docker runs");
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    }
}

impl Drop for Dockerd {
    fn drop(&mut self) {
        // While the engine is up: its containers would survive it.
        let ids = self.command(&["ps", "--all", "--quiet"]).output().map(|out| out.stdout);
        let ids = String::from_utf8_lossy(&ids.unwrap_or_default()).into_owned();
        // In one command, which removes them at the same time.
        if !ids.is_empty() {
            let _gone = self.command(&["rm", "--force"]).args(ids.lines()).output().is_err();
        }
        let _gone = self.command(&["network", "prune", "--force"]).output().is_err();
        self.end(Signal::TERM);
        let _gone = self.namespace.kill().is_err();
        let _gone = self.namespace.wait().is_err();
        // With live-restore its data stays mounted for the next engine.
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let paths = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let own = paths.filter(|path| std::path::Path::new(path).starts_with(self.folder.path()));
        for path in own.collect::<Vec<_>>().into_iter().rev() {
            let _gone = Command::new("umount").args(["--lazy", path]).output().is_err();
        }
    }
}
