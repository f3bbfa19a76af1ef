//! What reads bytes of strangers withstands any.

use jaco_mutate::{Decoder, withstand};
use jaco_pki::sealed::{self, Purpose};
use jaco_pki::{IdentityDir, KeyEncryptionKey};
use jaco_types::ClusterId;

use crate::decode;
use crate::served::{authority, issue};

/// R-IN-3: mutations of tokens, requests, certificates and sealed values are read or refused.
#[test]
fn mutated_bytes_are_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let key = IdentityDir::open(folder.path().join("node")).unwrap().next_key().unwrap();
    let authority = authority("ca");
    let (chain, served) = issue(&authority, &["example.com", "*.example.com"], -1, 90);
    let (chain, served) =
        ((chain + &authority.pem).into_bytes(), served.serialize_pem().into_bytes());
    let cluster = ClusterId::new(&"c1".repeat(16)).unwrap();
    let kek = KeyEncryptionKey::from_bytes([7; 32]);
    let tokens =
        [include_str!("frozen/join_token_v1.txt"), include_str!("frozen/operator_token_v1.txt")];
    let tokens = tokens.map(|text| text.trim().as_bytes().to_vec()).to_vec();
    let pair = [chain.clone(), served.clone()].concat();
    let value = sealed::seal(&kek, &cluster, Purpose::CaKey, b"a key");
    let of = |name, decode, seeds| Decoder { name, decode, seeds };
    withstand(
        "decoders::mutated_bytes_are_read_or_refused",
        &[
            of("pki-token", decode::token as fn(&[u8]), tokens),
            of("pki-request", decode::request, vec![key.request()]),
            of("pki-certificate", decode::certificate, vec![chain, served, pair]),
            of("pki-sealed", decode::sealed_value, vec![value]),
        ],
    );
}
