//! Container logs, line by line.

use std::time::Duration;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptions;
use futures::StreamExt;
use futures::stream;
use jaco_agent::engine::{
    ContainerId, EngineError, Follow, LogLine, LogLines, LogQuery, LogStream,
};
use jaco_types::Timestamp;

use crate::convert::parse_time;
use crate::error::engine_error;

/// Number of last lines kept of a failed container.
const LAST_LINES: u64 = 5;
/// Time limit to read them: reporting the exit matters more.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the log. Docker filters by whole seconds; older lines are dropped here.
pub(crate) fn read(docker: Docker, container: &ContainerId, query: LogQuery) -> LogLines {
    let since_secs = query.since.map_or(0, |since| since.0 / 1000);
    let options = LogsOptions {
        follow: query.follow == Follow::Yes,
        stdout: true,
        stderr: true,
        since: i32::try_from(since_secs).unwrap_or(i32::MAX),
        until: 0,
        timestamps: true,
        tail: query.tail.map_or_else(|| "all".to_owned(), |tail| tail.to_string()),
    };
    let outputs = docker.logs(&container.0, Some(options));
    let lines = outputs.flat_map(move |output| {
        let lines: Vec<Result<LogLine, EngineError>> = match output {
            Ok(output) => split(output, query.since).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(engine_error(error))],
        };
        stream::iter(lines)
    });
    lines.boxed()
}

/// The last lines of the log; empty if they cannot be read in time.
pub(crate) async fn last_output(docker: Docker, container: &ContainerId) -> String {
    let query = LogQuery { follow: Follow::No, tail: Some(LAST_LINES), since: None };
    let lines = read(docker, container, query).collect::<Vec<_>>();
    let lines = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, lines).await.unwrap_or_default();
    let texts = lines.into_iter().filter_map(|line| line.ok().map(|line| line.text));
    texts.collect::<Vec<_>>().join("\n")
}

fn split(output: LogOutput, since: Option<Timestamp>) -> Vec<LogLine> {
    let stream = match output {
        LogOutput::StdErr { .. } => LogStream::Stderr,
        LogOutput::StdOut { .. } | LogOutput::StdIn { .. } | LogOutput::Console { .. } => {
            LogStream::Stdout
        }
    };
    let bytes = output.into_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.trim_end_matches(['\n', '\r']).split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        match line.split_once(' ').map(|(at, text)| (parse_time(at), text)) {
            Some((at @ Some(_), text)) => LogLine { stream, at, text: text.to_owned() },
            // An empty line has nothing after its timestamp.
            _ => match parse_time(line) {
                at @ Some(_) => LogLine { stream, at, text: String::new() },
                None => LogLine { stream, at: None, text: line.to_owned() },
            },
        }
    });
    lines.filter(|line| since.is_none() || line.at.is_none() || line.at >= since).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_timestamps() {
        let message = "1970-01-01T00:00:02Z hello world\n".into();
        let lines = split(LogOutput::StdErr { message }, None);
        let at = Some(Timestamp(2000));
        let expected = LogLine { stream: LogStream::Stderr, at, text: "hello world".to_owned() };
        assert_eq!(lines, [expected]);
        let message = "1970-01-01T00:00:02Z hello\n".into();
        assert_eq!(split(LogOutput::StdOut { message }, Some(Timestamp(2001))), []);
    }
}
