//! A connection of a client that stays.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use jaco_testkit::namespace;
use tokio::net::TcpStream;

use crate::http::{echo, upgrade};

/// An upgraded connection through an edge, until it is dropped.
pub(crate) struct Held(TcpStream);

impl Held {
    /// Connects from a network namespace.
    pub(crate) async fn open(outside: PathBuf, edge: SocketAddr) -> Self {
        let connecting = thread::spawn(move || {
            namespace::enter(&outside);
            std::net::TcpStream::connect(edge).expect("the edge listens")
        });
        let stream = connecting.join().expect("it connects");
        stream.set_nonblocking(true).expect("a socket can be used without blocking");
        let mut stream = TcpStream::from_std(stream).expect("there is a runtime");
        upgrade(&mut stream).await.expect("the service upgrades");
        Self(stream)
    }

    /// Sends a message, and gets it back.
    pub(crate) async fn answers(&mut self) {
        echo(&mut self.0).await.expect("it goes on");
    }
}
