//! Where the connections of one command go: to the replica, or its successor.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jaco_client::{Client, ClientError, Forward, fresh_request_id};
use jaco_proto::v1::ForwardStart;
use jaco_proto::v1::forward_output::Output;
use jaco_types::ErrorCode;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use super::carry::carry;
use crate::error::CliError;
use crate::session::replica::Named;

/// The pause after a failure to accept, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where connections lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) replica: String,
    /// Its node; empty before it is known.
    pub(super) node: String,
}

/// What a connection is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Connect,
    Announce,
}

/// Opens the connections of one command.
#[derive(Debug)]
pub(super) struct Forwarder {
    client: Client,
    named: Named,
    /// Makes all connections one event in the audit log.
    session: Vec<u8>,
    place: Mutex<Place>,
    /// What the user is told.
    notes: mpsc::Sender<String>,
}

impl Forwarder {
    pub(super) fn new(
        client: Client,
        named: Named,
        replica: String,
        notes: mpsc::Sender<String>,
    ) -> Self {
        let place = Mutex::new(Place { replica, node: String::new() });
        Self { client, named, session: fresh_request_id().into_bytes(), place, notes }
    }

    /// Finds out whether a port may be forwarded, and where it leads.
    ///
    /// # Errors
    /// The refusal of the cluster.
    pub(super) async fn announce(&self, port: u16) -> Result<Place, CliError> {
        self.open(port, Purpose::Announce).await?;
        Ok(self.place())
    }

    /// Accepts connections for ever.
    pub(super) async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        port: u16,
        free: Arc<Semaphore>,
    ) {
        loop {
            let permit = Arc::clone(&free).acquire_owned().await;
            let permit = permit.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok((stream, _)) => {
                    let forwarder = Arc::clone(&self);
                    tokio::spawn(async move {
                        forwarder.connection(stream, port).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    self.tell(format!("warning: no connection is accepted: {error}")).await;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(&self, mut stream: TcpStream, port: u16) {
        // What is forwarded is often typed.
        stream.set_nodelay(true).ok();
        let carried = match self.open(port, Purpose::Connect).await {
            Ok(forward) => carry(&mut stream, forward).await,
            Err(error) => Err(error),
        };
        if let Err(error) = carried {
            // Whoever is connected must not take this for the end that the container meant.
            reset(&stream).ok();
            self.tell(format!("warning: a connection to port {port} was lost: {error}")).await;
        }
    }

    /// Opens a connection to the replica; of a service, to another one if that is gone.
    async fn open(&self, port: u16, purpose: Purpose) -> Result<Forward, CliError> {
        let first = self.ask(&self.place().replica, port, purpose).await;
        let gone = [ErrorCode::ReplicaNotFound, ErrorCode::ReplicaNotRunning];
        match (first, &self.named) {
            (Err(ClientError::Refused(refusal)), Named::Service { .. })
                if gone.contains(&refusal.code) =>
            {
                let other = self.named.replica(&self.client).await?;
                Ok(self.ask(&other, port, purpose).await?)
            }
            (first, _) => Ok(first?),
        }
    }

    async fn ask(
        &self,
        replica: &str,
        port: u16,
        purpose: Purpose,
    ) -> Result<Forward, ClientError> {
        let purpose = match purpose {
            Purpose::Connect => "connect",
            Purpose::Announce => "announce",
        };
        let start = ForwardStart {
            replica: replica.to_owned(),
            port: port.into(),
            session: self.session.clone().into(),
            purpose: purpose.to_owned(),
        };
        let mut forward = self.client.forward(start).await?;
        if let Some(Output::Started(started)) = forward.next().await?.and_then(|it| it.output) {
            let place = Place { replica: started.replica, node: started.node };
            self.arrive(place).await;
        }
        Ok(forward)
    }

    /// Remembers where connections lead now, and says so if that is another place than before.
    async fn arrive(&self, place: Place) {
        let before = std::mem::replace(
            &mut *self.place.lock().expect("no holder of the lock panics"),
            place.clone(),
        );
        if before == place || before.node.is_empty() {
            return;
        }
        let Place { replica, node } = place;
        let text = match before.replica == replica {
            true => format!("{replica} has moved to {node}: connections go there now"),
            false => {
                format!("{} is gone: connections go to {replica} on {node} now", before.replica)
            }
        };
        self.tell(text).await;
    }

    fn place(&self) -> Place {
        self.place.lock().expect("no holder of the lock panics").clone()
    }

    async fn tell(&self, note: String) {
        // The command ends with whoever reads it.
        self.notes.send(note).await.ok();
    }
}

/// Has the connection end with a reset when it is closed.
fn reset(stream: &TcpStream) -> io::Result<()> {
    stream.set_zero_linger()
}
