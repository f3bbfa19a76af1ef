//! `jaco token`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    IssueJoinTokenRequest, IssueJoinTokenResponse, IssueOperatorTokenRequest, ListTokensRequest,
    RevokeTokenRequest,
};
use serde_json::{Value, json};

use crate::format::time;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;
use crate::view::{List, Summary, token};

/// Manage join and operator tokens
///
/// A join token lets nodes join the cluster. An operator token lets a user connect over the network, and do what its
/// role allows.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco token join
  jaco token issue ann --role operator --expires 90d
  jaco token ls
  jaco token revoke ann")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create a join token and print the command for the new node
    #[command(after_long_help = "Examples:
  jaco token join
  jaco token join --uses 3 --ttl 10m")]
    Join {
        /// Validity
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time::duration)]
        ttl: Duration,
        /// Maximum number of nodes that join with it
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        uses: u32,
    },
    /// Create an operator token for a user
    ///
    /// The token is shown once and not stored. Its name can be given again once it has expired. A viewer reads everything
    /// but logs and the contents of secrets; a deployer changes the given deployments as well; an operator changes all
    /// deployments, and what nodes take; an admin does everything.
    #[command(
        alias = "create",
        after_long_help = "Examples:
  jaco token issue ann --role operator --expires 90d > ann.token
  jaco token issue ci --role deployer --deployment shop --expires 30d > ci.token
  jaco token issue board --role viewer > board.token"
    )]
    Issue {
        /// The token's name, in lists and in the audit log
        name: String,
        /// What it allows
        #[arg(long, value_parser = ["viewer", "deployer", "operator", "admin"])]
        role: String,
        /// Of a deployer: a deployment that it may change; may be repeated. It need not exist yet
        #[arg(
            long = "deployment",
            value_name = "NAME",
            value_delimiter = ',',
            required_if_eq("role", "deployer")
        )]
        deployments: Vec<String>,
        /// Validity, at most 3650d. Without it the token works until it is revoked
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
    },
    /// Revoke an operator token or a join token
    ///
    /// It is refused from then on. Nodes that have joined with a join token stay members.
    #[command(
        visible_alias = "rm",
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco token revoke ann
  jaco token revoke 4kq2m7xw3hza"
    )]
    Revoke {
        /// An operator token's name, or a join token's id as in `jaco token ls`
        #[arg(value_name = "NAME|ID")]
        name: String,
    },
    /// List the tokens, without their secrets
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco token ls
  jaco token ls -o json"
    )]
    Ls,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    match args.action {
        Action::Join { ttl, uses } => {
            let request = IssueJoinTokenRequest { ttl_secs: ttl.as_secs(), uses };
            let issued = client.issue_join_token(request).await?;
            session.done(&JoinToken(&issued))
        }
        Action::Issue { name, role, deployments, expires } => {
            let ttl_secs = expires.map_or(0, |expires| expires.as_secs());
            let request = IssueOperatorTokenRequest {
                name: name.clone(),
                ttl_secs,
                role: role.clone(),
                deployments: deployments.clone(),
            };
            let issued = client.issue_operator_token(request).await?;
            let expires_at = time::rfc3339(issued.expires_at_ms);
            let deployments = (!deployments.is_empty()).then_some(deployments);
            let json = json!({
                "name": name,
                "role": role,
                "deployments": deployments,
                "token": issued.token,
                "expires_at": expires_at,
            });
            let json = without_null(json);
            session.done(&Summary { json, text: format!("{}\n", issued.token) })
        }
        Action::Revoke { name } => {
            let request_id = fresh_request_id();
            let request = RevokeTokenRequest { name: name.clone(), request_id };
            let role = client.revoke_token(request).await?.role;
            let json = json!({ "name": name, "role": role, "outcome": "revoked" });
            session.done(&Summary { json, text: format!("{role} token {name} revoked\n") })
        }
        Action::Ls => {
            let list = client.list_tokens(ListTokensRequest {}).await?;
            session.done(&List { items: &list.tokens, json: token::json, text: token::table })
        }
    }
}

/// A validity of at least a second: zero would be one that never ends.
fn lifetime(text: &str) -> Result<Duration, String> {
    let life = time::duration(text)?;
    if life.as_secs() == 0 { Err("give at least 1s".to_owned()) } else { Ok(life) }
}

struct JoinToken<'a>(&'a IssueJoinTokenResponse);

impl JoinToken<'_> {
    /// The command to run on the new node.
    fn command(&self) -> String {
        let IssueJoinTokenResponse { token, servers, .. } = self.0;
        format!("JACO_JOIN_TOKEN={token} jaco cluster join {}", servers.join(" "))
    }
}

impl Show for JoinToken<'_> {
    fn json(&self) -> Value {
        without_null(json!({
            "token": self.0.token,
            "expires_at": time::rfc3339(self.0.expires_at_ms),
            "servers": self.0.servers,
            "command": self.command(),
        }))
    }

    fn text(&self, _: &Frame) -> String {
        format!("{}\n", self.command())
    }
}
