//! `jaco version`

use std::time::Duration;

use jaco_proto::v1::ClusterStatusRequest;
use serde_json::{Value, json};

use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;

/// The version is printed without the daemon's if that takes longer.
const DAEMON_LIMIT: Duration = Duration::from_secs(2);

/// Show the version of this program and of the daemon
///
/// The daemon's version is left out if no daemon answers.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco version
  jaco version -o json")]
pub(crate) struct Args {}

pub(crate) async fn run(session: &mut Session, Args {}: Args) -> CommandResult {
    let version = Version { daemon: daemon(session).await };
    if version.daemon.as_deref().is_some_and(|daemon| daemon != CLIENT) {
        session.ui.note("warning: this program and the daemon have different versions");
    }
    session.done(&version)
}

const CLIENT: &str = env!("CARGO_PKG_VERSION");

async fn daemon(session: &mut Session) -> Option<String> {
    let client = session.client().ok()?;
    let asked = tokio::time::timeout(DAEMON_LIMIT, client.status(ClusterStatusRequest {}));
    Some(asked.await.ok()?.ok()?.version)
}

struct Version {
    daemon: Option<String>,
}

impl Show for Version {
    fn json(&self) -> Value {
        without_null(json!({ "client": CLIENT, "daemon": self.daemon }))
    }

    fn text(&self, _: &Frame) -> String {
        match &self.daemon {
            Some(daemon) => format!("jaco {CLIENT}\njacod {daemon}\n"),
            None => format!("jaco {CLIENT}\n"),
        }
    }
}
