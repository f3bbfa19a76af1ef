//! Waiting for the cluster to get somewhere, showing what it does meanwhile.
//!
//! The cluster works on whether anybody waits or not: giving up here changes nothing there.

use std::time::Duration;

use jaco_client::{Answers, Backoff, Client, ClientError};
use jaco_proto::v1::{StatusRequest, StatusResponse};
use tokio::time::Instant;

use crate::commands::Context;
use crate::error::CliError;
use crate::progress;
use crate::ui::{Stream, Ui};
use crate::when;

/// Job runners take a silent process for a dead one; ten minutes is usual, this is well inside.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long a lost connection is tried again before the wait is given up.
const LOST_LIMIT: Duration = Duration::from_secs(10);

/// Statuses, one after another, over as many connections as it takes.
pub(crate) struct Watcher {
    client: Client,
    request: StatusRequest,
    answers: Option<Answers<StatusResponse>>,
}

impl Watcher {
    pub(crate) fn new(client: &Client, request: StatusRequest) -> Self {
        Self { client: client.clone(), request, answers: None }
    }

    /// The next status. Never older than the last one, whichever node it comes from. Dropping the
    /// future loses nothing.
    ///
    /// # Errors
    /// When no node gives one for [`LOST_LIMIT`], or one refuses.
    pub(crate) async fn next(&mut self) -> Result<StatusResponse, ClientError> {
        let mut lost: Option<Instant> = None;
        let mut backoff = Backoff::new();
        loop {
            let error = match self.attempt().await {
                Ok(Some(status)) => {
                    self.request.min_index = self.request.min_index.max(status.raft_index);
                    return Ok(status);
                }
                // It ended without a word: the daemon is stopping.
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
            self.answers = Some(self.client.watch(self.request.clone()).await?);
        }
        let answers = self.answers.as_mut().expect("it was made just now");
        answers.next().await
    }
}

/// What a wait may end with besides its goal.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    /// The goal, as the caller defines it.
    Reached(T),
    /// The time was up; the last status that was seen.
    TimedOut(Option<StatusResponse>),
    /// Ctrl-C.
    Interrupted,
}

/// What to show and until when.
pub(crate) struct Wait<'w> {
    /// What goes on.
    pub(crate) request: StatusRequest,
    /// How long to wait.
    pub(crate) limit: Option<Duration>,
    /// The lines of a status.
    pub(crate) lines: &'w dyn Fn(&StatusResponse) -> Vec<String>,
    /// One line that says that it still goes on.
    pub(crate) summary: &'w dyn Fn(&StatusResponse) -> String,
}

/// What a status means for whoever waits.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// Go on waiting.
    Wait,
    /// The end, unless something changes within this time.
    Linger(Duration, T),
    /// The end.
    Done(T),
}

/// Waits until `decide` finds an end, showing progress.
///
/// # Errors
/// When the connection is lost for good, or nothing can be shown any more.
pub(crate) async fn wait<T>(
    context: &mut Context,
    wait: Wait<'_>,
    mut decide: impl FnMut(&StatusResponse) -> Step<T>,
) -> Result<Ended<T>, CliError> {
    let client = context.client()?;
    let mut watcher = Watcher::new(&client, wait.request.clone());
    let mut display = Display::new();
    let mut last: Option<StatusResponse> = None;
    let mut lingering: Option<(Instant, T)> = None;
    let deadline = wait.limit.map(|limit| Instant::now() + limit);
    loop {
        let linger_until = lingering.as_ref().map(|(until, _)| *until);
        let status = tokio::select! {
            biased;
            () = interrupted() => {
                context.ui.settle();
                return Ok(Ended::Interrupted);
            }
            () = at(linger_until) => {
                let (_, end) = lingering.take().expect("its time has come");
                context.ui.settle();
                return Ok(Ended::Reached(end));
            }
            () = at(deadline) => {
                context.ui.settle();
                return Ok(Ended::TimedOut(last));
            }
            () = tokio::time::sleep_until(display.next_heartbeat) => {
                display.heartbeat(&mut context.ui, last.as_ref().map(wait.summary));
                continue;
            }
            status = watcher.next() => status?,
        };
        display.show(&mut context.ui, (wait.lines)(&status)).map_err(CliError::Output)?;
        match decide(&status) {
            Step::Done(end) => {
                context.ui.settle();
                return Ok(Ended::Reached(end));
            }
            Step::Linger(time, end) => lingering = Some((Instant::now() + time, end)),
            Step::Wait => lingering = None,
        }
        last = Some(status);
    }
}

/// Ctrl-C.
pub(crate) async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // Without a handler the signal ends the process by itself.
        std::future::pending::<()>().await;
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// A picture on a terminal; on a pipe one line per change, and a sign of life.
struct Display {
    begun: Instant,
    shown: Vec<String>,
    next_heartbeat: Instant,
}

impl Display {
    fn new() -> Self {
        let begun = Instant::now();
        Self { begun, shown: Vec::new(), next_heartbeat: begun + HEARTBEAT }
    }

    fn show(&mut self, ui: &mut Ui, lines: Vec<String>) -> std::io::Result<()> {
        if ui.is_terminal(Stream::Err) {
            ui.draw(Stream::Err, &lines)?;
        } else {
            for line in progress::changes(&self.shown, &lines) {
                self.say(ui, &line);
            }
        }
        self.shown = lines;
        Ok(())
    }

    fn heartbeat(&mut self, ui: &mut Ui, summary: Option<String>) {
        let summary = summary.unwrap_or_else(|| "no answer yet".to_owned());
        if !ui.is_terminal(Stream::Err) {
            self.say(ui, &format!("still waiting: {summary}"));
        }
        self.next_heartbeat = Instant::now() + HEARTBEAT;
    }

    fn say(&mut self, ui: &mut Ui, line: &str) {
        ui.note(&format!("[{:>6}] {line}", when::elapsed(self.begun.elapsed())));
        self.next_heartbeat = Instant::now() + HEARTBEAT;
    }
}
