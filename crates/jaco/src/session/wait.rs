//! Waits for a state of the cluster and shows the progress.
//!
//! Only watches: the end of a wait changes nothing in the cluster.

use std::time::Duration;

use jaco_client::{Backoff, Client, ClientError, Statuses};
use jaco_proto::v1::{StatusRequest, StatusResponse};
use tokio::time::Instant;

use crate::error::CliError;
use crate::format::time;
use crate::output::{Stream, Ui};
use crate::session::Session;
use crate::view::progress;

/// The interval of output on a pipe. Job runners kill a process without output, usually after 10 minutes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How long a lost connection is retried before the wait fails.
const LOST_LIMIT: Duration = Duration::from_secs(10);

/// A stream of statuses that reconnects when a connection is lost.
pub(crate) struct Watcher {
    client: Client,
    request: StatusRequest,
    answers: Option<Statuses>,
}

impl Watcher {
    pub(crate) fn new(client: &Client, request: StatusRequest) -> Self {
        client.shows_progress();
        Self { client: client.clone(), request, answers: None }
    }

    /// The next status, never older than the last one, from any node. Cancel safe.
    ///
    /// # Errors
    /// If no node answers for [`LOST_LIMIT`], or one refuses.
    pub(crate) async fn next(&mut self) -> Result<StatusResponse, ClientError> {
        let mut lost: Option<Instant> = None;
        let mut backoff = Backoff::new();
        loop {
            let error = match self.attempt().await {
                Ok(Some(status)) => {
                    self.request.min_index = self.request.min_index.max(status.raft_index);
                    return Ok(status);
                }
                // The stream ended without an error: the daemon is stopping.
                Ok(None) => None,
                Err(error @ (ClientError::Lost { .. } | ClientError::TimedOut { .. })) => {
                    Some(error)
                }
                Err(error) => return Err(error),
            };
            self.answers = None;
            let since = *lost.get_or_insert_with(Instant::now);
            if let Some(error) = error.filter(|_| since.elapsed() > LOST_LIMIT) {
                return Err(error);
            }
            tokio::time::sleep(backoff.pause()).await;
        }
    }

    async fn attempt(&mut self) -> Result<Option<StatusResponse>, ClientError> {
        if self.answers.is_none() {
            self.answers = Some(self.client.watch_status(self.request.clone()).await?);
        }
        let answers = self.answers.as_mut().expect("it was just set");
        answers.next().await
    }
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    /// The caller's condition holds.
    Reached(T),
    /// The time limit was reached; the last status.
    TimedOut(Option<StatusResponse>),
    /// Ctrl-C.
    Interrupted,
}

/// What to watch and how to show it.
pub(crate) struct Wait<'w> {
    /// The status to watch.
    pub(crate) request: StatusRequest,
    /// The time limit.
    pub(crate) limit: Option<Duration>,
    /// The lines of progress of a status.
    pub(crate) lines: &'w dyn Fn(&StatusResponse) -> Vec<String>,
    /// The line that is printed on a pipe when nothing changes.
    pub(crate) summary: &'w dyn Fn(&StatusResponse) -> String,
}

/// The decision of the caller on a status.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// Continue.
    Wait,
    /// End with this value unless the decision changes within this time.
    DoneAfter(Duration, T),
    /// End with this value.
    Done(T),
}

/// Waits until `decide` ends the wait, showing progress.
///
/// # Errors
/// If the connection is lost, or the output cannot be written.
pub(crate) async fn wait<T>(
    session: &mut Session,
    wait: Wait<'_>,
    mut decide: impl FnMut(&StatusResponse) -> Step<T>,
) -> Result<Ended<T>, CliError> {
    // Its deadline is that of the wait.
    let client = session.client()?.until(None);
    let mut watcher = Watcher::new(&client, wait.request.clone());
    let mut display = Display::new();
    let mut last: Option<StatusResponse> = None;
    let mut delayed: Option<(Instant, T)> = None;
    let deadline = wait.limit.map(|limit| Instant::now() + limit);
    let deadline =
        deadline.map(|at| session.deadline().map_or(at, |of_command| at.min(of_command)));
    loop {
        let delayed_until = delayed.as_ref().map(|(until, _)| *until);
        let status = tokio::select! {
            biased;
            () = interrupted() => {
                session.ui.keep_drawing();
                return Ok(Ended::Interrupted);
            }
            () = at(delayed_until) => {
                let (_, end) = delayed.take().expect("the delay has passed");
                session.ui.keep_drawing();
                return Ok(Ended::Reached(end));
            }
            () = at(deadline) => {
                session.ui.keep_drawing();
                return Ok(Ended::TimedOut(last));
            }
            () = tokio::time::sleep_until(display.next_keepalive) => {
                display.keepalive(&mut session.ui, last.as_ref().map(wait.summary));
                continue;
            }
            status = watcher.next() => status?,
        };
        display.show(&mut session.ui, (wait.lines)(&status)).map_err(CliError::Output)?;
        match decide(&status) {
            Step::Done(end) => {
                session.ui.keep_drawing();
                return Ok(Ended::Reached(end));
            }
            Step::DoneAfter(time, end) => delayed = Some((Instant::now() + time, end)),
            Step::Wait => delayed = None,
        }
        last = Some(status);
    }
}

/// Completes at Ctrl-C.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal terminates the process.
        std::future::pending::<()>().await;
    }
}

/// Completes at this time; never for `None`.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Lines of progress: redrawn on a terminal; on a pipe one line per change, and a periodic one.
struct Display {
    started: Instant,
    shown: Vec<String>,
    next_keepalive: Instant,
}

impl Display {
    fn new() -> Self {
        let started = Instant::now();
        Self { started, shown: Vec::new(), next_keepalive: started + KEEPALIVE }
    }

    fn show(&mut self, ui: &mut Ui, lines: Vec<String>) -> std::io::Result<()> {
        if ui.is_terminal(Stream::Err) {
            ui.draw(Stream::Err, &lines)?;
        } else {
            for line in progress::changes(&self.shown, &lines) {
                self.print(ui, &line);
            }
        }
        self.shown = lines;
        Ok(())
    }

    fn keepalive(&mut self, ui: &mut Ui, summary: Option<String>) {
        let summary = summary.unwrap_or_else(|| "no response yet".to_owned());
        if !ui.is_terminal(Stream::Err) {
            self.print(ui, &format!("still waiting: {summary}"));
        }
        self.next_keepalive = Instant::now() + KEEPALIVE;
    }

    fn print(&mut self, ui: &mut Ui, line: &str) {
        ui.note(&format!("[{:>6}] {line}", time::elapsed(self.started.elapsed())));
        self.next_keepalive = Instant::now() + KEEPALIVE;
    }
}
