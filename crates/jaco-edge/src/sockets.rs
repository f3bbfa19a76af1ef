//! The sockets that an edge was handed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

use jaco_dataplane::edge::ListenerKey;
use tokio_util::sync::CancellationToken;

use crate::l4::tell_destinations;
use crate::listener;
use crate::shared::Shared;

/// A socket that is bound and, if it is for TCP, listens.
#[derive(Debug)]
pub enum Socket {
    /// For connections.
    Tcp(TcpListener),
    /// For datagrams.
    Udp(UdpSocket),
}

impl From<TcpListener> for Socket {
    fn from(socket: TcpListener) -> Self {
        Self::Tcp(socket)
    }
}

impl From<UdpSocket> for Socket {
    fn from(socket: UdpSocket) -> Self {
        Self::Udp(socket)
    }
}

/// The sockets that are served.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Mutex<BTreeMap<ListenerKey, Served>>);

/// A socket, and what ends its service.
#[derive(Debug)]
struct Served {
    socket: Open,
    stop: CancellationToken,
}

#[derive(Debug)]
enum Open {
    Tcp(Arc<tokio::net::TcpListener>),
    Udp(Arc<tokio::net::UdpSocket>),
}

impl Sockets {
    /// Serves a socket. One that was there under the same key is served no more.
    ///
    /// # Errors
    /// If the edge is ending, or the socket cannot be used without blocking.
    pub(crate) fn serve(
        &self,
        shared: &Arc<Shared>,
        key: ListenerKey,
        socket: Socket,
    ) -> io::Result<()> {
        let stop = shared.draining.child_token();
        if stop.is_cancelled() {
            return Err(io::Error::other("the edge is ending: it takes no sockets"));
        }
        let (acceptors, shared) = (&shared.acceptors, Arc::clone(shared));
        let socket = match socket {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                let socket = Arc::new(tokio::net::TcpListener::from_std(socket)?);
                acceptors.spawn(listener::accept(shared, key, Arc::clone(&socket), stop.clone()));
                Open::Tcp(socket)
            }
            Socket::Udp(socket) => {
                socket.set_nonblocking(true)?;
                let socket = Arc::new(tokio::net::UdpSocket::from_std(socket)?);
                tell_destinations(&socket)?;
                acceptors.spawn(listener::receive(shared, key, Arc::clone(&socket), stop.clone()));
                Open::Udp(socket)
            }
        };
        if let Some(former) = self.served().insert(key, Served { socket, stop }) {
            former.stop.cancel();
        }
        Ok(())
    }

    /// Serves a socket no more.
    pub(crate) fn remove(&self, key: &ListenerKey) {
        if let Some(served) = self.served().remove(key) {
            served.stop.cancel();
        }
    }

    /// Serves none any more.
    pub(crate) fn clear(&self) {
        for served in std::mem::take(&mut *self.served()).into_values() {
            served.stop.cancel();
        }
    }

    pub(crate) fn keys(&self) -> BTreeSet<ListenerKey> {
        self.served().keys().copied().collect()
    }

    /// Each socket once more: both are ends of the same queue.
    ///
    /// # Errors
    /// If the process has too many files.
    pub(crate) fn duplicates(&self) -> io::Result<Vec<(ListenerKey, Socket)>> {
        let duplicate = |(key, served): (&ListenerKey, &Served)| {
            let socket = match &served.socket {
                Open::Tcp(socket) => Socket::Tcp(socket.as_fd().try_clone_to_owned()?.into()),
                Open::Udp(socket) => Socket::Udp(socket.as_fd().try_clone_to_owned()?.into()),
            };
            Ok((*key, socket))
        };
        self.served().iter().map(duplicate).collect()
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<ListenerKey, Served>> {
        self.0.lock().expect("nothing panics while it holds the lock")
    }
}
