//! Who gets through a handshake, who does not, and what each side is told.

use std::collections::BTreeSet;
use std::sync::Arc;

use jaco_pki::{
    DialError, Dialer, HandshakeReason, IdentityError, JoinToken, Members, NodeName, PeerIdentity,
};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use jaco_types::{NodeId, StateIndex};

use crate::support::{
    EchoServer, OTHER, OURS, authority, cluster, days_ago, echoes, now, store, store_at, trust,
    within,
};

#[tokio::test]
async fn peers_prove_themselves_to_each_other() {
    let ca = authority(OURS);
    let client = store(&ca, 2);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    let dialer = Dialer::peer(Arc::clone(&client), NodeId(1));
    let mut connection = dialer.connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
    assert_eq!(connection.server().name(), &NodeName::new(cluster(OURS), NodeId(1)));
    let expected = PeerIdentity::Node {
        cluster: cluster(OURS),
        id: NodeId(2),
        key_fingerprint: client.certificate().key_fingerprint(),
    };
    assert_eq!(server.next_peer().await, expected);
}

/// A dialer reaches the node it means or nobody, whatever the address book says.
#[tokio::test]
async fn wrong_node_name_is_refused() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    let error = Dialer::peer(store(&ca, 2), NodeId(3)).connect(server.address).await.unwrap_err();
    assert!(
        matches!(&error, DialError::WrongNode { wanted } if wanted.node == NodeId(3)),
        "{error:?}"
    );
    assert!(matches!(server.next_failure().await, HandshakeReason::RefusedByPeer(_)));
}

#[tokio::test]
async fn operator_without_certificate_has_no_peer_identity() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    let pem = trust(&ca).to_pem();
    let pinned = jaco_pki::TrustBundle::from_pem(&pem).unwrap();
    let mut connection = Dialer::operator(pinned).unwrap().connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
    assert_eq!(server.next_peer().await, PeerIdentity::None);
    assert_eq!(connection.server().node(), NodeId(1));
}

/// The same cluster id is no help: what counts is the key.
#[tokio::test]
async fn foreign_ca_is_refused_by_both_sides() {
    let (ours, imposter) = (authority(OURS), authority(OURS));
    let mut server = EchoServer::start(store(&ours, 1)).await;

    let foreign_client = Dialer::peer(store(&imposter, 2), NodeId(1));
    let error = foreign_client.connect(server.address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");
    assert!(matches!(server.next_failure().await, HandshakeReason::RefusedByPeer(_)));

    let operator = Dialer::operator(trust(&imposter)).unwrap();
    let error = operator.connect(server.address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");
    assert!(matches!(server.next_failure().await, HandshakeReason::RefusedByPeer(_)));

    // One that does not mind who answers shows its own certificate, and the server minds.
    let leaf = store(&imposter, 2).certificate();
    careless_client(&trust(&ours), Some(leaf.der().clone()), &[&TLS13], b"h2")
        .connect_and_echo(server.address)
        .await;
    let reason = server.next_failure().await;
    assert_eq!(reason, HandshakeReason::Certificate(IdentityError::ForeignAuthority));
    assert!(server.peers.try_recv().is_err(), "nobody was let in");
}

#[tokio::test]
async fn operators_of_another_cluster_are_refused() {
    let (ours, other) = (authority(OURS), authority(OTHER));
    let server = EchoServer::start(store(&ours, 1)).await;
    let error = Dialer::operator(trust(&other)).unwrap().connect(server.address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");
}

/// Members that were off while their certificates expired reach each other, in both directions, to renew
/// them. Nobody else accepts an expired one.
#[tokio::test]
async fn t90_peers_accept_expired_certificates_of_each_other() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    let expired = EchoServer::start(store_at(&ca, 3, days_ago(30))).await;
    let from_expired = Dialer::peer(store_at(&ca, 2, days_ago(30)), NodeId(1));
    assert!(echoes(&mut from_expired.connect(server.address).await.unwrap()).await);
    assert_eq!(server.next_peer().await.node(), Some(NodeId(2)));
    let to_expired = Dialer::peer(store(&ca, 2), NodeId(3));
    assert!(echoes(&mut to_expired.connect(expired.address).await.unwrap()).await);
    let both = Dialer::peer(store_at(&ca, 2, days_ago(30)), NodeId(3));
    assert!(echoes(&mut both.connect(expired.address).await.unwrap()).await);

    let operator = Dialer::operator(trust(&ca)).unwrap();
    let error = operator.connect(expired.address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::Expired)), "{error:?}");
}

/// An expired certificate proves no more than a valid one: it has to be of this cluster's authority, and
/// its node must not have been removed.
#[tokio::test]
async fn t90_expired_certificates_of_strangers_and_removed_nodes_are_refused() {
    let (ours, imposter) = (authority(OURS), authority(OURS));
    let mut server = EchoServer::start(store(&ours, 1)).await;
    let dialer = Dialer::peer(store_at(&imposter, 2, days_ago(30)), NodeId(1));
    assert!(dialer.connect(server.address).await.is_err());
    let foreign = EchoServer::start(store_at(&imposter, 3, days_ago(30))).await;
    let error = Dialer::peer(store(&ours, 2), NodeId(3)).connect(foreign.address).await;
    let error = error.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");

    let nodes = BTreeSet::from([NodeId(1), NodeId(3)]);
    server.connections.set_members(Members { nodes, as_of: StateIndex(9) });
    let removed = Dialer::peer(store_at(&ours, 2, days_ago(30)), NodeId(1));
    if let Ok(mut connection) = removed.connect(server.address).await {
        assert!(!echoes(&mut connection).await);
    }
    let reasons = [server.next_failure().await, server.next_failure().await];
    let refused = HandshakeReason::Certificate(IdentityError::Removed);
    assert!(reasons.contains(&refused), "{reasons:?}");
}

#[tokio::test]
async fn joiner_accepts_only_the_ca_its_token_pins() {
    let (ours, imposter) = (authority(OURS), authority(OURS));
    let mut server = EchoServer::start(store(&ours, 1)).await;
    let token = JoinToken::mint(cluster(OURS), ours.certificate().fingerprint());
    let mut connection = Dialer::joiner(&token).unwrap().connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
    assert_eq!(server.next_peer().await, PeerIdentity::None);

    let wrong_pin = JoinToken::mint(cluster(OURS), imposter.certificate().fingerprint());
    let error = Dialer::joiner(&wrong_pin).unwrap().connect(server.address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");
    assert!(matches!(server.next_failure().await, HandshakeReason::RefusedByPeer(_)));

    let wrong_cluster = JoinToken::mint(cluster(OTHER), ours.certificate().fingerprint());
    let error = Dialer::joiner(&wrong_cluster).unwrap().connect(server.address).await.unwrap_err();
    let expected = cluster(OURS);
    assert!(
        matches!(&error, DialError::Server(IdentityError::WrongCluster(found)) if *found == expected),
        "{error:?}"
    );
}

/// Who sends the pinned CA along but was not certified by it gains nothing: the pin selects the
/// anchor, it does not replace the chain.
#[tokio::test]
async fn replaying_the_pinned_ca_certificate_is_not_enough() {
    let (ours, imposter) = (authority(OURS), authority(OURS));
    let both = jaco_pki::TrustBundle::new(vec![
        imposter.certificate().clone(),
        ours.certificate().clone(),
    ]);
    // This server's chain holds our CA's certificate as well.
    let credentials = crate::support::issue(&imposter, 1, &both.unwrap(), now());
    let server = EchoServer::start(jaco_pki::CertificateStore::new(credentials).unwrap()).await;
    let token = JoinToken::mint(cluster(OURS), ours.certificate().fingerprint());
    let error = Dialer::joiner(&token).unwrap().connect(server.address).await.unwrap_err();
    assert!(matches!(error, DialError::Server(IdentityError::ForeignAuthority)), "{error:?}");
}

#[tokio::test]
async fn tls_1_2_and_other_protocols_are_refused() {
    let ca = authority(OURS);
    let mut server = EchoServer::start(store(&ca, 1)).await;
    for (version, alpn) in [(&TLS12, b"h2".as_slice()), (&TLS13, b"http/1.0")] {
        let client = careless_client(&trust(&ca), None, &[version], alpn);
        client.connect_and_echo(server.address).await;
        assert_eq!(server.next_failure().await, HandshakeReason::Incompatible);
    }
}

/// A resumed session would skip the certificates, and with them expiry and removal.
#[tokio::test]
async fn sessions_are_never_resumed() {
    let ca = authority(OURS);
    let server = EchoServer::start(store(&ca, 1)).await;
    let client = careless_client(&trust(&ca), None, &[&TLS13], b"h2");
    for _ in 0..3 {
        let stream = client.connect_and_echo(server.address).await.unwrap();
        let kind = stream.get_ref().1.handshake_kind().unwrap();
        assert_eq!(kind, rustls::HandshakeKind::Full);
    }
}

/// Path length 0: a node cannot make further nodes.
#[tokio::test]
async fn a_node_cannot_sign_certificates() {
    let ca = authority(OURS);
    let node_key = rcgen::KeyPair::generate().unwrap();
    let csr = rcgen::CertificateParams::default().serialize_request(&node_key).unwrap();
    let csr = jaco_pki::NodeCsr::from_der(csr.der()).unwrap();
    let node = ca.sign(&csr, NodeId(5), jaco_pki::ca::NODE_LIFE, now()).unwrap();

    let issuer = rcgen::Issuer::from_ca_cert_der(&node, node_key).unwrap();
    let forged_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    let uri = NodeName::new(cluster(OURS), NodeId(1)).uri();
    params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let forged = params.signed_by(&forged_key, &issuer).unwrap().der().clone();

    let verified = jaco_pki::NodeCertificate::verify(&[forged, node], &trust(&ca), now());
    assert!(verified.is_err(), "{verified:?}");
}

/// A client with none of our checks, as an attacker or an old program would use.
struct CarelessClient(TlsConnector);

fn careless_client(
    trust: &jaco_pki::TrustBundle,
    certificate: Option<jaco_pki::CertificateDer<'static>>,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: &[u8],
) -> CarelessClient {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in trust.authorities() {
        roots.add(authority.der().clone()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match certificate {
        None => config.with_no_client_auth(),
        Some(leaf) => {
            let resolver = Arc::new(Shows(leaf));
            config.with_client_cert_resolver(resolver)
        }
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    CarelessClient(TlsConnector::from(Arc::new(config)))
}

impl CarelessClient {
    /// Whatever becomes of it: the server's view is what is tested.
    async fn connect_and_echo(
        &self,
        address: std::net::SocketAddr,
    ) -> Option<tokio_rustls::client::TlsStream<TcpStream>> {
        let tcp = TcpStream::connect(address).await.unwrap();
        let name = NodeName::new(cluster(OURS), NodeId(1)).dns();
        let name = rustls::pki_types::ServerName::try_from(name).unwrap();
        let mut stream = within(self.0.connect(name, tcp)).await.ok()?;
        within(stream.write_all(b"ping")).await.ok()?;
        // Session tickets would come before the answer, so they have been seen once it is here.
        within(stream.read_exact(&mut [0; 4])).await.ok()?;
        Some(stream)
    }
}

/// Shows a certificate whatever hints the server gives, signing with some key.
#[derive(Debug)]
struct Shows(jaco_pki::CertificateDer<'static>);

impl rustls::client::ResolvesClientCert for Shows {
    fn resolve(
        &self,
        _hints: &[&[u8]],
        _schemes: &[rustls::SignatureScheme],
    ) -> Option<Arc<rustls::sign::CertifiedKey>> {
        let key = rcgen::KeyPair::generate().unwrap().serialize_der();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key).into();
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&key).unwrap();
        Some(Arc::new(rustls::sign::CertifiedKey::new(vec![self.0.clone()], key)))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
