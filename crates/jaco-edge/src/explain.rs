//! What a request for a host and a path would meet now: the lookup that requests go through, and a connection to each
//! instance, without a request.

use std::io;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use jaco_types::{InstanceId, RouteKey};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::upstream::Upstream;
use crate::view::{ReadyAction, View};
use crate::wire::host::normalize_host;
use crate::wire::path::normalize_path;

/// How many instances are tried.
const INSTANCES_MAX: usize = 64;

/// What a request would meet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explained {
    /// The route that it would be matched with.
    pub route: Option<RouteKey>,
    /// Whether a TLS handshake for the host gets a certificate.
    pub has_certificate: bool,
    /// The instances that it could be sent to, at most 64.
    pub instances: Vec<ExplainedInstance>,
}

/// An instance that a request could be sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedInstance {
    /// The instance.
    pub id: InstanceId,
    /// Whether others are preferred, as a connection to it was refused or broke a moment ago.
    pub is_passed_over: bool,
    /// What came of a connection to it.
    pub connection: Connection,
}

/// What came of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// The instance accepts connections.
    Accepted,
    /// Nothing listens there.
    Refused,
    /// There was no answer in the time that requests wait for one, twice.
    Silent,
}

/// Looks a request up, and connects to all instances at the same time.
pub(crate) async fn explain(view: &View, (host, path): (&str, &str), limit: Duration) -> Explained {
    let Some(host) = normalize_host(host) else { return Explained::default() };
    let has_certificate = view.certificate(&host).is_some();
    let Some(route) = view.routes.find(&host, &normalize_path(path).key) else {
        return Explained { has_certificate, ..Explained::default() };
    };
    let upstreams = match &route.action {
        ReadyAction::Forward { backend, .. } => backend.all(),
        ReadyAction::Redirect { .. } => Vec::new(),
    };
    let upstreams = upstreams.into_iter().take(INSTANCES_MAX);
    let tried: JoinSet<_> = upstreams.map(|upstream| connected(upstream, limit)).collect();
    let mut instances: Vec<_> = tried.join_all().await.into_iter().flatten().collect();
    instances.sort_by(|a, b| a.id.cmp(&b.id));
    Explained { route: Some(route.key.clone()), has_certificate, instances }
}

/// `None`: the instance leaves, so nothing is sent to it any more.
async fn connected(upstream: Arc<Upstream>, limit: Duration) -> Option<ExplainedInstance> {
    let _in_flight = upstream.instance.enter()?;
    let is_passed_over = upstream.is_ejected();
    let connection = connect(upstream.address, limit).await;
    Some(ExplainedInstance { id: upstream.instance.id.clone(), is_passed_over, connection })
}

/// Tries twice before it says that nobody answers: a packet that is lost is sent again after a second only (RFC 6298,
/// section 2.1), and requests are with another instance by then.
async fn connect(address: SocketAddrV4, limit: Duration) -> Connection {
    match connect_once(address, limit).await {
        Connection::Silent => connect_once(address, limit).await,
        known @ (Connection::Accepted | Connection::Refused) => known,
    }
}

async fn connect_once(address: SocketAddrV4, limit: Duration) -> Connection {
    match timeout(limit, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Connection::Accepted,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Connection::Refused,
        Ok(Err(_)) | Err(_) => Connection::Silent,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream as Blocking};
    use std::thread;

    use tokio::net::TcpSocket;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(500);

    /// R-EDGE-2: one packet that is lost says nothing about an instance; a listener whose queue stays full does.
    #[tokio::test]
    async fn a_lost_packet_is_no_silence() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("it is v4") };
        // What a queue has no place for is dropped, as if it were lost.
        let fill = move || -> Vec<_> {
            let connect = || Blocking::connect_timeout(&address.into(), Duration::from_millis(100));
            (0..4).map_while(|_| connect().ok()).collect()
        };
        let queued = thread::spawn(fill).join().unwrap();
        assert!((1..4).contains(&queued.len()), "the queue is full");
        assert_eq!(connect(address, LIMIT).await, Connection::Silent);

        let accept = async {
            sleep(LIMIT / 2).await;
            for _ in &queued {
                listener.accept().await.unwrap();
            }
        };
        let (found, ()) = tokio::join!(connect(address, LIMIT), accept);
        assert_eq!(found, Connection::Accepted);
    }
}
