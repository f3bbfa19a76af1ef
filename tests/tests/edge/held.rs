//! A connection of a client that stays.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpStream;

use crate::http::{echo, upgrade};

/// An upgraded connection through an edge, until it is dropped.
pub(crate) struct Held(TcpStream);

impl Held {
    /// Connects from a network namespace.
    pub(crate) async fn open(namespace: PathBuf, edge: SocketAddr) -> Self {
        let connecting = thread::spawn(move || {
            let file = File::open(namespace).expect("the namespace is there");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("it can be entered");
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
