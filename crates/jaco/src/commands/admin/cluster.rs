//! `jaco cluster`

use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_client::Client;
use jaco_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, InitNetworks, InitRequest, InitResponse,
    IssueJoinTokenRequest, IssueJoinTokenResponse, JoinClusterRequest, JoinClusterResponse,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::new_file::{create, write};
use super::node::{Leave, leave};
use super::token::JoinToken;
use super::{rotate_ca, rotate_kek};
use crate::connect::secret_file;
use crate::error::CliError;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::cluster::ClusterStatus;
use crate::view::json::{non_empty, without_null};
use crate::view::{Summary, network};

/// How long nodes may join by the line that a new cluster prints.
const JOIN_TIME: Duration = Duration::from_secs(3600);

/// Create, join, leave or show a cluster
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cluster init --name prod
  jaco cluster join 10.0.0.1:7000
  jaco cluster leave
  jaco cluster status
  jaco cluster rotate-ca --status")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Init(Init),
    Join(Join),
    Leave(Leave),
    RotateCa(rotate_ca::Args),
    RotateKek(rotate_kek::Args),
    /// Show the leader and the members as one node knows them
    #[command(after_long_help = "Examples:
  jaco cluster status
  jaco --server n3:7000 cluster status     as the third node knows them")]
    Status,
}

/// Create a cluster with this machine's node
///
/// Connects to the daemon of this machine over its socket. Prints the first operator token, which is
/// shown once and not stored, and the line that joins the other nodes of --nodes, which is good for an hour.
///
/// Networks are the cluster's from the start: services reach each other by name on all nodes. Where this
/// machine cannot have a router, for want of `nft`, of `/dev/net/tun` or of a running `jacod-net`, the
/// cluster is created without them, says why, and `jaco network enable` is for later. Pool and MTU cannot
/// be changed later.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cluster init --name prod --save-token ~/prod.token --ca-file ~/prod.crt
  jaco cluster init --pool 172.16.0.0/12 --mtu 1370
  jaco cluster init --no-network                    networks of each node, as with Docker alone")]
struct Init {
    /// The name of the cluster
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// Write the operator token to this new file (0600) instead of printing it
    #[arg(long, value_name = "FILE")]
    save_token: Option<PathBuf>,
    /// Write the cluster's CA certificate to this new file; clients on the network need it
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// The IPv4 prefix of 8 to 15 bits that all subnets are taken from, used by nothing else
    #[arg(long, value_name = "PREFIX", default_value = "10.64.0.0/12")]
    pool: String,
    /// The MTU of containers in bytes, 80 less than that of the links between the nodes
    #[arg(long, value_name = "BYTES", default_value_t = 1420)]
    mtu: u32,
    /// How many nodes the cluster is going to have: so many less one may join by the line that is printed
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    nodes: u32,
    /// Leave networks to each node: services on different nodes do not reach each other
    #[arg(long, conflicts_with_all = ["pool", "mtu"])]
    no_network: bool,
}

/// Join this machine's node to a cluster
///
/// Connects to the daemon of this machine over its socket. The join token, created by `jaco token join`
/// on a member, is read from JACO_JOIN_TOKEN or a file, never from the command line, which others on the
/// machine can see. It holds the fingerprint of the cluster's CA: the member is verified before anything
/// is sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  JACO_JOIN_TOKEN=… jaco cluster join 10.0.0.1:7000
  jaco cluster join 10.0.0.1:7000 10.0.0.2:7000 --join-token-file -")]
struct Join {
    /// Members to try, in this order
    #[arg(required = true, value_name = "HOST:PORT")]
    members: Vec<String>,
    /// A file with the join token, `-` for stdin [env: JACO_JOIN_TOKEN, the token]
    #[arg(long, value_name = "FILE")]
    join_token_file: Option<PathBuf>,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    match args.action {
        Action::Init(args) => init(session, &client, &args).await,
        Action::Join(args) => {
            let token = join_token(args.join_token_file.as_deref())?;
            let joined = join(&client, &args.members, &token).await?;
            // Names are more readable than ids. The new member may not have them yet.
            let status = client.status(ClusterStatusRequest {}).await.unwrap_or_default();
            session.done(&joined_summary(&joined, &status))
        }
        Action::Leave(args) => leave(session, args).await,
        Action::RotateCa(args) => rotate_ca::run(session, args).await,
        Action::RotateKek(args) => rotate_kek::run(session, args).await,
        Action::Status => {
            let status = client.status(ClusterStatusRequest {}).await?;
            session.shows_age();
            session.done(&ClusterStatus(&status))
        }
    }
}

async fn init(session: &mut Session, client: &Client, args: &Init) -> CommandResult {
    // Created first: a token that cannot be written would be lost.
    let token_file = args.save_token.as_deref().map(|path| create(path, 0o600)).transpose()?;
    let ca_file = args.ca_file.as_deref().map(|path| create(path, 0o644)).transpose()?;
    let networks = InitNetworks { pool: args.pool.clone(), mtu: args.mtu };
    let networks = (!args.no_network).then_some(networks);
    let made = match client.init(InitRequest { name: args.name.clone(), networks }).await {
        Ok(made) => made,
        Err(error) => {
            for path in args.save_token.iter().chain(&args.ca_file) {
                // The files are empty; the error of the request matters.
                std::fs::remove_file(path).ok();
            }
            return Err(error.into());
        }
    };
    if let (Some(file), Some(path)) = (token_file, &args.save_token) {
        write(&file, path, &format!("{}\n", made.operator_token))?;
    }
    if let (Some(file), Some(path)) = (ca_file, &args.ca_file) {
        write(&file, path, &made.ca_certificate_pem)?;
    }
    if !made.networks_refused.is_empty() {
        session.ui.note(&format!(
            "warning: services on different nodes do not reach each other: no router works on this machine: \
             {}; once that is solved: jaco network enable",
            made.networks_refused
        ));
    }
    let join = join_line(session, client, args.nodes - 1).await;
    session.done(&Created { cluster: &made, token_file: args.save_token.as_deref(), join })
}

/// A token for the other nodes. The cluster is there without it as well.
async fn join_line(
    session: &mut Session,
    client: &Client,
    uses: u32,
) -> Option<IssueJoinTokenResponse> {
    if uses == 0 {
        return None;
    }
    let request = IssueJoinTokenRequest { ttl_secs: JOIN_TIME.as_secs(), uses };
    match client.issue_join_token(request).await {
        Ok(issued) => Some(issued),
        Err(error) => {
            let note = format!("warning: no join token was issued: {error}; use `jaco token join`");
            session.ui.note(&note);
            None
        }
    }
}

/// The join token, from the file or the environment.
fn join_token(file: Option<&Path>) -> Result<String, CliError> {
    let text = match file {
        Some(path) => secret_file(path)?,
        None => std::env::var("JACO_JOIN_TOKEN").unwrap_or_default(),
    };
    match text.trim() {
        "" => Err(CliError::usage(
            "no join token is given",
            "set JACO_JOIN_TOKEN, or use --join-token-file; `jaco token join` on a member creates one",
        )),
        token => Ok(token.to_owned()),
    }
}

fn joined_summary(joined: &JoinClusterResponse, status: &ClusterStatusResponse) -> Summary {
    let JoinClusterResponse { cluster_id, node_id } = joined;
    let node = status.nodes.iter().find(|node| node.id == *node_id);
    let cluster = non_empty(&status.name);
    let json = without_null(json!({
        "cluster_id": cluster_id,
        "cluster": cluster,
        "node_id": node_id,
        "node": node.map(|node| &node.hostname),
    }));
    let name = node.map_or_else(|| format!("node {node_id}"), |node| node.hostname.clone());
    let text = format!("{name} joined cluster {}\n", cluster.unwrap_or(cluster_id));
    Summary { json, text }
}

/// Joins through the first member that can be reached.
async fn join(
    client: &Client,
    members: &[String],
    token: &str,
) -> Result<JoinClusterResponse, CliError> {
    let mut last = None;
    for member in members {
        let request = JoinClusterRequest { server: member.clone(), token: token.to_owned() };
        match client.join_cluster(request).await {
            Ok(joined) => return Ok(joined),
            // The daemon could not reach this member: try the next one.
            Err(error)
                if error
                    .rejection()
                    .is_some_and(|refusal| refusal.code == ErrorCode::Unavailable) =>
            {
                last = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.expect("at least one member is named").into())
}

/// The result of `jaco cluster init`.
struct Created<'a> {
    cluster: &'a InitResponse,
    /// The file that the token was written to instead of being printed.
    token_file: Option<&'a Path>,
    /// For the other nodes.
    join: Option<IssueJoinTokenResponse>,
}

impl Show for Created<'_> {
    fn json(&self) -> Value {
        let cluster = self.cluster;
        let mut json = json!({
            "cluster_id": cluster.cluster_id,
            "name": cluster.name,
            "ca_certificate_pem": cluster.ca_certificate_pem,
        });
        match self.token_file {
            Some(path) => json["operator_token_file"] = path.display().to_string().into(),
            None => json["operator_token"] = cluster.operator_token.clone().into(),
        }
        if let Some(join) = &self.join {
            json["join"] = JoinToken(join).json();
        }
        json["network_pool"] = cluster.networks.as_ref().map_or(Value::Null, network::pool_json);
        if let Some(refused) = non_empty(&cluster.networks_refused) {
            json["networks_refused"] = refused.into();
        }
        json
    }

    fn text(&self, _: &Frame) -> String {
        let InitResponse { cluster_id, name, operator_token, networks, .. } = self.cluster;
        let networks = match networks {
            Some(pool) => format!("the cluster's, pool {}, MTU {}", pool.prefix, pool.mtu),
            None => "those of each node".to_owned(),
        };
        let token = match self.token_file {
            Some(path) => format!("Operator token  in {}\n", path.display()),
            None => {
                format!(
                    "Operator token  {operator_token}\n                (shown once, not stored)\n"
                )
            }
        };
        let next = match &self.join {
            Some(join) => format!(
                "On each of the other nodes, within an hour:\n\n  {}\n\n`jaco token join` makes another such line; ",
                JoinToken(join).command()
            ),
            None => "`jaco token join` adds nodes; ".to_owned(),
        };
        format!(
            "Cluster         {name} ({cluster_id})\nNetworks        {networks}\n{token}\n{next}`jaco apply` deploys a compose file.\n"
        )
    }
}
