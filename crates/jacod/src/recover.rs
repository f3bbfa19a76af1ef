//! `jacod recover`: makes a survivor the only member of its cluster, once a majority of the voters is lost for good.
//!
//! The others are removed by the same entries: a member refuses what was removed, so that one that comes back with its
//! old data removes its containers and leaves, instead of going on as a second cluster of the same name. See ADR 0102.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use bytes::Bytes;
use jaco_pki::NodeName;
use jaco_proto::storage::{Payload, decode_payload, encode_payload};
use jaco_raft::{Offline, Position, PositionError, Status};
use jaco_server::ClusterMachine;
use jaco_state::audit::AuditKind;
use jaco_state::command::{AuditNote, NodeRemove};
use jaco_state::{ClusterState, Command};
use jaco_store::{Clock, SystemClock};
use jaco_types::{Identity, NodeId};

use crate::config::Config;
use crate::confirm;
use crate::examine::{Examined, what_lacks};
use crate::offline::{self, Stopped};

/// Make this node the only member, after a majority of the voters was lost for good
///
/// Run it with the daemon stopped. It shows how far this node's log goes and what becomes of the cluster, and asks. All
/// that this node has is kept; what only the lost voters have is lost. The other members are removed: one that comes
/// back removes its containers and leaves, and can join again. Start the daemon afterwards.
///
/// With several survivors run `jacod recover --dry-run` on each, and recover the one whose position is the greatest;
/// name the positions or the data directories of the others with --other, which refuses where one of them has more.
/// `jaco doctor --offline` compares several data directories.
///
/// Never run it while a majority of the voters can still be started: start these instead.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  jacod recover --dry-run
  jacod recover --other 7.1042
  jacod recover --other /mnt/n2/var/lib/jaco
  jacod recover --other 7.1042,6.998 --yes")]
pub(crate) struct Args {
    /// Show what would be done, change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// The other survivors: their positions, as --dry-run shows them there, or their data directories, which are read
    #[arg(long, value_name = "TERM.INDEX|DATA_DIR", value_delimiter = ',')]
    other: Vec<Survivor>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Another survivor.
#[derive(Debug, Clone)]
enum Survivor {
    At(Position),
    Folder(PathBuf),
}

impl FromStr for Survivor {
    type Err = PositionError;

    /// Whatever contains a slash is a folder.
    fn from_str(text: &str) -> Result<Self, PositionError> {
        if text.contains('/') {
            return Ok(Self::Folder(text.into()));
        }
        text.parse().map(Self::At)
    }
}

/// Shows what is there, asks, and recovers.
///
/// # Errors
/// When a daemon is running, when the data is missing or damaged, when another survivor has more, or when the answer
/// is no.
pub(crate) async fn run(config: &Config, args: &Args) -> anyhow::Result<()> {
    let _held = offline::lock(&config.data_dir)?;
    let Stopped { name, raft } = offline::open(&config.data_dir).await?;
    let found = Found::read(config.hostname()?.to_string(), &name, &raft).await?;
    let mut out = io::stdout();
    write!(out, "{found}")?;
    found.check()?;
    for survivor in &args.other {
        found.compare(survivor).await?;
    }
    if args.dry_run {
        return raft.close().await.context("cannot close raft's data");
    }
    if !args.yes {
        writeln!(
            out,
            "\nWhat only the lost voters have is lost, and the members above are removed. If a majority of"
        )?;
        writeln!(out, "the voters can still be started, stop here and start them.")?;
        let question = "Type the name of this node to make it the only member: ";
        confirm::by_name(&found.node, question, "jacod recover --dry-run")?;
    }
    let address = config.advertised()?;
    let recovered = raft.recover(&address, found.commands()).await;
    let position = recovered.context("cannot recover this node; its membership is as before")?;
    writeln!(out, "Recovered       {} is the only member, its log ends at {position}", found.node)?;
    writeln!(
        out,
        "\nStart its daemon; then `jaco cluster status` and `jaco doctor`. Other nodes join"
    )?;
    writeln!(out, "again with `jaco token join` here and `jaco cluster join` there.")?;
    Ok(())
}

/// What a stopped node holds.
struct Found {
    cluster: String,
    id: NodeId,
    /// Its host name.
    node: String,
    position: Position,
    /// Entries that are not known to be committed.
    unconfirmed: usize,
    voters: BTreeSet<u64>,
    /// The members that are removed, with their host names and addresses.
    others: BTreeMap<u64, String>,
}

impl Found {
    /// Names come from the settings and the certificate: a node that was killed may not know that anything of its log
    /// is committed.
    async fn read(
        node: String,
        name: &NodeName,
        raft: &Offline<ClusterMachine>,
    ) -> anyhow::Result<Self> {
        let id = name.node;
        let status = raft.status();
        if !status.is_initialized() {
            bail!(
                "this node has not received the log of its cluster: there is nothing to recover from it"
            );
        }
        let unconfirmed = raft.unconfirmed().await.context("cannot read the log")?;
        let position = raft.position();
        Ok(raft.with_state(|machine| Self {
            cluster: name.cluster.to_string(),
            id,
            node,
            position,
            unconfirmed: unconfirmed.len(),
            others: others(id, &status, machine.state(), &unconfirmed),
            voters: status.voters,
        }))
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.others.is_empty() {
            bail!("{} is the only member already: start its daemon", self.node);
        }
        Ok(())
    }

    /// Refuses where another survivor has more.
    async fn compare(&self, survivor: &Survivor) -> anyhow::Result<()> {
        match survivor {
            Survivor::At(position) if *position > self.position => {
                bail!("the survivor at position {position} {}", self.lacks());
            }
            Survivor::At(_) => Ok(()),
            Survivor::Folder(path) => self.compare_folder(path).await,
        }
    }

    async fn compare_folder(&self, path: &Path) -> anyhow::Result<()> {
        let scratch = tempfile::Builder::new().prefix("jaco-examine-").tempdir();
        let scratch = scratch.context("cannot make a folder for copies")?;
        let other = Examined::of(path, scratch.path()).await?;
        let Some(raft) = &other.raft else {
            bail!(
                "how far the log in {} goes cannot be read: see jaco doctor --offline {0}; leave it out of --other if \
                 nothing can be saved of it",
                path.display()
            );
        };
        if other.found.cluster.as_ref() != Some(&self.cluster) {
            bail!("{} is of another cluster than {}", path.display(), self.node);
        }
        let position = raft.position();
        let lost = what_lacks(&other, self.position).await?;
        if let Some(lost) = lost {
            bail!("the survivor in {} at {position} {}: {lost}", path.display(), self.lacks());
        }
        Ok(())
    }

    fn lacks(&self) -> String {
        format!(
            "has what {} at {} lacks, which would be lost: recover that one; nothing was changed here",
            self.node, self.position
        )
    }

    /// The entries that follow its log: who recovered what, and the end of all other memberships.
    fn commands(&self) -> Vec<Bytes> {
        let removed: Vec<&str> = self.others.values().map(String::as_str).collect();
        let facts = [
            ("node".to_owned(), self.node.clone()),
            ("node_id".to_owned(), self.id.to_string()),
            ("position".to_owned(), self.position.to_string()),
            ("removed".to_owned(), removed.join(", ")),
        ];
        let note = AuditNote::new(AuditKind::ClusterRecovered, facts.into()).into();
        let removals = self.others.keys().map(|id| NodeRemove::new(NodeId(*id)).into());
        let (at, uid) = (SystemClock.now(), rustix::process::getuid().as_raw());
        let payload = |command: Command| {
            let by = Identity::Local { uid };
            encode_payload(&Payload { at, by, origin: None, request: None, command })
        };
        std::iter::once(note).chain(removals).map(payload).collect()
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suffrage = match self.voters.contains(&self.id.0) {
            true => "voter",
            false => "learner: it may lack what the voters had",
        };
        let others: Vec<&str> = self.others.values().map(String::as_str).collect();
        writeln!(f, "Cluster         {}", self.cluster)?;
        writeln!(f, "This node       {} (node {}), {suffrage}", self.node, self.id)?;
        writeln!(f, "Position        {}", self.position)?;
        writeln!(
            f,
            "Unconfirmed     {} commands that are kept and may be new to the cluster",
            self.unconfirmed
        )?;
        writeln!(
            f,
            "Voters          {} of {} have to run for a quorum",
            self.voters.len() / 2 + 1,
            self.voters.len()
        )?;
        writeln!(f, "To be removed   {}", others.join(", "))
    }
}

/// All members but `own`: by the membership, by the state, and by admissions that are not known to be committed.
fn others(
    own: NodeId,
    status: &Status,
    state: &ClusterState,
    unconfirmed: &BTreeMap<u64, Bytes>,
) -> BTreeMap<u64, String> {
    let mut others: BTreeMap<u64, String> = status.members.clone();
    for (index, bytes) in unconfirmed {
        // What cannot be read stops the daemon at its start, which says so.
        if let Ok(Payload { command: Command::NodeAdmit(admitted), .. }) = decode_payload(bytes) {
            others
                .insert(*index, format!("{} at {}", admitted.node.hostname, admitted.node.address));
        }
    }
    for node in state.nodes.values() {
        others.insert(node.id.0, format!("{} at {}", node.hostname, node.address));
    }
    others.remove(&own.0);
    others
}
