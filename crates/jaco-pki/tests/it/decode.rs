//! What reads tokens, requests for certificates and sealed values, as functions of bytes: for mutations, and for the fuzz
//! target `identity`, which includes this file, so that it may refer to no other.

use jaco_pki::sealed::{self, Purpose};
use jaco_pki::served::ServedCertificate;
use jaco_pki::{JoinToken, KeyEncryptionKey, NodeCsr, OperatorToken, TrustBundle};
use jaco_types::{ClusterId, KekId};

/// Tokens: what is read is written as itself.
pub(crate) fn token(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(token) = text.parse::<JoinToken>() {
        assert!(token.reveal().parse::<JoinToken>() == Ok(token));
    }
    if let Ok(token) = text.parse::<OperatorToken>() {
        assert!(token.reveal().parse::<OperatorToken>() == Ok(token));
    }
}

/// A request for a certificate, with a right signature or not.
pub(crate) fn request(bytes: &[u8]) {
    drop(NodeCsr::from_der(bytes));
}

/// Certificates of authorities and of routes, and a key beside them.
pub(crate) fn certificate(bytes: &[u8]) {
    let middle = bytes.len() / 2;
    drop(ServedCertificate::read(bytes, &bytes[middle..]));
    if let Ok(text) = std::str::from_utf8(bytes) {
        drop(TrustBundle::from_pem(text));
        drop(KeyEncryptionKey::from_hex(text));
    }
}

/// A sealed value.
pub(crate) fn sealed_value(bytes: &[u8]) {
    let key = KeyEncryptionKey::from_bytes([7; 32]);
    let cluster = ClusterId::new(&"c1".repeat(16)).expect("32 hexadecimal digits");
    std::hint::black_box(KekId::of_envelope(bytes));
    drop(sealed::open(&key, &cluster, Purpose::CaKey, bytes));
    drop(sealed::open_named(&key, &cluster, &[1; 32], bytes));
}
