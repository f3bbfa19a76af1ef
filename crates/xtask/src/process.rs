//! Child processes that are always waited for: each in its own group, ended with all its children on an interrupt or
//! past its deadline.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::interrupt;

/// How often a wait looks up: short against the work, long against the cost of looking.
const POLL: Duration = Duration::from_millis(20);
/// How long a process that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(10);
/// How long the output of an ended process is still read: a grandchild may hold the pipe open forever.
const DRAIN: Duration = Duration::from_secs(2);

/// What was started and not waited for yet. Held while a process is started, so that none is taken for an orphan.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The status of a child that has ended, which is no longer ours then.
fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let status = child.try_wait()?;
    if status.is_some() {
        running().remove(&child.id());
    }
    Ok(status)
}

/// Who may end a run before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruptible {
    Yes,
    /// For clean-up, which must not be cut off by a second Ctrl-C.
    No,
}

/// Runs to the end with its output shown on our stderr.
///
/// # Errors
/// If it cannot be started, is interrupted or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    command.stdout(io::stderr());
    let child = spawn(command)?;
    succeeded(command, finish(child, None, Interruptible::Yes)?)
}

/// Runs to the end, whatever happens around it, and fails past `limit`.
///
/// # Errors
/// If it cannot be started, takes too long or does not succeed.
pub(crate) fn run_to_the_end(command: &mut Command, limit: Duration) -> Result<()> {
    command.stdout(io::stderr());
    let child = spawn(command)?;
    succeeded(command, finish(child, Some(Instant::now() + limit), Interruptible::No)?)
}

/// Runs to the end and returns what it wrote to stdout; its stderr is ours.
///
/// # Errors
/// If it cannot be started, is interrupted, does not succeed or writes something that is not UTF-8.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let stdout = text_of(child.stdout.take());
    succeeded(command, finish(child, None, Interruptible::Yes)?)?;
    joined(stdout).with_context(|| format!("output of {}", shown(command)))
}

/// How a run ended and what it wrote.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
}

/// Runs to the end and keeps what it wrote to itself: for tools that chatter when all is well.
///
/// # Errors
/// If it cannot be started, is interrupted or writes something that is not UTF-8.
pub(crate) fn capture_all(command: &mut Command) -> Result<Output> {
    let mut child = spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    let stderr = text_of(child.stderr.take());
    let status = finish(child, None, Interruptible::Yes)?;
    Ok(Output { status, stderr: joined(stderr)? })
}

/// Reads a pipe in the background: a full one would stop its writer.
fn text_of(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<io::Result<String>> {
    let mut pipe = pipe.expect("the pipe was asked for");
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).map(|_| text)
    })
}

fn joined(reader: JoinHandle<io::Result<String>>) -> Result<String> {
    Ok(reader.join().map_err(|_| anyhow!("the reader of its output panicked"))??)
}

/// Runs to the end or to `limit`, handing each line of stdout to `on_line` as it comes.
///
/// # Errors
/// If it cannot be started, is interrupted or takes longer than `limit`.
pub(crate) fn stream(
    command: &mut Command,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let lines = lines_of(child.stdout.take().expect("stdout was asked for"));
    let mut over: Option<(ExitStatus, Instant)> = None;
    loop {
        match lines.recv_timeout(POLL) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        match over {
            Some((_, at)) if at.elapsed() > DRAIN => break,
            Some(_) => {}
            None => {
                over = ended(&mut child)?.map(|status| (status, Instant::now()));
                if over.is_none() {
                    end_if_due(&mut child, Some(deadline), Interruptible::Yes)?;
                }
            }
        }
    }
    match over {
        Some((status, _)) => Ok(status),
        None => finish(child, Some(deadline), Interruptible::Yes),
    }
}

/// Starts a process in a group of its own, so that its whole family can be ended.
///
/// # Errors
/// If it cannot be started.
pub(crate) fn spawn(command: &mut Command) -> Result<Child> {
    let mut running = running();
    let child = interruptible_stdin(command).spawn();
    let child = child.with_context(|| format!("cannot start {}", shown(command)))?;
    running.insert(child.id());
    Ok(child)
}

/// Asks a process of ours and its group to end, and insists after a while.
///
/// # Errors
/// If it cannot be waited for.
pub(crate) fn end(child: &mut Child, grace: Duration) -> Result<()> {
    signal_group(child, Signal::TERM);
    let deadline = Instant::now() + grace;
    while ended(child)?.is_none() {
        if Instant::now() > deadline {
            signal_group(child, Signal::KILL);
            child.wait()?;
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// Makes orphans of our children our own, so that none escapes the count of [`orphans`].
///
/// # Errors
/// If the system refuses.
pub(crate) fn adopt_orphans() -> Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .context("cannot become the reaper of orphaned processes")
}

/// Ends what our children left behind and returns its command lines. What we started ourselves lives on.
///
/// # Errors
/// If the process table cannot be read.
pub(crate) fn end_orphans() -> Result<Vec<String>> {
    let mut left = Vec::new();
    let running = running();
    // Ending one orphan can hand us its children, hence the rounds.
    loop {
        reap(&running);
        let orphans = orphans(&running)?;
        if orphans.is_empty() {
            return Ok(left);
        }
        for (pid, command_line) in orphans {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let pid = raw.expect("a process id read from the process table is valid");
            // It may have ended since it was listed.
            rustix::process::kill_process(pid, Signal::KILL).ok();
            rustix::process::waitpid(Some(pid), WaitOptions::empty()).ok();
            left.push(command_line);
        }
    }
}

/// Collects orphans that have already ended: they are no leftovers.
fn reap(known: &BTreeSet<u32>) {
    for (pid, _) in children().unwrap_or_default() {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let Some(raw) = raw.filter(|_| !known.contains(&pid)) {
            rustix::process::waitpid(Some(raw), WaitOptions::NOHANG).ok();
        }
    }
}

fn orphans(known: &BTreeSet<u32>) -> Result<Vec<(u32, String)>> {
    Ok(children()?.into_iter().filter(|(pid, _)| !known.contains(pid)).collect())
}

/// Our children as the process table shows them: id and command line.
fn children() -> Result<Vec<(u32, String)>> {
    let us = std::process::id();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot read the process table")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process that ends while it is looked at is no child to worry about.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if parent_of(&stat) == Some(us) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned()));
        }
    }
    Ok(found)
}

/// The parent's id in a line of `/proc/<pid>/stat`; the name before it may contain anything, brackets included.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn finish(mut child: Child, deadline: Option<Instant>, by: Interruptible) -> Result<ExitStatus> {
    loop {
        if let Some(status) = ended(&mut child)? {
            return Ok(status);
        }
        end_if_due(&mut child, deadline, by)?;
        thread::sleep(POLL);
    }
}

fn end_if_due(child: &mut Child, deadline: Option<Instant>, by: Interruptible) -> Result<()> {
    if by == Interruptible::Yes
        && let Err(interrupted) = interrupt::check()
    {
        end(child, GRACE)?;
        return Err(interrupted.into());
    }
    if deadline.is_some_and(|deadline| Instant::now() > deadline) {
        end(child, GRACE)?;
        bail!("took too long and was ended");
    }
    Ok(())
}

fn lines_of(stdout: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while stdout.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            if sender.send(text).is_err() {
                return;
            }
            line.clear();
        }
    });
    receiver
}

/// A process in a background group may not read the terminal, so it gets nothing to read.
fn interruptible_stdin(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).process_group(0)
}

fn signal_group(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group is gone when its last process is: nothing left to do then.
        rustix::process::kill_process_group(pid, signal).ok();
    }
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    bail!("{} ended with {status}", shown(command))
}

/// The command as a user would type it, without its environment.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_captured_and_failure_named() {
        assert_eq!(capture(&mut shell("echo hello")).expect("echo works"), "hello\n");
        let error = capture(&mut shell("exit 3")).expect_err("it failed");
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_deadline_ends_the_whole_group() {
        let begun = Instant::now();
        let limit = Duration::from_millis(200);
        let error = stream(&mut shell("sleep 60 & echo $!; wait"), limit, |_| {});
        assert!(error.is_err());
        assert!(begun.elapsed() < Duration::from_secs(8));
    }

    #[test]
    fn lines_arrive_and_a_grandchild_that_holds_the_pipe_is_not_waited_for() {
        let mut lines = Vec::new();
        let mut pid = String::new();
        let limit = Duration::from_secs(30);
        let status = stream(&mut shell("sleep 20 & echo $!; echo two"), limit, |line| {
            lines.push(line.to_owned());
        });
        assert!(status.expect("it ended").success());
        pid.push_str(&lines[0]);
        assert_eq!(lines[1], "two");
        run(Command::new("kill").arg(pid)).expect("the grandchild still lives");
    }

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent_of("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of("nonsense"), None);
    }
}
