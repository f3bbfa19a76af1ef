//! `jaco version`

use std::time::Duration;

use jaco_proto::v1::ClusterStatusRequest;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::ui::{Frame, Show};
use crate::view::without_null;

/// The version of this program is a fact, the daemon's is a courtesy: it is not waited for long.
const DAEMON_LIMIT: Duration = Duration::from_secs(2);

/// Show the version of this program, and of the daemon if one answers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(context: &mut Context, Args {}: Args) -> Done {
    let version = Version { daemon: daemon(context).await };
    if version.daemon.as_deref().is_some_and(|daemon| daemon != CLIENT) {
        context.ui.note("warning: this program and the daemon are of different versions");
    }
    context.done(&version)
}

const CLIENT: &str = env!("CARGO_PKG_VERSION");

async fn daemon(context: &mut Context) -> Option<String> {
    let client = context.client().ok()?;
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
