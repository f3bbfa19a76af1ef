//! A Docker Engine that answers: the one that is there, or one that we install and start and say so.
//!
//! Never touches an engine that it did not start, except to ask it whether it is alive.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{http, interrupt, process, say};

const SOCKET: &str = "/var/run/docker.sock";
/// A cold daemon on a slow disk needs some seconds; one that needs a minute has a problem.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The daemon stops its containers first, each with its own grace period.
const STOP_GRACE: Duration = Duration::from_secs(30);

/// Filled once the package lists were fetched: they are good for a run.
static LISTS: OnceLock<()> = OnceLock::new();

/// An engine that answers. One that we started is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Engine {
    started: Option<Child>,
}

impl Engine {
    /// Keeps the engine running after we are gone.
    pub(crate) fn leave_running(mut self) {
        if let Some(child) = self.started.take() {
            say::note(&format!("the Docker Engine keeps running as process {}", child.id()));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(child) = &mut self.started else {
            return;
        };
        say::note("stopping the Docker Engine that was started for this run");
        if let Err(error) = process::end(child, STOP_GRACE) {
            say::error(&format!("the Docker Engine did not stop: {error:#}"));
        }
    }
}

/// Makes sure that an engine and its command-line client are there; does nothing if they are.
///
/// # Errors
/// If there is none and none can be installed or started; says what the user can do.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Engine> {
    if answers() {
        ensure_client()?;
        return Ok(Engine { started: None });
    }
    say::note(&format!("no Docker Engine answers on {SOCKET}"));
    if !rustix::process::geteuid().is_root() {
        bail!("starting a Docker Engine needs root: run as root, or start one yourself");
    }
    if find("dockerd").is_none() {
        install(&["docker.io"])?;
    }
    ensure_client()?;
    start(workspace)
}

/// Whether an engine answers on the usual socket.
pub(crate) fn answers() -> bool {
    http::get_unix(Path::new(SOCKET), "/_ping").is_ok_and(|answer| answer.status == 200)
}

/// What containers and networks of a cluster the engine still has; nothing if all is gone.
///
/// # Errors
/// If the engine cannot be asked.
pub(crate) fn left_of(cluster: &str) -> Result<String> {
    let filter = format!("label=jaco.cluster_id={cluster}");
    let mut left = String::new();
    for list in [
        &["container", "ls", "--all", "--format", "{{.Names}}"][..],
        &["network", "ls", "--format", "{{.Name}}"][..],
    ] {
        let mut docker = Command::new("docker");
        docker.args(list).args(["--filter", &filter]);
        left.push_str(&process::capture(&mut docker)?);
    }
    Ok(left.split_whitespace().collect::<Vec<_>>().join(", "))
}

fn ensure_client() -> Result<()> {
    if find("docker").is_none() {
        // Debian 12 has the client inside docker.io, Debian 13 in a package of its own.
        install(&["docker-cli"]).or_else(|_| install(&["docker.io"]))?;
    }
    Ok(())
}

/// Installs packages of the distribution, and says so.
///
/// # Errors
/// If there is no apt-get or it fails.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if find("apt-get").is_none() {
        bail!("cannot install {packages:?} without apt-get: install them yourself");
    }
    say::note(&format!("installing {} with apt-get", packages.join(" ")));
    if LISTS.set(()).is_ok() {
        // One mirror that does not answer is no reason to give up: the lists may be good enough.
        if let Err(error) = process::run(&mut unattended("apt-get", &["update", "-qq"])) {
            interrupt::check()?;
            say::note(&format!("going on with the package lists that are there: {error:#}"));
        }
    }
    complete_installations()?;
    process::run(unattended("apt-get", &["install", "-y", "-qq"]).args(packages))
}

/// Completes installations that were cut off, as by a restart of the machine: apt refuses all others until then.
fn complete_installations() -> Result<()> {
    let configure = || process::run(&mut unattended("dpkg", &["--configure", "-a"]));
    let Err(error) = configure() else { return Ok(()) };
    interrupt::check()?;
    // What cannot be configured is there in part: it has to be unpacked once more.
    let mut flags = Command::new("dpkg-query");
    flags.args(["-W", "-f", "${db:Status-Eflag} ${binary:Package}\n"]);
    let flags = process::capture(&mut flags)?;
    let partial: Vec<&str> =
        flags.lines().filter_map(|line| line.strip_prefix("reinstreq ")).collect();
    if partial.is_empty() {
        return Err(error);
    }
    let mut reinstall = unattended("apt-get", &["install", "-y", "-qq", "--reinstall"]);
    process::run(reinstall.args(partial))?;
    configure()
}

/// A program of Debian's that asks nothing.
fn unattended(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
    command
}

fn start(workspace: &Workspace) -> Result<Engine> {
    // The folder exists exactly where systemd is the init system (sd_booted(3)).
    if Path::new("/run/systemd/system").is_dir() {
        say::note("starting the Docker Engine: systemctl start docker");
        process::run(Command::new("systemctl").args(["start", "docker"]))?;
        await_answer(None)?;
        return Ok(Engine { started: None });
    }
    let log = workspace.scratch()?.join("dockerd.log");
    say::note(&format!("starting the Docker Engine: dockerd, its log is {}", log.display()));
    let file = File::create(&log).with_context(|| format!("cannot create {log:?}"))?;
    let mut command = Command::new(find("dockerd").context("dockerd is not installed")?);
    let child = process::spawn(command.stdout(file.try_clone()?).stderr(file))?;
    // From here on the guard stops it, whatever fails.
    let mut engine = Engine { started: Some(child) };
    let awaited = await_answer(engine.started.as_mut());
    awaited.with_context(|| format!("dockerd did not start; {}", last_lines(&log)))?;
    Ok(engine)
}

fn await_answer(mut daemon: Option<&mut Child>) -> Result<()> {
    let begun = Instant::now();
    while !answers() {
        interrupt::check()?;
        if let Some(status) = daemon.as_mut().and_then(|child| child.try_wait().transpose()) {
            bail!("it ended with {}", status?);
        }
        if begun.elapsed() > START_LIMIT {
            bail!("it did not answer on {SOCKET} within {} s", START_LIMIT.as_secs());
        }
        thread::sleep(Duration::from_millis(100));
    }
    say::note(&format!("the Docker Engine answers after {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

/// The end of a log, for an error message.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let tail = lines[lines.len().saturating_sub(5)..].join("\n");
    format!("the end of {}:\n{tail}", log.display())
}

/// Where a program is on the path; the daemon lies in an `sbin` that is often missing from it.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-program-anywhere"), None);
    }
}
