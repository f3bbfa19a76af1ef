//! One order, from the request to the certificate: the only place where the protocol is spoken.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeType,
    Error as AcmeError, Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use jaco_pki::served::ServedCertificate;
use jaco_store::Clock;
use jaco_types::route::RouteDomain;
use jaco_types::{ChallengeKind, Millis};
use rcgen::{CertificateParams, CertificateSigningRequest, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::problem::Problem;
use crate::records::{Board, Challenge, NewCertificate, Note};

/// How an authority is asked whether it has decided: soon at first, since most need a second, for two minutes.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(200))
    .backoff(1.4)
    .timeout(Duration::from_secs(120));

/// How long a challenge is answered: longer than any authority takes.
const CHALLENGE_LIFE: Millis = Millis::from_secs(15 * 60);

/// How often an order is sent again because its nonces were not taken. The library has tried each three times then.
const NONCE_TURNS: usize = 4;

/// What is ordered.
pub(crate) struct Request<'a> {
    pub(crate) account: &'a Account,
    pub(crate) directory: &'a str,
    pub(crate) domain: &'a RouteDomain,
    /// The challenge that is answered if the authority offers it.
    pub(crate) kind: ChallengeKind,
    /// Whether the other one is answered if it does not.
    pub(crate) other: OtherKind,
    /// The certificate that this one takes the place of, as PEM.
    pub(crate) replaces: Option<&'a str>,
    pub(crate) clock: &'a dyn Clock,
}

/// Whether another challenge than the wanted one is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherKind {
    Allowed,
    Refused,
}

impl Request<'_> {
    /// Orders until there is a certificate or a reason why not.
    pub(crate) async fn certify(&self, board: &impl Board) -> Result<NewCertificate, Failure> {
        let mut turn = 1;
        loop {
            match self.order(board).await {
                Err(failure) if failure.is_bad_nonce() && turn < NONCE_TURNS => turn += 1,
                outcome => return outcome,
            }
        }
    }

    async fn order(&self, board: &impl Board) -> Result<NewCertificate, Failure> {
        let mut order = self.place().await?;
        self.prove(&mut order, board).await?;
        let (key, request) = key_and_request(self.domain)?;
        order.finalize_csr(request.der()).await?;
        let chain = order.poll_certificate(&PATIENCE).await?;
        self.checked(&chain, &key)
    }

    async fn place(&self) -> Result<Order, Failure> {
        let identifiers = [Identifier::Dns(self.domain.as_str().to_owned())];
        let leaf =
            self.replaces.and_then(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).ok());
        let replaces = leaf.as_ref().and_then(|leaf| CertificateIdentifier::try_from(leaf).ok());
        if let Some(replaces) = replaces {
            let placed =
                self.account.new_order(&NewOrder::new(&identifiers).replaces(replaces)).await;
            match placed.map_err(refusal_of_replaces) {
                Ok(order) => return Ok(order),
                Err(Replaces::Failed(failure)) => return Err(failure),
                // It is a courtesy to the authority, and no reason to be without a certificate.
                Err(Replaces::NotTaken) => {}
            }
        }
        Ok(self.account.new_order(&NewOrder::new(&identifiers)).await?)
    }

    /// Has the domain proven: each challenge is recorded before the authority is told that it can ask.
    async fn prove(&self, order: &mut Order, board: &impl Board) -> Result<(), Failure> {
        self.answer_all(order, board).await?;
        if order.state().status == OrderStatus::Ready {
            return Ok(());
        }
        match order.poll_ready(&PATIENCE).await {
            Ok(OrderStatus::Invalid) => Err(refusal(order, None).await),
            Ok(_) => Ok(()),
            Err(AcmeError::Api(problem)) => Err(refusal(order, Some(problem)).await),
            Err(error) => Err(error.into()),
        }
    }

    async fn answer_all(&self, order: &mut Order, board: &impl Board) -> Result<(), Failure> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => {}
                AuthorizationStatus::Pending => self.answer(authorization, board).await?,
                AuthorizationStatus::Invalid
                | AuthorizationStatus::Revoked
                | AuthorizationStatus::Expired
                | AuthorizationStatus::Deactivated => {
                    return Err(
                        problem_of(&authorization).map_or(Failure::Undecided, Failure::Refused)
                    );
                }
            }
        }
        Ok(())
    }

    async fn answer(
        &self,
        mut authorization: AuthorizationHandle<'_>,
        board: &impl Board,
    ) -> Result<(), Failure> {
        let offers = |kind: ChallengeKind| {
            let is_it =
                |kind: ChallengeType| move |one: &instant_acme::Challenge| one.r#type == kind;
            authorization.challenges.iter().any(is_it(acme_kind(kind)))
        };
        let kind = match self.other {
            _ if offers(self.kind) => self.kind,
            OtherKind::Allowed if offers(self.kind.other()) => self.kind.other(),
            OtherKind::Allowed | OtherKind::Refused => return Err(Failure::NoChallenge),
        };
        let mut offered = authorization.challenge(acme_kind(kind)).ok_or(Failure::NoChallenge)?;
        let challenge = Challenge {
            domain: self.domain.clone(),
            kind,
            token: offered.token.clone(),
            key_authorization: offered.key_authorization().as_str().to_owned(),
            expires: self.clock.now().after(CHALLENGE_LIFE),
        };
        board.note(Note::Challenge(challenge)).await?;
        Ok(offered.set_ready().await?)
    }

    fn checked(&self, chain: &str, key: &KeyPair) -> Result<NewCertificate, Failure> {
        let key = Zeroizing::new(key.serialize_pem());
        let found = ServedCertificate::read(chain.as_bytes(), key.as_bytes())?;
        if !found.names.iter().any(|name| self.domain.is_covered_by(name)) {
            return Err(Failure::OtherNames);
        }
        Ok(NewCertificate {
            chain: found.chain,
            key,
            directory: self.directory.to_owned(),
            not_before: found.validity.not_before,
            not_after: found.validity.not_after,
            fingerprint: *found.fingerprint.as_bytes(),
        })
    }
}

enum Replaces {
    NotTaken,
    Failed(Failure),
}

fn refusal_of_replaces(error: AcmeError) -> Replaces {
    if matches!(error, AcmeError::Unsupported(_)) {
        return Replaces::NotTaken;
    }
    let failure = Failure::from(error);
    let is_not_taken = matches!(&failure, Failure::Refused(problem)
        if matches!(problem.kind.as_str(), "alreadyReplaced" | "malformed" | "conflict"));
    if is_not_taken { Replaces::NotTaken } else { Replaces::Failed(failure) }
}

/// Why an order is invalid: what the authority found when it asked says more than the order itself.
async fn refusal(order: &mut Order, problem: Option<instant_acme::Problem>) -> Failure {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_ok()
            && let Some(problem) = problem_of(&authorization)
        {
            return Failure::Refused(problem);
        }
    }
    let unsaid = || Problem {
        kind: "invalid".into(),
        detail: "the order, without saying why".into(),
        retry_after: None,
    };
    Failure::Refused(problem.as_ref().map_or_else(unsaid, Problem::of_object))
}

fn problem_of(authorization: &AuthorizationHandle<'_>) -> Option<Problem> {
    let problems = authorization.challenges.iter().filter_map(|one| one.error.as_ref());
    problems.map(Problem::of_object).next()
}

const fn acme_kind(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

/// A new key for each certificate: one that got out opens nothing after the next renewal.
fn key_and_request(domain: &RouteDomain) -> Result<(KeyPair, CertificateSigningRequest), Failure> {
    let made = || {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([domain.as_str().to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key)?;
        Ok((key, request))
    };
    made().map_err(|error: rcgen::Error| Failure::Key(error.to_string()))
}
