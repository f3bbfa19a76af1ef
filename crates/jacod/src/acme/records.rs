//! What the state says of certificates that are ordered, as the controller reads it.

use std::sync::Arc;

use jaco_acme::{AccountRecord, Records};
use jaco_pki::KekRing;
use jaco_pki::sealed::{OpenError, Purpose};
use jaco_state::acme::AcmeAccount;
use jaco_state::edge::RouteClaim;
use jaco_state::view::ordered_domains;
use jaco_state::{ClusterState, Deployment, Table};
use jaco_types::{ClusterId, DeploymentName, RouteKey};
use tracing::error;

/// The records of the last state. What a state shares with the one before is neither read nor opened again: most entries
/// of the log are about something else.
pub(super) struct RecordBook {
    keks: KekRing,
    cluster: ClusterId,
    routes: Option<Routes>,
    account: Option<AcmeAccount>,
    records: Records,
}

/// What it follows from which domains want a certificate.
struct Routes {
    claims: Table<RouteKey, RouteClaim>,
    deployments: Table<DeploymentName, Deployment>,
}

impl Routes {
    fn of(state: &ClusterState) -> Self {
        Self { claims: state.edges.claims.clone(), deployments: state.deployments.clone() }
    }

    fn are_those_of(&self, state: &ClusterState) -> bool {
        self.claims.is_same(&state.edges.claims) && self.deployments.is_same(&state.deployments)
    }
}

impl RecordBook {
    /// One that has read nothing. `keks` open the account.
    pub(super) fn new(keks: KekRing, cluster: ClusterId) -> Self {
        Self { keks, cluster, routes: None, account: None, records: Records::default() }
    }

    /// The records of a state, if they are not those of the one before. There are none before the first route.
    pub(super) fn next(&mut self, state: &ClusterState) -> Option<Arc<Records>> {
        let acme = &state.edges.acme;
        let mut is_news = false;
        if self.routes.as_ref().is_none_or(|routes| !routes.are_those_of(state)) {
            self.routes = Some(Routes::of(state));
            let wanted = ordered_domains(state).cloned().collect();
            is_news |= self.records.wanted != wanted;
            self.records.wanted = wanted;
        }
        if self.account != acme.account {
            self.account.clone_from(&acme.account);
            self.records.account = acme.account.as_ref().and_then(|account| self.open(account));
            is_news = true;
        }
        if !self.records.issued.is_same(&acme.issued) {
            self.records.issued = acme.issued.clone();
            is_news = true;
        }
        if !self.records.attempts.is_same(&acme.attempts) {
            self.records.attempts = acme.attempts.clone();
            is_news = true;
        }
        is_news.then(|| Arc::new(self.records.clone()))
    }

    /// The account with its key; none where that cannot be opened: another one is made then.
    fn open(&self, account: &AcmeAccount) -> Option<Arc<AccountRecord>> {
        match self.try_open(account) {
            Ok(record) => Some(Arc::new(record)),
            Err(error) => {
                error!(account = %account.url, %error, "the key of the account cannot be opened");
                None
            }
        }
    }

    fn try_open(&self, account: &AcmeAccount) -> Result<AccountRecord, OpenError> {
        let (directory, url) = (account.directory.to_string(), account.url.to_string());
        let purpose = Purpose::AcmeAccountKey { directory: &directory };
        let key = self.keks.open(&self.cluster, purpose, &account.key.0)?;
        Ok(AccountRecord { directory, url, key })
    }
}

#[cfg(test)]
mod tests {
    use jaco_pki::{IdentityDir, KeyEncryptionKey, sealed};
    use jaco_state::acme::IssueAttempt;
    use jaco_state::edge::SealedKey;
    use jaco_types::{ChallengeKind, Timestamp};

    use super::*;

    fn book() -> RecordBook {
        let folder = tempfile::tempdir().unwrap();
        let dir = IdentityDir::open(folder.path().join("node")).unwrap();
        dir.store_kek(&KeyEncryptionKey::from_bytes([7; 32])).unwrap();
        RecordBook::new(KekRing::load(dir).unwrap().unwrap(), cluster())
    }

    fn cluster() -> ClusterId {
        ClusterId::new(&"0".repeat(32)).unwrap()
    }

    /// R-EDGE-2: entries about other things do not wake whoever orders certificates.
    #[test]
    fn only_what_is_new_is_shown() {
        let (mut book, mut state) = (book(), ClusterState::default());
        drop(book.next(&state));
        assert_eq!(book.next(&state), None);
        let attempt = IssueAttempt {
            failures: 1,
            reason: "dns".into(),
            next_try: Timestamp(5),
            kind: ChallengeKind::Http01,
        };
        state.edges.acme.attempts.insert("a.example".parse().unwrap(), attempt);
        let records = book.next(&state).expect("a failure is news");
        assert_eq!(records.attempts.len(), 1);
        assert_eq!(book.next(&state), None);
    }

    /// R-EDGE-2: the account of a leader before is used by the next one, which opens its key; one that was sealed
    /// elsewhere is as good as none.
    #[test]
    fn an_account_is_opened_with_the_clusters_key() {
        let (mut book, mut state) = (book(), ClusterState::default());
        let directory = "https://a.example/directory";
        let seal = |key: [u8; 32]| {
            let (key, purpose) =
                (KeyEncryptionKey::from_bytes(key), Purpose::AcmeAccountKey { directory });
            SealedKey(sealed::seal(&key, &cluster(), purpose, b"pkcs8").into())
        };
        let account = |key| AcmeAccount {
            directory: directory.into(),
            url: "https://a.example/account/1".into(),
            key,
        };
        state.edges.acme.account = Some(account(seal([7; 32])));
        let opened = book.next(&state).unwrap().account.clone().expect("it is the cluster's");
        assert_eq!(opened.key.as_slice(), b"pkcs8");
        state.edges.acme.account = Some(account(seal([8; 32])));
        assert_eq!(book.next(&state).unwrap().account, None);
    }
}
