//! Certificates that the cluster orders.

use super::*;

pub(crate) fn route_domain() -> impl Strategy<Value = RouteDomain> {
    "[a-z][a-z0-9]{0,6}\\.de".prop_map(|text| RouteDomain::new(&text).unwrap())
}

fn shared_text() -> impl Strategy<Value = Arc<str>> {
    text().prop_map(Arc::from)
}

fn account() -> impl Strategy<Value = AcmeAccount> {
    (shared_text(), shared_text(), sealed_key()).prop_map(|(directory, url, key)| AcmeAccount {
        directory,
        url,
        key,
    })
}

fn challenge_kind() -> impl Strategy<Value = ChallengeKind> {
    select(vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01])
}

fn challenge() -> impl Strategy<Value = AcmeChallenge> {
    (route_domain(), challenge_kind(), shared_text(), moment()).prop_map(
        |(domain, kind, key_authorization, expires)| AcmeChallenge {
            domain,
            kind,
            key_authorization,
            expires,
        },
    )
}

fn attempt() -> impl Strategy<Value = IssueAttempt> {
    (any::<u32>(), shared_text(), moment(), challenge_kind()).prop_map(
        |(failures, reason, next_try, kind)| IssueAttempt { failures, reason, next_try, kind },
    )
}

fn window() -> impl Strategy<Value = Option<RenewalWindow>> {
    (moment(), moment()).prop_map(|(start, end)| RenewalWindow::new(start, end))
}

fn issued() -> impl Strategy<Value = IssuedCertificate> {
    let times = (moment(), moment(), moment(), window());
    (shared_text(), shared_text(), sealed_key(), times, any::<[u8; 32]>()).prop_map(
        |(directory, chain, key, (not_before, not_after, issued_at, window), fingerprint)| {
            IssuedCertificate {
                directory,
                chain,
                key,
                not_before,
                not_after,
                fingerprint,
                issued_at,
                window,
            }
        },
    )
}

fn issue() -> impl Strategy<Value = CertificateIssue> {
    (route_domain(), issued()).prop_map(|(domain, issued)| CertificateIssue {
        domain,
        directory: issued.directory,
        chain: issued.chain,
        key: issued.key,
        not_before: issued.not_before,
        not_after: issued.not_after,
        fingerprint: issued.fingerprint,
    })
}

pub(crate) fn acme_note() -> impl Strategy<Value = Command> {
    let note = prop_oneof![
        account().prop_map(AcmeNote::Account),
        (shared_text(), challenge())
            .prop_map(|(token, challenge)| AcmeNote::Challenge { token, challenge }),
        issue().prop_map(AcmeNote::Issued),
        (route_domain(), attempt())
            .prop_map(|(domain, attempt)| AcmeNote::Failed { domain, attempt }),
        (route_domain(), window()).prop_map(|(domain, window)| AcmeNote::Window { domain, window }),
    ];
    note.prop_map(Command::from)
}

pub(crate) fn acme() -> impl Strategy<Value = Acme> {
    let issued = btree_map(route_domain(), issued(), 0..3);
    let challenges = btree_map(shared_text(), challenge(), 0..3);
    let attempts = btree_map(route_domain(), attempt(), 0..3);
    (option::of(account()), issued, challenges, attempts).prop_map(
        |(account, issued, challenges, attempts)| Acme {
            account,
            issued: issued.into_iter().collect(),
            challenges: challenges.into_iter().collect(),
            attempts: attempts.into_iter().collect(),
        },
    )
}
