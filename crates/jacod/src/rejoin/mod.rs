//! `jacod rejoin`: a node that lost its log gives up its membership and joins again as a new one.
//!
//! It never votes under its old id: that one is removed from the cluster before the new one is asked for. Each step is
//! written down before it is made, so that a run that was interrupted is run again. See ADR 0129.

pub(crate) mod calls;
mod containers;
mod pending;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use jaco_agent::engine::Owner;
use jaco_pki::{Credentials, JoinToken, NodeName};
use jaco_proto::v1;
use jaco_raft::OpenError;
use jaco_server::LogTail;
use tokio::runtime::Handle;
use tokio::time::Instant;

use self::calls::{Members, Refused};
use self::pending::Pending;
use crate::bootstrap::admit;
use crate::config::Config;
use crate::context::{IDENTITY_UNREADABLE, NodeContext};
use crate::data_lock::{DataLock, DataLockError};
use crate::{confirm, offline};

/// A daemon that refuses to start holds its data for a moment, again and again.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// How long the cluster may take to notice that no daemon runs as this node: R-FAULT-3 says 8 s.
const DOWN_PATIENCE: Duration = Duration::from_secs(20);

/// Have this node join its cluster again as a new one, after it lost its log
///
/// For a node whose daemon does not start because its raft log is gone, damaged or an older copy. It must not vote
/// without what it has acknowledged, so its membership is given up: it is removed from the cluster, its containers are
/// removed, and it is admitted again under a new id, with its host name, its labels and a cordon. Nothing
/// acknowledged is lost: the other members have it, and send it to the new node.
///
/// Run it on that node while the other members have a leader. The service manager, or `systemctl start jacod`, starts the daemon
/// afterwards. Replicas that the cluster has moved elsewhere stay there. Volumes stay on the machine, under the old node's id.
///
/// A run that was interrupted is run again. A node whose log is in order is left as it is.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  jacod rejoin --dry-run
  jacod rejoin
  jacod rejoin --yes --server 10.0.0.2:7000")]
pub(crate) struct Args {
    /// Show what would be done, change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Members to ask [default: those that this node has stored]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    server: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Shows what is wrong, asks, and joins again.
///
/// # Errors
/// When a daemon runs as this node, when no member can be reached or none leads, or when the answer is no.
pub(crate) async fn run(config: Config, args: &Args) -> anyhow::Result<()> {
    let _held = lock(&config.data_dir).await?;
    let node = NodeContext::new(config, LogTail::default(), Handle::current())?;
    let mut out = io::stdout();
    let identity = node.identity.load(node.clock.now()).context(IDENTITY_UNREADABLE)?;
    let begun = Pending::read(&node.identity)?;
    if args.dry_run && begun.is_some() {
        writeln!(out, "An earlier run was interrupted: `jacod rejoin` goes on with it.")?;
        return Ok(());
    }
    match (identity, begun) {
        (None, None) => bail!("this node belongs to no cluster: join one with `jaco cluster join`"),
        (Some(old), Some(begun)) if begun.gives_up(old.certificate().name()) => {
            leave(&node, old, &begun).await?;
            return_as_new(&node, &begun, &mut out).await
        }
        (None, Some(begun)) => return_as_new(&node, &begun, &mut out).await,
        (Some(new), Some(begun)) if begun.is_of(&new.certificate().name().cluster) => {
            finish(&node, new, &begun, &mut out).await
        }
        (Some(old), _) => begin(&node, old, args, &mut out).await,
    }
}

/// Looks, asks, and makes all steps.
async fn begin(
    node: &NodeContext,
    old: Credentials,
    args: &Args,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    // One of another cluster, from before this identity.
    node.identity.forget_rejoin()?;
    let name = old.certificate().name().clone();
    let Some(lost) = what_is_lost(node).await? else {
        writeln!(
            out,
            "The log of {} is in order, nothing was changed: start its daemon.",
            node.hostname
        )?;
        return Ok(());
    };
    let servers = servers(node, args)?;
    let members = Members::new(old, servers.clone())?;
    let seen = match seen(&members, &name).await {
        Ok(seen) => seen,
        Err(Refused::Removed) => return already_removed(node, &name, args, out).await,
        Err(Refused::Failed(error)) => return Err(error),
    };
    writeln!(out, "Cluster         {} ({})", seen.cluster, name.cluster)?;
    writeln!(out, "This node       {} (node {})", seen.hostname, name.node)?;
    writeln!(out, "Lost            {lost}")?;
    writeln!(out, "Members         {}", servers.join(", "))?;
    let labels = seen.labels_beside(&node.facts.labels);
    writeln!(out, "To be kept      {}", kept(&labels, seen.is_cordoned))?;
    writeln!(out, "To be removed   node {} and its containers on this machine", name.node)?;
    if args.dry_run {
        return Ok(());
    }
    if !args.yes {
        let question = "\nType the name of this node to have it join again as a new one: ";
        confirm::by_name(&node.hostname.to_string(), question, "jacod rejoin --dry-run")?;
    }
    let token = members.join_token().await?;
    let begun = Pending {
        cluster: name.cluster.to_string(),
        node: name.node.0,
        hostname: seen.hostname,
        servers,
        token,
        labels,
        is_cordoned: seen.is_cordoned,
    };
    begun.store(&node.identity)?;
    give_up(node, &members, &name, &begun).await?;
    return_as_new(node, &begun, out).await
}

/// Goes on with a removal that was interrupted.
async fn leave(node: &NodeContext, old: Credentials, begun: &Pending) -> anyhow::Result<()> {
    let name = old.certificate().name().clone();
    let members = Members::new(old, begun.servers.clone())?;
    give_up(node, &members, &name, begun).await
}

/// Removes the old membership from the cluster, then from this machine.
async fn give_up(
    node: &NodeContext,
    members: &Members,
    name: &NodeName,
    begun: &Pending,
) -> anyhow::Result<()> {
    let request = v1::RemoveNodeRequest {
        hostname: begun.hostname.clone(),
        force: true,
        node_id: name.node.0,
        ..Default::default()
    };
    match members.remove_node(request).await {
        Ok(()) | Err(Refused::Removed) => {}
        Err(Refused::Failed(error)) => return Err(error),
    }
    clear(node, name).await
}

/// Removes what a membership that has ended has on this machine, its identity last.
///
/// # Errors
/// When the engine or the disk does not do it; the next attempt goes on.
pub(crate) async fn clear(node: &NodeContext, name: &NodeName) -> anyhow::Result<()> {
    let owner = Owner { cluster: name.cluster.clone(), node: name.node };
    containers::remove(node, &owner).await?;
    node.delete_membership().context("cannot delete the data of the removed node")
}

/// An operator has removed this node; only one admits it again.
async fn already_removed(
    node: &NodeContext,
    name: &NodeName,
    args: &Args,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    writeln!(out, "Node {} was removed from its cluster.", name.node)?;
    if args.dry_run {
        return Ok(());
    }
    if !args.yes {
        let question = "Type the name of this node to remove its containers and its data: ";
        confirm::by_name(&node.hostname.to_string(), question, "jacod rejoin --dry-run")?;
    }
    clear(node, name).await?;
    bail!(
        "node {} was removed from its cluster before, so it cannot have itself admitted; its containers and its data are \
         removed: start its daemon and join it with `jaco cluster join`",
        name.node
    )
}

/// Is admitted with the token, and gets back what it had.
async fn return_as_new(
    node: &NodeContext,
    begun: &Pending,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    // A run that was interrupted may have left it; the new identity must not find it.
    node.delete_log()?;
    let token: JoinToken = begun.token.parse().context("the stored join token is damaged")?;
    let mut last = None;
    for server in &begun.servers {
        match admit(node, server, &token).await {
            Ok(credentials) => return finish(node, credentials, begun, out).await,
            Err(refused) => last = Some(refused.message),
        }
    }
    let last = last.unwrap_or_else(|| "no member is known".to_owned());
    bail!(
        "{} is removed but not admitted again: {last}; run `jacod rejoin` again, or start its daemon and join it with \
         `jaco cluster join`",
        begun.hostname
    )
}

/// Sets what the old node had, and forgets the steps.
async fn finish(
    node: &NodeContext,
    new: Credentials,
    begun: &Pending,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let name = new.certificate().name().clone();
    let hostname = node.hostname.to_string();
    let members = Members::new(new, begun.servers.clone())?;
    let failure = restore(&members, &hostname, begun).await.err();
    node.identity.forget_rejoin()?;
    writeln!(out, "Rejoined        {hostname} is node {} now", name.node)?;
    if let Some(failure) = failure {
        // It is a member all the same, and its daemon may be started at any time.
        let labels: Vec<_> =
            begun.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        writeln!(out, "Not set again   {}: {failure:#}", kept(&begun.labels, begun.is_cordoned))?;
        if !labels.is_empty() {
            writeln!(out, "                jaco node label {hostname} {}", labels.join(" "))?;
        }
        if begun.is_cordoned {
            writeln!(out, "                jaco node cordon {hostname}")?;
        }
    }
    writeln!(out, "\nIts daemon may be started; it gets the state from the other members.")?;
    Ok(())
}

async fn restore(members: &Members, hostname: &str, begun: &Pending) -> anyhow::Result<()> {
    if !begun.labels.is_empty() {
        let set = begun.labels.clone().into_iter().collect();
        let request =
            v1::SetLabelsRequest { hostname: hostname.to_owned(), set, ..Default::default() };
        members.set_labels(request).await?;
    }
    if begun.is_cordoned {
        let request = v1::SetAvailabilityRequest {
            hostname: hostname.to_owned(),
            availability: "cordoned".to_owned(),
            ..Default::default()
        };
        members.set_availability(request).await?;
    }
    Ok(())
}

/// Waits for a daemon that is about to refuse to start.
async fn lock(folder: &Path) -> anyhow::Result<DataLock> {
    if !folder.is_dir() {
        bail!("no data of a cluster in {}", folder.display());
    }
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match DataLock::take(folder) {
            Ok(held) => return Ok(held),
            Err(DataLockError::Held { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error @ DataLockError::Held { .. }) => {
                return Err(error)
                    .context("a daemon runs with it, so its log is in order; nothing was changed");
            }
            Err(error @ DataLockError::Io { .. }) => return Err(error.into()),
        }
    }
}

/// Why this node cannot go on with its log; `None` if it can.
async fn what_is_lost(node: &NodeContext) -> anyhow::Result<Option<String>> {
    // Admitted, and never started.
    if node.identity.raft_log_id()?.is_none() && !node.raft_dir().exists() {
        return Ok(None);
    }
    let error = match offline::open(&node.config.data_dir).await {
        Ok(stopped) => {
            stopped.raft.close().await.context("cannot close raft's data")?;
            return Ok(None);
        }
        Err(error) => error,
    };
    match error.downcast_ref::<OpenError>() {
        Some(
            lost @ (OpenError::LogLost { .. }
            | OpenError::LogReverted { .. }
            | OpenError::IdentityMissing
            | OpenError::Corrupt { .. }),
        ) => Ok(Some(in_short(lost))),
        Some(
            OpenError::Locked { .. }
            | OpenError::WrongIdentity { .. }
            | OpenError::FormatVersion { .. }
            | OpenError::Io(_)
            | OpenError::Settings { .. }
            | OpenError::Start { .. },
        )
        | None => Err(error),
    }
}

/// Without the advice that led here.
fn in_short(lost: &OpenError) -> String {
    let text = lost.to_string();
    match text.split_once([';', ':']) {
        Some((fact, _)) => fact.to_owned(),
        None => text,
    }
}

fn servers(node: &NodeContext, args: &Args) -> anyhow::Result<Vec<String>> {
    let servers = match args.server.as_slice() {
        [] => node.identity.members()?,
        given => given.to_vec(),
    };
    if servers.is_empty() {
        bail!(
            "this node has not stored where the other members are: name one or more with --server HOST:PORT"
        );
    }
    Ok(servers)
}

/// What the cluster says of this node.
struct Seen {
    cluster: String,
    hostname: String,
    labels: BTreeMap<String, String>,
    is_cordoned: bool,
}

impl Seen {
    /// The labels that an operator set: not those of the node's own settings.
    fn labels_beside(&self, own: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let given = self.labels.iter().filter(|(key, value)| own.get(*key) != Some(*value));
        given.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Waits until the cluster says that nobody runs as this node: where this is a copy of its data, the original does, and
/// must not be removed in its place.
async fn seen(members: &Members, name: &NodeName) -> Result<Seen, Refused> {
    let deadline = Instant::now() + DOWN_PATIENCE;
    loop {
        let status = members.status().await?;
        let own = status.nodes.iter().find(|node| node.id == name.node.0);
        let Some(own) = own else { return Err(Refused::Removed) };
        if status.nodes.len() == 1 {
            return Err(Refused::Failed(anyhow::anyhow!(
                "{} is the only member of its cluster: nobody has what it lost; see `jaco restore` for a backup",
                own.hostname
            )));
        }
        if own.status == "down" {
            return Ok(Seen {
                cluster: status.name.clone(),
                hostname: own.hostname.clone(),
                labels: own.labels.clone().into_iter().collect(),
                is_cordoned: own.availability != "active",
            });
        }
        if Instant::now() >= deadline {
            return Err(Refused::Failed(anyhow::anyhow!(
                "a daemon runs as {} (node {}) at {}, it is {}: this folder is a copy of its data, and must not be used; nothing \
                 was changed",
                own.hostname,
                own.id,
                own.address,
                own.status
            )));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn kept(labels: &BTreeMap<String, String>, is_cordoned: bool) -> String {
    let mut parts: Vec<_> =
        labels.iter().map(|(key, value)| format!("label {key}={value}")).collect();
    if is_cordoned {
        parts.push("cordoned".to_owned());
    }
    if parts.is_empty() {
        return "its host name".to_owned();
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-FAULT-1: what the node's settings say again by themselves is not pinned as an operator's choice.
    #[test]
    fn only_labels_of_operators_are_set_again() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let seen = Seen {
            cluster: String::new(),
            hostname: "n2".to_owned(),
            labels: map(&[("zone", "b"), ("disk", "ssd"), ("rack", "7")]),
            is_cordoned: false,
        };
        let own = map(&[("zone", "a"), ("disk", "ssd")]);
        assert_eq!(seen.labels_beside(&own), map(&[("zone", "b"), ("rack", "7")]));
    }

    #[test]
    fn the_advice_that_led_here_is_not_repeated() {
        let lost = OpenError::LogLost {
            dir: "/var/lib/jaco/raft/log".into(),
            found: "nothing is there".to_owned(),
        };
        let short = in_short(&lost);
        assert!(short.ends_with("(nothing is there)"), "{short}");
        assert!(!short.contains("rejoin"), "{short}");
    }
}
