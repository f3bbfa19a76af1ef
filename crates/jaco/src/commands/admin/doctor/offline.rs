//! `jaco doctor --offline`: what the data directories of stopped nodes hold, and what can be done with them. The daemon's
//! program reads them: it alone knows the format of its data.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use jaco_types::code::ExitCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::dev::process;
use crate::error::CliError;
use crate::format::quantity::count;
use crate::format::time;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};

/// Examines the data directories.
pub(super) fn run(session: &mut Session, data_dirs: &[PathBuf]) -> CommandResult {
    let mut command = Command::new(process::program(None));
    command.arg("examine").arg("--").args(data_dirs).stdin(Stdio::null());
    let done = command.output();
    let done = done.map_err(|error| CliError::local("cannot start `jacod`", error))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.trim().trim_start_matches("error: ").to_owned();
        return Err(CliError::local("the data of stopped nodes cannot be examined", said));
    }
    let report: Report = serde_json::from_slice(&done.stdout)
        .map_err(|error| CliError::local("`jacod` is of another version", error))?;
    session.ui.result(&report).map_err(CliError::Output)?;
    let fails = report.data_dirs.iter().any(DataDir::is_lost);
    Ok(if fails { ExitCode::Unexpected } else { ExitCode::Converged })
}

/// What `jacod examine` says.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    most_advanced: Option<String>,
    data_dirs: Vec<DataDir>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DataDir {
    data_dir: String,
    cluster: Option<String>,
    cluster_name: Option<String>,
    node_id: Option<u64>,
    node: Option<String>,
    written_at_ms: Option<i64>,
    log: Option<Log>,
    snapshots: Vec<u64>,
    problems: Vec<Problem>,
    lacks: Option<Commands>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Log {
    is_member: bool,
    term: u64,
    position: String,
    committed: Option<u64>,
    applied: Option<u64>,
    snapshot: Option<u64>,
    purged: Option<u64>,
    unconfirmed: Commands,
    is_voter: bool,
    voters: Vec<String>,
    learners: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Commands {
    count: usize,
    of_users: usize,
    newest: Vec<LoggedCommand>,
    is_complete: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct LoggedCommand {
    index: u64,
    at_ms: i64,
    by: String,
    name: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Problem {
    check: String,
    file: String,
    message: String,
    help: String,
    is_fatal: bool,
}

impl DataDir {
    fn is_lost(&self) -> bool {
        self.problems.iter().any(|problem| problem.is_fatal)
    }

    /// What can be done, the best first.
    fn next(&self) -> Vec<String> {
        let dir = &self.data_dir;
        let backup = format!("jaco backup --offline {dir} FILE writes what it holds into a backup");
        match &self.log {
            None => vec![
                "jacod rejoin on the node has it join again as a new one, from what the other members hold"
                    .to_owned(),
                "with no member left: create a cluster and restore a backup (jaco restore)".to_owned(),
            ],
            Some(log) if !log.is_member => {
                vec!["it has received nothing of its cluster: delete it and join again".to_owned()]
            }
            Some(_) if self.is_lost() => {
                vec!["solve the problems above, then start the daemon".to_owned()]
            }
            Some(log) if log.voters.len() > 1 => {
                let needed = log.voters.len() / 2 + 1;
                vec![
                    format!("start the daemon; {needed} of {} have to run", log.voters.join(", ")),
                    format!("if fewer than {needed} of them can ever be started: jacod recover --dry-run"),
                    backup,
                ]
            }
            Some(_) => vec!["start the daemon".to_owned(), backup],
        }
    }

    fn text(&self, frame: &Frame) -> String {
        let node = self.node.as_deref().unwrap_or("a node");
        let id = self.node_id.map(|id| format!(" (node {id})")).unwrap_or_default();
        let cluster = match (&self.cluster_name, &self.cluster) {
            (Some(name), Some(id)) => format!(" of cluster {name} ({id})"),
            (None, Some(id)) => format!(" of cluster {id}"),
            (_, None) => String::new(),
        };
        let mut text = format!("{}: {node}{id}{cluster}\n", self.data_dir);
        if let Some(at) = self.written_at_ms {
            text += &format!("  written       {} ago\n", time::ago(at, frame.now_ms));
        }
        if let Some(log) = &self.log {
            let index = |at: Option<u64>| at.map_or("none".to_owned(), |at| at.to_string());
            let (committed, snapshot) = (index(log.committed), index(log.snapshot));
            text += &format!("  position      {}, in term {}\n", log.position, log.term);
            text += &format!("  committed     {committed} at least; snapshot {snapshot}\n");
            text += &format!(
                "  unconfirmed   {} that may or may not be committed\n",
                count(log.unconfirmed.count, "command")
            );
            let suffrage =
                if log.is_voter { "voter" } else { "learner: it may lack what voters had" };
            text += &format!("  suffrage      {suffrage}\n");
            text += &format!("  voters        {}\n", log.voters.join(", "));
        }
        for Problem { check, file, message, help, is_fatal } in &self.problems {
            let severity = if *is_fatal { "failing" } else { "warning" };
            text += &format!("  {severity}[{check}] {file}: {message}\n    help: {help}\n");
        }
        for (number, step) in self.next().iter().enumerate() {
            let head = if number == 0 { "next" } else { "or" };
            text += &format!("  {head:<13} {step}\n");
        }
        text
    }
}

impl Commands {
    fn text(&self, frame: &Frame) -> String {
        let least = if self.is_complete { "" } else { "at least " };
        let mut text =
            format!("{least}{}, {} of users\n", count(self.count, "command"), self.of_users);
        for command in &self.newest {
            let ago = time::ago(command.at_ms, frame.now_ms);
            text +=
                &format!("    {} {} by {}, {ago} ago\n", command.index, command.name, command.by);
        }
        text
    }
}

impl Show for Report {
    fn json(&self) -> Value {
        let with_next = |dir: &DataDir| {
            let mut json = serde_json::to_value(dir).unwrap_or_default();
            json["is_lost"] = dir.is_lost().into();
            json["next"] = dir.next().into();
            json
        };
        json!({
            "most_advanced": self.most_advanced,
            "data_dirs": self.data_dirs.iter().map(with_next).collect::<Value>(),
        })
    }

    fn text(&self, frame: &Frame) -> String {
        let mut text: String = self.data_dirs.iter().map(|dir| dir.text(frame)).collect();
        if let Some(best) = &self.most_advanced {
            text += &format!("most advanced: {best}\n");
            for dir in self.data_dirs.iter().filter(|dir| dir.data_dir != *best) {
                let name = &dir.data_dir;
                text += &match (&dir.lacks, &dir.log) {
                    (Some(lacks), _) => {
                        format!("  recovering {name} instead loses {}", lacks.text(frame))
                    }
                    (None, Some(_)) => format!("  {name} has the same\n"),
                    (None, None) => format!("  {name} cannot be recovered\n"),
                };
            }
        }
        text
    }
}
