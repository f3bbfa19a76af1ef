//! The ways of not being a server: to wait, to fail, to leave slowly, to chatter.

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::say;
use crate::signal::StopSignals;

/// Waits for the limit, or forever, or for a stop signal; both are a good end.
pub(crate) fn sleep(limit: Option<Duration>) -> ExitCode {
    wait_for_stop(limit.unwrap_or(Duration::MAX)).map_or_else(failed, |stop| {
        if let Some(signal) = stop {
            say::line(&format!("{signal} received, leaving"));
        }
        ExitCode::SUCCESS
    })
}

/// Exits with `code` once `after` has passed; a stop signal before that is a good end.
pub(crate) fn exit_after(code: u8, after: Duration) -> ExitCode {
    say::line(&format!("exiting with {code} after {} ms", after.as_millis()));
    wait_for_stop(after)
        .map_or_else(failed, |stop| stop.map_or(ExitCode::from(code), |_| ExitCode::SUCCESS))
}

/// Leaves `linger` after the stop signal, whatever is sent in between: what a short grace period must kill.
pub(crate) fn grace(linger: Duration) -> ExitCode {
    let mut signals = match StopSignals::catch() {
        Ok(signals) => signals,
        Err(error) => return failed(error),
    };
    say::line(&format!("ready, needs {} s to stop", linger.as_secs()));
    say::line(&format!("{} received, stopping in {} s", signals.wait(), linger.as_secs()));
    thread::sleep(linger);
    say::line("stopped");
    ExitCode::SUCCESS
}

/// Writes `line N` alternating between stdout and stderr, then waits to be stopped: a container that has said
/// everything must still be there to be read.
pub(crate) fn log(every: Duration, count: Option<u64>) -> ExitCode {
    let stop = match stop_channel() {
        Ok(stop) => stop,
        Err(error) => return failed(error),
    };
    for number in 1..=count.unwrap_or(u64::MAX) {
        let write = if number % 2 == 1 { say::line } else { say::error };
        write(&format!("line {number}"));
        if stop.recv_timeout(every).is_ok() {
            return ExitCode::SUCCESS;
        }
    }
    stop.recv().ok();
    ExitCode::SUCCESS
}

/// Returns the stop signal, or `None` if the time passed first.
fn wait_for_stop(limit: Duration) -> std::io::Result<Option<&'static str>> {
    let stop = stop_channel()?;
    match stop.recv_timeout(limit) {
        Ok(signal) => Ok(Some(signal)),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(None),
    }
}

fn stop_channel() -> std::io::Result<Receiver<&'static str>> {
    let mut signals = StopSignals::catch()?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(signals.wait()));
    Ok(receiver)
}

fn failed(error: std::io::Error) -> ExitCode {
    say::error(&format!("cannot catch signals: {error}"));
    ExitCode::FAILURE
}
