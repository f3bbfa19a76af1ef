//! A stream of log lines that survives lost connections.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_types::ErrorCode;

use crate::client::Client;
use crate::error::ClientError;
use crate::retry::{Backoff, Connected, is_transient};
use crate::stream::Answers;

/// Log lines of containers. With `follow`, a reader whose node fails goes on at another one after the last line that it has of
/// each replica: none is repeated. Before there was any line, it asks as it did at first.
#[derive(Debug)]
pub struct LogLines {
    client: Client,
    request: v1::LogsRequest,
    answers: Option<Answers<v1::LogLine>>,
    /// Whether there was a stream before: what it was about was there then.
    was_there: bool,
    progress: Progress,
    backoff: Backoff,
}

impl Client {
    /// Log lines, across lost connections if they are followed. Sends nothing before the first [`LogLines::next`].
    #[must_use]
    pub fn log_lines(&self, request: v1::LogsRequest) -> LogLines {
        let (progress, backoff) = (Progress::default(), Backoff::new());
        let client = self.clone();
        LogLines { client, request, answers: None, was_there: false, progress, backoff }
    }
}

impl LogLines {
    /// The next line; `None` after the last one: with `follow`, once there is nothing left to follow. Cancel safe.
    ///
    /// # Errors
    /// The refusal of the cluster, or why no node answered within the deadline of a call. The stream has ended then.
    pub async fn next(&mut self) -> Result<Option<v1::LogLine>, ClientError> {
        loop {
            let answers = match &mut self.answers {
                Some(answers) => answers,
                none => match self.client.logs(self.request.clone()).await {
                    Ok(answers) => none.insert(answers),
                    Err(error) if self.was_there && is_gone(&error) => return Ok(None),
                    Err(error) => return Err(error),
                },
            };
            match answers.next().await {
                Ok(Some(line)) => {
                    if self.progress.is_new(&line) {
                        self.backoff = Backoff::new();
                        return Ok(Some(line));
                    }
                    continue;
                }
                Ok(None) if !self.request.follow => return Ok(None),
                // What was followed is gone, or the daemon shut down: the next answer tells.
                Ok(None) => {}
                Err(error) if self.request.follow && is_transient(&error, Connected::Before) => {}
                Err(error) => return Err(error),
            }
            (self.answers, self.was_there) = (None, true);
            self.progress.resume(&mut self.request);
            tokio::time::sleep(self.backoff.pause()).await;
        }
    }
}

/// Whether what was followed is not there any more.
fn is_gone(error: &ClientError) -> bool {
    let gone =
        [ErrorCode::DeploymentNotFound, ErrorCode::ReplicaNotFound, ErrorCode::ServiceNotFound];
    gone.contains(&error.code())
}

/// A replica on a node: the clocks of nodes differ.
type Source = (String, String);

/// How far the lines of a source were read.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// The time of the last one.
    at_ms: i64,
    /// How many lines have that time.
    lines: u32,
}

/// How much older than the last line of all a line may be that has not been returned yet: by how much clocks of nodes may
/// differ, and nodes may lag.
const OVERLAP_MS: i64 = 60_000;

/// Which lines were returned.
#[derive(Debug, Default)]
struct Progress {
    returned: BTreeMap<Source, Position>,
    /// As it was when the lines were asked for anew.
    before: BTreeMap<Source, Position>,
    /// How many lines came again that have the time of the last one returned before.
    repeated: BTreeMap<Source, u32>,
}

impl Progress {
    /// Whether a line was not returned before. A message about missing lines, and a line without a time, always is.
    fn is_new(&mut self, line: &v1::LogLine) -> bool {
        if line.at_ms <= 0 {
            return true;
        }
        let source = (line.replica.clone(), line.node.clone());
        if let Some(before) = self.before.get(&source) {
            if line.at_ms < before.at_ms {
                return false;
            }
            if line.at_ms == before.at_ms {
                let repeated = self.repeated.entry(source.clone()).or_default();
                *repeated += 1;
                if *repeated <= before.lines {
                    return false;
                }
            }
        }
        let position = self.returned.entry(source).or_default();
        let lines = if position.at_ms == line.at_ms { position.lines + 1 } else { 1 };
        *position = Position { at_ms: line.at_ms, lines };
        true
    }

    /// Makes the request ask for what may be new: from the source on that was read the least far, but not for what was
    /// written long before the last line of all, which has been returned: a source may have been quiet for days.
    fn resume(&mut self, request: &mut v1::LogsRequest) {
        self.before.clone_from(&self.returned);
        self.repeated.clear();
        let times = || self.returned.values().map(|position| position.at_ms);
        if let (Some(first), Some(last)) = (times().min(), times().max()) {
            let from = first.max(last.saturating_sub(OVERLAP_MS));
            (request.tail, request.last, request.since_ms) = (0, None, from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(replica: &str, at_ms: i64, text: &str) -> v1::LogLine {
        let node = "n1".to_owned();
        v1::LogLine {
            replica: replica.to_owned(),
            node,
            at_ms,
            text: text.to_owned(),
            ..Default::default()
        }
    }

    fn new_of(progress: &mut Progress, lines: &[(&str, i64, &str)]) -> Vec<String> {
        let lines = lines.iter().map(|(replica, at, text)| line(replica, *at, text));
        lines.filter(|line| progress.is_new(line)).map(|line| line.text).collect()
    }

    /// R-CLI-6: after a lost connection no line comes twice, and none is left out, also of several in one millisecond.
    #[test]
    fn no_line_is_returned_twice() {
        let mut progress = Progress::default();
        let mut request =
            v1::LogsRequest { follow: true, tail: 5, last: Some(5), ..Default::default() };
        progress.resume(&mut request);
        assert_eq!((request.last, request.since_ms), (Some(5), 0), "it asks as it did");

        let first = [("a", 10, "1"), ("b", 7, "x"), ("a", 12, "2"), ("a", 12, "3")];
        assert_eq!(new_of(&mut progress, &first), ["1", "x", "2", "3"]);
        progress.resume(&mut request);
        assert_eq!((request.tail, request.last, request.since_ms), (0, None, 7));
        let again = [
            ("a", 10, "1"),
            ("b", 7, "x"),
            ("b", 7, "y"),
            ("a", 12, "2"),
            ("a", 12, "3"),
            ("a", 12, "4"),
            ("c", 8, "z"),
        ];
        assert_eq!(new_of(&mut progress, &again), ["y", "4", "z"]);
        // All three of that millisecond are known at the next loss.
        progress.resume(&mut request);
        assert_eq!(new_of(&mut progress, &again), [""; 0]);
        assert_eq!(new_of(&mut progress, &[("a", 12, "5"), ("a", 13, "6")]), ["5", "6"]);
        assert_eq!(new_of(&mut progress, &[("a", 0, "missing")]), ["missing"]);
        // The others were quiet for long.
        assert_eq!(new_of(&mut progress, &[("b", 9_000_000, "late")]), ["late"]);
        progress.resume(&mut request);
        assert_eq!(request.since_ms, 8_940_000);
    }
}
