//! `jaco context`

use std::io;
use std::path::{Path, PathBuf};

use jaco_pki::ca::certificate_pem;
use serde_json::{Value, json};

use crate::connect::{
    Cluster, ContextFolder, Contexts, client_certificate, is_context_name, load_contexts,
    parse_token, save_contexts, secret_file, trust,
};
use crate::error::CliError;
use crate::format::table::Table;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::Summary;
use crate::view::json::without_null;

/// Manage contexts: named clusters
///
/// Contexts are stored in ~/.config/jaco/config.toml, with copies of the certificates and the token in
/// ~/.config/jaco/contexts/NAME (0600). The members of the cluster are learned from its answers: a
/// context works as long as one of them is reachable.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco context set prod --servers 10.0.0.1:7000,10.0.0.2:7000 --ca ~/prod.crt --token ~/prod.token
  jaco context use prod
  jaco --context staging status")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the contexts
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco context ls
  jaco context ls -o json"
    )]
    Ls,
    /// Show one context [default: the current one]
    #[command(
        aliases = ["show", "inspect"],
        after_long_help = "Examples:
  jaco context get
  jaco context get prod"
    )]
    Get {
        /// The context's name
        name: Option<String>,
    },
    Set(Set),
    /// Select the current context
    #[command(after_long_help = "Examples:
  jaco context use prod")]
    Use {
        /// The context's name
        name: String,
    },
    /// Remove a context, with its copies of the certificate and the token
    #[command(
        visible_alias = "remove",
        alias = "delete",
        after_long_help = "Examples:
  jaco context rm staging"
    )]
    Rm {
        /// The context's name
        name: String,
    },
}

/// Add or replace a context
///
/// The first context becomes the current one. The certificates, the token and the key are copied: their
/// files are not needed afterwards.
#[derive(Debug, clap::Args)]
#[command(
    aliases = ["add", "create"],
    after_long_help = "Examples:
  jaco context set prod --servers 10.0.0.1:7000,10.0.0.2:7000 --ca ~/prod.crt --token ~/prod.token
  jaco context set prod --servers 10.0.0.1:7000 --ca prod.crt --certificate ann.crt --key ann.key
  jaco context set local --unix /run/jaco/jaco.sock"
)]
struct Set {
    /// The context's name
    name: String,
    /// Nodes of the cluster
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        required_unless_present = "unix",
        conflicts_with = "unix",
        requires = "ca"
    )]
    servers: Vec<String>,
    /// The cluster's CA certificate, PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A file with the operator token, which only its owner can read; `-` for stdin
    #[arg(long = "token", value_name = "FILE")]
    token: Option<PathBuf>,
    /// A client certificate instead of a token, PEM
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "token")]
    certificate: Option<PathBuf>,
    /// The private key of the certificate, PEM, which only its owner can read
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The unix socket of a daemon on this machine, instead of servers
    #[arg(long = "unix", value_name = "PATH")]
    unix: Option<PathBuf>,
}

pub(crate) fn run(session: &mut Session, args: Args) -> CommandResult {
    let mut contexts = load_contexts()?;
    match args.action {
        Action::Ls => session.done(&Listing(&contexts)),
        Action::Get { name } => {
            let name = name.or(contexts.current.clone()).ok_or_else(|| {
                CliError::usage("there is no current context", "jaco context use NAME selects one")
            })?;
            let cluster = find(&contexts, &name)?;
            session.done(&SingleContext { name: &name, cluster })
        }
        Action::Use { name } => {
            find(&contexts, &name)?;
            contexts.current = Some(name.clone());
            save_contexts(&contexts)?;
            done(session, &name, "current")
        }
        Action::Set(set) => {
            let (name, cluster) = cluster(set)?;
            contexts.contexts.insert(name.clone(), cluster);
            contexts.current.get_or_insert_with(|| name.clone());
            save_contexts(&contexts)?;
            done(session, &name, "added")
        }
        Action::Rm { name } => {
            find(&contexts, &name)?;
            contexts.contexts.remove(&name);
            if is_context_name(&name) {
                folder(&name)?.remove().map_err(not_kept)?;
            }
            contexts.current = contexts.current.filter(|current| *current != name);
            save_contexts(&contexts)?;
            done(session, &name, "removed")
        }
    }
}

fn done(session: &mut Session, name: &str, outcome: &str) -> CommandResult {
    let json = json!({ "context": name, "outcome": outcome });
    session.done(&Summary { json, text: format!("context {name} {outcome}\n") })
}

fn find<'c>(contexts: &'c Contexts, name: &str) -> Result<&'c Cluster, CliError> {
    contexts.contexts.get(name).ok_or_else(|| {
        CliError::usage(
            format!("there is no context {name:?}"),
            "jaco context ls lists the contexts",
        )
    })
}

/// The context, with copies of its files. The path of a socket is made absolute: a context is used from any
/// directory.
fn cluster(set: Set) -> Result<(String, Cluster), CliError> {
    if !is_context_name(&set.name) {
        let message = format!("{:?} cannot be the name of a context", set.name);
        return Err(CliError::usage(message, "use at most 64 letters, digits, -, _ and ."));
    }
    let socket = set.unix.as_deref().map(std::path::absolute).transpose();
    let socket = socket
        .map_err(|error| CliError::local("the path of the socket cannot be resolved", error))?;
    // All is read before anything is replaced.
    let ca = set.ca.as_deref().map(trust).transpose()?;
    let token = set.token.as_deref().map(secret_file).transpose()?;
    token.as_deref().map(parse_token).transpose()?;
    let certificate = match (&set.certificate, &set.key) {
        (Some(certificate), Some(key)) => Some(client_certificate(certificate, key)?),
        (_, _) => None,
    };
    let folder = folder(&set.name)?;
    // What is known of the cluster that had this name before is not true of this one.
    folder.remove().map_err(not_kept)?;
    let ca = ca.map(|(pem, _)| folder.keep_ca(&pem)).transpose().map_err(not_kept)?;
    let token_file = token.map(|text| folder.keep_token(&text)).transpose().map_err(not_kept)?;
    let (certificate, key) = match certificate {
        Some(credentials) => {
            let pem = certificate_pem(credentials.certificate().der());
            let key = folder.keep_key(&credentials.key().to_pem()).map_err(not_kept)?;
            (Some(folder.keep_certificate(&pem).map_err(not_kept)?), Some(key))
        }
        None => (None, None),
    };
    let servers = set.servers;
    Ok((set.name, Cluster { socket, servers, ca, token_file, certificate, key }))
}

fn folder(context: &str) -> Result<ContextFolder, CliError> {
    ContextFolder::of(context).ok_or_else(|| {
        CliError::usage("there is no directory for contexts", "set HOME or XDG_CONFIG_HOME")
    })
}

fn not_kept(error: io::Error) -> CliError {
    CliError::local("the files of the context cannot be changed", error)
}

struct Listing<'a>(&'a Contexts);

impl Show for Listing<'_> {
    fn json(&self) -> Value {
        let item = |(name, cluster): (&String, &Cluster)| {
            let mut json = json(name, cluster);
            json["current"] = (self.0.current.as_ref() == Some(name)).into();
            json
        };
        self.0.contexts.iter().map(item).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["CONTEXT", "CURRENT", "CLUSTER"]);
        for (name, cluster) in &self.0.contexts {
            let current = if self.0.current.as_ref() == Some(name) { "yes" } else { "" };
            table.row([name.clone(), current.to_owned(), address(cluster)]);
        }
        table.render()
    }
}

fn address(cluster: &Cluster) -> String {
    match &cluster.socket {
        Some(path) => path.display().to_string(),
        None => cluster.servers.join(","),
    }
}

struct SingleContext<'a> {
    name: &'a str,
    cluster: &'a Cluster,
}

impl Show for SingleContext<'_> {
    fn json(&self) -> Value {
        json(self.name, self.cluster)
    }

    fn text(&self, _: &Frame) -> String {
        crate::format::yaml::to_yaml(&self.json())
    }
}

fn json(name: &str, cluster: &Cluster) -> Value {
    let text = |path: &Option<PathBuf>| path.as_deref().map(Path::display).map(|p| p.to_string());
    without_null(json!({
        "name": name,
        "socket": text(&cluster.socket),
        "servers": cluster.servers,
        "ca": text(&cluster.ca),
        "token_file": text(&cluster.token_file),
        "certificate": text(&cluster.certificate),
        "key": text(&cluster.key),
    }))
}
