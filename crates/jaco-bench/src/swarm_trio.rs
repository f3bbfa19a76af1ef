//! Docker's own orchestrator over three engines, one of which can be lost as a machine is. Each engine
//! has namespaces of its own, so that what is killed is killed with all that it runs; the first one's
//! has the bridge that joins them. Nothing of it is seen from outside.

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

const SERVICE: &str = "jaco-bench";
const PORT: u16 = 2377;
/// The control group of all their containers.
const GROUP: &str = "jaco-bench-swarm";
const LIMIT: Duration = Duration::from_secs(120);

/// Three engines that are one swarm; the first manages it.
#[derive(Debug)]
pub(crate) struct Trio {
    members: Vec<Member>,
    /// Below the members, because they end first.
    _groups: Groups,
    _folder: TempDir,
}

impl Trio {
    /// Three engines with this image, joined.
    pub(crate) fn start(image: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("jaco-swarm-").tempdir()?;
        let mut members = Vec::new();
        for number in 1..=NODES {
            members.push(Member::start(folder.path().join(number.to_string()), number)?);
        }
        let trio = Self { members, _groups: Groups, _folder: folder };
        trio.connect()?;
        for member in &trio.members {
            member.answers()?;
            member.load(image)?;
        }
        let manager = &trio.members[0];
        let at = |member: &Member| ["--advertise-addr".to_owned(), member.address.clone()];
        manager.docker(&["swarm", "init", &at(manager)[0], &at(manager)[1]])?;
        let token = manager.docker(&["swarm", "join-token", "--quiet", "worker"])?;
        let remote = format!("{}:{PORT}", manager.address);
        for worker in &trio.members[1..] {
            let [flag, own] = at(worker);
            worker.docker(&["swarm", "join", "--token", token.trim(), &flag, &own, &remote])?;
        }
        Ok(trio)
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

    /// Starts a service and waits until it runs on all three.
    pub(crate) fn create(&self, replicas: usize, image: &str) -> Result<()> {
        let count = replicas.to_string();
        let args = ["service", "create", "--detach", "--quiet", "--no-resolve-image"];
        let rest = ["--name", SERVICE, "--replicas", &count, image];
        self.members[0].docker(&[&args[..], &rest].concat())?;
        self.until_running(replicas)?;
        let last = self.members.last().context("there are three")?;
        ensure!(last.running()? > 0, "the last engine has no replica to lose");
        Ok(())
    }

    /// Kills the last engine and what it runs, and waits for as many replicas as before on the others.
    pub(crate) fn lose_one(&mut self, replicas: usize) -> Result<Duration> {
        let lost = self.members.pop().context("there are three")?;
        let begun = Instant::now();
        drop(lost);
        self.until_running(replicas)?;
        Ok(begun.elapsed())
    }

    fn until_running(&self, replicas: usize) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut running = 0;
            for member in &self.members {
                running += member.running()?;
            }
            if running == replicas {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "swarm runs {running} of {replicas}");
            std::thread::sleep(LOOK);
        }
    }
}

/// An engine. Dropping it kills it and all that it runs.
#[derive(Debug)]
struct Member {
    folder: PathBuf,
    address: String,
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
        command.arg(format!("--host=unix://{}", folder.join("sock").display()));
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
    fn load(&self, image: &str) -> Result<()> {
        let mut save =
            Command::new("docker").args(["save", image]).stdout(Stdio::piped()).spawn()?;
        let saved = save.stdout.take().context("it is piped")?;
        let loaded = self.command(&["load"]).stdin(saved).output()?;
        ensure!(loaded.status.success() && save.wait()?.success(), "{image} cannot be loaded");
        Ok(())
    }

    fn running(&self) -> Result<usize> {
        Ok(self.docker(&["container", "ls", "--quiet"])?.lines().count())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg(format!("--host=unix://{}", self.folder.join("sock").display())).args(args);
        command
    }

    fn docker(&self, args: &[&str]) -> Result<String> {
        said(self.command(args).stdin(Stdio::null()))
    }

    /// Runs `ip` in its network namespace.
    fn ip(&self, args: &str) -> Result<()> {
        let namespace = format!("--net=/proc/{}/ns/net", self.process.id());
        said(Command::new("nsenter").arg(namespace).arg("ip").args(args.split(' '))).map(drop)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill().and_then(|()| self.process.wait()) {
            say(&format!("an engine of the swarm did not end: {error}"));
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

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {}", output.status, error.trim());
    Ok(String::from_utf8(output.stdout)?)
}
