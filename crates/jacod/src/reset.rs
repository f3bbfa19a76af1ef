//! `jacod reset`: a node forgets a cluster that it is no member of any more, or that is gone.

use std::io::{self, Write};

use anyhow::{Context, bail};
use jaco_pki::Credentials;
use jaco_server::LogTail;
use tokio::runtime::Handle;

use crate::config::Config;
use crate::confirm;
use crate::context::{IDENTITY_UNREADABLE, NodeContext};
use crate::data_lock::DataLock;
use crate::rejoin::calls::{Members, Refused};
use crate::rejoin::clear;

/// Have this node forget its cluster, so that it can create or join another one
///
/// Removes the node's containers and networks, its identity and its log. Volumes stay on the machine. Its daemon must be stopped.
///
/// It is for a node whose cluster is gone, or that cannot leave by itself. As long as other members answer and count it as one of them, it is
/// refused: `jaco cluster leave` on this node, or `jaco node rm` on another one, takes its replicas elsewhere first.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  jacod reset --dry-run
  systemctl stop jacod && jacod reset
  jacod reset --yes --force         the other members do not answer, and never will")]
pub(crate) struct Args {
    /// Show what would be removed, change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Members to ask [default: those that this node has stored]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', conflicts_with = "force")]
    server: Vec<String>,
    /// Do not ask the other members: they are gone for good
    #[arg(long)]
    force: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Shows what it is a member of, asks, and removes that.
///
/// # Errors
/// When a daemon runs as this node, when other members count on it or do not answer, or when the answer is no.
pub(crate) async fn run(config: Config, args: &Args) -> anyhow::Result<()> {
    let _held = DataLock::take(&config.data_dir).context("stop the daemon of this node first")?;
    let node = NodeContext::new(config, LogTail::default(), Handle::current())?;
    let mut out = io::stdout();
    let identity = node.identity.load(node.clock.now());
    let Some(own) = identity.context(IDENTITY_UNREADABLE)? else {
        if !args.dry_run {
            // An earlier run may have been interrupted behind the identity.
            node.delete_log()?;
        }
        writeln!(out, "{} belongs to no cluster, nothing was changed.", node.hostname)?;
        return Ok(());
    };
    let name = own.certificate().name().clone();
    if !args.force {
        require_no_member(&node, own, args).await?;
    }
    writeln!(
        out,
        "This node       {} (node {}) of cluster {}",
        node.hostname, name.node, name.cluster
    )?;
    writeln!(out, "To be removed   its containers and networks, its identity and its log")?;
    writeln!(out, "To be kept      volumes, images, {}", node.config.file.display())?;
    if args.dry_run {
        return Ok(());
    }
    if !args.yes {
        let question = "\nType the name of this node to have it forget its cluster: ";
        confirm::by_name(&node.hostname.to_string(), question, "jacod reset --dry-run")?;
    }
    clear(&node, &name).await?;
    writeln!(out, "Reset           {} belongs to no cluster any more", node.hostname)?;
    writeln!(
        out,
        "\nStart its daemon, then `jaco cluster init` or `jaco cluster join`. Its volumes are those of\n`docker volume ls \
         --filter label=jaco.cluster_id={}`.",
        name.cluster
    )?;
    Ok(())
}

/// Refuses where other members count on this node, or cannot be asked whether they do.
async fn require_no_member(
    node: &NodeContext,
    own: Credentials,
    args: &Args,
) -> anyhow::Result<()> {
    let id = own.certificate().name().node.0;
    let others = match args.server.as_slice() {
        [] => node.identity.members()?,
        given => given.to_vec(),
    };
    if others.is_empty() {
        return Ok(());
    }
    let status = match Members::new(own, others)?.status().await {
        Ok(status) => status,
        Err(Refused::Removed) => return Ok(()),
        Err(Refused::Failed(error)) => {
            return Err(error).context(
                "cannot ask the other members whether they still count on this node, nothing was changed: if they are gone \
                 for good, use --force",
            );
        }
    };
    let Some(known) = status.nodes.iter().find(|node| node.id == id) else { return Ok(()) };
    bail!(
        "{} is a member of cluster {}, which goes on without it, nothing was changed: start its daemon and run `jaco cluster \
         leave`, or run `jaco node rm {} --force` on another node; then run this again if anything is left",
        known.hostname,
        status.name,
        known.hostname
    )
}
