//! `jaco port-forward` for tests.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::binary::binary;
use crate::node::Node;

/// A `jaco port-forward` that runs; it ends when it is dropped.
#[derive(Debug)]
pub struct Forwarding {
    process: Child,
    /// The addresses, in the order of the ports.
    local: Vec<SocketAddr>,
    said: Receiver<String>,
}

impl Forwarding {
    /// Forwards free ports of this machine to these of a replica, by one node.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use]
    pub fn start(node: &Node, of: &str, ports: &[u16]) -> Self {
        let mut command = Command::new(binary("jaco"));
        command.args(["port-forward", of]).args(ports.iter().map(|port| format!(":{port}")));
        command.env("JACO_SOCKET", node.socket());
        command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("jaco can be started");
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let errors = BufReader::new(process.stderr.take().expect("a pipe"));
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok()
        });
        let mut address = || {
            let line = lines.next().map(|line| line.expect("text"));
            let line = line.unwrap_or_else(|| panic!("{:?}", said.iter().collect::<Vec<_>>()));
            let address = line.split(' ').next().and_then(|address| address.parse().ok());
            address.unwrap_or_else(|| panic!("no address in {line:?}"))
        };
        let local = ports.iter().map(|_| address()).collect();
        Self { process, local, said }
    }

    /// Connects to the port of this number, in their order.
    ///
    /// # Panics
    /// When nobody listens.
    #[must_use]
    pub fn connect(&self, number: usize) -> TcpStream {
        let stream = TcpStream::connect(self.local[number]).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is a socket");
        stream
    }

    /// Waits until this was said on stderr.
    ///
    /// # Panics
    /// When it was not within 30 s.
    pub fn says(&self, words: &str) {
        let mut all = Vec::new();
        while let Ok(line) = self.said.recv_timeout(Duration::from_secs(30)) {
            if line.contains(words) {
                return;
            }
            all.push(line);
        }
        panic!("no {words:?} in {all:?}");
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
