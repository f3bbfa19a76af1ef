//! `jaco dev up`

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_client::{Client, Target, fresh_request_id};
use jaco_proto::v1::{
    ClusterStatusRequest, ClusterStatusResponse, InitRequest, IssueJoinTokenRequest,
    JoinClusterRequest,
};
use jaco_types::ErrorCode;
use tokio::time::Instant;

use super::{Context, Done, Nodes, folder, load};
use crate::dev::layout::{self, Engine, NodeLayout};
use crate::dev::process::{self, POLL};
use crate::dev::record::{NodeRecord, Record};
use crate::error::CliError;
use crate::wait::interrupted;
use crate::when;

/// A daemon opens its socket in well under a second; a loaded machine may take some.
const SOCKET_LIMIT: Duration = Duration::from_secs(30);

/// From joined to ready: the engine has answered, the voters are changed.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// The join token is used at once.
const TOKEN_TTL_SECS: u64 = 600;

/// How often another network is tried when addresses are taken.
const ATTEMPTS: u8 = 16;

/// Start a cluster and wait until all its nodes are ready
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(layout::NODES_MAX)))]
    nodes: u8,
    /// What runs the containers
    #[arg(long, value_enum, default_value = "docker")]
    engine: Engine,
    /// The cluster's name; several can run side by side
    #[arg(long, default_value = "dev")]
    name: String,
    /// Where its data lies; below ~/.local/state/jaco/dev if left out
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The daemon's program; the one beside this program if left out [env: JACO_JACOD]
    #[arg(long, value_name = "FILE")]
    jacod: Option<PathBuf>,
}

pub(super) async fn run(context: &mut Context, args: &Args) -> Done {
    if load(&args.name)?.is_some() {
        let message = format!("there is a development cluster {} already", args.name);
        return Err(CliError::usage(
            message,
            format!("jaco dev down --name {} ends it", args.name),
        ));
    }
    let mut cluster = Cluster::lay_out(args)?;
    let brought_up = tokio::select! {
        biased;
        up = cluster.bring_up(context) => up,
        () = interrupted() => Err(CliError::Interrupted { message: "\nStopping what was started.".to_owned() }),
    };
    if let Err(error) = brought_up {
        cluster.take_down(context).await;
        return Err(error);
    }
    context.ui.note(&format!("To talk to it: eval \"$(jaco dev env --name {})\"", args.name));
    context.done(&Nodes(&cluster.record))
}

/// A cluster in the making.
struct Cluster {
    record: Record,
    layout: Vec<NodeLayout>,
    engine: Engine,
    program: PathBuf,
    /// Where the record lies.
    folder: PathBuf,
    begun: Instant,
}

impl Cluster {
    /// Decides where everything goes. Touches nothing but the addresses, to see whether they are free.
    fn lay_out(args: &Args) -> Result<Self, CliError> {
        let folder = folder(&args.name)?;
        let data = match &args.data {
            Some(data) => std::path::absolute(data)
                .map_err(|error| CliError::local("the data folder cannot be resolved", error))?,
            None => folder.clone(),
        };
        let layouts =
            (0..ATTEMPTS).map(|attempt| layout::nodes(&args.name, &data, args.nodes, attempt));
        let layout =
            layouts.into_iter().find(|nodes| nodes.iter().all(is_free)).ok_or_else(|| {
                let message =
                    format!("port {} is taken on every address that was tried", layout::PORT);
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
        Ok(Self { record, layout, engine: args.engine, program, folder, begun: Instant::now() })
    }

    async fn bring_up(&mut self, context: &mut Context) -> Result<(), CliError> {
        self.start(context)?;
        let clients: Vec<Client> = self
            .record
            .nodes
            .iter()
            .map(|node| Client::new(Target::socket(&node.socket)))
            .collect();
        for (node, client) in self.record.nodes.iter().zip(&clients) {
            await_daemon(node, client).await?;
        }
        self.say(context, "all daemons answer");
        let [first, others @ ..] = clients.as_slice() else { return Ok(()) };
        self.init(first).await?;
        self.say(context, "cluster made on n1");
        self.join(context, first, others).await?;
        let status = self.await_ready(first).await?;
        let ready = format!("{} nodes ready, {} of them vote", status.nodes.len(), voters(&status));
        self.say(context, &ready);
        Ok(())
    }

    fn start(&mut self, context: &mut Context) -> Result<(), CliError> {
        let failed = |what: String| move |error| CliError::local(what, error);
        for node in &self.layout {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&node.folder);
            made.map_err(failed(format!("cannot make {}", node.folder.display())))?;
            fs::write(node.config_path(), node.config(self.engine))
                .map_err(failed(format!("cannot write {}", node.config_path().display())))?;
        }
        self.save()?;
        for index in 0..self.record.nodes.len() {
            let started = process::start(&self.program, &mut self.record.nodes[index]);
            started.map_err(failed(format!("cannot start {}", self.program.display())))?;
            self.save()?;
        }
        let daemons = crate::error::count(self.record.nodes.len(), "daemon");
        self.say(context, &format!("{daemons} started, data in {}", self.record.data.display()));
        Ok(())
    }

    /// Makes the cluster, and keeps what lets an operator in over the network.
    async fn init(&self, first: &Client) -> Result<(), CliError> {
        let made = first.init(InitRequest { name: self.record.name.clone() }).await?;
        let keep = |name: &str, text: &str| {
            let path = self.record.data.join(name);
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
                .map_err(|error| CliError::local(format!("cannot write {}", path.display()), error))
        };
        keep("operator.token", &format!("{}\n", made.operator_token))?;
        keep("ca.crt", &made.ca_certificate_pem)
    }

    async fn join(
        &self,
        context: &mut Context,
        first: &Client,
        others: &[Client],
    ) -> Result<(), CliError> {
        if others.is_empty() {
            return Ok(());
        }
        let uses = u32::try_from(others.len()).expect("there are few nodes");
        let request = IssueJoinTokenRequest {
            ttl_secs: TOKEN_TTL_SECS,
            uses,
            request_id: fresh_request_id(),
        };
        let issued = first.issue_join_token(request).await?;
        for (node, client) in self.record.nodes.iter().skip(1).zip(others) {
            let server = self.record.nodes[0].address.clone();
            let request = JoinClusterRequest { server, token: issued.token.clone() };
            client.join_cluster(request).await?;
            self.say(context, &format!("{} joined", node.name));
        }
        Ok(())
    }

    async fn await_ready(&self, first: &Client) -> Result<ClusterStatusResponse, CliError> {
        let wanted = self.record.nodes.len();
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            let status = first.status(ClusterStatusRequest {}).await?;
            let ready = status.nodes.iter().filter(|node| node.status == "ready").count();
            if ready == wanted && voters(&status) == layout::voters(wanted) {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(not_ready(&status));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Stops and removes what was started, after showing what the daemons said last.
    async fn take_down(&self, context: &mut Context) {
        for node in &self.record.nodes {
            for line in process::last_lines(&node.log, 3) {
                context.ui.note(&format!("{}: {line}", node.name));
            }
        }
        process::stop(&self.record.nodes).await;
        if let Err(error) = remove(&self.record, &self.folder) {
            context
                .ui
                .note(&format!("warning: {} is not removed: {error}", self.record.data.display()));
        }
    }

    fn save(&self) -> Result<(), CliError> {
        let what = || format!("cannot write to {}", self.folder.display());
        self.record.save(&self.folder).map_err(|error| CliError::local(what(), error))
    }

    fn say(&self, context: &mut Context, text: &str) {
        context.ui.note(&format!("[{:>6}] {text}", when::elapsed(self.begun.elapsed())));
    }
}

/// Removes everything of a cluster, and of `--data` only what is ours.
pub(super) fn remove(record: &Record, folder: &Path) -> std::io::Result<()> {
    let ignore_absent = |done: std::io::Result<()>| match done {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    for node in &record.nodes {
        ignore_absent(fs::remove_dir_all(record.data.join(&node.name)))?;
    }
    for file in ["operator.token", "ca.crt"] {
        ignore_absent(fs::remove_file(record.data.join(file)))?;
    }
    // A folder that the user keeps other things in stays.
    fs::remove_dir(&record.data).ok();
    ignore_absent(fs::remove_dir_all(folder))
}

fn is_free(node: &NodeLayout) -> bool {
    TcpListener::bind(node.address).is_ok()
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

async fn await_daemon(node: &NodeRecord, client: &Client) -> Result<(), CliError> {
    let deadline = Instant::now() + SOCKET_LIMIT;
    loop {
        let Err(error) = client.status(ClusterStatusRequest {}).await else { return Ok(()) };
        let ended = !process::is_running(node);
        if ended || Instant::now() > deadline {
            let what = if ended { "ended" } else { "does not answer" };
            return Err(CliError::Outcome {
                code: ErrorCode::Unavailable,
                message: format!("the daemon of {} {what}", node.name),
                because: match ended {
                    true => process::last_lines(&node.log, 5),
                    false => vec![error.to_string()],
                },
                help: vec![format!("its program is named with --jacod or JACO_JACOD")],
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
        message: format!("not all nodes are ready after {}", when::elapsed(READY_LIMIT)),
        because: status.nodes.iter().map(state).map(|line| line.trim_end().to_owned()).collect(),
        help: vec!["a node is ready once its container engine answers".to_owned()],
    }
}
