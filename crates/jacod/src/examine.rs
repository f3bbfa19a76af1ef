//! `jacod examine`: what the data directories of stopped daemons hold, for `jaco doctor --offline`.
//!
//! Must never write into them: raft's data is opened as a copy, because opening it counts a start and settles its files.

mod node_files;
mod report;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use jaco_pki::IdentityDir;
use jaco_proto::storage::{Payload, decode_payload};
use jaco_raft::{Offline, Options, Position, Severity};
use jaco_server::ClusterMachine;
use jaco_state::view::needed_keys;
use jaco_state::{ClusterMeta, Command};
use jaco_types::{Identity, KekId, NodeId};

use self::node_files::NodeFiles;
use self::report::{Commands, DataDir, Log, Problem, Report};
use crate::data_lock::DataLock;

/// Commands of users that are listed one by one.
const LISTED_MAX: usize = 10;

/// Say what the data directories of stopped daemons hold, as JSON, for `jaco doctor --offline`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The data directories
    #[arg(required = true)]
    data_dirs: Vec<PathBuf>,
}

/// Prints what is in each of the data directories, and which log goes furthest.
///
/// # Errors
/// When a daemon is running, when there is no data, or when it cannot be copied.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let scratch = tempfile::Builder::new().prefix("jaco-examine-").tempdir();
    let scratch = scratch.context("cannot make a folder for copies")?;
    let mut nodes = Vec::new();
    for (number, path) in args.data_dirs.iter().enumerate() {
        nodes.push(Examined::of(path, &scratch.path().join(number.to_string())).await?);
    }
    let report = compared(nodes).await?;
    let mut out = io::stdout();
    serde_json::to_writer(&mut out, &report).context("cannot write the report")?;
    writeln!(out)?;
    Ok(())
}

/// A data directory, with its opened log if that is whole.
pub(crate) struct Examined {
    pub(crate) found: DataDir,
    pub(crate) raft: Option<Offline<ClusterMachine>>,
    /// Keeps a daemon from starting meanwhile.
    _held: Option<DataLock>,
}

impl Examined {
    /// Reads the data directory at `path`, by a copy of its log in the folder `scratch`.
    ///
    /// # Errors
    /// When a daemon is running, when there is no data, or when it cannot be copied.
    pub(crate) async fn of(path: &Path, scratch: &Path) -> anyhow::Result<Self> {
        if !path.join("raft").is_dir() && !path.join("node").is_dir() {
            bail!("no data of a cluster in {}", path.display());
        }
        let held = DataLock::take_existing(path)?;
        let mut found = DataDir { data_dir: path.display().to_string(), ..DataDir::default() };
        let files = NodeFiles::read(&path.join("node"), &mut found);
        let raft = open_copy(path, scratch, &files, &mut found).await?;
        if let Some(raft) = &raft {
            let (meta, nodes) = names(raft).await?;
            found.log = Some(log_of(raft, &nodes).await?);
            found.node = found.node_id.and_then(|id| nodes.get(&id).cloned());
            let needed = raft.with_state(|machine| needed_keys(machine.state()));
            let first = meta.as_ref().and_then(|meta| KekId::of_envelope(&meta.sealed_ca_key));
            // Where nothing is known to be committed, the cluster's first command says it.
            let needed = if needed.is_empty() { first.into_iter().collect() } else { needed };
            found.cluster_name = meta.map(|meta| meta.name).filter(|name| !name.is_empty());
            // One that is missing or damaged was reported.
            if !files.keks.is_empty() && !needed.iter().all(|key| files.keks.contains(key)) {
                found.problems.push(Problem::kek(
                    &path.join("node/kek"),
                    "it is not the key of the cluster (kek_mismatch)",
                ));
            }
        }
        Ok(Self { found, raft, _held: held })
    }

    fn position(&self) -> Option<Position> {
        self.raft.as_ref().map(Offline::position)
    }
}

/// The cluster and the host names of its nodes: by the state, or, as a node that was killed may not know that anything of
/// its log is committed, by the commands that follow.
async fn names(
    raft: &Offline<ClusterMachine>,
) -> anyhow::Result<(Option<ClusterMeta>, BTreeMap<u64, String>)> {
    let (mut meta, mut nodes) = raft.with_state(|machine| {
        let nodes = machine.state().nodes.values();
        let nodes = nodes.map(|node| (node.id.0, node.hostname.to_string()));
        (machine.state().meta.clone(), nodes.collect::<BTreeMap<_, _>>())
    });
    for (index, bytes) in raft.unconfirmed().await.context("cannot read the log")? {
        let Ok(Payload { command, .. }) = decode_payload(&bytes) else { continue };
        let (id, admitted) = if let Command::ClusterInit(init) = command {
            meta.get_or_insert(init.meta);
            (NodeId::FIRST.0, init.node)
        } else if let Command::NodeAdmit(admitted) = command {
            (index, admitted.node)
        } else {
            continue;
        };
        nodes.entry(id).or_insert_with(|| admitted.hostname.to_string());
    }
    Ok((meta, nodes))
}

/// Says which log goes furthest, and what each of the others lacks of it.
async fn compared(nodes: Vec<Examined>) -> anyhow::Result<Report> {
    let best = nodes.iter().enumerate().max_by_key(|(number, node)| {
        // Of equal ones the first.
        (node.position(), std::cmp::Reverse(*number))
    });
    let best = best.map(|(number, _)| number).filter(|number| nodes[*number].raft.is_some());
    let clusters: BTreeMap<&str, &str> = nodes
        .iter()
        .filter_map(|node| Some((node.found.cluster.as_deref()?, &*node.found.data_dir)))
        .collect();
    if clusters.len() > 1 {
        let all: Vec<String> =
            clusters.iter().map(|(id, dir)| format!("{dir} is of cluster {id}")).collect();
        bail!("these are not nodes of one cluster: {}", all.join(", "));
    }
    let mut lacking = Vec::new();
    for node in &nodes {
        let lacks = match (best.map(|best| &nodes[best]), node.position()) {
            (Some(best), Some(own)) => what_lacks(best, own).await?,
            (_, _) => None,
        };
        lacking.push(lacks);
    }
    let most_advanced = best.map(|best| nodes[best].found.data_dir.clone());
    let mut data_dirs = Vec::new();
    for (node, lacks) in nodes.into_iter().zip(lacking) {
        if let Some(raft) = node.raft {
            raft.close().await.context("cannot close the copy of a log")?;
        }
        data_dirs.push(DataDir { lacks, ..node.found });
    }
    Ok(Report { most_advanced: most_advanced.filter(|_| data_dirs.len() > 1), data_dirs })
}

/// What a log that ends at `own` lacks of another one; `None` if nothing.
///
/// # Errors
/// When the log cannot be read.
pub(crate) async fn what_lacks(
    further: &Examined,
    own: Position,
) -> anyhow::Result<Option<Commands>> {
    let Some(raft) = further.raft.as_ref().filter(|raft| raft.position() > own) else {
        return Ok(None);
    };
    let commands = raft.commands_after(own.index).await.context("cannot read the log")?;
    let purged = raft.status().purged.unwrap_or(0);
    Ok(Some(Commands { is_complete: purged <= own.index, ..summary(&commands) }))
}

/// Commands in short: those of users one by one, of the others their number.
fn summary(commands: &BTreeMap<u64, Bytes>) -> Commands {
    let mut users = Vec::new();
    for (index, bytes) in commands {
        // What cannot be read stops the daemon at its start, which says so.
        let Ok(Payload { at, by, command, .. }) = decode_payload(bytes) else { continue };
        match by {
            Identity::Local { .. } | Identity::Operator { .. } => {
                users.push(report::Command {
                    index: *index,
                    at_ms: at.0,
                    by: by.to_string(),
                    name: command.name().to_owned(),
                });
            }
            Identity::Node { .. } | Identity::Scheduler | Identity::Anonymous => {}
        }
    }
    let of_users = users.len();
    users.drain(..of_users.saturating_sub(LISTED_MAX));
    Commands { count: commands.len(), of_users, newest: users, is_complete: true }
}

async fn log_of(
    raft: &Offline<ClusterMachine>,
    names: &BTreeMap<u64, String>,
) -> anyhow::Result<Log> {
    let status = raft.status();
    let unconfirmed = raft.unconfirmed().await.context("cannot read the log")?;
    let named = |id: &u64| names.get(id).cloned().unwrap_or_else(|| format!("node {id}"));
    Ok(Log {
        is_member: status.is_initialized(),
        term: status.term,
        position: raft.position().to_string(),
        committed: status.committed,
        applied: status.applied,
        snapshot: status.snapshot,
        purged: status.purged,
        unconfirmed: summary(&unconfirmed),
        voters: status.voters.iter().map(named).collect(),
        learners: status.learners.iter().map(named).collect(),
        is_voter: status.voters.contains(&status.id),
    })
}

/// Opens a copy of raft's data, which checks all of it. What is damaged is reported, by the names of the originals.
async fn open_copy(
    path: &Path,
    scratch: &Path,
    files: &NodeFiles,
    found: &mut DataDir,
) -> anyhow::Result<Option<Offline<ClusterMachine>>> {
    let (original, copy) = (path.join("raft"), scratch.join("raft"));
    if !original.is_dir() {
        found.problems.push(Problem::log(&original, "it is missing: the node has lost its log"));
        return Ok(None);
    }
    found.written_at_ms = copied(&original, &copy)
        .with_context(|| format!("cannot copy {} to {}", original.display(), copy.display()))?;
    let (from, to) = (copy.display().to_string(), original.display().to_string());
    let examined = jaco_raft::examine(&copy)
        .with_context(|| format!("cannot read the files in {}", original.display()))?;
    for damage in examined.damage {
        let file = PathBuf::from(damage.file.display().to_string().replace(&from, &to));
        let what = damage.what.replace(&from, &to);
        found.problems.push(match damage.severity {
            Severity::Fatal => Problem::log(&file, &what),
            Severity::Spare => Problem::spare(&file, &what),
        });
    }
    found.snapshots = examined.snapshots;
    let owner = files.name.as_ref().map(|name| (name.node.0, name.cluster.to_string()));
    let Some((node_id, cluster)) = owner.or(examined.owner) else { return Ok(None) };
    found.node_id = Some(node_id);
    found.cluster = Some(cluster.clone());
    let mut options = Options::new(node_id, &cluster, copy);
    options.expected_log = files.raft_log_id.clone();
    options.expected_starts = files.raft_log_starts;
    match Offline::open(options, ClusterMachine::default()).await {
        Ok(raft) => Ok(Some(raft)),
        Err(error) => {
            let error = format!("{:#}", anyhow::Error::new(error)).replace(&from, &to);
            let is_known = found.problems.iter().any(|problem| problem.is_of_log_identity());
            if !is_known {
                found.problems.push(Problem::log(&original, &error));
            }
            Ok(None)
        }
    }
}

/// Copies a folder; returns when a file in it was last written.
fn copied(from: &Path, to: &Path) -> io::Result<Option<u64>> {
    fs::create_dir_all(to)?;
    let mut newest = None;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            newest = newest.max(copied(&source, &target)?);
        } else if kind.is_file() {
            fs::copy(&source, &target)?;
            let written = entry.metadata()?.modified()?.duration_since(std::time::UNIX_EPOCH);
            newest = newest.max(written.ok().and_then(|at| u64::try_from(at.as_millis()).ok()));
        }
    }
    Ok(newest)
}

/// The key-encryption key and other files of a node, for the checks above.
pub(crate) fn identity(folder: &Path) -> Option<IdentityDir> {
    // Opening it would make it.
    folder.is_dir().then(|| IdentityDir::open(folder).ok()).flatten()
}
