//! What the CA signs and what it refuses, and what a certificate says.

use std::slice;
use std::time::Duration;

use jaco_pki::ca::{BACKDATING, CA_LIFE, CaError, NODE_LIFE, TrustError};
use jaco_pki::{
    CSR_BYTES_MAX, CaCertificate, CertificateAuthority, CertificateDer, CertificateStatus,
    Credentials, CredentialsError, CsrError, IdentityError, KeyEncryptionKey, NodeCertificate,
    NodeCsr, NodeKey, NodeName, TrustBundle, Validity,
};
use proptest::prelude::*;

use jaco_types::{NodeId, Timestamp};

use crate::support::{OTHER, OURS, authority, cluster, days_ago, now, trust};

fn signed(ca: &CertificateAuthority, key: &NodeKey, at: Timestamp) -> CertificateDer<'static> {
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    ca.sign(&csr, NodeId(7), NODE_LIFE, at).unwrap()
}

#[test]
fn certificate_has_name_validity_and_key() {
    let ca = authority(OURS);
    let key = NodeKey::generate();
    let at = now();
    let certificate = NodeCertificate::verify(&[signed(&ca, &key, at)], &trust(&ca), at).unwrap();
    assert_eq!(certificate.name(), &NodeName::new(cluster(OURS), NodeId(7)));
    assert_eq!(certificate.key_fingerprint(), key.fingerprint());
    let csr = NodeCsr::from_der(&key.request()).unwrap();
    assert_eq!(certificate.key_fingerprint(), csr.key_fingerprint());
    let Validity { not_before, not_after } = certificate.validity();
    let start = at.0 / 1000;
    assert_eq!(not_before.0, (start - BACKDATING.as_secs()) * 1000);
    assert_eq!(not_after.0, (start + NODE_LIFE.as_secs()) * 1000);
}

/// A request contributes a key. Asking to be another node, a CA, or anything else changes nothing.
#[test]
fn names_in_a_request_are_ignored() {
    let ca = authority(OURS);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["1.evil.internal".to_owned()]).unwrap();
    let uri = NodeName::new(cluster(OURS), NodeId(1)).uri();
    params.subject_alt_names.push(rcgen::SanType::URI(uri.try_into().unwrap()));
    params.distinguished_name.push(rcgen::DnType::CommonName, format!("jaco-ca {OURS}"));
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::CodeSigning];
    let request = params.serialize_request(&key).unwrap();
    let csr = NodeCsr::from_der(request.der()).unwrap();
    let der = ca.sign(&csr, NodeId(7), NODE_LIFE, now()).unwrap();
    let certificate = NodeCertificate::verify(slice::from_ref(&der), &trust(&ca), now()).unwrap();
    assert_eq!(certificate.node(), NodeId(7));
    assert!(matches!(CaCertificate::from_der(der.clone()), Err(TrustError::NotAuthority)));
    assert!(!der.windows(4).any(|window| window == b"evil"));
}

#[test]
fn unsigned_requests_are_refused() {
    let refusal = |der: &[u8]| NodeCsr::from_der(der).unwrap_err();
    let honest = NodeKey::generate().request();
    assert_eq!(refusal(b""), CsrError::Malformed);
    assert_eq!(refusal(&vec![0x30; CSR_BYTES_MAX + 1]), CsrError::TooLarge);
    let trailing = [honest.as_slice(), b"x"].concat();
    assert_eq!(refusal(&trailing), CsrError::Malformed);
    // Another node's key put into one's own request: the signature no longer fits.
    let other = NodeKey::generate().request();
    let point = |der: &[u8]| der.windows(2).position(|bytes| bytes == [0x42, 0x00]).unwrap() + 2;
    let mut stolen = honest.clone();
    let (to, from) = (point(&honest), point(&other));
    stolen[to..to + 65].copy_from_slice(&other[from..from + 65]);
    assert_eq!(refusal(&stolen), CsrError::Signature);
    let wrong_type = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let wrong_type = rcgen::CertificateParams::default().serialize_request(&wrong_type).unwrap();
    assert_eq!(refusal(wrong_type.der()), CsrError::KeyType);
    let wrong_curve = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    let wrong_curve = rcgen::CertificateParams::default().serialize_request(&wrong_curve).unwrap();
    assert_eq!(refusal(wrong_curve.der()), CsrError::KeyType);
}

#[test]
fn the_ca_key_survives_sealing_and_only_under_its_key_and_certificate() {
    let ca = authority(OURS);
    let kek = KeyEncryptionKey::generate();
    let sealed = ca.seal_key(&kek);
    let certificate = ca.certificate().clone();
    let opened = CertificateAuthority::open(certificate.clone(), &sealed, &kek).unwrap();
    let der = signed(&opened, &NodeKey::generate(), now());
    NodeCertificate::verify(&[der], &trust(&ca), now()).unwrap();

    let other_kek = KeyEncryptionKey::generate();
    let error = CertificateAuthority::open(certificate, &sealed, &other_kek).unwrap_err();
    assert!(matches!(error, CaError::Sealed(_)), "{error:?}");
    let same_name = authority(OURS).certificate().clone();
    let error = CertificateAuthority::open(same_name, &sealed, &kek).unwrap_err();
    assert!(matches!(error, CaError::KeyMismatch), "{error:?}");
}

#[test]
fn a_leaf_never_outlives_its_ca_and_a_dead_ca_signs_nothing() {
    let born = Timestamp(now().0 - u64::try_from(CA_LIFE.as_millis()).unwrap() + 3_600_000);
    let ca = CertificateAuthority::create(&cluster(OURS), born).unwrap();
    let der = signed(&ca, &NodeKey::generate(), now());
    let leaf = NodeCertificate::verify(&[der], &trust(&ca), now()).unwrap();
    assert_eq!(leaf.validity().not_after, ca.certificate().validity().not_after);

    let csr = NodeCsr::from_der(&NodeKey::generate().request()).unwrap();
    let later = Timestamp(now().0 + 2 * 3_600_000);
    let error = ca.sign(&csr, NodeId(1), Duration::from_secs(60), later).unwrap_err();
    assert!(matches!(error, CaError::NotValid), "{error:?}");
}

#[test]
fn identity_is_checked_against_ca_cluster_and_time() {
    let (ours, imposter, other) = (authority(OURS), authority(OURS), authority(OTHER));
    let der = signed(&ours, &NodeKey::generate(), now());
    let verify =
        |trust: &TrustBundle, at| NodeCertificate::verify(slice::from_ref(&der), trust, at);
    assert!(verify(&trust(&ours), now()).is_ok());
    assert_eq!(verify(&trust(&imposter), now()), Err(IdentityError::ForeignAuthority));
    assert_eq!(verify(&trust(&other), now()), Err(IdentityError::ForeignAuthority));
    assert_eq!(verify(&trust(&ours), days_ago(1)), Err(IdentityError::NotYetValid));
    let in_a_month = Timestamp(now().0 + 30 * 24 * 3_600_000);
    assert_eq!(verify(&trust(&ours), in_a_month), Err(IdentityError::Expired));
    assert_eq!(NodeCertificate::verify(&[], &trust(&ours), now()), Err(IdentityError::Missing));
    // The CA itself is nobody's identity.
    let ca_der = ours.certificate().der().clone();
    assert!(NodeCertificate::verify(&[ca_der], &trust(&ours), now()).is_err());
}

#[test]
fn credentials_need_their_own_key() {
    let ca = authority(OURS);
    let der = signed(&ca, &NodeKey::generate(), now());
    let error = Credentials::new(NodeKey::generate(), der, trust(&ca), now()).unwrap_err();
    assert!(matches!(error, CredentialsError::KeyMismatch), "{error:?}");
}

#[test]
fn a_bundle_holds_one_cluster_and_a_few_cas() {
    let bundle = |certificates: &[&CertificateAuthority]| {
        TrustBundle::new(certificates.iter().map(|ca| ca.certificate().clone()).collect())
    };
    let (ours, newer, other) = (authority(OURS), authority(OURS), authority(OTHER));
    let two = bundle(&[&ours, &newer]).unwrap();
    let read = TrustBundle::from_pem(&two.to_pem()).unwrap();
    assert_eq!(read.authorities(), two.authorities());
    assert!(matches!(bundle(&[&ours, &other]), Err(TrustError::Mixed(_, _))));
    assert!(matches!(bundle(&[]), Err(TrustError::Count(0))));
    assert!(matches!(TrustBundle::from_pem("no certificate here"), Err(TrustError::Count(0))));
    let many = two.to_pem().repeat(100);
    assert!(matches!(TrustBundle::from_pem(&many), Err(TrustError::Count(5))));
}

#[test]
fn certificate_status_follows_the_lifetime() {
    let day = 24 * 3_600_000;
    let validity = Validity { not_before: Timestamp(day), not_after: Timestamp(9 * day) };
    let cases = [
        (0, CertificateStatus::NotYetValid),
        (day, CertificateStatus::Fresh),
        (5 * day - 1000, CertificateStatus::Fresh),
        (5 * day, CertificateStatus::RenewalDue),
        (7 * day - 1000, CertificateStatus::RenewalDue),
        (7 * day, CertificateStatus::Alarming),
        (9 * day + 999, CertificateStatus::Alarming),
        (9 * day + 1000, CertificateStatus::Expired),
    ];
    for (at, expected) in cases {
        assert_eq!(validity.status(Timestamp(at)), expected, "at {at}");
    }
}

proptest! {
    /// Law: a node renews after half of the life, and before anybody is alarmed.
    #[test]
    fn renewal_comes_in_time(node: u64, start in 0u64..1 << 40, life in 1000u64..1 << 32) {
        let validity = Validity {
            not_before: Timestamp(start * 1000),
            not_after: Timestamp((start + life) * 1000),
        };
        let at = validity.renew_at(NodeId(node));
        // Half of an odd number of seconds is rounded: one second later it is due for sure.
        let status = validity.status(Timestamp(at.0 + 1000));
        prop_assert_eq!(status, CertificateStatus::RenewalDue);
    }

    /// Law: no certificate or request parser panics, whatever it is given.
    #[test]
    fn parsers_are_total(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let der = CertificateDer::from(bytes.clone());
        prop_assert!(NodeCsr::from_der(&bytes).is_err());
        prop_assert!(CaCertificate::from_der(der).is_err());
        prop_assert!(TrustBundle::from_pem(&String::from_utf8_lossy(&bytes)).is_err());
        prop_assert!(NodeKey::from_pem(&String::from_utf8_lossy(&bytes)).is_err());
    }

    /// Law: a damaged certificate or request is refused, or is the same one; it never panics and
    /// never comes to mean something else.
    #[test]
    fn damage_is_noticed(at in 0usize..2000, bit in 0u8..8) {
        let ca = authority(OURS);
        let key = NodeKey::generate();
        let mut request = key.request();
        let length = request.len();
        request[at % length] ^= 1 << bit;
        if let Ok(csr) = NodeCsr::from_der(&request) {
            prop_assert_eq!(csr.key_fingerprint(), key.fingerprint());
        }
        let mut der = signed(&ca, &key, now()).to_vec();
        let length = der.len();
        der[at % length] ^= 1 << bit;
        let verified = NodeCertificate::verify(&[der.into()], &trust(&ca), now());
        if let Ok(certificate) = verified {
            prop_assert_eq!(certificate.node(), NodeId(7));
            prop_assert_eq!(certificate.key_fingerprint(), key.fingerprint());
        }
    }

    /// Law: a node's name has one spelling.
    #[test]
    fn node_names_round_trip(node: u64, text in "\\PC*") {
        let name = NodeName::new(cluster(OURS), NodeId(node));
        prop_assert_eq!(NodeName::parse_uri(&name.uri()), Ok(name));
        let prefixed = format!("cluster://{OURS}/node/{text}");
        for text in [text, prefixed] {
            if let Ok(parsed) = NodeName::parse_uri(&text) {
                prop_assert_eq!(parsed.uri(), text);
            }
        }
    }
}
