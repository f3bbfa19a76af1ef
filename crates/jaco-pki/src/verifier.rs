//! Certificate verification in handshakes, beyond rustls' own checks.
//!
//! Signatures of the handshake are always verified by rustls. These verifiers only decide whether
//! the peer's certificate is acceptable.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use jaco_types::ClusterId;

use crate::ca::{CaCertificate, TrustBundle};
use crate::fingerprint::Fingerprint;
use crate::identity::{IdentityError, NodeCertificate};
use crate::members::CurrentMembers;
use crate::operator::ClientCertificate;
use crate::provider::provider;
use crate::validity::Validity;
use crate::x509_time;

/// The handshake's signatures, checked by the rustls verifier in `chain`.
macro_rules! signatures_by_rustls {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.chain.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.chain.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.chain.supported_verify_schemes()
        }
    };
}

/// For servers: a client may present no certificate, but what it presents must be a node or an
/// operator of our cluster.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    chain: Arc<dyn ClientCertVerifier>,
    cluster: ClusterId,
    members: CurrentMembers,
}

/// For clients that know the CA, or its fingerprint, but not which node answers.
#[derive(Debug)]
pub(crate) struct AnyNodeVerifier {
    anchor: Anchor,
}

/// For dialers of one node: rustls checks chain and name, this checks the identity as well.
#[derive(Debug)]
pub(crate) struct OneNodeVerifier {
    chain: Arc<WebPkiServerVerifier>,
    cluster: ClusterId,
}

#[derive(Debug)]
enum Anchor {
    Trusted(TrustBundle),
    /// The server has to send the CA certificate; it is trusted because its hash is pinned.
    Pinned {
        cluster: ClusterId,
        authority: Fingerprint,
    },
}

impl ClientVerifier {
    pub(crate) fn new(trust: &TrustBundle, members: CurrentMembers) -> Self {
        let roots = Arc::clone(trust.roots());
        let chain = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .allow_unauthenticated()
            .build()
            .expect("a trust bundle is never empty");
        Self { chain, cluster: trust.cluster().clone(), members }
    }
}

/// Which of the authorities in `trust` signed a certificate that `trust` vouches for: a node's or an operator's.
pub(crate) fn signer(
    trust: &TrustBundle,
    leaf: &CertificateDer<'_>,
    validity: Validity,
) -> Option<Fingerprint> {
    let authorities = trust.authorities();
    if let [only] = authorities {
        return Some(only.fingerprint());
    }
    // Whether it is valid now is not the question.
    let at = x509_time::to_unix(validity.not_before);
    let signed = authorities.iter().find(|authority| {
        let roots = Arc::clone(TrustBundle::from((*authority).clone()).roots());
        let chain = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        chain.is_ok_and(|chain| chain.verify_client_cert(leaf, &[], at).is_ok())
    });
    signed.map(CaCertificate::fingerprint)
}

impl AnyNodeVerifier {
    pub(crate) fn trusting(trust: TrustBundle) -> Self {
        Self { anchor: Anchor::Trusted(trust) }
    }

    pub(crate) fn pinning(cluster: ClusterId, authority: Fingerprint) -> Self {
        Self { anchor: Anchor::Pinned { cluster, authority } }
    }

    fn trust(&self, sent: &[CertificateDer<'_>]) -> Result<TrustBundle, IdentityError> {
        let (cluster, authority) = match &self.anchor {
            Anchor::Trusted(trust) => return Ok(trust.clone()),
            Anchor::Pinned { cluster, authority } => (cluster, authority),
        };
        let pinned = sent.iter().find(|der| Fingerprint::of(der) == *authority);
        let pinned = pinned.ok_or(IdentityError::ForeignAuthority)?.clone().into_owned();
        let found = CaCertificate::from_der(pinned).map_err(|_| IdentityError::Malformed)?;
        if found.cluster() != cluster {
            return Err(IdentityError::WrongCluster(found.cluster().clone()));
        }
        Ok(TrustBundle::from(found))
    }
}

impl OneNodeVerifier {
    pub(crate) fn new(trust: &TrustBundle) -> Self {
        let roots = Arc::clone(trust.roots());
        let chain = WebPkiServerVerifier::builder_with_provider(roots, provider())
            .build()
            .expect("a trust bundle is never empty");
        Self { chain, cluster: trust.cluster().clone() }
    }
}

impl ServerCertVerifier for OneNodeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let name = NodeCertificate::read(end_entity).map_err(IdentityError::into_rustls)?;
        let verified = self.chain.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            nearest_moment(&name, now),
        )?;
        same_cluster(&name.name().cluster, &self.cluster).map_err(IdentityError::into_rustls)?;
        Ok(verified)
    }

    signatures_by_rustls!();
}

impl ServerCertVerifier for AnyNodeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verify = || {
            let trust = self.trust(intermediates)?;
            let chain: Vec<_> = std::iter::once(end_entity).chain(intermediates).cloned().collect();
            NodeCertificate::verify(&chain, &trust, x509_time::from_unix(now))
        };
        verify().map_err(IdentityError::into_rustls)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let shown = ClientCertificate::read(end_entity).map_err(IdentityError::into_rustls)?;
        let now = x509_time::to_unix(shown.checked_at(x509_time::from_unix(now)));
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        same_cluster(shown.cluster(), &self.cluster).map_err(IdentityError::into_rustls)?;
        if let ClientCertificate::Node(node) = &shown
            && self.members.have_removed(node.node())
        {
            // Sent as the alert `certificate_revoked`, from which the node learns that it was removed.
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        Ok(verified)
    }

    signatures_by_rustls!();
}

/// When members verify each other's certificates at; see [`crate::Validity::nearest`].
fn nearest_moment(certificate: &NodeCertificate, now: UnixTime) -> UnixTime {
    x509_time::to_unix(certificate.validity().nearest(x509_time::from_unix(now)))
}

fn same_cluster(found: &ClusterId, cluster: &ClusterId) -> Result<(), IdentityError> {
    if found == cluster { Ok(()) } else { Err(IdentityError::WrongCluster(found.clone())) }
}
