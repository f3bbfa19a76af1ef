//! Identity and transport security of a JACO cluster: its CA, node certificates, tokens and TLS.
//!
//! Who trusts whom, and which attack each part answers, is drawn in the crate's README. Everything
//! here uses one crypto provider, *ring*. Parsing, checking and renewal arithmetic take the time as an
//! argument; only the TLS configurations and the listener follow a clock of their own.

mod allowance;
pub mod ca;
mod connection;
pub mod dial;
pub mod files;
mod fingerprint;
pub mod identity;
mod kek_ring;
mod key;
mod limiter;
pub mod listener;
mod members;
mod name;
mod naming;
pub mod operator;
mod outgoing;
mod pace;
pub mod password;
mod pem;
mod places;
mod protocol;
mod provider;
mod random;
pub mod sealed;
pub mod served;
mod share;
mod tarpit;
pub mod tls;
pub mod token;
mod token_record;
mod turns;
mod validity;
mod verifier;
mod x509_time;

pub use rustls::pki_types::CertificateDer;

pub use crate::ca::{CaCertificate, CertificateAuthority, TrustBundle};
pub use crate::connection::{
    AdmissionRefusal, AnonymousLimits, Connections, PeerIdentity, Standing, TlsConnection,
};
pub use crate::dial::{DialError, DialedConnection, Dialer, Refusal};
pub use crate::files::IdentityDir;
pub use crate::fingerprint::Fingerprint;
pub use crate::identity::{IdentityError, NodeCertificate};
pub use crate::kek_ring::KekRing;
pub use crate::key::{CSR_BYTES_MAX, CsrError, KeyError, NodeCsr, NodeKey, request_from_pem};
pub use crate::limiter::{Loopback, SourceLimits};
pub use crate::listener::{HandshakeFailure, HandshakeReason, TlsListener};
pub use crate::members::Members;
pub use crate::name::{NameError, NodeName, OperatorNameError};
pub use crate::naming::NamingKey;
pub use crate::operator::{
    OperatorCertificate, OperatorCredentials, OperatorCredentialsError, OperatorName,
};
pub use crate::outgoing::{Outgoing, OutgoingConnection};
pub use crate::protocol::Protocol;
pub use crate::sealed::KeyEncryptionKey;
pub use crate::tls::{CertificateStore, Credentials, CredentialsError};
pub use crate::token::{JoinToken, OperatorToken, SecretHash, TokenParseError, TokenSecret};
pub use crate::token_record::{
    JoinTokenRecord, OperatorCertificateRecord, OperatorTokenRecord, Revocation, TokenKind,
    TokenRefusal, admit_certificate, admit_join, admit_operator,
};
pub use crate::validity::{CertificateStatus, Validity};
