//! `jaco token`

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    IssueJoinTokenRequest, IssueJoinTokenResponse, IssueOperatorCertificateRequest,
    IssueOperatorTokenRequest, ListTokensRequest, RevokeTokenRequest, RotateOperatorTokenRequest,
};
use serde_json::{Value, json};

use super::new_file::{create, write};
use super::operator_certificate as certificate;
use crate::error::CliError;
use crate::format::time;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::json::without_null;
use crate::view::{List, Summary, token};

/// Manage join and operator tokens
///
/// A join token lets nodes join the cluster. An operator token, or a client certificate in its place, lets a user connect
/// over the network, and do what its role allows.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco token join
  jaco token issue ann --role operator --expires 90d
  jaco token ls
  jaco token rotate ann
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
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
        ttl: Duration,
        /// Maximum number of nodes that join with it
        #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        uses: u32,
    },
    /// Create an operator token or a client certificate for a user
    ///
    /// The token is shown once and not stored. With --csr a certificate for the user's own key is printed instead, which is
    /// valid for 30 days at a time and renewed by `jaco token renew`. Its name can be given again once it has expired. A viewer reads everything
    /// but logs and the contents of secrets; a deployer changes the given deployments as well; an operator changes all
    /// deployments, and what nodes take; an admin does everything.
    #[command(
        alias = "create",
        after_long_help = "Examples:
  jaco token issue ann --role operator --expires 90d --save-token ann.token
  jaco token issue ci --role deployer --deployment shop --expires 30d --save-token ci.token
  jaco token issue board --role viewer
  jaco token issue ann --role operator --csr ann.csr > ann.crt"
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
        /// Validity, at most 3650d. Without it the token works, or the certificate is renewed, until it is revoked
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
        /// Issue a client certificate for the key of this certificate request, PEM; `-` for stdin
        #[arg(long, value_name = "FILE")]
        csr: Option<PathBuf>,
        /// Write the token to this new file (0600) instead of printing it
        #[arg(long, value_name = "FILE", conflicts_with = "csr")]
        save_token: Option<PathBuf>,
    },
    /// Replace the secret of an operator token
    ///
    /// The new token is shown once and not stored. The present one counts on for the time of --overlap, so that programs get
    /// the new one before the present one ends; --overlap 0s ends it at once, as after a theft. Name, role and expiry stay.
    /// Rotated again before the overlap is over, the newest token is replaced, and the one that is in use stays.
    #[command(after_long_help = "Examples:
  jaco token rotate ci --save-token ci.token
  jaco token rotate ci --overlap 7d
  jaco token rotate ann --overlap 0s")]
    Rotate {
        /// The token's name
        name: String,
        /// How long the present token counts beside the new one, at most 90d
        #[arg(long, value_name = "TIME", default_value = "1d", value_parser = time::duration)]
        overlap: Duration,
        /// Write the token to this new file (0600) instead of printing it
        #[arg(long, value_name = "FILE")]
        save_token: Option<PathBuf>,
    },
    /// Create a private key and a certificate request on this machine
    ///
    /// For a client certificate instead of an operator token: the key stays here, NAME.key (0600), and the request, NAME.csr,
    /// is for an admin to issue a certificate for it. Existing files are not replaced.
    #[command(after_long_help = "Examples:
  jaco token request ann
  jaco token issue ann --role operator --csr ann.csr > ann.crt
  jaco context set prod --servers 10.0.0.1:7000 --ca prod.crt --certificate ann.crt --key ann.key")]
    Request {
        /// The name to be issued
        name: String,
        /// The folder for the two files
        #[arg(long, value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Renew a client certificate
    ///
    /// Without a name it is the one that this command connects with, which has to be valid still: the new one replaces its
    /// file. The key, the rights and the end of validity that it was issued with stay as they are. An admin renews
    /// another one's, also an expired one, with the request that it was issued for, or a new one for the same key.
    #[command(after_long_help = "Examples:
  jaco token renew
  jaco --context prod token renew
  jaco token renew ann --csr ann.csr > ann.crt")]
    Renew {
        /// Whose certificate
        #[arg(requires = "csr")]
        name: Option<String>,
        /// The certificate request, PEM; `-` for stdin
        #[arg(long, value_name = "FILE", requires = "name")]
        csr: Option<PathBuf>,
    },
    /// Revoke an operator token, a client certificate or a join token
    ///
    /// It is refused from then on, also on open connections. Nodes that have joined with a join token stay members.
    #[command(
        visible_alias = "rm",
        aliases = ["remove", "delete"],
        after_long_help = "Examples:
  jaco token revoke ann
  jaco token revoke 4kq2m7xw3hza"
    )]
    Revoke {
        /// The name of an operator token or a client certificate, or a join token's id as in `jaco token ls`
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
    match args.action {
        Action::Join { ttl, uses } => {
            let client = session.client()?;
            let request = IssueJoinTokenRequest { ttl_secs: ttl.as_secs(), uses };
            let issued = client.issue_join_token(request).await?;
            session.done(&JoinToken(&issued))
        }
        Action::Request { name, folder } => certificate::request(session, &name, &folder),
        Action::Renew { name: Some(name), csr: Some(csr) } => {
            certificate::renew_of(session, name, &csr).await
        }
        Action::Renew { .. } => certificate::renew(session).await,
        Action::Issue { name, role, deployments, expires, csr: Some(csr), .. } => {
            let ttl_secs = expires.map_or(0, |expires| expires.as_secs());
            let csr_der = certificate::csr(&csr)?.into();
            let request =
                IssueOperatorCertificateRequest { name, ttl_secs, role, deployments, csr_der };
            certificate::issue(session, request).await
        }
        Action::Issue { name, role, deployments, expires, csr: None, save_token } => {
            let client = session.client()?;
            let file = TokenFile::create(save_token)?;
            let ttl_secs = expires.map_or(0, |expires| expires.as_secs());
            let request = IssueOperatorTokenRequest {
                name: name.clone(),
                ttl_secs,
                role: role.clone(),
                deployments: deployments.clone(),
            };
            let issued = file.or_removed(client.issue_operator_token(request).await)?;
            let (token, text) = file.keep(issued.token)?;
            let expires_at = time::rfc3339(issued.expires_at_ms);
            let deployments = (!deployments.is_empty()).then_some(deployments);
            let json = json!({
                "name": name,
                "role": role,
                "deployments": deployments,
                "token": token,
                "token_file": file.path(),
                "expires_at": expires_at,
            });
            session.done(&Summary { json: without_null(json), text })
        }
        Action::Rotate { name, overlap, save_token } => {
            let client = session.client()?;
            let file = TokenFile::create(save_token)?;
            let overlap_secs = overlap.as_secs();
            let request = RotateOperatorTokenRequest { name: name.clone(), overlap_secs };
            let rotated = file.or_removed(client.rotate_operator_token(request).await)?;
            let former_until = time::rfc3339(rotated.former_until_ms);
            session.ui.note(&match &former_until {
                Some(until) => format!("the former token of {name} counts until {until}"),
                None => format!("the former token of {name} does not count any more"),
            });
            let (token, text) = file.keep(rotated.token)?;
            let json = json!({
                "name": name,
                "token": token,
                "token_file": file.path(),
                "former_until": former_until,
            });
            session.done(&Summary { json: without_null(json), text })
        }
        Action::Revoke { name } => {
            let client = session.client()?;
            let request_id = fresh_request_id();
            let request = RevokeTokenRequest { name: name.clone(), request_id };
            let role = client.revoke_token(request).await?.role;
            let json = json!({ "name": name, "role": role, "outcome": "revoked" });
            session.done(&Summary { json, text: format!("{role} token {name} revoked\n") })
        }
        Action::Ls => {
            let client = session.client()?;
            let list = client.list_tokens(ListTokensRequest {}).await?;
            session.done(&List { items: &list.tokens, json: token::json, text: token::table })
        }
    }
}

/// Where a token is written to, which is shown once: made before the token is, which could not be written else.
struct TokenFile(Option<(PathBuf, File)>);

impl TokenFile {
    fn create(path: Option<PathBuf>) -> Result<Self, CliError> {
        let file = path.map(|path| create(&path, 0o600).map(|file| (path, file)));
        file.transpose().map(Self)
    }

    /// Without a token the file, which is empty, is removed.
    fn or_removed<T, E>(&self, issued: Result<T, E>) -> Result<T, E> {
        if let (Err(_), Some((path, _))) = (&issued, &self.0) {
            // The error of the request matters.
            std::fs::remove_file(path).ok();
        }
        issued
    }

    /// Writes the token; what is shown of it, and as a line.
    fn keep(&self, token: String) -> Result<(Option<String>, String), CliError> {
        let Some((path, file)) = &self.0 else {
            let line = format!("{token}\n");
            return Ok((Some(token), line));
        };
        write(file, path, &format!("{token}\n"))?;
        Ok((None, format!("the token is in {}\n", path.display())))
    }

    fn path(&self) -> Option<String> {
        self.0.as_ref().map(|(path, _)| path.display().to_string())
    }
}

/// A validity of at least a second: zero would be one that never ends.
fn lifetime(text: &str) -> Result<Duration, String> {
    let life = time::duration(text)?;
    if life.as_secs() == 0 { Err("give at least 1s".to_owned()) } else { Ok(life) }
}

/// A join token, with the command that uses it.
pub(super) struct JoinToken<'a>(pub(super) &'a IssueJoinTokenResponse);

impl JoinToken<'_> {
    /// The command to run on the new node.
    pub(super) fn command(&self) -> String {
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
