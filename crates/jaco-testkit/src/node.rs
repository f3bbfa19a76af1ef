//! One daemon: its folder, its settings, and its process while it runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use jaco_client::{Client, Target};
use rustix::process::{Pid, Signal, kill_process};

use crate::binary::binary;

/// The longest that a process takes to stop at a signal: a thread that waits for the disk stops after that.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The environment that the unit of the daemon sets.
fn unit_environment() -> impl Iterator<Item = (&'static str, &'static str)> {
    let unit = include_str!("../../../deploy/systemd/jacod.service");
    let set = unit.lines().filter_map(|line| line.strip_prefix("Environment="));
    set.filter_map(|variable| variable.split_once('='))
}

/// A daemon under test. Dropping it kills its process.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `ip:port` where it listens.
    pub address: String,
    folder: PathBuf,
    process: Option<Child>,
}

impl Node {
    /// How full the machine's own disk is, and how busy it is, does not matter to it, unless a test
    /// says otherwise.
    pub(crate) fn create(folder: PathBuf, name: &str, address: &str, settings: &str) -> Self {
        let pressure = match settings.contains("rebalance:") {
            true => "",
            false => "rebalance: {enabled: false}\n",
        };
        fs::create_dir_all(&folder).expect("the test's folder can be made");
        let config = format!(
            "node_name: {name}\ndata_dir: {folder}/data\nsecrets_dir: {folder}/secrets\n\
             listen: {address}\nsocket: {folder}/s\nlog_level: info,jaco_raft=info\n\
             disk: {{full_percent: 0}}\n{pressure}{settings}",
            folder = folder.display(),
        );
        fs::write(folder.join("jacod.yaml"), config).expect("the test's folder can be written");
        Self { name: name.to_owned(), address: address.to_owned(), folder, process: None }
    }

    /// Starts the daemon; what it logs is kept in its folder.
    ///
    /// # Panics
    /// When it runs already, or cannot be started.
    pub fn start(&mut self) {
        self.start_under(&mut Command::new(binary("jacod")));
    }

    /// Gives the daemon another address to listen at, from its next start on.
    ///
    /// # Panics
    /// When it runs, or its settings cannot be written.
    pub fn move_to(&mut self, address: &str) {
        assert!(self.process.is_none(), "{} runs", self.name);
        let path = self.folder.join("jacod.yaml");
        let settings = fs::read_to_string(&path).expect("the settings were written");
        let line = |address: &str| format!("\nlisten: {address}\n");
        let moved = settings.replace(&line(&self.address), &line(address));
        assert_ne!(moved, settings, "the settings have its address");
        fs::write(path, moved).expect("the test's folder can be written");
        address.clone_into(&mut self.address);
    }

    /// Starts the daemon through another program, for example a tracer: `command` ends where the
    /// daemon's arguments begin.
    ///
    /// # Panics
    /// As [`Node::start`].
    pub fn start_under(&mut self, command: &mut Command) {
        assert!(self.process.is_none(), "{} runs already", self.name);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_path());
        let log = log.expect("the log can be written");
        let child = command
            .envs(unit_environment())
            .arg("--config")
            .arg(self.folder.join("jacod.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.process = Some(child.expect("the daemon can be started"));
    }

    /// Ends the daemon without a word, as a power cut would.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut child = self.process.take().expect("the daemon runs");
        child.kill().expect("an own child can be killed");
        child.wait().expect("an own child can be waited for");
    }

    /// Asks the daemon to stop and waits for its end.
    ///
    /// # Panics
    /// When it does not run, or ends with an error.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let mut child = self.process.take().expect("the daemon runs");
        let status = child.wait().expect("an own child can be waited for");
        assert!(status.success(), "{} stopped with {status}:\n{}", self.name, self.log_tail());
    }

    /// Holds the daemon up: it does nothing and loses nothing until [`Node::resume`]. On a busy machine its threads go on
    /// for a moment after the signal, so they are waited for.
    ///
    /// # Panics
    /// When it does not run, or does not stop.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        let begun = Instant::now();
        while !is_stopped(self.pid()) {
            assert!(begun.elapsed() < STOP_LIMIT, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the daemon go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Whether its process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The exit status of its process, if that has ended by itself. The daemon can be started again then.
    ///
    /// # Panics
    /// When it does not run, or cannot be asked.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let process = self.process.as_mut().expect("the daemon was started");
        let status = process.try_wait().expect("an own child")?;
        self.process = None;
        Some(status)
    }

    /// Whether its process has ended by itself.
    ///
    /// # Panics
    /// When it does not run, or cannot be asked.
    pub fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut().expect("the daemon was started");
        process.try_wait().expect("an own child").is_some()
    }

    /// The number of its process.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the daemon runs").id()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process has a number"), signal).expect("an own child");
    }

    /// A client over its unix socket.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(Target::socket(self.socket()))
    }

    /// Its unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// Its folder: settings, data, log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it logs to.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The end of its log, for messages; of lines that differ by their time alone, the last one.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        let mut said = BTreeSet::new();
        let lines = text.lines().rev().map(|line| line.split_once(' ').unwrap_or(("", line)));
        let new = lines.filter(|(_, rest)| said.insert(*rest)).take(30);
        let lines: Vec<_> = new.map(|(time, rest)| format!("{time} {rest}")).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    let mut states = threads.filter_map(|thread| {
        // A thread may have ended meanwhile.
        let stat = fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        // The name before the state is in parentheses and may hold anything.
        stat.rsplit_once(") ")?.1.chars().next()
    });
    states.all(|state| state == 'T')
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.take() {
            // A paused process is killed all the same; a dead one is only waited for.
            let _gone = child.kill().is_err();
            let _gone = child.wait().is_err();
        }
        if std::thread::panicking() {
            eprint_tail(&self.name, &self.log_tail());
        }
    }
}

#[expect(clippy::print_stderr, reason = "a failing test shows what its daemons said")]
fn eprint_tail(name: &str, tail: &str) {
    eprintln!("---- log of {name} ----\n{tail}");
}
