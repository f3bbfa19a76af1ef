//! Says again what a backup holds, by ordinary requests (ADR 0066). One thing after another: what the
//! cluster refuses is told and the rest goes on; what cannot be asked at all ends it.

mod deployment;
mod named;
mod outcome;
mod registries;
mod resting;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use jaco_client::{Client, ClientError};
use jaco_proto::v1::StatusRequest;
use jaco_types::ContentId;
use jaco_types::code::ExitCode;

pub(crate) use crate::ship::Sending;
pub(crate) use outcome::{Outcome, Restored};

use crate::backup::{Backup, Damage};
use crate::error::CliError;
use outcome::{Done, Item, Kind};

/// How much of a backup is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    All,
    /// These deployments, what they take by name, and what rests of them.
    Only(BTreeSet<String>),
}

impl Extent {
    fn has(&self, deployment: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(deployment),
        }
    }
}

/// What becomes of what is there and differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Differing {
    /// It stays, and is named.
    Keep,
    /// It becomes what the backup says.
    Replace,
}

/// Why a restore ended early.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Nobody answers, or not to us.
    Client(ClientError),
    /// The file is not what it was a moment ago, or what it names is not in it.
    Backup(Damage),
}

impl From<ClientError> for Failed {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<Damage> for Failed {
    fn from(damage: Damage) -> Self {
        Self::Backup(damage)
    }
}

impl Failed {
    pub(crate) fn told(self, path: &str) -> CliError {
        match self {
            Self::Client(source) => CliError::ClientDuring {
                source,
                help: format!("what was restored stays; jaco restore {path} goes on"),
            },
            Self::Backup(damage) => CliError::local(format!("cannot read {path}"), damage),
        }
    }
}

/// A restore under way.
struct Restore<'b> {
    client: Client,
    backup: &'b Backup,
    extent: Extent,
    differing: Differing,
    sending: Sending,
    /// What pieces of secrets are called here, by what the file calls them.
    secrets: BTreeMap<ContentId, ContentId>,
    items: Vec<Item>,
}

/// Restores, in an order in which each thing finds what it needs.
///
/// # Errors
/// What makes going on pointless. What the cluster refuses is no error: it is told.
pub(crate) async fn restore(
    client: Client,
    backup: &Backup,
    extent: Extent,
    differing: Differing,
    sending: Sending,
) -> Result<Restored, Failed> {
    let (secrets, items) = (BTreeMap::new(), Vec::new());
    let mut restore = Restore { client, backup, extent, differing, sending, secrets, items };
    restore.catch_up().await?;
    if restore.extent == Extent::All {
        restore.retention().await?;
        restore.constraints().await?;
        restore.nodes().await?;
        restore.registries().await?;
    }
    restore.named().await?;
    restore.deployments().await?;
    restore.resting().await?;
    Ok(Restored { items: restore.items, sending })
}

impl Restore<'_> {
    /// Has the node that answers learn all that is agreed on by now: what an earlier run did is unchanged
    /// for it, also where another node took that.
    async fn catch_up(&self) -> Result<(), Failed> {
        let deployment = self.backup.deployments().next().unwrap_or_default().to_owned();
        let request = StatusRequest { deployment, linearizable: true, ..StatusRequest::default() };
        self.client.overview(request).await?;
        Ok(())
    }

    /// Notes what became of something. A refusal of the request is told; one of the sender, or no answer,
    /// would be the same for all that follows.
    fn note(
        &mut self,
        kind: Kind,
        name: impl Into<String>,
        done: Result<Done, Failed>,
    ) -> Result<(), Failed> {
        let done = match done {
            Ok(done) => done,
            Err(Failed::Client(ClientError::Refused(rejection)))
                if rejection.code.exit_code() == ExitCode::Rejected =>
            {
                Done::Refused { code: rejection.code, reason: rejection.message }
            }
            Err(failed) => return Err(failed),
        };
        self.items.push(Item { kind, name: name.into(), done });
        Ok(())
    }

    /// Whether something is asked for in earnest.
    fn stores(&self) -> bool {
        self.sending == Sending::Store
    }
}
