//! Removes the containers of a membership that is given up. Volumes stay.

use std::io;

use anyhow::Context;
use futures::StreamExt;
use futures::stream;
use jaco_agent::engine::{KeptNetworks, ObservedContainer, Owner};

use crate::context::NodeContext;
use crate::member::open_engine;

/// Containers that are stopped at the same time; each may take its grace period.
const STOPPED_AT_ONCE: usize = 16;

/// Stops and removes them. Their labels and addresses are those of a node that is gone: no agent would ever adopt or
/// end them, and what the cluster has moved elsewhere would run twice.
///
/// # Errors
/// When the engine does not do it. What was removed is not there at the next attempt.
pub(super) async fn remove(node: &NodeContext, owner: &Owner) -> anyhow::Result<()> {
    let engine = open_engine(node, owner)?;
    let unreachable = "cannot remove this node's containers: start its container engine, then run this command again";
    let owned = engine.list_owned().await.context(unreachable)?;
    let removed = stream::iter(owned).map(|container: ObservedContainer| {
        let engine = &engine;
        async move {
            engine.stop(&container.container).await?;
            engine.remove(&container.container).await
        }
    });
    let mut removed = removed.buffer_unordered(STOPPED_AT_ONCE);
    while let Some(removed) = removed.next().await {
        removed.context(unreachable)?;
    }
    engine.remove_networks(&KeptNetworks::default()).await.context(unreachable)?;
    let secrets = node.secrets_dir(&owner.cluster, owner.node);
    match std::fs::remove_dir_all(&secrets) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", secrets.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
