//! The record of a development cluster, and the list of its nodes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::dev::record::{self, NodeRecord, Record};
use crate::dev::{layout, network, process};
use crate::error::CliError;
use crate::format::table::Table;
use crate::output::{Frame, Show};
use crate::view::json::without_null;

pub(super) fn folder(name: &str) -> Result<std::path::PathBuf, CliError> {
    record::folder(name).ok_or_else(|| {
        CliError::usage(
            "there is no directory for development clusters",
            "set HOME or XDG_STATE_HOME",
        )
    })
}

pub(super) fn load(name: &str) -> Result<Option<Record>, CliError> {
    Record::load(&folder(name)?).map_err(|error| {
        CliError::local(format!("cannot read the record of cluster {name}"), error)
    })
}

pub(super) fn existing(name: &str) -> Result<Record, CliError> {
    load(name)?.ok_or_else(|| {
        let message = format!("there is no development cluster {name}");
        CliError::usage(message, format!("jaco dev up --name {name} starts one"))
    })
}

/// The nodes and their processes.
pub(super) struct Nodes<'a>(pub(super) &'a Record);

impl Show for Nodes<'_> {
    fn json(&self) -> Value {
        let node = |node: &NodeRecord| {
            without_null(json!({
                "name": node.name,
                "address": node.address,
                "socket": node.socket.display().to_string(),
                "config": node.config.display().to_string(),
                "log": node.log.display().to_string(),
                "pid": process::pid(node),
                "running": process::is_running(node),
            }))
        };
        self.0.nodes.iter().map(node).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["NODE", "STATE", "PID", "ADDRESS", "SOCKET"]);
        for node in &self.0.nodes {
            let pid = process::pid(node);
            let state = if pid.is_some() { "running" } else { "stopped" };
            table.row([
                node.name.clone(),
                state.to_owned(),
                pid.map(|pid| pid.to_string()).unwrap_or_default(),
                node.address.clone(),
                node.socket.display().to_string(),
            ]);
        }
        table.render()
    }
}

/// The other development cluster of this user whose router runs, if one does: an engine has the networks of one cluster.
pub(super) fn other_with_router(name: &str) -> Option<String> {
    let folder = record::folder(name)?;
    let others = fs::read_dir(folder.parent()?).ok()?.flatten().filter(|one| one.path() != folder);
    let mut records = others.filter_map(|one| Record::load(&one.path()).ok().flatten());
    records.find(|record| process::beside(&record.nodes).next().is_some()).map(|record| record.name)
}

/// Ends what outlives the daemons of a cluster, and removes all its files; of a folder given by `--data` only those that `jaco dev up` created.
pub(super) async fn remove(record: &Record, folder: &Path) -> std::io::Result<()> {
    process::stop_beside(&record.nodes).await?;
    network::remove_router(&layout::router(&record.data))?;
    let ignore_absent = |done: std::io::Result<()>| match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    for node in &record.nodes {
        ignore_absent(fs::remove_dir_all(record.data.join(&node.name)))?;
    }
    for file in ["operator.token", "ca.crt"] {
        ignore_absent(fs::remove_file(record.data.join(file)))?;
    }
    // Fails if the user keeps other files in the folder, which then stays.
    fs::remove_dir(&record.data).ok();
    ignore_absent(fs::remove_dir_all(folder))
}
