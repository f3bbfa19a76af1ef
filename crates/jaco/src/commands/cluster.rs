//! `jaco cluster`

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jaco_client::Client;
use jaco_proto::v1::{
    ClusterStatusRequest, InitRequest, InitResponse, JoinClusterRequest, JoinClusterResponse,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::connect::secret_file;
use crate::error::CliError;
use crate::ui::{Frame, Show};
use crate::view::Said;
use crate::view::cluster::Cluster;

/// Make a cluster, join one, look at it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Init(Init),
    Join(Join),
    /// Show the cluster as one node knows it: leader, members, who votes
    Status,
}

/// Make a cluster of this machine's node
///
/// Asks the daemon of this machine over its socket. Prints the first operator token, which is shown
/// once and kept nowhere.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco cluster init --name prod --save-token ~/prod.token --ca-file ~/prod.crt")]
struct Init {
    /// What people call the cluster
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// Write the operator token to this new file, readable by you only, and do not print it
    #[arg(long = "save-token", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Write the cluster's CA certificate to this new file: who connects over the network needs it
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Make this machine's node a member of a cluster
///
/// Asks the daemon of this machine over its socket. The join token, made by `jaco token join` on a
/// member, comes from JACO_JOIN_TOKEN or from a file, never from the command line, where others on
/// the machine could see it. It carries the fingerprint of the cluster's CA: the member is verified
/// before anything is sent.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  JACO_JOIN_TOKEN=… jaco cluster join 10.0.0.1:7000
  jaco cluster join 10.0.0.1:7000 10.0.0.2:7000 --join-token-file -")]
struct Join {
    /// Members to ask, in this order until one answers
    #[arg(required = true, value_name = "HOST:PORT")]
    members: Vec<String>,
    /// A file with the join token, `-` for stdin [env: JACO_JOIN_TOKEN, the token]
    #[arg(long, value_name = "FILE")]
    join_token_file: Option<PathBuf>,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let client = context.client()?;
    match args.what {
        What::Init(args) => init(context, &client, &args).await,
        What::Join(args) => {
            let token = join_token(args.join_token_file.as_deref())?;
            let joined = join(&client, &args.members, &token).await?;
            let JoinClusterResponse { cluster_id, node_id } = joined;
            let json = json!({ "cluster_id": cluster_id, "node_id": node_id });
            let text = format!("joined cluster {cluster_id} as node {node_id}\n");
            context.done(&Said { json, text })
        }
        What::Status => {
            let status = client.status(ClusterStatusRequest {}).await?;
            context.done(&Cluster(&status))
        }
    }
}

async fn init(context: &mut Context, client: &Client, args: &Init) -> Done {
    // Made before the cluster is: a token that cannot be written would be lost.
    let token_file = args.token_file.as_deref().map(|path| create(path, 0o600)).transpose()?;
    let ca_file = args.ca_file.as_deref().map(|path| create(path, 0o644)).transpose()?;
    let made = match client.init(InitRequest { name: args.name.clone() }).await {
        Ok(made) => made,
        Err(error) => {
            for path in args.token_file.iter().chain(&args.ca_file) {
                // Empty and ours; what matters is the error.
                std::fs::remove_file(path).ok();
            }
            return Err(error.into());
        }
    };
    if let (Some(mut file), Some(path)) = (token_file, &args.token_file) {
        write(&mut file, path, &format!("{}\n", made.operator_token))?;
    }
    if let (Some(mut file), Some(path)) = (ca_file, &args.ca_file) {
        write(&mut file, path, &made.ca_certificate_pem)?;
    }
    context.done(&Made { made: &made, token_file: args.token_file.as_deref() })
}

fn create(path: &Path, mode: u32) -> Result<std::fs::File, CliError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.map_err(|error| CliError::local(format!("cannot make {}", path.display()), error))
}

fn write(file: &mut std::fs::File, path: &Path, text: &str) -> Result<(), CliError> {
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| CliError::local(format!("cannot write {}", path.display()), error))
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
            "set JACO_JOIN_TOKEN, or use --join-token-file; `jaco token join` on a member makes one",
        )),
        token => Ok(token.to_owned()),
    }
}

/// Joins by the first member that answers.
pub(crate) async fn join(
    client: &Client,
    members: &[String],
    token: &str,
) -> Result<JoinClusterResponse, CliError> {
    let mut last = None;
    for member in members {
        let request = JoinClusterRequest { server: member.clone(), token: token.to_owned() };
        match client.join_cluster(request).await {
            Ok(joined) => return Ok(joined),
            // The daemon answered that the member did not: the next one may.
            Err(error) if error.rejection().is_some_and(|no| no.code == ErrorCode::Unavailable) => {
                last = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(last.expect("at least one member is named").into())
}

struct Made<'a> {
    made: &'a InitResponse,
    /// Where the token went instead.
    token_file: Option<&'a Path>,
}

impl Show for Made<'_> {
    fn json(&self) -> Value {
        let made = self.made;
        let mut json = json!({
            "cluster_id": made.cluster_id,
            "name": made.name,
            "ca_certificate_pem": made.ca_certificate_pem,
        });
        match self.token_file {
            Some(path) => json["operator_token_file"] = path.display().to_string().into(),
            None => json["operator_token"] = made.operator_token.clone().into(),
        }
        json
    }

    fn text(&self, _: &Frame) -> String {
        let InitResponse { cluster_id, name, operator_token, .. } = self.made;
        let token = match self.token_file {
            Some(path) => format!("Operator token  in {}\n", path.display()),
            None => {
                format!("Operator token  {operator_token}\n                (shown once: keep it)\n")
            }
        };
        format!(
            "Cluster         {name} ({cluster_id})\n{token}\n\
             Let nodes in with `jaco token join`; run something with `jaco apply`.\n"
        )
    }
}
