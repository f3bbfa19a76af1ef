//! A container's output, line by line.

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

use crate::convert::moment;
use crate::error::engine_error;

/// How many of its last lines tell why a container ended.
const LAST_LINES: u64 = 5;
/// How long they are waited for: that it ended is the greater news.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the output. Docker is asked for whole seconds; what is older than asked for is left out
/// here.
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

/// The last lines of the output; nothing where it cannot be read at once.
pub(crate) async fn last_words(docker: Docker, container: &ContainerId) -> String {
    let query = LogQuery { follow: Follow::No, tail: Some(LAST_LINES), since: None };
    let lines = read(docker, container, query).collect::<Vec<_>>();
    let lines = tokio::time::timeout(LAST_WORDS_TIMEOUT, lines).await.unwrap_or_default();
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
        match line.split_once(' ').map(|(at, text)| (moment(at), text)) {
            Some((at @ Some(_), text)) => LogLine { stream, at, text: text.to_owned() },
            // A line that was empty has nothing after its time.
            _ => match moment(line) {
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
    fn lines_carry_their_time() {
        let message = "1970-01-01T00:00:02Z hello world\n".into();
        let lines = split(LogOutput::StdErr { message }, None);
        let at = Some(Timestamp(2000));
        let expected = LogLine { stream: LogStream::Stderr, at, text: "hello world".to_owned() };
        assert_eq!(lines, [expected]);
        let message = "1970-01-01T00:00:02Z hello\n".into();
        assert_eq!(split(LogOutput::StdOut { message }, Some(Timestamp(2001))), []);
    }
}
