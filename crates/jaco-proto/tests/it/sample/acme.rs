//! Certificates that the cluster orders.

use super::*;

fn domain() -> RouteDomain {
    RouteDomain::new("shop.example.com").unwrap()
}

pub(crate) fn acme_account() -> AcmeAccount {
    AcmeAccount {
        directory: "https://a.example/directory".into(),
        url: "https://a.example/account/1".into(),
        key: SealedKey([8; 40].into()),
    }
}

fn challenge(kind: ChallengeKind) -> AcmeChallenge {
    AcmeChallenge {
        domain: domain(),
        kind,
        key_authorization: "token.thumbprint".into(),
        expires: Timestamp(1_700_000_900_000),
    }
}

fn attempt() -> IssueAttempt {
    IssueAttempt {
        failures: 3,
        reason: "the authority refused: dns".into(),
        next_try: Timestamp(1_700_000_240_000),
        kind: ChallengeKind::TlsAlpn01,
    }
}

fn issue() -> CertificateIssue {
    CertificateIssue {
        domain: domain(),
        directory: "https://a.example/directory".into(),
        chain: "PEM".into(),
        key: SealedKey([9; 40].into()),
        not_before: Timestamp(1_690_000_000_000),
        not_after: Timestamp(1_710_000_000_000),
        fingerprint: [0x55; 32],
    }
}

fn window() -> Option<RenewalWindow> {
    RenewalWindow::new(Timestamp(1_704_000_000_000), Timestamp(1_704_100_000_000))
}

/// A note of each kind.
pub(crate) fn notes_of_orders() -> Vec<Command> {
    let challenge =
        |kind| AcmeNote::Challenge { token: "token".into(), challenge: challenge(kind) };
    let notes = [
        AcmeNote::Account(acme_account()),
        challenge(ChallengeKind::Http01),
        challenge(ChallengeKind::TlsAlpn01),
        AcmeNote::Issued(issue()),
        AcmeNote::Failed { domain: domain(), attempt: attempt() },
        AcmeNote::Window { domain: domain(), window: window() },
        AcmeNote::Window { domain: domain(), window: None },
    ];
    notes.map(Command::from).to_vec()
}

/// A state with what orders leave behind, and nothing else.
pub(crate) fn state_of_orders() -> ClusterState {
    let CertificateIssue { directory, chain, key, not_before, not_after, fingerprint, .. } =
        issue();
    let issued_at = Timestamp(1_700_000_000_123);
    let issued = |window| IssuedCertificate {
        directory: Arc::clone(&directory),
        chain: Arc::clone(&chain),
        key: key.clone(),
        not_before,
        not_after,
        fingerprint,
        issued_at,
        window,
    };
    let other = RouteDomain::new("wiki.example.com").unwrap();
    let acme = Acme {
        account: Some(acme_account()),
        issued: [(domain(), issued(window())), (other, issued(None))].into_iter().collect(),
        challenges: [("token".into(), challenge(ChallengeKind::Http01))].into_iter().collect(),
        attempts: [(domain(), attempt())].into_iter().collect(),
    };
    let edges = Edges { begun: Some(StateIndex(41)), acme, ..Edges::default() };
    ClusterState { index: StateIndex(42), edges, ..ClusterState::default() }
}
