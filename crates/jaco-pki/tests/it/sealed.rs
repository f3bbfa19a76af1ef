//! The envelope of secrets at rest. The frozen bytes are for ever: add new ones, edit none.

use data_encoding::HEXLOWER;
use jaco_pki::sealed::{
    OVERHEAD_BYTES, OpenError, Purpose, holds, open, open_named, seal, seal_named,
};
use jaco_pki::{KeyEncryptionKey, NamingKey};
use jaco_types::KekId;
use proptest::prelude::*;

use crate::support::{OTHER, OURS, cluster};

fn key() -> KeyEncryptionKey {
    KeyEncryptionKey::from_bytes([7; 32])
}

const PASSWORD: Purpose<'static> = Purpose::Secret { name: "db-password", version: 3 };

const LOGIN: Purpose<'static> = Purpose::Registry { name: "ghcr.io", username: "robot" };

const SERVED: Purpose<'static> = Purpose::ServedKey { name: "shop" };

const ACCOUNT: Purpose<'static> =
    Purpose::AcmeAccountKey { directory: "https://a.example/directory" };

const ISSUED: Purpose<'static> = Purpose::IssuedKey { domain: "shop.example.com" };

const TARGET: Purpose<'static> = Purpose::NotifyTarget { name: "on-call" };

const SCHEDULE: Purpose<'static> = Purpose::BackupSchedule { name: "nightly" };

/// Version 1, as first shipped: if this fails, clusters can no longer read their own secrets.
#[test]
fn version_1_envelopes_open() {
    let cases = [
        (PASSWORD, b"hunter2".as_slice(), include_str!("frozen/sealed_v1_secret.hex")),
        (Purpose::CaKey, b"not really a key", include_str!("frozen/sealed_v1_ca_key.hex")),
        (LOGIN, b"hunter2", include_str!("frozen/sealed_v1_registry.hex")),
        (SERVED, b"not really a key", include_str!("frozen/sealed_v1_served_key.hex")),
        (ACCOUNT, b"not really a key", include_str!("frozen/sealed_v1_acme_account_key.hex")),
        (ISSUED, b"not really a key", include_str!("frozen/sealed_v1_issued_key.hex")),
        (Purpose::NamingKey, &[9; 32], include_str!("frozen/sealed_v1_naming_key.hex")),
        (
            TARGET,
            b"https://a.example/x\nhunter2",
            include_str!("frozen/sealed_v1_notify_target.hex"),
        ),
        (SCHEDULE, b"AKIA1\nhunter2", include_str!("frozen/sealed_v1_backup_schedule.hex")),
    ];
    for (purpose, plaintext, frozen) in cases {
        let envelope = HEXLOWER.decode(frozen.trim().as_bytes()).unwrap();
        let opened = open(&key(), &cluster(OURS), purpose, &envelope).unwrap();
        assert_eq!(opened.as_slice(), plaintext);
    }
}

#[test]
fn envelope_opens_only_for_its_cluster_and_purpose() {
    let sealed = seal(&key(), &cluster(OURS), PASSWORD, b"hunter2");
    let refusal = |key: &KeyEncryptionKey, id: &str, purpose, bytes: &[u8]| {
        open(key, &cluster(id), purpose, bytes).unwrap_err()
    };
    let older = Purpose::Secret { name: "db-password", version: 2 };
    let other = Purpose::Secret { name: "db-passwor", version: 3 };
    let other_key = KeyEncryptionKey::generate();
    assert_eq!(refusal(&other_key, OURS, PASSWORD, &sealed), OpenError::WrongKey);
    assert_eq!(refusal(&key(), OTHER, PASSWORD, &sealed), OpenError::Refused);
    assert_eq!(refusal(&key(), OURS, older, &sealed), OpenError::Refused);
    assert_eq!(refusal(&key(), OURS, other, &sealed), OpenError::Refused);
    assert_eq!(refusal(&key(), OURS, Purpose::CaKey, &sealed), OpenError::Refused);
    assert_eq!(refusal(&key(), OURS, PASSWORD, &[]), OpenError::Truncated);
    assert_eq!(refusal(&key(), OURS, PASSWORD, &sealed[..20]), OpenError::Truncated);
    let changed = |at: usize, to: u8| {
        let mut bytes = sealed.clone();
        bytes[at] = to;
        refusal(&key(), OURS, PASSWORD, &bytes)
    };
    assert_eq!(changed(0, 2), OpenError::Version(2));
    assert_eq!(changed(1, 9), OpenError::Algorithm(9));
}

/// R-IN-5: equal secrets are known to be equal by a name that only the key can make, and that never
/// changes: a new one would roll every user of every secret.
#[test]
fn content_name_reveals_nothing_without_the_key() {
    let names = key().naming_key();
    let name = names.name_of(&cluster(OURS), b"hunter2");
    let frozen = "b8eaf934bf08970d593075252713db0860ea858077b8a3169ca80d5ef863fe1d";
    assert_eq!(HEXLOWER.encode(&name), frozen);
    assert_eq!(names.name_of(&cluster(OURS), b"hunter2"), name);
    assert_ne!(names.name_of(&cluster(OTHER), b"hunter2"), name);
    let others = KeyEncryptionKey::generate().naming_key();
    assert_ne!(others.name_of(&cluster(OURS), b"hunter2"), name);
    assert_ne!(names.name_of(&cluster(OURS), b"hunter3"), name);
    let envelope = seal_named(&key(), &cluster(OURS), &name, b"hunter2");
    let opened = open_named(&key(), &cluster(OURS), &name, &envelope).unwrap();
    assert_eq!(opened.as_slice(), b"hunter2");
    let other = open_named(&key(), &cluster(OURS), &[0; 32], &envelope);
    assert_eq!(other.unwrap_err(), OpenError::Refused, "no envelope passes for another");
}

/// R-CLI-6: a registry's password opens for its own user of its own registry, and is known to be the
/// same without being shown.
#[test]
fn a_registry_password_is_for_one_user_of_one_registry() {
    let sealed = seal(&key(), &cluster(OURS), LOGIN, b"hunter2");
    let registry = Purpose::Registry { name: "ghcr.io.example.com", username: "robot" };
    let username = Purpose::Registry { name: "ghcr.io", username: "admin" };
    let moved = Purpose::Registry { name: "ghcr.ior", username: "obot" };
    let secret = Purpose::Secret { name: "ghcr.io", version: 0 };
    for other in [registry, username, moved, secret] {
        let refused = open(&key(), &cluster(OURS), other, &sealed).unwrap_err();
        assert_eq!(refused, OpenError::Refused, "{other:?}");
        assert!(!holds(&key(), &cluster(OURS), other, &sealed, b"hunter2"));
    }
    assert!(holds(&key(), &cluster(OURS), LOGIN, &sealed, b"hunter2"));
    for other in [&b""[..], b"hunter3", b"hunter22"] {
        assert!(!holds(&key(), &cluster(OURS), LOGIN, &sealed, other));
    }
}

/// R-EDGE-2: the private key of a certificate opens under its own name alone.
#[test]
fn a_served_key_is_for_one_certificate() {
    let sealed = seal(&key(), &cluster(OURS), SERVED, b"not really a key");
    let other = Purpose::ServedKey { name: "sho" };
    let secret = Purpose::Secret { name: "shop", version: 0 };
    for purpose in [other, secret, Purpose::CaKey] {
        let refused = open(&key(), &cluster(OURS), purpose, &sealed).unwrap_err();
        assert_eq!(refused, OpenError::Refused, "{purpose:?}");
    }
    assert!(holds(&key(), &cluster(OURS), SERVED, &sealed, b"not really a key"));
}

/// R-EDGE-2: what was ordered opens for its own domain alone, the account for its own authority.
#[test]
fn a_key_of_an_order_is_for_one_domain() {
    let sealed = seal(&key(), &cluster(OURS), ISSUED, b"not really a key");
    let other = Purpose::IssuedKey { domain: "wiki.example.com" };
    let served = Purpose::ServedKey { name: "shop.example.com" };
    let account = Purpose::AcmeAccountKey { directory: "shop.example.com" };
    for purpose in [other, served, account, ACCOUNT] {
        let refused = open(&key(), &cluster(OURS), purpose, &sealed).unwrap_err();
        assert_eq!(refused, OpenError::Refused, "{purpose:?}");
    }
}

/// R-IN-5: the key that names secrets makes the same names once it is a sealed value of its own, whatever key seals it by
/// then.
#[test]
fn names_survive_another_key() {
    let cluster = cluster(OURS);
    let before = key().naming_key();
    let old = seal(&key(), &cluster, Purpose::NamingKey, &*before.to_bytes());
    let opened = open(&key(), &cluster, Purpose::NamingKey, &old).unwrap();
    let next = KeyEncryptionKey::generate();
    let new = seal(&next, &cluster, Purpose::NamingKey, &opened);
    let opened = open(&next, &cluster, Purpose::NamingKey, &new).unwrap();
    let after = NamingKey::from_opened(&opened).unwrap();
    assert_eq!(after.name_of(&cluster, b"hunter2"), before.name_of(&cluster, b"hunter2"));
    assert_ne!(
        next.naming_key().name_of(&cluster, b"hunter2"),
        before.name_of(&cluster, b"hunter2")
    );
    assert!(NamingKey::from_opened(&opened[1..]).is_none());
    assert!(!format!("{after:?}").contains("NamingKey("), "it is never shown");
}

/// R-IN-5: an envelope names the key that sealed it, where everyone looks for that.
#[test]
fn an_envelope_names_its_key() {
    let sealed = seal(&key(), &cluster(OURS), PASSWORD, b"");
    assert_eq!(KekId::of_envelope(&sealed), Some(key().id()));
    assert_eq!(HEXLOWER.encode(&key().id().0), key().id().to_string());
    assert_ne!(KeyEncryptionKey::generate().id(), key().id());
}

#[test]
fn keys_are_never_shown() {
    let shown = format!("{:?}", key());
    assert!(!shown.contains(&*key().to_hex()), "{shown}");
    let read = KeyEncryptionKey::from_hex(&key().to_hex()).unwrap();
    assert_eq!(read.id(), key().id());
}

proptest! {
    /// Law: what was sealed opens, and no two envelopes are alike.
    #[test]
    fn sealing_round_trips(plaintext in prop::collection::vec(any::<u8>(), 0..300)) {
        let sealed = seal(&key(), &cluster(OURS), PASSWORD, &plaintext);
        prop_assert_eq!(sealed.len(), plaintext.len() + OVERHEAD_BYTES);
        let opened = open(&key(), &cluster(OURS), PASSWORD, &sealed).unwrap();
        prop_assert_eq!(opened.as_slice(), plaintext.as_slice());
        prop_assert_ne!(seal(&key(), &cluster(OURS), PASSWORD, &plaintext), sealed);
    }

    /// Law: one changed bit, anywhere, and nothing opens.
    #[test]
    fn every_bit_counts(at in 0usize..1000, bit in 0u8..8) {
        let mut sealed = seal(&key(), &cluster(OURS), PASSWORD, b"hunter2");
        let length = sealed.len();
        sealed[at % length] ^= 1 << bit;
        prop_assert!(open(&key(), &cluster(OURS), PASSWORD, &sealed).is_err());
    }

    /// Law: opening never panics.
    #[test]
    fn opening_is_total(mut bytes in prop::collection::vec(any::<u8>(), 0..100), known: bool) {
        if known && bytes.len() >= 10 {
            bytes[..2].copy_from_slice(&[1, 1]);
            bytes[2..10].copy_from_slice(&key().id().0);
        }
        prop_assert!(open(&key(), &cluster(OURS), Purpose::CaKey, &bytes).is_err());
    }
}
