//! The load: that of `h2load`, over HTTP/1.1 with connections that are kept.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::proxy::Proxy;
use super::site::{CLEAR, Place, Site, TLS, serving};
use crate::proc::processor_time;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) place: Place,
    pub(super) connections: u32,
    /// Requests a second of each connection; `None`: as many as are answered.
    pub(super) pace: Option<u32>,
}

/// What came of a stretch of load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) per_second: f64,
    pub(super) p99_ms: f64,
    /// Processor time of the proxy per request, in microseconds.
    pub(super) processor_us: f64,
}

impl Sample {
    pub(super) fn summary(&self) -> String {
        let Self { per_second, p99_ms, processor_us } = self;
        format!("{per_second:.0}/s, p99 {p99_ms:.2} ms, {processor_us:.1} µs of processor each")
    }
}

impl Load {
    /// Runs it. Every request has to be answered with 200 and the whole document.
    pub(super) async fn run(self, site: &Site, proxy: &Proxy, stretch: Duration) -> Result<Sample> {
        let log = site.file("h2load.log");
        // It appends.
        drop(std::fs::remove_file(&log));
        let (scheme, name) = match self.place {
            Place::Clear => ("http", CLEAR),
            Place::Tls => ("https", TLS),
        };
        let at = serving(proxy.address, self.place);
        let mut command = Command::new("h2load");
        command.args(["--h1", "--threads=1", "--max-concurrent-streams=1"]);
        command.arg(format!("--clients={}", self.connections));
        command.arg(format!("--duration={}", stretch.as_secs()));
        command.arg(format!("--connect-to={at}"));
        command.arg("--log-file").arg(&log);
        if let Some(pace) = self.pace {
            command.arg(format!("--rps={pace}"));
        }
        command.arg(format!("{scheme}://{name}/"));
        command.stdin(Stdio::null()).kill_on_drop(true);
        let before = processor_time(proxy.pid())?;
        let output = command.output().await.context("cannot start h2load")?;
        let used = processor_time(proxy.pid())?.saturating_sub(before);
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "h2load: {said}");
        let answers = answers(&std::fs::read_to_string(&log)?)?;
        ensure!(failures(&said) == Some(0), "not all requests were answered: {said}");
        ensure!(!answers.is_empty(), "nothing was answered: {said}");
        let count = f64::from(u32::try_from(answers.len())?);
        Ok(Sample {
            per_second: count / stretch.as_secs_f64(),
            p99_ms: f64::from(answers[answers.len() * 99 / 100]) / 1000.0,
            processor_us: used.as_secs_f64() * 1e6 / count,
        })
    }
}

/// How long each answer took, in microseconds, the quickest first. A line has when it began, its status, and that.
fn answers(log: &str) -> Result<Vec<u32>> {
    let mut times = Vec::new();
    for line in log.lines() {
        let mut fields = line.split('\t').skip(1);
        let (status, micros) = (fields.next(), fields.next());
        ensure!(status == Some("200"), "an answer is no 200: {line}");
        times.push(micros.context("a line without a time")?.parse()?);
    }
    times.sort_unstable();
    Ok(times)
}

/// How many requests failed, as the line `requests: 9 total, …, 0 failed, 0 errored, 0 timeout` says.
fn failures(said: &str) -> Option<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let bad = ["failed", "errored", "timeout"];
    line.split(", ")
        .filter_map(|part| part.split_once(' '))
        .filter(|(_, what)| bad.contains(what))
        .map(|(count, _)| count.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        assert_eq!(answers("1\t200\t30\n2\t200\t10\n").unwrap(), [10, 30]);
        assert!(answers("1\t502\t30\n").is_err());
        assert!(answers("1\t200\n").is_err());
    }

    #[test]
    fn failures_are_counted() {
        let said =
            "requests: 9 total, 9 started, 9 done, 6 succeeded, 1 failed, 2 errored, 0 timeout";
        assert_eq!(failures(said), Some(3));
        assert_eq!(failures("nothing"), None);
    }
}
