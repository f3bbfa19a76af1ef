//! A TCP connection: joined with one to an instance, each direction closed when its sender closes it.

use std::io;
use std::net::SocketAddr;

use jaco_dataplane::edge::ProxyProtocol;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::backend::{Backend, Picked};
use crate::patience::Patience;
use crate::shared::Shared;
use crate::wire::proxy::{self, Carried};

/// So many instances are tried for a connection before it is looked whether there is time for more.
const ATTEMPTS_MAX: usize = 4;

/// Bytes that are on their way in each direction.
const BUFFER: usize = 16 * 1024;

/// Joins a connection with one to an instance until both ends have closed it, or the drain time of the instance ends.
pub(crate) async fn forward(
    shared: &Shared,
    backend: &Backend,
    proxy_protocol: ProxyProtocol,
    mut client: TcpStream,
    peer: SocketAddr,
) {
    let Some((picked, mut instance)) = connect(shared, backend).await else {
        tracing::debug!(%peer, "no instance takes the connection");
        reset(&client);
        return;
    };
    let mut released = picked.in_flight.released();
    let joined = async {
        if proxy_protocol == ProxyProtocol::V2 {
            let header = proxy::write(peer, client.local_addr()?, Carried::Stream);
            instance.write_all(&header).await?;
        }
        tokio::io::copy_bidirectional_with_sizes(&mut client, &mut instance, BUFFER, BUFFER).await
    };
    tokio::select! {
        ended = joined => if let Err(error) = ended {
            tracing::trace!(%error, %peer, "connection broke");
        },
        Ok(_) = released.wait_for(|released| *released) => {
            tracing::debug!(%peer, "connection closed: the drain time of its instance is over");
        }
    }
}

async fn connect(shared: &Shared, backend: &Backend) -> Option<(Picked, TcpStream)> {
    let limits = &shared.options.limits;
    let (mut tried, mut patience) = (Vec::new(), Patience::new(limits.connect_patience));
    loop {
        let next = if tried.len() < ATTEMPTS_MAX { backend.pick(&tried) } else { None };
        let Some(picked) = next else {
            if !patience.allows_more().await {
                return None;
            }
            tried.clear();
            continue;
        };
        match picked.upstream.connect(limits.connect_timeout).await {
            Ok(stream) => return Some((picked, stream)),
            Err(error) => {
                tracing::debug!(%error, instance = %picked.upstream.instance.id, "no connection");
                patience.note(&error);
                picked.upstream.eject(limits.ejection);
                tried.push(picked.upstream);
            }
        }
    }
}

/// Tells the client that nobody serves it, as a closed port does.
fn reset(client: &TcpStream) {
    let socket = socket2::SockRef::from(client);
    let set: io::Result<()> = socket.set_linger(Some(std::time::Duration::ZERO));
    if let Err(error) = set {
        tracing::trace!(%error, "the connection is closed in good order instead");
    }
}
