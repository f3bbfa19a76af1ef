//! The node that is attacked, as attackers reach it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{Method, Request};
use jaco_pki::{DialedConnection, Dialer};
use tokio::net::{TcpSocket, TcpStream};

/// Pause after a refused connection: an attacker that only spun would measure its own processor.
const PAUSE: Duration = Duration::from_millis(10);

/// A node under attack. Cheap to clone.
#[derive(Clone)]
pub(super) struct Victim {
    pub(super) address: SocketAddr,
    pub(super) dialer: Dialer,
    /// What was sent so far, in units of the attack.
    pub(super) sent: Arc<AtomicU64>,
}

impl Victim {
    pub(super) fn count(&self, units: u64) {
        self.sent.fetch_add(units, Ordering::Relaxed);
    }

    /// A connected socket of one of several sources.
    pub(super) async fn socket(&self, source: u8) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        // Local ports are chosen with the destination, so that all sources have all of them.
        let local = IpAddr::V4(Ipv4Addr::new(127, 0, 0, source));
        socket.bind(SocketAddr::new(local, 0))?;
        Ok(socket.connect(self.address).await?)
    }

    /// A connection that has finished its handshake.
    pub(super) async fn tls(&self, source: u8) -> Result<DialedConnection> {
        let socket = self.socket(source).await?;
        Ok(self.dialer.over(socket).await?)
    }

    /// Does the same again and again, on a new connection each time.
    pub(super) async fn again<F: Future<Output = Result<()>>>(&self, once: impl Fn() -> F) {
        loop {
            if once().await.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Begins a call, as gRPC does. The message is the caller's to send.
pub(super) async fn call(
    sender: &SendRequest<Bytes>,
    method: &str,
    token: Option<&str>,
) -> Result<(ResponseFuture, SendStream<Bytes>)> {
    let mut sender = sender.clone().ready().await?;
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!("https://member.internal{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    Ok(sender.send_request(request.body(())?, false)?)
}
