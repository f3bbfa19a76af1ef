//! Client certificates of operators: whom they let in, and that none is ever taken for a node's, or the other way round.

use std::sync::Arc;
use std::time::Duration;

use jaco_pki::operator::OPERATOR_LIFE;
use jaco_pki::{
    CertificateAuthority, CertificateDer, CertificateStore, Credentials, CredentialsError,
    DialError, Dialer, HandshakeReason, IdentityError, NameError, NodeCertificate, NodeCsr,
    NodeKey, OperatorCertificate, OperatorCredentials, OperatorCredentialsError, OperatorName,
    OperatorNameError, PeerIdentity, ca, request_from_pem,
};
use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use jaco_types::{NodeId, Timestamp, TokenId};

use crate::support::{
    EchoServer, OTHER, OURS, authority, cluster, days_ago, echoes, issue, now, store, trust, within,
};

fn id(text: &str) -> TokenId {
    TokenId::new(text).unwrap()
}

fn signed(
    authority: &CertificateAuthority,
    key: &NodeKey,
    operator: &str,
    at: Timestamp,
) -> CertificateDer<'static> {
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    authority.sign_operator(&csr, &id(operator), OPERATOR_LIFE, at).unwrap()
}

fn operator(authority: &CertificateAuthority, name: &str, at: Timestamp) -> OperatorCredentials {
    let key = NodeKey::generate();
    let der = signed(authority, &key, name, at);
    OperatorCredentials::new(key, &ca::certificate_pem(&der)).unwrap()
}

/// Why the server refuses what these credentials show.
async fn refusal(server: &mut EchoServer, dialer: Dialer) -> HandshakeReason {
    // In TLS 1.3 a client hears after its handshake that its certificate was refused.
    if let Ok(mut connection) = dialer.connect(server.address).await {
        assert!(!echoes(&mut connection).await, "it was let in");
    }
    let reason = server.next_failure().await;
    assert!(server.peers.try_recv().is_err(), "nobody was let in");
    reason
}

/// R-CLI-6: the handshake proves which operator it is, by name and key, and nothing else.
#[tokio::test]
async fn an_operator_proves_itself_by_a_certificate() {
    let authority = authority(OURS);
    let mut server = EchoServer::start(store(&authority, 1)).await;
    let ann = operator(&authority, "ann", now());
    let dialer = Dialer::certified(trust(&authority), &ann).unwrap();
    let mut connection = dialer.connect(server.address).await.unwrap();
    assert!(echoes(&mut connection).await);
    let peer = server.next_peer().await;
    assert_eq!(peer.node(), None, "it is no node");
    let expected = PeerIdentity::Operator {
        cluster: cluster(OURS),
        id: id("ann"),
        key_fingerprint: ann.key().fingerprint(),
    };
    assert_eq!(peer, expected);
    let validity = ann.certificate().validity();
    assert!(validity.contains(now()) && validity.not_after.since(now()).0 <= 30 * 86_400_000);
}

/// Another authority's certificate is refused, be it of another cluster or of one that says it is this one; so is one
/// that nobody but its holder signed.
#[tokio::test]
async fn certificates_of_other_authorities_are_refused() {
    let (ours, other, imposter) = (authority(OURS), authority(OTHER), authority(OURS));
    let mut server = EchoServer::start(store(&ours, 1)).await;
    for foreign in [&other, &imposter] {
        let ann = operator(foreign, "ann", now());
        let dialer = Dialer::certified(trust(&ours), &ann).unwrap();
        let refused = HandshakeReason::Certificate(IdentityError::ForeignAuthority);
        assert_eq!(refusal(&mut server, dialer).await, refused);
    }
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let uri = OperatorName::new(cluster(OURS), id("ann")).uri();
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    let der = params.self_signed(&key).unwrap().der().clone();
    let key = NodeKey::from_pem(&key.serialize_pem()).unwrap();
    let ann = OperatorCredentials::new(key, &ca::certificate_pem(&der)).unwrap();
    let dialer = Dialer::certified(trust(&ours), &ann).unwrap();
    let reason = refusal(&mut server, dialer).await;
    assert_eq!(reason, HandshakeReason::Certificate(IdentityError::ForeignAuthority));
}

/// An operator's certificate ends with its date, unlike those that members show each other.
#[tokio::test]
async fn expired_certificates_of_operators_are_refused() {
    let authority = authority(OURS);
    let mut server = EchoServer::start(store(&authority, 1)).await;
    let expired = operator(&authority, "ann", days_ago(31));
    let dialer = Dialer::certified(trust(&authority), &expired).unwrap();
    let reason = refusal(&mut server, dialer).await;
    assert_eq!(reason, HandshakeReason::Certificate(IdentityError::Expired));
    let early = operator(&authority, "ann", Timestamp(now().0 + 3_600_000));
    let dialer = Dialer::certified(trust(&authority), &early).unwrap();
    let reason = refusal(&mut server, dialer).await;
    assert_eq!(reason, HandshakeReason::Certificate(IdentityError::NotYetValid));
}

/// What was issued to a node is of no use as an operator's, and names no operator.
#[tokio::test]
async fn a_node_certificate_is_no_operators() {
    let authority = authority(OURS);
    let key = NodeKey::generate();
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    let der = authority.sign(&csr, NodeId(2), ca::NODE_LIFE, now()).unwrap();
    let refused = OperatorCredentials::new(key, &ca::certificate_pem(&der)).unwrap_err();
    assert!(
        matches!(
            refused,
            OperatorCredentialsError::Certificate(IdentityError::OperatorName(
                OperatorNameError::Form
            ))
        ),
        "{refused:?}"
    );
    let node = issue(&authority, 2, &trust(&authority), now());
    let store = CertificateStore::new(node).unwrap();
    let mut server = EchoServer::start(super::support::store(&authority, 1)).await;
    let dialer = Dialer::peer(store, NodeId(1));
    assert!(echoes(&mut dialer.connect(server.address).await.unwrap()).await);
    assert_eq!(server.next_peer().await.node(), Some(NodeId(2)), "a node is a node");
}

/// Who has an operator's certificate cannot be a node: neither load it as one, nor answer as one.
#[tokio::test]
async fn an_operators_certificate_is_no_nodes() {
    let authority = authority(OURS);
    let trusted = trust(&authority);
    let key = NodeKey::generate();
    let der = signed(&authority, &key, "2", now());
    let verified = NodeCertificate::verify(std::slice::from_ref(&der), &trusted, now());
    // It is refused by its purpose before its name is read.
    assert!(matches!(&verified, Err(IdentityError::Unverifiable(_))), "{verified:?}");
    let pem = key.to_pem();
    let refused = Credentials::new(key, der.clone(), trusted.clone(), now()).unwrap_err();
    let expected = IdentityError::Name(NameError::Form);
    assert!(
        matches!(&refused, CredentialsError::Identity(error) if *error == expected),
        "{refused:?}"
    );

    // A server that shows it: the clients that accept any node, and peers, refuse it in the handshake.
    let key = rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).unwrap();
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der], key)
            .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = tcp.accept().await {
            // The client ends the handshake.
            acceptor.accept(stream).await.err();
        }
    });
    let ann = operator(&authority, "ann", now());
    for dialer in [
        Dialer::operator(trusted.clone()).unwrap(),
        Dialer::certified(trusted, &ann).unwrap(),
        Dialer::peer(store(&authority, 1), NodeId(2)),
    ] {
        let refused = within(dialer.connect(address)).await.unwrap_err();
        assert!(matches!(&refused, DialError::Server(_)), "{refused:?}");
    }
    serving.abort();
}

/// A certificate ends with its authority at the latest, and is read back as what was signed; names have one spelling.
#[test]
fn names_and_requests_are_read_strictly() {
    let authority = authority(OURS);
    let key = NodeKey::generate();
    let read = OperatorCertificate::read(&signed(&authority, &key, "ann-2", now())).unwrap();
    assert_eq!(read.name(), &OperatorName::new(cluster(OURS), id("ann-2")));
    assert_eq!(read.key_fingerprint(), key.fingerprint());
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    let life = Duration::from_secs(20 * 365 * 86_400);
    let long = authority.sign_operator(&csr, &id("ann"), life, now()).unwrap();
    let long = OperatorCertificate::read(&long).unwrap().validity();
    assert_eq!(long.not_after, authority.certificate().validity().not_after);

    for wrong in [
        format!("cluster://{OURS}/operator/"),
        format!("cluster://{OURS}/operator/Ann"),
        format!("cluster://{OURS}/operator/ann/x"),
        format!("cluster://{OURS}/node/2"),
        format!("cluster://{OURS}/operators/ann"),
        format!("Cluster://{OURS}/operator/ann"),
        "cluster://short/operator/ann".to_owned(),
    ] {
        assert!(OperatorName::parse_uri(&wrong).is_err(), "{wrong}");
    }
    let request = NodeCsr::from_der(&request_from_pem(&key.request_pem()).unwrap()).unwrap();
    assert_eq!(request.key_fingerprint(), key.fingerprint());
    assert_eq!(request_from_pem("no request"), None);
    let other = NodeKey::generate();
    let pem = ca::certificate_pem(&signed(&authority, &key, "ann", now()));
    let refused = OperatorCredentials::new(other, &pem).unwrap_err();
    assert!(matches!(refused, OperatorCredentialsError::KeyMismatch), "{refused:?}");
}
