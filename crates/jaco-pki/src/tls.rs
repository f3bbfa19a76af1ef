//! TLS configurations, and the store that swaps them while connections are being made.
//!
//! TLS 1.3 only, HTTP and raft's frames only, no resumption: a resumed session skips the certificates, and with them
//! expiry, rotation and removal. Key, chain, verifier and trust change together in one swap, so
//! no handshake ever sees half of a rotation.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::{Resumption, WantsClientCert};
use rustls::pki_types::CertificateDer;
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, ServerConfig};
use tokio_util::sync::CancellationToken;

use jaco_types::{ClusterId, Timestamp};

use crate::ca::{CaCertificate, TrustBundle};
use crate::fingerprint::Fingerprint;
use crate::identity::{IdentityError, NodeCertificate};
use crate::key::NodeKey;
use crate::members::CurrentMembers;
use crate::name::NodeName;
use crate::operator::OperatorCredentials;
use crate::outgoing::Outgoing;
use crate::protocol::Protocol;
use crate::provider::provider;
use crate::verifier::{self, AnyNodeVerifier, ClientVerifier, OneNodeVerifier};
use crate::x509_time;

/// A node's key with its verified certificate and the CAs it trusts.
pub struct Credentials {
    key: NodeKey,
    certificate: NodeCertificate,
    trust: TrustBundle,
}

/// The credentials in use. Cheap to share; a swap takes effect with the next handshake, in both
/// directions, and leaves open connections alone (see [`crate::Connections`]).
pub struct CertificateStore {
    current: ArcSwap<Current>,
    clock: Arc<dyn TimeProvider>,
    members: CurrentMembers,
    removal: CancellationToken,
    outgoing: Outgoing,
}

/// Why credentials are refused.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("node certificate is not usable")]
    Identity(#[from] IdentityError),
    #[error("node certificate belongs to another key")]
    KeyMismatch,
    #[error("credentials are of {offered}, this node is {own}")]
    AnotherNode { own: NodeName, offered: NodeName },
    #[error("tls configuration is refused")]
    Tls(#[from] rustls::Error),
}

/// Everything that one rotation replaces, built once and never changed.
pub(crate) struct Current {
    pub(crate) server: Arc<ServerConfig>,
    peer_client: Arc<ClientConfig>,
    peer_raft_client: Arc<ClientConfig>,
    any_peer_client: Arc<ClientConfig>,
    certificate: NodeCertificate,
    /// The authority that signed the certificate.
    signer: Fingerprint,
    pub(crate) trust: TrustBundle,
    /// The name of what is trusted.
    trusted: String,
}

impl Credentials {
    /// Checks that key and certificate belong together and that `trust` vouches for them, at the
    /// moment of the certificate's validity that is nearest to `now`.
    pub fn new(
        key: NodeKey,
        certificate: CertificateDer<'static>,
        trust: TrustBundle,
        now: Timestamp,
    ) -> Result<Self, CredentialsError> {
        let at = NodeCertificate::read(&certificate)?.validity().nearest(now);
        let certificate = NodeCertificate::verify(&[certificate], &trust, at)?;
        if certificate.key_fingerprint() != key.fingerprint() {
            return Err(CredentialsError::KeyMismatch);
        }
        Ok(Self { key, certificate, trust })
    }

    #[must_use]
    pub fn certificate(&self) -> &NodeCertificate {
        &self.certificate
    }

    #[must_use]
    pub fn trust(&self) -> &TrustBundle {
        &self.trust
    }

    /// The leaf, and every trusted CA after it: a joiner knows the CA by its hash only. It accepts the
    /// leaf if that CA signed it; a CA beside it vouches for nothing.
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        let authorities = self.trust.authorities().iter().map(CaCertificate::der);
        std::iter::once(self.certificate.der()).chain(authorities).cloned().collect()
    }
}

impl CertificateStore {
    /// Starts with these credentials; handshakes follow the system's clock.
    pub fn new(credentials: Credentials) -> Result<Arc<Self>, CredentialsError> {
        Self::with_clock(credentials, Arc::new(DefaultTimeProvider))
    }

    /// As [`CertificateStore::new`], with handshakes following `clock`.
    pub fn with_clock(
        credentials: Credentials,
        clock: Arc<dyn TimeProvider>,
    ) -> Result<Arc<Self>, CredentialsError> {
        let members = CurrentMembers::default();
        let current = ArcSwap::from_pointee(Current::build(credentials, &clock, &members)?);
        let (removal, outgoing) = (CancellationToken::new(), Outgoing::default());
        Ok(Arc::new(Self { current, clock, members, removal, outgoing }))
    }

    /// Replaces the credentials. They have to be the same node's: its name is how others know it.
    pub fn swap(&self, credentials: Credentials) -> Result<(), CredentialsError> {
        let own = self.name();
        let offered = credentials.certificate.name().clone();
        if own != offered {
            return Err(CredentialsError::AnotherNode { own, offered });
        }
        self.current.store(Arc::new(Current::build(credentials, &self.clock, &self.members)?));
        Ok(())
    }

    /// Cancelled once a member has refused this node's certificate because the node was removed from
    /// the cluster. Only a member can say so: the refusal is encrypted with the keys of a handshake in
    /// which it proved who it is.
    #[must_use]
    pub fn removal(&self) -> &CancellationToken {
        &self.removal
    }

    /// The connections that were opened to other members with these credentials or earlier ones.
    #[must_use]
    pub fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    /// The name of what is trusted now; see [`TrustBundle::digest`].
    #[must_use]
    pub fn trusted(&self) -> String {
        self.current.load().trusted.clone()
    }

    /// The authority that signed the certificate in use.
    #[must_use]
    pub fn signer(&self) -> Fingerprint {
        self.current.load().signer
    }

    pub(crate) fn members(&self) -> &CurrentMembers {
        &self.members
    }

    /// The certificate in use.
    #[must_use]
    pub fn certificate(&self) -> NodeCertificate {
        self.current.load().certificate.clone()
    }

    /// The CAs trusted now.
    #[must_use]
    pub fn trust(&self) -> TrustBundle {
        self.current.load().trust.clone()
    }

    /// This node's own name; the same for the life of the store.
    #[must_use]
    pub fn name(&self) -> NodeName {
        self.current.load().certificate.name().clone()
    }

    /// The time that handshakes go by.
    pub(crate) fn now(&self) -> Timestamp {
        // A clock that fails has failed every handshake before anybody asks.
        self.clock.current_time().map(x509_time::from_unix).unwrap_or_default()
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.current.load_full()
    }
}

impl Current {
    pub(crate) fn peer_client(&self, protocol: Protocol) -> Arc<ClientConfig> {
        match protocol {
            // Members have nothing to ask each other in HTTP/1.1.
            Protocol::Rpc | Protocol::Http1 => Arc::clone(&self.peer_client),
            Protocol::Raft => Arc::clone(&self.peer_raft_client),
        }
    }

    pub(crate) fn any_peer_client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.any_peer_client)
    }

    fn build(
        credentials: Credentials,
        clock: &Arc<dyn TimeProvider>,
        members: &CurrentMembers,
    ) -> Result<Self, CredentialsError> {
        let server = server_config(&credentials, Arc::clone(clock), members)?;
        let peer_client = peer_client_config(&credentials, Arc::clone(clock))?;
        let any_peer_client = any_peer_client_config(&credentials)?;
        let Credentials { certificate, trust, .. } = credentials;
        let signer = verifier::signer(&trust, certificate.der(), certificate.validity());
        let signer = signer.ok_or(IdentityError::ForeignAuthority)?;
        Ok(Self {
            any_peer_client: Arc::new(any_peer_client),
            server: Arc::new(server),
            peer_raft_client: Arc::new(speaking(Protocol::Raft, peer_client.clone())),
            peer_client: Arc::new(peer_client),
            certificate,
            signer,
            trusted: trust.digest(),
            trust,
        })
    }

    /// The authority that signed the certificate that is shown.
    pub(crate) fn signer(&self) -> Fingerprint {
        self.signer
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("certificate", &self.certificate)
            .field("trust", &self.trust)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateStore").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// A client that accepts any node of the trusted cluster, and shows no certificate.
pub(crate) fn operator_client_config(trust: TrustBundle) -> Result<ClientConfig, rustls::Error> {
    anonymous_client_config(AnyNodeVerifier::trusting(trust))
}

/// A client that accepts any node of the trusted cluster, and shows an operator's certificate.
pub(crate) fn certified_client_config(
    trust: TrustBundle,
    credentials: &OperatorCredentials,
) -> Result<ClientConfig, rustls::Error> {
    let leaf = vec![credentials.certificate().der().clone()];
    let verifier = AnyNodeVerifier::trusting(trust);
    let config =
        any_node_config(verifier)?.with_client_auth_cert(leaf, credentials.key.private_der())?;
    Ok(without_sni(config))
}

/// A client that accepts any node certified by the CA with this fingerprint.
pub(crate) fn joiner_client_config(
    cluster: ClusterId,
    authority: Fingerprint,
) -> Result<ClientConfig, rustls::Error> {
    anonymous_client_config(AnyNodeVerifier::pinning(cluster, authority))
}

fn server_config(
    credentials: &Credentials,
    clock: Arc<dyn TimeProvider>,
    members: &CurrentMembers,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = ClientVerifier::new(&credentials.trust, members.clone());
    let mut config = ServerConfig::builder_with_details(provider(), clock)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(credentials.chain(), credentials.key.private_der())?;
    config.alpn_protocols = Protocol::ALL.map(|known| known.alpn().to_vec()).to_vec();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn peer_client_config(
    credentials: &Credentials,
    clock: Arc<dyn TimeProvider>,
) -> Result<ClientConfig, rustls::Error> {
    let leaf = vec![credentials.certificate.der().clone()];
    let config = ClientConfig::builder_with_details(provider(), clock)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OneNodeVerifier::new(&credentials.trust)))
        .with_client_auth_cert(leaf, credentials.key.private_der())?;
    Ok(finished(config))
}

/// A client that accepts any node of its own cluster, and shows the node's certificate.
fn any_peer_client_config(credentials: &Credentials) -> Result<ClientConfig, rustls::Error> {
    let leaf = vec![credentials.certificate.der().clone()];
    let verifier = AnyNodeVerifier::trusting(credentials.trust.clone());
    let config =
        any_node_config(verifier)?.with_client_auth_cert(leaf, credentials.key.private_der())?;
    Ok(without_sni(config))
}

fn anonymous_client_config(verifier: AnyNodeVerifier) -> Result<ClientConfig, rustls::Error> {
    Ok(without_sni(any_node_config(verifier)?.with_no_client_auth()))
}

fn any_node_config(
    verifier: AnyNodeVerifier,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier)))
}

fn without_sni(config: ClientConfig) -> ClientConfig {
    let mut config = finished(config);
    config.enable_sni = false;
    config
}

fn finished(mut config: ClientConfig) -> ClientConfig {
    config.resumption = Resumption::disabled();
    speaking(Protocol::Rpc, config)
}

fn speaking(protocol: Protocol, mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![protocol.alpn().to_vec()];
    config
}
