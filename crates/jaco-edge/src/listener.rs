//! Sockets: who comes in, and what they want. A connection is counted before its first byte is read.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use jaco_dataplane::edge::ListenerKey;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;

use crate::handshake::{Greeted, Spoken};
use crate::http::{Connection, serve};
use crate::l4::{forward_tcp, forward_udp};
use crate::rewound::Rewound;
use crate::shared::Shared;
use crate::view::Role;
use crate::wire::proxy::{self, Preamble};

/// What HTTP/2 in clear begins with.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// After an error of `accept` that is not about one connection: there are too many files, or too little memory.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// Takes the connections of a socket until it is told to stop.
pub(crate) async fn accept(
    shared: Arc<Shared>,
    key: ListenerKey,
    listener: Arc<TcpListener>,
    stop: CancellationToken,
) {
    if !comes_to_a_plan(&shared, &stop).await {
        return;
    }
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(permit) = shared.connections.enter(peer.ip()) else { continue };
                let one = Arc::clone(&shared);
                shared.tracker.spawn(async move {
                    let stopping = one.stopping.clone();
                    tokio::select! {
                        () = connect(one, key, stream, peer) => {}
                        () = stopping.cancelled() => {}
                    }
                    drop(permit);
                });
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, port = key.port, "connections are not accepted");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// Takes the datagrams of a socket until it is told to stop.
pub(crate) async fn receive(
    shared: Arc<Shared>,
    key: ListenerKey,
    socket: Arc<UdpSocket>,
    stop: CancellationToken,
) {
    if !comes_to_a_plan(&shared, &stop).await {
        return;
    }
    let rule = || match shared.view.load().listeners.get(&key) {
        Some(Role::Forward { backend, proxy_protocol }) => {
            Some((Arc::clone(backend), *proxy_protocol))
        }
        Some(Role::Http | Role::Https) | None => None,
    };
    tokio::select! {
        () = forward_udp(&shared, socket, rule) => {}
        () = stop.cancelled() => {}
    }
}

/// Waits for the first plan; `false` if it is told to stop before. A process that takes the place of another has sockets
/// before it knows what they are for: the other one, or this one later, serves who waits in them.
async fn comes_to_a_plan(shared: &Shared, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = shared.planned.cancelled() => true,
        () = stop.cancelled() => false,
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

async fn connect(shared: Arc<Shared>, key: ListenerKey, stream: TcpStream, peer: SocketAddr) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::trace!(%error, %peer, "connection broke before it began");
        return;
    }
    let role = shared.view.load().listeners.get(&key).cloned();
    let ended = match role {
        Some(Role::Forward { backend, proxy_protocol }) => {
            forward_tcp(&shared, &backend, proxy_protocol, stream, peer).await;
            Ok(())
        }
        Some(Role::Http) => serve_clear(shared, stream, peer).await,
        Some(Role::Https) => serve_tls(shared, stream, peer).await,
        None => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, port = key.port, "connection refused");
    }
}

async fn serve_clear(
    shared: Arc<Shared>,
    mut stream: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    let mut begin = BytesMut::new();
    let limit = shared.options.limits.head_timeout;
    let (client, protocol) = in_time(limit, async {
        let client = preamble(&shared, &mut stream, peer, &mut begin).await?;
        let protocol = spoken_in_clear(&mut stream, &mut begin).await?;
        Ok((client, protocol))
    })
    .await?;
    let connection = Connection::new(shared, peer, client, None);
    serve(stream, begin, protocol, connection).await;
    Ok(())
}

async fn serve_tls(shared: Arc<Shared>, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
    let mut begin = BytesMut::new();
    let limit = shared.options.limits.head_timeout;
    let client = in_time(limit, preamble(&shared, &mut stream, peer, &mut begin)).await?;
    let stream = Rewound::new(begin, stream);
    match shared.handshakes.greet(stream, client.ip()).await? {
        Greeted::Challenge => Ok(()),
        Greeted::Client { stream, host, protocol } => {
            let connection = Connection::new(shared, peer, client, Some(host));
            serve(*stream, BytesMut::new(), protocol, connection).await;
            Ok(())
        }
    }
}

/// Who the client is: whom a trusted peer names by the PROXY protocol, else the peer. Bytes after that are in `begin`.
async fn preamble(
    shared: &Shared,
    stream: &mut TcpStream,
    peer: SocketAddr,
    begin: &mut BytesMut,
) -> io::Result<SocketAddr> {
    if !shared.view.load().trusts(peer.ip()) {
        return Ok(peer);
    }
    loop {
        match proxy::read(begin) {
            Preamble::More => read_more(stream, begin).await?,
            Preamble::None => return Ok(peer),
            Preamble::Invalid => return Err(invalid("the header of the PROXY protocol is broken")),
            Preamble::Header { length, client } => {
                let _header = begin.split_to(length);
                return Ok(client.unwrap_or(peer));
            }
        }
    }
}

/// Which HTTP a client speaks that did not say so in a handshake.
async fn spoken_in_clear(
    stream: &mut (impl AsyncRead + Unpin),
    begin: &mut BytesMut,
) -> io::Result<Spoken> {
    loop {
        if begin.starts_with(HTTP2_PREFACE) {
            return Ok(Spoken::Http2);
        }
        if !HTTP2_PREFACE.starts_with(begin) {
            return Ok(Spoken::Http1);
        }
        read_more(stream, begin).await?;
    }
}

async fn read_more(stream: &mut (impl AsyncRead + Unpin), begin: &mut BytesMut) -> io::Result<()> {
    match stream.read_buf(begin).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn in_time<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the client says nothing");
    tokio::time::timeout(limit, future).await.map_err(late)?
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
