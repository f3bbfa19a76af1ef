//! Seals what is in the state anew, for a rotation of the key-encryption key.

use jaco_pki::sealed::{self, OpenError, Purpose};
use jaco_pki::{KekRing, KeyEncryptionKey};
use jaco_state::ClusterState;
use jaco_state::envelope::Place;
use jaco_types::{ErrorCode, Rejection};

use super::cluster_key::cluster_meta;

/// The envelope in `place`, sealed anew with `to`; `None` if nothing is there any more that it could be for.
///
/// # Errors
/// `internal` with the place, if it does not open.
pub fn resealed(
    state: &ClusterState,
    (place, envelope): (&Place, &[u8]),
    ring: &KekRing,
    to: &KeyEncryptionKey,
) -> Result<Option<Vec<u8>>, Rejection> {
    let cluster = &cluster_meta(state)?.id;
    let again = |purpose: Purpose<'_>| {
        let plaintext = ring.open(cluster, purpose, envelope)?;
        Ok(sealed::seal(to, cluster, purpose, &plaintext))
    };
    let sealed: Option<Result<Vec<u8>, OpenError>> = match place {
        Place::NamingKey => Some(again(Purpose::NamingKey)),
        Place::AuthorityKey => Some(again(Purpose::CaKey)),
        Place::Content(id) => {
            let plaintext = ring.open_named(cluster, &id.0, envelope);
            Some(plaintext.map(|plaintext| sealed::seal_named(to, cluster, &id.0, &plaintext)))
        }
        Place::Registry(name) => state.registries.get(name).map(|login| {
            again(Purpose::Registry { name: name.as_str(), username: login.username.as_str() })
        }),
        Place::Certificate(name) => Some(again(Purpose::ServedKey { name: name.as_str() })),
        Place::AcmeAccount => {
            let account = state.edges.acme.account.as_ref();
            account.map(|it| again(Purpose::AcmeAccountKey { directory: &it.directory }))
        }
        Place::Issued(domain) => Some(again(Purpose::IssuedKey { domain: domain.as_str() })),
        Place::NotifyTarget(name) => Some(again(Purpose::NotifyTarget { name: name.as_str() })),
        Place::BackupSchedule(name) => Some(again(Purpose::BackupSchedule { name: name.as_str() })),
    };
    sealed.transpose().map_err(|error| {
        let message = format!("{place} cannot be sealed anew: {error}");
        Rejection::new(ErrorCode::Internal, message)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jaco_pki::IdentityDir;
    use jaco_state::acme::{AcmeAccount, IssuedCertificate};
    use jaco_state::audit::AuditKey;
    use jaco_state::backup::{
        BackupBucket, BackupKeep, BackupSchedule, BackupTarget, BackupTimes, BucketStyle,
        EVERY_MIN, SealedCredentials,
    };
    use jaco_state::contents::{Content, Form, Hold, PieceBytes};
    use jaco_state::edge::{Certificate, SealedKey};
    use jaco_state::notify::{NotifyFilter, NotifyForm, NotifyTarget, SealedEndpoint};
    use jaco_state::registries::{RegistryLogin, SealedPassword};
    use jaco_state::view::envelopes;
    use jaco_state::{ClusterMeta, Table};
    use jaco_types::route::RouteDomain;
    use jaco_types::{
        BackupScheduleName, CertificateName, ClusterId, ContentId, Identity, KekId,
        NotifyTargetName, RegistryName, RegistryUsername, StateIndex, Timestamp,
    };

    use super::*;

    const NAME: [u8; 32] = [9; 32];

    fn cluster() -> ClusterId {
        ClusterId::new("00112233445566778899aabbccddeeff").unwrap()
    }

    /// Where what is sealed for a purpose is. A new purpose does not compile before it says so, and the test below fails
    /// before it is in its state.
    fn place(purpose: Purpose<'_>) -> Place {
        match purpose {
            Purpose::CaKey => Place::AuthorityKey,
            Purpose::Secret { .. } => Place::Content(ContentId(NAME)),
            Purpose::Registry { name, .. } => Place::Registry(RegistryName::parse(name).unwrap()),
            Purpose::ServedKey { name } => Place::Certificate(CertificateName::new(name).unwrap()),
            Purpose::AcmeAccountKey { .. } => Place::AcmeAccount,
            Purpose::IssuedKey { domain } => Place::Issued(domain.parse().unwrap()),
            Purpose::NamingKey => Place::NamingKey,
            Purpose::NotifyTarget { name } => {
                Place::NotifyTarget(NotifyTargetName::new(name).unwrap())
            }
            Purpose::BackupSchedule { name } => {
                Place::BackupSchedule(BackupScheduleName::new(name).unwrap())
            }
        }
    }

    const NAME_HEX: &str = "0909090909090909090909090909090909090909090909090909090909090909";

    const PURPOSES: [Purpose<'static>; 9] = [
        Purpose::CaKey,
        Purpose::Secret { name: NAME_HEX, version: 0 },
        Purpose::Registry { name: "ghcr.io", username: "robot" },
        Purpose::ServedKey { name: "shop" },
        Purpose::AcmeAccountKey { directory: "https://a.example/directory" },
        Purpose::IssuedKey { domain: "shop.example.com" },
        Purpose::NamingKey,
        Purpose::NotifyTarget { name: "on-call" },
        Purpose::BackupSchedule { name: "nightly" },
    ];

    /// What is sealed for a purpose.
    fn content(purpose: Purpose<'_>) -> Vec<u8> {
        format!("{purpose:?}").into_bytes()
    }

    /// A state with what is sealed for each purpose.
    fn state(key: &KeyEncryptionKey) -> ClusterState {
        let seal = |purpose| sealed::seal(key, &cluster(), purpose, &content(purpose));
        let sealed_key = |purpose| SealedKey(seal(purpose).into());
        let [ca, secret, registry, served, account, issued, naming, target, schedule] = PURPOSES;
        let at = Timestamp(1);
        let meta = ClusterMeta {
            id: cluster(),
            name: String::new(),
            ca_certificate: String::new(),
            sealed_ca_key: seal(ca),
            created_at: at,
        };
        let mut state = ClusterState { meta: Some(meta), ..ClusterState::default() };
        let piece = Content {
            bytes: PieceBytes(seal(secret).into()),
            form: Form::Sealed,
            hold: Hold::Kept,
        };
        state.contents = Table::from_iter([(ContentId(NAME), piece)]);
        let login = RegistryLogin {
            username: RegistryUsername::new("robot").unwrap(),
            password: SealedPassword(seal(registry).into()),
            stored_at: at,
            by: Identity::Scheduler,
        };
        state.registries.insert(RegistryName::parse("ghcr.io").unwrap(), login);
        let certificate = Certificate {
            chain: "PEM".into(),
            key: sealed_key(served),
            names: [Arc::from("shop.example.com")].into(),
            not_before: at,
            not_after: at,
            fingerprint: [1; 32],
            stored_at: at,
            by: Identity::Scheduler,
        };
        state.edges.certificates.insert(CertificateName::new("shop").unwrap(), certificate);
        let directory: Arc<str> = "https://a.example/directory".into();
        state.edges.acme.account = Some(AcmeAccount {
            directory: Arc::clone(&directory),
            url: "u".into(),
            key: sealed_key(account),
        });
        let domain: RouteDomain = "shop.example.com".parse().unwrap();
        let certificate = IssuedCertificate {
            directory,
            chain: "PEM".into(),
            key: sealed_key(issued),
            not_before: at,
            not_after: at,
            fingerprint: [1; 32],
            issued_at: at,
            window: None,
        };
        state.edges.acme.issued.insert(domain, certificate);
        state.sealing.naming_key = Some(sealed_key(naming));
        let target = NotifyTarget {
            id: StateIndex(1),
            form: NotifyForm::Webhook,
            shown: "https://a.example".into(),
            endpoint: SealedEndpoint(seal(target).into()),
            filter: NotifyFilter::default(),
            stored_at: at,
            by: Identity::Scheduler,
            cursor: AuditKey::default(),
            delivered: None,
            failing: None,
            pruned: 0,
            discarded: 0,
            paused_at: None,
        };
        state.notify.targets.insert(NotifyTargetName::new("on-call").unwrap(), target);
        let bucket = BackupBucket {
            endpoint: "https://a.example".into(),
            region: "r".into(),
            bucket: "sun".into(),
            prefix: "".into(),
            style: BucketStyle::Path,
        };
        let schedule = BackupSchedule {
            id: StateIndex(1),
            times: BackupTimes::Every(EVERY_MIN),
            target: BackupTarget::Bucket(bucket),
            credentials: Some(SealedCredentials(seal(schedule).into())),
            keep: BackupKeep::default(),
            recipients: Default::default(),
            stored_at: at,
            by: Identity::Scheduler,
            seen: at,
            run: None,
            last: None,
            failing: None,
        };
        state.backups.insert(BackupScheduleName::new("nightly").unwrap(), schedule);
        state
    }

    /// R-IN-5: whatever is sealed, for each purpose that there is, is found in the state and sealed anew: it opens with the
    /// new key, for the same purpose, to the same content, and not with the old one.
    #[test]
    fn everything_that_is_sealed_is_sealed_anew() {
        let (old, new) =
            (KeyEncryptionKey::from_bytes([1; 32]), KeyEncryptionKey::from_bytes([2; 32]));
        let folder = tempfile::tempdir().unwrap();
        let dir = IdentityDir::open(folder.path().join("node")).unwrap();
        dir.store_kek(&old).unwrap();
        let ring = KekRing::load(dir).unwrap().unwrap();
        let state = state(&old);
        assert_eq!(envelopes(&state).count(), PURPOSES.len());
        for purpose in PURPOSES {
            let place = place(purpose);
            let found = envelopes(&state).find(|(there, _)| *there == place);
            let (_, envelope) = found.unwrap_or_else(|| panic!("nothing is in {place}"));
            let again = resealed(&state, (&place, envelope), &ring, &new).unwrap().unwrap();
            assert_eq!(KekId::of_envelope(&again), Some(new.id()));
            assert_eq!(again.len(), envelope.len(), "it takes the same room");
            let opened = sealed::open(&new, &cluster(), purpose, &again).unwrap();
            assert_eq!(*opened, content(purpose), "{purpose:?}");
            assert!(sealed::open(&old, &cluster(), purpose, &again).is_err());
        }
    }

    /// R-IN-5: what does not open is named, and what went meanwhile is no error.
    #[test]
    fn what_does_not_open_is_named() {
        let key = KeyEncryptionKey::from_bytes([1; 32]);
        let folder = tempfile::tempdir().unwrap();
        let dir = IdentityDir::open(folder.path().join("node")).unwrap();
        dir.store_kek(&key).unwrap();
        let ring = KekRing::load(dir).unwrap().unwrap();
        let mut state = state(&key);
        let place = Place::Registry(RegistryName::parse("ghcr.io").unwrap());
        let login = state.registries.values().next().unwrap().password.clone();
        let mut damaged = login.0.to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let refused = resealed(&state, (&place, &damaged), &ring, &key).unwrap_err();
        assert!(refused.message.starts_with("the password at ghcr.io cannot be sealed anew"));
        state.registries = Table::default();
        assert_eq!(resealed(&state, (&place, &login.0), &ring, &key), Ok(None));
    }
}
