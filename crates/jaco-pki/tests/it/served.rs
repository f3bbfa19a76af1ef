//! Certificates that users bring: what is taken, and why others are refused.

use jaco_pki::served::{ServedCertificate, ServedError};
use jaco_types::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ED25519,
};
use time::OffsetDateTime;

/// 2026-01-01
const NOW: Timestamp = Timestamp(1_767_225_600_000);

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn moment(days: i64) -> OffsetDateTime {
    let millis = i64::try_from(NOW.0).unwrap();
    OffsetDateTime::from_unix_timestamp(millis / 1000 + days * 86_400).unwrap()
}

fn params(names: &[&str], from: i64, to: i64) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = moment(from);
    params.not_after = moment(to);
    params
}

pub(crate) fn authority(name: &str) -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = params(&[], -10, 3650);
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

/// A certificate for these names, and its key.
pub(crate) fn issue(by: &Authority, names: &[&str], from: i64, to: i64) -> (String, KeyPair) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let certificate = params(names, from, to).signed_by(&key, &by.issuer).unwrap();
    (certificate.pem(), key)
}

fn check(chain: &str, key: &str) -> Result<ServedCertificate, ServedError> {
    ServedCertificate::check(chain.as_bytes(), key.as_bytes(), NOW)
}

/// R-EDGE-2: a chain with its key is taken, by its names and dates; nothing else of the file is kept.
#[test]
fn a_chain_with_its_key_is_taken() {
    let ca = authority("ca");
    let (leaf, key) = issue(&ca, &["Shop.example.com", "*.example.com"], -1, 90);
    let file = format!("subject=shop\n{}{leaf}{}", key.serialize_pem(), ca.pem);
    let taken = check(&file, &key.serialize_pem()).unwrap();
    assert_eq!(taken.names, ["*.example.com", "shop.example.com"].map(str::to_owned).into());
    assert_eq!(taken.chain.matches("BEGIN CERTIFICATE").count(), 2);
    assert!(!taken.chain.contains("PRIVATE") && !taken.chain.contains("subject"));
    assert_eq!(taken.validity.not_after.0, NOW.0 + 90 * 86_400_000);
    assert_eq!(check(&taken.chain, &key.serialize_pem()).unwrap(), taken);
}

/// R-EDGE-2: one that signed itself is taken, too, and so are other kinds of keys.
#[test]
fn own_certificates_and_other_keys_are_taken() {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let own = params(&["localhost"], -1, 1).self_signed(&key).unwrap();
    let taken = check(&own.pem(), &key.serialize_pem()).unwrap();
    assert_eq!(taken.names, ["localhost".to_owned()].into());
}

/// R-EDGE-2: what an edge or its clients could not use is refused, each for its reason.
#[test]
fn what_cannot_be_used_is_refused() {
    let (ca, other) = (authority("ca"), authority("other"));
    let (leaf, key) = issue(&ca, &["a.de"], -1, 90);
    let key = key.serialize_pem();
    let (_, stranger) = issue(&ca, &["a.de"], -1, 90);
    assert_eq!(check("", &key), Err(ServedError::NoCertificate));
    assert_eq!(check(&key, &key), Err(ServedError::NoCertificate));
    let damaged = leaf.replacen("MII", "AAA", 1);
    assert_eq!(check(&damaged, &key), Err(ServedError::Malformed(1)));
    assert_eq!(check(&leaf, ""), Err(ServedError::NoKey));
    assert_eq!(check(&leaf, &leaf), Err(ServedError::NoKey));
    assert_eq!(check(&leaf, &stranger.serialize_pem()), Err(ServedError::OtherKey));
    assert_eq!(check(&format!("{leaf}{}", other.pem), &key), Err(ServedError::Unlinked(1)));
    let turned = format!("{}{leaf}", ca.pem);
    assert_eq!(check(&turned, &key), Err(ServedError::Unlinked(1)));
    let many = leaf.repeat(17);
    assert_eq!(check(&many, &key), Err(ServedError::TooMany(17)));
    let (old, old_key) = issue(&ca, &["a.de"], -90, -1);
    assert_eq!(check(&old, &old_key.serialize_pem()), Err(ServedError::Expired));
    let (early, early_key) = issue(&ca, &["a.de"], 1, 90);
    assert_eq!(check(&early, &early_key.serialize_pem()), Err(ServedError::NotYetValid));
    let (nameless, its_key) = issue(&ca, &[], -1, 90);
    assert_eq!(check(&nameless, &its_key.serialize_pem()), Err(ServedError::NoNames));
    let above = KeyPair::generate().unwrap();
    let mut wanted = params(&["a.de"], -1, 90);
    wanted.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let above_pem = wanted.signed_by(&above, &ca.issuer).unwrap().pem();
    let file = format!("{above_pem}{}", ca.pem);
    assert_eq!(check(&file, &above.serialize_pem()), Err(ServedError::Authority));
    let (address, its_key) = issue(&ca, &["10.0.0.1"], -1, 90);
    assert_eq!(check(&address, &its_key.serialize_pem()), Err(ServedError::NoNames));
}
