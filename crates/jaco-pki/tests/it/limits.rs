//! What strangers can make the accept loop do.

use std::net::SocketAddr;
use std::time::Duration;

use jaco_pki::listener::Options;
use jaco_pki::{AnonymousLimits, Dialer, FailureLimits, HandshakeReason, Loopback, PeerIdentity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use jaco_types::NodeId;

use crate::support::{EchoServer, OURS, authority, echoes, store, trust, within};

#[tokio::test]
async fn stuck_handshakes_time_out() {
    let ca = authority(OURS);
    let options = Options { handshake_timeout: Duration::from_millis(100), ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.next_failure().await, HandshakeReason::Timeout);
    assert_eq!(within(silent.read(&mut [0; 1])).await.unwrap(), 0, "the socket was closed");

    // The first bytes of a hello that never ends.
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    stuck.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).await.unwrap();
    assert_eq!(server.next_failure().await, HandshakeReason::Timeout);
}

#[tokio::test]
async fn garbage_is_refused_and_the_listener_continues() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"PRI * HTTP/2.0\r\n\r\n", &[0; 64]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let reason = server.next_failure().await;
        assert_eq!(reason, HandshakeReason::NotTls, "{garbage:?}");
    }
    let mut connection =
        Dialer::operator(trust(&ca)).unwrap().connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
}

/// Health checks connect and hang up; they must not get their source blocked.
#[tokio::test]
async fn connection_without_data_is_no_failure() {
    let ca = authority(OURS);
    let failures =
        FailureLimits { burst: 1, loopback: Loopback::Counted, ..FailureLimits::default() };
    let options = Options { failures, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    for _ in 0..5 {
        drop(TcpStream::connect(server.address).await.unwrap());
        assert_eq!(server.next_failure().await, HandshakeReason::NothingSent);
    }
    let mut connection =
        Dialer::operator(trust(&ca)).unwrap().connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
}

#[tokio::test]
async fn failing_source_is_blocked_and_reported_once() {
    let ca = authority(OURS);
    let failures = FailureLimits {
        burst: 2,
        forgiven_every: Duration::from_secs(3600),
        loopback: Loopback::Counted,
        ..FailureLimits::default()
    };
    let options = Options { failures, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"garbage that is not tls").await.unwrap();
        assert_eq!(server.next_failure().await, HandshakeReason::NotTls);
    }
    assert_eq!(server.next_failure().await, HandshakeReason::SourceBlocked);
    // Even the right credentials are of no use now, and nothing more is reported.
    let operator = Dialer::operator(trust(&ca)).unwrap();
    for _ in 0..3 {
        operator.connect(server.address).await.unwrap_err();
    }
    assert!(server.failures.try_recv().is_err());
}

#[tokio::test]
async fn one_source_cannot_take_every_handshake() {
    let ca = authority(OURS);
    let options = Options { handshakes_per_source_max: 2, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let _first = TcpStream::connect(server.address).await.unwrap();
    let _second = TcpStream::connect(server.address).await.unwrap();
    let mut third = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.next_failure().await, HandshakeReason::TooManyAtOnce);
    // Closed, without an answer: that costs the least.
    assert!(matches!(within(third.read(&mut [0; 1])).await, Ok(0) | Err(_)));
}

/// Handshakes in flight are bounded: with one place only, two honest peers still both get in.
#[tokio::test]
async fn waiting_for_a_slot_is_no_failure() {
    let ca = authority(OURS);
    let handshake_grace = Duration::from_secs(3600);
    let options = Options { handshakes_max: 1, handshake_grace, ..Options::default() };
    let mut server = EchoServer::with_options(store(&ca, 1), options).await;
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let dials = (0..8).map(|_| {
        let (operator, address) = (operator.clone(), server.address);
        tokio::spawn(async move { operator.connect(address).await.map(drop) })
    });
    for dial in dials.collect::<Vec<_>>() {
        within(dial).await.unwrap().unwrap();
    }
    assert!(server.failures.try_recv().is_err());
}

/// R-FAULT-3: strangers that stay silent make room for who comes after them, and nodes are never concerned.
#[tokio::test]
async fn silent_strangers_keep_nobody_out() {
    let ca = authority(OURS);
    for (total, per_source) in [(1, 9), (9, 1)] {
        let credential_timeout = Duration::from_secs(3600);
        let anonymous = AnonymousLimits { total, per_source, credential_timeout };
        let options = Options { anonymous, ..Options::default() };
        let mut server = EchoServer::with_options(store(&ca, 1), options).await;
        let operator = Dialer::operator(trust(&ca)).unwrap();
        let mut first = operator.connect(server.address).await.unwrap();
        assert!(echoes(&mut first).await);
        assert_eq!(server.next_peer().await, PeerIdentity::None);

        let mut second = operator.connect(server.address).await.unwrap();
        assert!(echoes(&mut second).await, "the newcomer is let in");
        assert_eq!(server.next_peer().await, PeerIdentity::None);
        assert!(!echoes(&mut first).await, "the oldest one made room");

        let peer = Dialer::peer(store(&ca, 2), NodeId(1));
        let mut member = peer.connect(server.address).await.unwrap();
        assert!(echoes(&mut member).await);
        assert_eq!(server.next_peer().await.node(), Some(NodeId(2)));
        for _ in 0..4 {
            let mut stranger = operator.connect(server.address).await.unwrap();
            assert!(echoes(&mut stranger).await);
        }
        assert!(echoes(&mut member).await, "a member does not make room");
        assert!(server.failures.try_recv().is_err(), "nobody is charged with it");
    }
}

/// R-FAULT-3: a connection that shows no credential ends by itself; a member's does not.
#[tokio::test]
async fn a_connection_without_credential_is_closed() {
    let ca = authority(OURS);
    let credential_timeout = Duration::from_millis(200);
    let anonymous = AnonymousLimits { credential_timeout, ..AnonymousLimits::default() };
    let options = Options { anonymous, ..Options::default() };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    let mut member = peer.connect(server.address).await.unwrap();
    assert!(echoes(&mut member).await);
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let mut stranger = operator.connect(server.address).await.unwrap();
    assert!(matches!(within(stranger.read(&mut [0; 1])).await, Ok(0) | Err(_)), "it was closed");
    assert!(echoes(&mut member).await);
}

/// R-FAULT-3: half-open handshakes of many sources do not hold up a newcomer: those of the source with most of them
/// are ended.
#[tokio::test]
async fn half_open_handshakes_keep_nobody_out() {
    let ca = authority(OURS);
    let options = Options {
        handshakes_max: 16,
        handshakes_per_source_max: 8,
        handshake_timeout: Duration::from_secs(3600),
        ..Options::default()
    };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let mut silent = Vec::new();
    for source in 2..6 {
        for _ in 0..8 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from(([127, 0, 0, source], 0))).unwrap();
            silent.push(socket.connect(server.address).await.unwrap());
        }
    }
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    assert!(echoes(&mut within(peer.connect(server.address)).await.unwrap()).await);
    let operator = Dialer::operator(trust(&ca)).unwrap();
    assert!(echoes(&mut within(operator.connect(server.address)).await.unwrap()).await);
    drop(silent);
}

/// A flood may fill the audit's channel, but not go unnoticed: everything is told or counted.
#[tokio::test]
async fn failures_that_found_the_channel_full_are_counted() {
    let ca = authority(OURS);
    let mut server = EchoServer::with_room_for(1, store(&ca, 1), Options::default()).await;
    let address = server.address;
    let fail = || async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"garbage that is not tls").await.unwrap();
        within(stream.read_to_end(&mut Vec::new())).await.ok();
    };
    for _ in 0..4 {
        fail().await;
    }
    let (mut sent, mut told) = (4, 0);
    loop {
        let failure = within(server.failures.recv()).await.unwrap();
        told += 1 + failure.unreported;
        assert!(told <= sent, "nothing is told twice");
        assert!(sent < 50, "only {told} of {sent} were told");
        if told == sent {
            break;
        }
        // One more, to carry the count.
        fail().await;
        sent += 1;
    }
}
