//! `jacod backup-parts`: the parts of a backup, from the data of a node whose daemon is stopped.
//!
//! `jaco backup --offline` runs it and writes the file: the CLI alone knows the format of backups, the daemon alone that
//! of its data.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use jaco_pki::{IdentityDir, KekRing};
use jaco_server::{ClusterKey, backup_parts};
use jaco_store::{Clock, SystemClock};
use prost::Message as _;

use crate::offline;

/// Write the parts of a backup to stdout, for `jaco backup --offline`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The data directory of a stopped daemon
    data_dir: PathBuf,
}

impl Args {
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }
}

/// Writes each part behind its length, of four bytes in network order.
///
/// # Errors
/// When a daemon is running, when the data is missing or damaged, or when the reader ends.
pub(crate) async fn run(args: &Args) -> anyhow::Result<()> {
    let folder = &args.data_dir;
    let _held = offline::lock(folder)?;
    let identity = IdentityDir::open(folder.join("node"))?;
    let keks = KekRing::load(identity)?;
    let keks =
        keks.context("this node's key-encryption key is missing: secrets cannot be opened")?;
    let stopped = offline::open(folder).await?;
    let unconfirmed = stopped.raft.unconfirmed().await.context("cannot read the log")?.len();
    let state = stopped.raft.with_state(|machine| machine.state().for_decisions());
    stopped.raft.close().await?;
    let node = state.nodes.get(&stopped.name.node).context("this node is not in its state")?;
    let key = ClusterKey::new(keks, node.hostname.clone());
    let mut out = io::BufWriter::new(io::stdout());
    for part in backup_parts(&state, &key, SystemClock.now())? {
        let part = part?.encode_to_vec();
        let length = u32::try_from(part.len()).context("a part is too long")?;
        out.write_all(&length.to_be_bytes())?;
        out.write_all(&part)?;
    }
    out.flush()?;
    if unconfirmed > 0 {
        note(unconfirmed);
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "`jaco backup` shows it")]
fn note(unconfirmed: usize) {
    eprintln!(
        "the last {unconfirmed} commands of this node's log are not known to be committed and are not in the backup; \
         `jacod recover` keeps them"
    );
}
