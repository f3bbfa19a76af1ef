//! Datagrams: those of one client go to one instance while that is ready, and to another one from the moment when it
//! leaves; answers go back from the published port, at the address that was asked.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jaco_dataplane::edge::ProxyProtocol;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use super::addressed::{Flow, receive, send};
use crate::backend::Backend;
use crate::caps::{Caps, Permit};
use crate::shared::Shared;
use crate::upstream::Upstream;
use crate::wire::proxy::{self, Carried};

/// The largest datagram.
const DATAGRAM_MAX: usize = 65_536;

/// What a socket does with its datagrams at this moment. `None`: it drops them.
pub(crate) type Rule = Option<(Arc<Backend>, ProxyProtocol)>;

/// A client and the instance that it talks to.
struct Session {
    upstream: Arc<Upstream>,
    socket: Arc<UdpSocket>,
    /// Milliseconds since the begin of the listener at the last datagram in either direction.
    last: Arc<AtomicU64>,
    answers: AbortHandle,
    _permit: Permit,
}

/// The sessions of a socket.
struct Sessions {
    listener: Arc<UdpSocket>,
    began: Instant,
    by_flow: HashMap<Flow, Session>,
    caps: Arc<Caps>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.answers.abort();
    }
}

/// Forwards the datagrams of a socket until the future is dropped.
pub(crate) async fn forward(shared: &Shared, listener: Arc<UdpSocket>, rule: impl Fn() -> Rule) {
    let limits = shared.options.limits;
    let mut sessions = Sessions {
        listener,
        began: Instant::now(),
        by_flow: HashMap::new(),
        caps: Caps::new(limits.udp_sessions_max, limits.udp_sessions_per_source_max),
    };
    let mut datagram = vec![0; DATAGRAM_MAX];
    let mut forget = tokio::time::interval(limits.udp_idle / 4);
    loop {
        tokio::select! {
            received = receive(&sessions.listener, &mut datagram) => match received {
                Ok((length, flow)) => {
                    if let Some((backend, proxy_protocol)) = rule() {
                        let bytes = &datagram[..length];
                        sessions.send(shared, &backend, proxy_protocol, flow, bytes).await;
                    }
                }
                // An answer that could not be delivered is reported here; the socket is fine.
                Err(error) => tracing::trace!(%error, "datagram not received"),
            },
            _ = forget.tick() => sessions.forget(limits.udp_idle),
        }
    }
}

impl Sessions {
    /// Sends a datagram to the instance of its client; to another one if that leaves, or does not take it.
    async fn send(
        &mut self,
        shared: &Shared,
        backend: &Backend,
        proxy_protocol: ProxyProtocol,
        flow: Flow,
        bytes: &[u8],
    ) {
        let prefixed;
        let bytes = match (proxy_protocol, self.listener.local_addr()) {
            (ProxyProtocol::V2, Ok(local)) => {
                let used = SocketAddr::new(flow.asked.unwrap_or(local.ip()), local.port());
                prefixed = [&proxy::write(flow.client, used, Carried::Datagram), bytes].concat();
                &prefixed
            }
            (ProxyProtocol::V2 | ProxyProtocol::Off, _) => bytes,
        };
        for _ in 0..2 {
            let ejection = shared.options.limits.ejection;
            let known = self.by_flow.get(&flow);
            let is_open = known.is_some_and(|session| !session.answers.is_finished());
            if !is_open {
                self.by_flow.remove(&flow);
                if self.open(backend, flow, ejection).await.is_none() {
                    return;
                }
            }
            let Some(session) = self.by_flow.get(&flow) else { return };
            // Entered for the time of the datagram: after the acknowledgement none is sent.
            let Some(_in_flight) = session.upstream.instance.enter() else {
                self.by_flow.remove(&flow);
                continue;
            };
            session.last.store(millis_since(self.began), Ordering::Relaxed);
            match session.socket.send(bytes).await {
                Ok(_) => return,
                Err(error) => {
                    // The report that nobody took the datagram before.
                    tracing::debug!(%error, instance = %session.upstream.instance.id, "no datagram");
                    session.upstream.eject(ejection);
                    self.by_flow.remove(&flow);
                }
            }
        }
    }

    async fn open(&mut self, backend: &Backend, flow: Flow, ejection: Duration) -> Option<()> {
        let permit = self.caps.enter(flow.client.ip())?;
        let picked = backend.pick(&[])?;
        let socket = match connected(&picked.upstream).await {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                tracing::debug!(%error, "no socket to an instance");
                return None;
            }
        };
        let last = Arc::new(AtomicU64::new(millis_since(self.began)));
        let answers = answer(
            Arc::clone(&socket),
            Arc::clone(&self.listener),
            flow,
            (Arc::clone(&last), self.began),
            (Arc::clone(&picked.upstream), ejection),
        );
        let answers = tokio::spawn(answers).abort_handle();
        let upstream = picked.upstream;
        let session = Session { upstream, socket, last, answers, _permit: permit };
        self.by_flow.insert(flow, session);
        Some(())
    }

    fn forget(&mut self, idle: Duration) {
        let now = millis_since(self.began);
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let is_alive = |session: &Session| {
            now.saturating_sub(session.last.load(Ordering::Relaxed)) < idle
                && !session.answers.is_finished()
        };
        self.by_flow.retain(|_, session| is_alive(session));
    }
}

async fn connected(upstream: &Upstream) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(SocketAddr::V4(upstream.address)).await?;
    Ok(socket)
}

/// Sends the datagrams of an instance to its client.
async fn answer(
    instance: Arc<UdpSocket>,
    listener: Arc<UdpSocket>,
    flow: Flow,
    (last, began): (Arc<AtomicU64>, Instant),
    (upstream, ejection): (Arc<Upstream>, Duration),
) {
    loop {
        // A session that waits holds no buffer.
        if instance.readable().await.is_err() {
            return;
        }
        let mut datagram = Vec::with_capacity(DATAGRAM_MAX);
        match instance.try_recv_buf(&mut datagram) {
            Ok(_) => {
                last.store(millis_since(began), Ordering::Relaxed);
                if let Err(error) = send(&listener, &datagram, flow).await {
                    tracing::trace!(%error, client = %flow.client, "answer not sent");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Nobody listens there. The report is read once and gone: the session ends, and the next datagram of the
            // client opens another one.
            Err(error) => {
                tracing::trace!(%error, client = %flow.client, "no answer");
                upstream.eject(ejection);
                return;
            }
        }
    }
}

fn millis_since(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
