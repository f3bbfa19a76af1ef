//! Serves a plan on a port until Enter is pressed: `cargo run -p jaco-edge --example serve -- 127.0.0.1:8080`.
//!
//! The plan is empty, so each connection is closed: a plan with listeners and routes comes from the state of a cluster.
#![allow(clippy::print_stdout, reason = "an example's output is its purpose")]

use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use jaco_dataplane::edge::{EdgePlan, ListenerKey, Transport};
use jaco_edge::{Certificates, Edge, Options};
use jaco_types::StateIndex;

/// How long requests may take to end once the edge is told to.
const DRAIN: Duration = Duration::from_secs(30);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address: SocketAddr =
        std::env::args().nth(1).ok_or("give an address as IP:port")?.parse()?;
    let edge = Edge::new(Options::default())?;
    let key = ListenerKey { transport: Transport::Tcp, address: None, port: address.port() };
    edge.add_listener(key, TcpListener::bind(address)?)?;
    edge.apply(StateIndex(1), Arc::new(EdgePlan::default()), Arc::new(Certificates::default()));
    println!("serving on {address}; end with Enter");
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    edge.drain(DRAIN).await;
    Ok(())
}
