//! `jaco token`

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    IssueJoinTokenRequest, IssueJoinTokenResponse, IssueOperatorTokenRequest, ListTokensRequest,
    RevokeOperatorTokenRequest,
};
use serde_json::{Value, json};

use super::{Context, Done};
use crate::ui::{Frame, Show};
use crate::view::{List, Said, token, without_null};
use crate::when;

/// Let nodes and people in, and lock people out
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Make a token that lets nodes join, and print the command to run there
    Join {
        /// How long it is good for
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = when::duration)]
        ttl: Duration,
        /// How many nodes may use it
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        uses: u32,
    },
    /// Make an operator token: lets a person in over the network
    ///
    /// It is shown once and kept nowhere.
    Issue {
        /// Names it in lists and in the audit log
        name: String,
    },
    /// Make an operator token worthless
    Revoke {
        /// Its name
        name: String,
    },
    /// List the tokens, without their secrets
    List,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let client = context.client()?;
    match args.what {
        What::Join { ttl, uses } => {
            let request_id = fresh_request_id();
            let request = IssueJoinTokenRequest { ttl_secs: ttl.as_secs(), uses, request_id };
            let issued = client.issue_join_token(request).await?;
            context.done(&JoinToken(&issued))
        }
        What::Issue { name } => {
            let request_id = fresh_request_id();
            let request = IssueOperatorTokenRequest { name: name.clone(), request_id };
            let issued = client.issue_operator_token(request).await?;
            let json = json!({ "name": name, "token": issued.token });
            context.done(&Said { json, text: format!("{}\n", issued.token) })
        }
        What::Revoke { name } => {
            let request_id = fresh_request_id();
            let request = RevokeOperatorTokenRequest { name: name.clone(), request_id };
            client.revoke_operator_token(request).await?;
            let json = json!({ "name": name, "outcome": "revoked" });
            context.done(&Said { json, text: format!("{name} revoked\n") })
        }
        What::List => {
            let list = client.list_tokens(ListTokensRequest {}).await?;
            context.done(&List { items: &list.tokens, json: token::json, text: token::table })
        }
    }
}

struct JoinToken<'a>(&'a IssueJoinTokenResponse);

impl JoinToken<'_> {
    /// To be pasted on the node that should join.
    fn command(&self) -> String {
        let IssueJoinTokenResponse { token, servers, .. } = self.0;
        format!("JACO_JOIN_TOKEN={token} jaco cluster join {}", servers.join(" "))
    }
}

impl Show for JoinToken<'_> {
    fn json(&self) -> Value {
        without_null(json!({
            "token": self.0.token,
            "expires_at": when::rfc3339(self.0.expires_at_ms),
            "servers": self.0.servers,
            "command": self.command(),
        }))
    }

    fn text(&self, _: &Frame) -> String {
        format!("{}\n", self.command())
    }
}
