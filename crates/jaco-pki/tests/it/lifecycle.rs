//! What happens to connections that are open already.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jaco_pki::listener::Options;
use jaco_pki::{
    CertificateStore, DialedConnection, Dialer, HandshakeReason, IdentityError, Members,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use tokio::io::AsyncWriteExt;

use jaco_types::{NodeId, StateIndex};

use crate::support::{
    EchoServer, OURS, authority, closes_cleanly, echoes, issue, now, store, trust, within,
};

/// The members by a state that has admitted nodes up to the third.
fn members(nodes: &[u64]) -> Members {
    Members { nodes: nodes.iter().copied().map(NodeId).collect(), as_of: StateIndex(3) }
}

#[tokio::test]
async fn a_removal_reaches_the_node_s_connections_and_no_others() {
    let ca = authority(OURS);
    let server = EchoServer::start(store(&ca, 1)).await;
    let mut second = Dialer::peer(store(&ca, 2), NodeId(1)).connect(server.address).await.unwrap();
    let mut third = Dialer::peer(store(&ca, 3), NodeId(1)).connect(server.address).await.unwrap();
    assert!(echoes(&mut second).await && echoes(&mut third).await);
    assert_eq!(server.connections.nodes(), BTreeSet::from([NodeId(2), NodeId(3)]));

    assert_eq!(server.connections.set_members(members(&[1, 2, 3])), BTreeSet::new());
    assert_eq!(server.connections.set_members(members(&[1, 3])), BTreeSet::from([NodeId(2)]));
    closes_cleanly(&mut second).await;
    assert!(echoes(&mut third).await);
    while server.connections.open() != 1 {
        within(tokio::task::yield_now()).await;
    }
    assert_eq!(server.connections.set_members(members(&[1, 3])), BTreeSet::new());
}

/// Sends until the server does not take any more, because what it answers is not read.
async fn stop_reading(connection: &mut DialedConnection) {
    let sending = async { while connection.write_all(&[0; 1 << 14]).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(1), sending).await.expect_err("it is not read");
}

async fn all_closed(server: &EchoServer) {
    let closed = async {
        while server.connections.open() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(closed).await;
}

/// R-FAULT-3: a connection that was closed ends, and what it holds is freed, though the other end reads nothing.
#[tokio::test]
async fn closed_connections_end_though_nobody_reads() {
    let ca = authority(OURS);
    let server = EchoServer::start(store(&ca, 1)).await;
    let mut second = Dialer::peer(store(&ca, 2), NodeId(1)).connect(server.address).await.unwrap();
    stop_reading(&mut second).await;
    server.connections.set_members(members(&[1, 3]));
    all_closed(&server).await;
    drop(second);
}

/// R-FAULT-3: neither does one that is too old wait for ever until its last bytes are read.
#[tokio::test]
async fn old_connections_end_though_nobody_reads() {
    let ca = authority(OURS);
    let options =
        Options { connection_age_max: Some(Duration::from_millis(1500)), ..Options::default() };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let mut second = Dialer::peer(store(&ca, 2), NodeId(1)).connect(server.address).await.unwrap();
    stop_reading(&mut second).await;
    all_closed(&server).await;
    drop(second);
}

/// Who joins through one member is known to another only a little later.
#[tokio::test]
async fn unknown_new_node_is_admitted() {
    let ca = authority(OURS);
    let server = EchoServer::start(store(&ca, 1)).await;
    assert_eq!(server.connections.set_members(members(&[1, 2, 3])), BTreeSet::new());
    let mut fourth = Dialer::peer(store(&ca, 4), NodeId(1)).connect(server.address).await.unwrap();
    assert!(echoes(&mut fourth).await);
}

/// A removed node loses its connections, and its still valid certificate opens no new ones.
#[tokio::test]
async fn removed_node_is_refused() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    let (second, third) = (store(&ca, 2), store(&ca, 3));
    let dialer = Dialer::peer(Arc::clone(&second), NodeId(1));
    let mut before = dialer.connect(server.address).await.unwrap();
    assert!(echoes(&mut before).await);

    assert_eq!(server.connections.set_members(members(&[1, 3])), BTreeSet::from([NodeId(2)]));
    closes_cleanly(&mut before).await;
    let mut after = dialer.connect(server.address).await.unwrap();
    assert!(!echoes(&mut after).await);
    let expected = HandshakeReason::Certificate(IdentityError::Removed);
    assert_eq!(server.next_failure().await, expected);
    let mut other =
        Dialer::peer(Arc::clone(&third), NodeId(1)).connect(server.address).await.unwrap();
    assert!(echoes(&mut other).await);
    // It was told why, so that it can stop what it still runs; nobody else was.
    assert!(second.removal().is_cancelled());
    assert!(!third.removal().is_cancelled());
}

/// A refusal for any other reason does not say that a node was removed.
#[tokio::test]
async fn stranger_is_not_told_that_it_was_removed() {
    let (ours, imposter) = (authority(OURS), authority(OURS));
    let mut server = EchoServer::start(store(&ours, 1)).await;
    server.connections.set_members(members(&[1, 3]));
    let stranger = CertificateStore::new(issue(&imposter, 2, &trust(&imposter), now())).unwrap();
    assert!(Dialer::peer(Arc::clone(&stranger), NodeId(1)).connect(server.address).await.is_err());
    server.next_failure().await;
    assert!(!stranger.removal().is_cancelled());
}

#[tokio::test]
async fn connections_end_at_their_greatest_age() {
    let ca = authority(OURS);
    let age = Some(Duration::from_millis(300));
    let options = Options { connection_age_max: age, ..Options::default() };
    let server = EchoServer::with_options(store(&ca, 1), options).await;
    let operator = Dialer::operator(trust(&ca)).unwrap();
    let peer = Dialer::peer(store(&ca, 2), NodeId(1));
    for dialer in [operator, peer] {
        closes_cleanly(&mut dialer.connect(server.address).await.unwrap()).await;
    }
    while server.connections.open() != 0 {
        within(tokio::task::yield_now()).await;
    }
}

/// Whatever the age limit, a certificate's last second is the connection's.
#[tokio::test]
async fn no_connection_outlives_its_certificate() {
    #[derive(Debug)]
    struct Fixed(u64);
    impl TimeProvider for Fixed {
        fn current_time(&self) -> Option<UnixTime> {
            Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
        }
    }

    let ca = authority(OURS);
    let client = store(&ca, 2);
    let last_second = client.certificate().validity().not_after.0 / 1000;
    let server = issue(&ca, 1, &trust(&ca), now());
    let server = CertificateStore::with_clock(server, Arc::new(Fixed(last_second))).unwrap();
    let server = EchoServer::start(server).await;
    let mut connection = Dialer::peer(client, NodeId(1)).connect(server.address).await.unwrap();
    closes_cleanly(&mut connection).await;
}
