//! `jaco port-forward`

mod carry;
mod forwarder;
mod ports;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use jaco_types::code::ExitCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

use self::forwarder::Forwarder;
use self::ports::Ports;
use crate::error::CliError;
use crate::output::{Frame, Show};
use crate::session::replica::Named;
use crate::session::{CommandResult, Session};

/// Connections at a time; further ones wait to be accepted. Of one that stalls, each machine on the way holds some MiB.
const CONNECTIONS_MAX: usize = 64;

/// Messages that wait to be printed.
const NOTES_MAX: usize = 64;

/// Forward ports of this machine to a replica's container
///
/// Listens on this machine, and carries each connection to the node that runs the replica and from there to
/// the container's address, through the cluster's own connections: the port need not be published, and the
/// container need not be reached from here. Runs until Ctrl-C.
///
/// Of a service, a running replica is chosen, and another one when that is gone. A replica that moves is
/// followed: connections that are open end, and the next ones go to its new node. A program that listens on
/// 127.0.0.1 in its container is not reached. Whoever can connect to the listening address on this machine
/// has the same access; that is 127.0.0.1 unless --address says otherwise.
///
/// It takes what `jaco exec` takes: the role, and a container that runs. The audit log records who forwarded
/// which port of which replica, once for each command and instance. 64 connections are carried at a time.
/// Over --server each ends after an hour.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco port-forward shop/db 5432                127.0.0.1:5432 to port 5432
  jaco port-forward shop/web/0 8080:80 9090
  jaco port-forward shop-web-1 :80              a free port, which is printed
  jaco port-forward shop/web 80 --address 0.0.0.0")]
pub(crate) struct Args {
    /// A service, or one replica of it
    #[arg(value_name = "DEPLOYMENT/SERVICE[/N]|REPLICA")]
    of: String,
    /// TCP port of the container, after the one of this machine if that is another: 8080:80; :80 takes a free one
    #[arg(value_name = "[LOCAL:]PORT", required = true)]
    ports: Vec<Ports>,
    /// Address of this machine to listen on
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    let named = Named::parse(&args.of);
    let replica = named.replica(&client).await?;
    // All are bound before any is announced: what cannot be listened on is found out first.
    let mut listening = Vec::new();
    for ports in &args.ports {
        let address = SocketAddr::new(args.address, ports.local);
        let failed = |error| CliError::local(format!("cannot listen on {address}"), error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        listening.push((listener, local, ports.container));
    }
    let (notes, mut told) = mpsc::channel(NOTES_MAX);
    let forwarder = Arc::new(Forwarder::new(client, named, replica, notes));
    for (_, local, port) in &listening {
        let place = forwarder.announce(*port).await?;
        let (replica, node) = (place.replica, place.node);
        let forwarded = Forwarded { local: *local, replica, node, port: *port };
        session.ui.item(&forwarded).map_err(CliError::Output)?;
    }
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    for (listener, _, port) in listening {
        tokio::spawn(Arc::clone(&forwarder).serve(listener, port, Arc::clone(&free)));
    }
    drop(forwarder);
    while let Some(note) = told.recv().await {
        session.ui.note(&note);
    }
    Ok(ExitCode::Converged)
}

/// A port of this machine that is forwarded.
struct Forwarded {
    local: SocketAddr,
    replica: String,
    node: String,
    port: u16,
}

impl Show for Forwarded {
    fn json(&self) -> Value {
        json!({
            "local": self.local.to_string(),
            "replica": self.replica,
            "node": self.node,
            "port": self.port,
        })
    }

    fn text(&self, _: &Frame) -> String {
        format!("{} → port {} of {} on {}\n", self.local, self.port, self.replica, self.node)
    }
}
