//! Three engines on one machine, each with namespaces of its own, so that what is killed is killed with all that it
//! runs; the first one's has the bridge that joins them. Nothing of it is seen from outside.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::figure::say;
use crate::ours::NODES;
use crate::swarm::LOOK;

/// The control group of all their containers.
const GROUP: &str = "jaco-bench-engines";
const SOCKET: &str = "sock";
const LIMIT: Duration = Duration::from_secs(120);

/// Engines that reach each other.
#[derive(Debug)]
pub(crate) struct Engines {
    pub(crate) members: Vec<Member>,
    /// Below the members, because they end first.
    _groups: Groups,
    folder: TempDir,
}

impl Engines {
    /// Three engines with this image, joined by a bridge.
    pub(crate) fn start(image: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("jaco-engines-").tempdir()?;
        let mut members = Vec::new();
        for number in 1..=NODES {
            members.push(Member::start(folder.path().join(number.to_string()), number)?);
        }
        let engines = Self { members, _groups: Groups, folder };
        engines.connect()?;
        for member in &engines.members {
            member.answers()?;
            member.load(image)?;
        }
        Ok(engines)
    }

    /// A folder that ends with them.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How many containers run on all of them.
    pub(crate) fn running(&self) -> Result<usize> {
        self.members.iter().map(Member::running).sum()
    }

    /// A bridge beside the first engine, and a cable from each other one to it.
    fn connect(&self) -> Result<()> {
        let (first, others) = self.members.split_first().context("there are three")?;
        first.ip("link add name nodes type bridge")?;
        first.ip(&format!("address add {}/24 dev nodes", first.address))?;
        first.ip("link set nodes up")?;
        for (number, other) in others.iter().enumerate() {
            let pid = other.process.id();
            first.ip(&format!("link add port{number} type veth peer name node netns {pid}"))?;
            first.ip(&format!("link set port{number} master nodes up"))?;
            other.ip(&format!("address add {}/24 dev node", other.address))?;
            other.ip("link set node up")?;
        }
        Ok(())
    }
}

/// An engine. Dropping it kills it and all that it runs.
#[derive(Debug)]
pub(crate) struct Member {
    folder: PathBuf,
    pub(crate) address: String,
    /// `unshare`, with which the first process of the namespaces dies, and so all others in them.
    process: Child,
}

impl Member {
    fn start(folder: PathBuf, number: usize) -> Result<Self> {
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("daemon.json"), "{}")?;
        let log = File::create(folder.join("log"))?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--pid", "--mount-proc", "--fork", "--kill-child", "dockerd"]);
        for (flag, name) in [
            ("--config-file", "daemon.json"),
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            command.arg(flag).arg(folder.join(name));
        }
        command.arg(format!("--host=unix://{}", folder.join(SOCKET).display()));
        command.args(["--storage-driver=vfs", "--iptables=false", "--ip6tables=false"]);
        command.arg(format!("--cgroup-parent=/{GROUP}"));
        command.arg(format!("--bip=10.{}.0.1/24", 214 + number));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn().context("unshare and dockerd")?;
        Ok(Self { folder, address: format!("10.214.0.{number}"), process })
    }

    fn answers(&self) -> Result<()> {
        let begun = Instant::now();
        while let Err(error) = self.docker(&["version"]) {
            if begun.elapsed() > LIMIT {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                bail!("{error:#}\n{log}");
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Hands it an image of the machine's own engine.
    pub(crate) fn load(&self, image: &str) -> Result<()> {
        let mut save =
            Command::new("docker").args(["save", image]).stdout(Stdio::piped()).spawn()?;
        let saved = save.stdout.take().context("it is piped")?;
        let loaded = self.command(&["load"]).stdin(saved).output()?;
        ensure!(loaded.status.success() && save.wait()?.success(), "{image} cannot be loaded");
        Ok(())
    }

    /// How many containers run on it.
    pub(crate) fn running(&self) -> Result<usize> {
        Ok(self.docker(&["container", "ls", "--quiet"])?.lines().count())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg(format!("--host=unix://{}", self.socket().display())).args(args);
        command
    }

    /// Runs the engine's command line and returns what it prints.
    pub(crate) fn docker(&self, args: &[&str]) -> Result<String> {
        said(self.command(args).stdin(Stdio::null()))
    }

    /// Where it is spoken to.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// A command that runs what is appended to it in its network namespace, as a process of the machine.
    pub(crate) fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.process.id()));
        command
    }

    /// The folder of a container's first process below `/proc`, as the machine sees it: the engine has process
    /// numbers of its own.
    pub(crate) fn process_of(&self, container: &str) -> Result<PathBuf> {
        let pid = self.docker(&["inspect", "--format", "{{.State.Pid}}", container])?;
        Ok(format!("/proc/{}/root/proc/{}", self.process.id(), pid.trim()).into())
    }

    /// Runs `ip` in its network namespace.
    fn ip(&self, args: &str) -> Result<()> {
        said(self.inside().arg("ip").args(args.split(' '))).map(drop)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            say(&format!("an engine did not end: {error}"));
        }
    }
}

/// Removes the control groups that killed containers leave behind: one in each hierarchy.
#[derive(Debug)]
struct Groups;

impl Drop for Groups {
    fn drop(&mut self) {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten();
        let hierarchies = hierarchies.map(|entry| entry.path()).chain([root.to_owned()]);
        for group in hierarchies.map(|path| path.join(GROUP)).filter(|path| path.is_dir()) {
            let begun = Instant::now();
            // The kernel releases a process shortly after it was killed.
            while let Err(error) = remove_group(&group) {
                if begun.elapsed() > LIMIT {
                    return say(&format!("{} is left behind: {error}", group.display()));
                }
                std::thread::sleep(LOOK);
            }
        }
    }
}

fn remove_group(group: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    std::fs::remove_dir(group)
}

/// Runs a command and returns what it prints.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, error.trim());
    Ok(String::from_utf8(output.stdout)?)
}
