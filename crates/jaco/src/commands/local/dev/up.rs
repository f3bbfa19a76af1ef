//! `jaco dev up`

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use jaco_client::{Client, Target};
use jaco_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, InitNetworks, InitRequest, InitResponse,
    IssueJoinTokenRequest, JoinClusterRequest,
};
use jaco_types::{ErrorCode, voter_target};
use rustix::process::{Uid, geteuid};
use tokio::time::Instant;

use super::cluster::{Nodes, folder, load, other_with_router, remove};
use crate::dev::layout::{self, Engine, NodeLayout};
use crate::dev::process::{self, POLL};
use crate::dev::record::{NodeRecord, Record};
use crate::error::CliError;
use crate::format::time;
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};

/// The pool of networks, as in `jaco cluster init`.
const POOL_DEFAULT: &str = "10.64.0.0/12";

/// The MTU of containers, as in `jaco cluster init`.
const MTU_DEFAULT: u16 = 1420;

/// A daemon opens its socket in well under a second, except on a loaded machine.
const SOCKET_LIMIT: Duration = Duration::from_secs(30);

/// From joined to ready: the engine must answer, and the voters are changed.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The validity of the join token, which is used at once.
const TOKEN_TTL_SECS: u64 = 600;

/// The number of networks that are tried if addresses are in use.
const ATTEMPTS: u8 = 16;

/// Start a development cluster and wait until it is ready
///
/// Networks are the cluster's, as after `jaco cluster init`: services reach each other by name on all nodes.
/// That takes root and `nft`, and one cluster on a machine can have it; else the cluster is started without,
/// and says why.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco dev up
  jaco dev up --nodes 5 --name blue
  jaco dev up --engine fake        without containers
  jaco dev up --no-network         networks of each node, as with Docker alone")]
pub(super) struct Args {
    /// Number of nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(layout::NODES_MAX)))]
    nodes: u8,
    /// The container engine; docker is the one of DOCKER_HOST, if that is set
    #[arg(long, value_enum, default_value = "docker")]
    engine: Engine,
    /// The cluster's name; several clusters can run at the same time
    #[arg(long, default_value = "dev")]
    name: String,
    /// The folder for its data [default: below ~/.local/state/jaco/dev]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The daemon's program [default: the one beside this program] [env: JACO_JACOD]
    #[arg(long, value_name = "FILE")]
    jacod: Option<PathBuf>,
    /// The IPv4 prefix of 8 to 15 bits that all subnets are taken from, used by nothing else
    #[arg(long, value_name = "PREFIX", default_value = POOL_DEFAULT)]
    pool: String,
    /// Leave networks to each node: services on different nodes do not reach each other
    #[arg(long, conflicts_with = "pool")]
    no_network: bool,
}

pub(super) async fn run(session: &mut Session, args: &Args) -> CommandResult {
    if load(&args.name)?.is_some() {
        let message = format!("there already is a development cluster {}", args.name);
        return Err(CliError::usage(
            message,
            format!("jaco dev down --name {} stops it", args.name),
        ));
    }
    let mut cluster = StartingCluster::lay_out(args)?;
    let brought_up = tokio::select! {
        biased;
        up = cluster.bring_up(session) => up,
        () = interrupted() => Err(CliError::Interrupted { message: "\nStopping the started nodes.".to_owned() }),
    };
    if let Err(error) = brought_up {
        cluster.take_down(session).await;
        return Err(error);
    }
    session.ui.note(&format!("To connect to it: eval \"$(jaco dev env --name {})\"", args.name));
    session.done(&Nodes(&cluster.record))
}

/// A cluster that is being started.
struct StartingCluster {
    record: Record,
    layout: Vec<NodeLayout>,
    engine: Engine,
    /// The pool of its networks, if they are to be the cluster's.
    pool: Option<String>,
    program: PathBuf,
    /// The folder of the record.
    folder: PathBuf,
    begun: Instant,
}

impl StartingCluster {
    /// Chooses addresses and folders. Only checks that the addresses are free.
    fn lay_out(args: &Args) -> Result<Self, CliError> {
        let folder = folder(&args.name)?;
        let data = match &args.data {
            Some(data) => std::path::absolute(data)
                .map_err(|error| CliError::local("cannot resolve the data folder", error))?,
            None => folder.clone(),
        };
        let layouts =
            (0..ATTEMPTS).map(|attempt| layout::nodes(&args.name, &data, args.nodes, attempt));
        let layout =
            layouts.into_iter().find(|nodes| nodes.iter().all(is_free)).ok_or_else(|| {
                let message =
                    format!("port {} is in use on all addresses that were tried", layout::PORT);
                CliError::usage(message, "choose another --name")
            })?;
        layout::check(&args.name, &layout)
            .map_err(|(message, help)| CliError::usage(message, help))?;
        let named =
            args.jacod.clone().or_else(|| std::env::var_os("JACO_JACOD").map(PathBuf::from));
        let record = Record {
            name: args.name.clone(),
            engine: args.engine.as_str().to_owned(),
            data,
            nodes: layout.iter().map(node_record).collect(),
        };
        let program = process::program(named.as_deref());
        let has_networks = args.engine == Engine::Docker && !args.no_network;
        let pool = has_networks.then(|| args.pool.clone());
        let begun = Instant::now();
        Ok(Self { record, layout, engine: args.engine, pool, program, folder, begun })
    }

    async fn bring_up(&mut self, session: &mut Session) -> Result<(), CliError> {
        self.start(session)?;
        let clients: Vec<Client> = self
            .record
            .nodes
            .iter()
            .map(|node| Client::new(Target::socket(&node.socket)))
            .collect();
        for (node, client) in self.record.nodes.iter().zip(&clients) {
            await_daemon(node, client).await?;
        }
        self.note(session, "all daemons answer");
        let [first, others @ ..] = clients.as_slice() else { return Ok(()) };
        let other = self.pool.as_ref().and_then(|_| other_with_router(&self.record.name));
        let pool = self.pool.clone().filter(|_| other.is_none());
        let made = self.init(first, pool).await?;
        self.note(session, "cluster created on n1");
        if let Some(why) = without_networks(&made, other.as_deref(), geteuid()) {
            session.ui.note(&format!(
                "warning: services on different nodes do not reach each other: {why}"
            ));
        }
        self.join(session, first, others).await?;
        let status = self.await_ready(first).await?;
        let ready =
            match (crate::format::quantity::count(status.nodes.len(), "node"), voters(&status)) {
                (nodes, 1) => format!("{nodes} ready, 1 of them a voter"),
                (nodes, voters) => format!("{nodes} ready, {voters} of them voters"),
            };
        self.note(session, &ready);
        Ok(())
    }

    fn start(&mut self, session: &mut Session) -> Result<(), CliError> {
        let failed = |what: String| move |error| CliError::local(what, error);
        let docker_host = std::env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        for node in &self.layout {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&node.folder);
            made.map_err(failed(format!("cannot create {}", node.folder.display())))?;
            let config = node.config(self.engine, docker_host.as_deref());
            fs::write(node.config_path(), config)
                .map_err(failed(format!("cannot write {}", node.config_path().display())))?;
        }
        self.save()?;
        for index in 0..self.record.nodes.len() {
            let started = process::start(&self.program, &mut self.record.nodes[index]);
            started.map_err(failed(format!("cannot start {}", self.program.display())))?;
            self.save()?;
        }
        let daemons = crate::format::quantity::count(self.record.nodes.len(), "daemon");
        self.note(session, &format!("{daemons} started, data in {}", self.record.data.display()));
        Ok(())
    }

    /// Creates the cluster, and saves the credentials for connections over the network.
    async fn init(&self, first: &Client, pool: Option<String>) -> Result<InitResponse, CliError> {
        let networks = pool.map(|pool| InitNetworks { pool, mtu: MTU_DEFAULT.into() });
        let made = first.init(InitRequest { name: self.record.name.clone(), networks }).await?;
        let save = |name: &str, text: &str| {
            let path = self.record.data.join(name);
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|error| CliError::local(format!("cannot write {}", path.display()), error))
        };
        save("operator.token", &format!("{}\n", made.operator_token))?;
        save("ca.crt", &made.ca_certificate_pem)?;
        Ok(made)
    }

    async fn join(
        &self,
        session: &mut Session,
        first: &Client,
        others: &[Client],
    ) -> Result<(), CliError> {
        if others.is_empty() {
            return Ok(());
        }
        let uses = u32::try_from(others.len()).expect("there are few nodes");
        let request = IssueJoinTokenRequest { ttl_secs: TOKEN_TTL_SECS, uses };
        let issued = first.issue_join_token(request).await?;
        for (node, client) in self.record.nodes.iter().skip(1).zip(others) {
            let server = self.record.nodes[0].address.clone();
            let request = JoinClusterRequest { server, token: issued.token.clone() };
            client.join_cluster(request).await?;
            self.note(session, &format!("{} joined", node.name));
        }
        Ok(())
    }

    async fn await_ready(&self, first: &Client) -> Result<ClusterStatusResponse, CliError> {
        let wanted = self.record.nodes.len();
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            let status = first.status(ClusterStatusRequest {}).await?;
            let ready = status.nodes.iter().filter(|node| node.status == "ready").count();
            if ready == wanted && voters(&status) == voter_target(wanted) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(not_ready(&status));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Stops the daemons and removes their files, after printing their last log lines.
    async fn take_down(&self, session: &mut Session) {
        for node in &self.record.nodes {
            for line in process::last_lines(&node.log, 3) {
                session.ui.note(&format!("{}: {line}", node.name));
            }
        }
        process::stop(&self.record.nodes).await;
        if let Err(error) = remove(&self.record, &self.folder).await {
            session
                .ui
                .note(&format!("warning: cannot remove {}: {error}", self.record.data.display()));
        }
    }

    fn save(&self) -> Result<(), CliError> {
        let what = || format!("cannot write to {}", self.folder.display());
        self.record.save(&self.folder).map_err(|error| CliError::local(what(), error))
    }

    fn note(&self, session: &mut Session, text: &str) {
        session.ui.note(&format!("[{:>6}] {text}", time::elapsed(self.begun.elapsed())));
    }
}

/// Why networks are not the cluster's although that was asked for, and what to do.
fn without_networks(made: &InitResponse, other: Option<&str>, user: Uid) -> Option<String> {
    if let Some(other) = other {
        return Some(format!(
            "the development cluster {other} has the networks of this machine's engine; jaco dev down --name {other}, \
             then start this one again"
        ));
    }
    let refused = Some(&made.networks_refused).filter(|why| !why.is_empty())?;
    let next = match user.is_root() {
        true => "once that is solved: jaco dev down, jaco dev up",
        false => "only root can have one: jaco dev down, then run jaco dev up as root",
    };
    Some(format!("no router works on this machine: {refused}; {next}"))
}

fn is_free(node: &NodeLayout) -> bool {
    let tunnel = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, node.router.port);
    TcpListener::bind(node.address).is_ok() && UdpSocket::bind(tunnel).is_ok()
}

fn node_record(node: &NodeLayout) -> NodeRecord {
    NodeRecord {
        name: node.name.clone(),
        address: node.address.to_string(),
        socket: node.socket(),
        config: node.config_path(),
        log: node.log(),
        pid: None,
    }
}

pub(super) async fn await_daemon(node: &NodeRecord, client: &Client) -> Result<(), CliError> {
    let deadline = Instant::now() + SOCKET_LIMIT;
    loop {
        let Err(error) = client.status(ClusterStatusRequest {}).await else { return Ok(()) };
        let ended = !process::is_running(node);
        if ended || Instant::now() > deadline {
            let state = if ended { "has exited" } else { "does not answer" };
            return Err(CliError::Outcome {
                code: ErrorCode::Unavailable,
                message: format!("the daemon of {} {state}", node.name),
                because: match ended {
                    true => process::last_lines(&node.log, 5),
                    false => vec![error.to_string()],
                },
                help: vec!["--jacod or JACO_JACOD selects its program".to_owned()],
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

fn voters(status: &ClusterStatusResponse) -> usize {
    status.nodes.iter().filter(|node| node.suffrage == "voter").count()
}

fn not_ready(status: &ClusterStatusResponse) -> CliError {
    let state = |node: &jaco_proto::v1::NodeInfo| {
        format!("{}: {}, {} {}", node.hostname, node.status, node.suffrage, node.status_reason)
    };
    CliError::Outcome {
        code: ErrorCode::TimedOut,
        message: format!("not all nodes are ready after {}", time::elapsed(READY_LIMIT)),
        because: status.nodes.iter().map(state).map(|line| line.trim_end().to_owned()).collect(),
        help: vec!["a node is ready when its container engine answers".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_networks_says_why_and_what_to_do() {
        let refused =
            |why: &str| InitResponse { networks_refused: why.to_owned(), ..Default::default() };
        let says =
            |why: &str, other, user| without_networks(&refused(why), other, Uid::from_raw(user));
        assert_eq!(says("", None, 0), None);
        let check = |said: Option<String>, words: &[&str]| {
            let said = said.unwrap();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        };
        check(says("nft cannot be run", None, 0), &["nft cannot be run", "once that is solved"]);
        check(says("not permitted", None, 7), &["not permitted", "only root", "jaco dev up"]);
        check(says("", Some("blue"), 0), &["cluster blue", "jaco dev down --name blue"]);
    }
}
