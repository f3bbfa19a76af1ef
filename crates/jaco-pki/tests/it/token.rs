//! Token texts and their checks. The frozen texts are for ever: people keep tokens in vaults.

use jaco_pki::{
    Fingerprint, JoinToken, JoinTokenRecord, OperatorCertificateRecord, OperatorToken,
    OperatorTokenRecord, Revocation, TokenKind, TokenParseError, TokenRefusal, TokenSecret,
    admit_certificate, admit_join, admit_operator,
};
use proptest::prelude::*;

use jaco_types::{ErrorCode, Timestamp, TokenId};

use crate::support::{OTHER, OURS, cluster};

const SECRET: &str = "aeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaqcaibaeaq";

fn join_token() -> JoinToken {
    JoinToken {
        cluster: cluster(OURS),
        authority: Fingerprint::from_bytes([0xab; 32]),
        id: TokenId::new("k3nq7d2mxa5p").unwrap(),
        secret: TokenSecret::from_bytes([1; 32]),
    }
}

fn operator_token() -> OperatorToken {
    OperatorToken {
        id: TokenId::new("ops-laptop").unwrap(),
        secret: TokenSecret::from_bytes([1; 32]),
    }
}

#[test]
fn token_texts_are_frozen() {
    let join = include_str!("frozen/join_token_v1.txt").trim();
    let operator = include_str!("frozen/operator_token_v1.txt").trim();
    assert_eq!(*join_token().reveal(), join);
    assert_eq!(join.parse::<JoinToken>().unwrap(), join_token());
    assert_eq!(*operator_token().reveal(), operator);
    assert_eq!(operator.parse::<OperatorToken>().unwrap(), operator_token());
    assert!(join.contains(SECRET) && operator.contains(SECRET));
}

/// The secret is in the text that `reveal` gives, and nowhere else.
#[test]
fn secrets_are_never_shown() {
    let (join, operator) = (join_token(), operator_token());
    let shown = [
        format!("{join}"),
        format!("{join:?}"),
        format!("{operator}"),
        format!("{operator:?}"),
        format!("{:?}", join.secret),
    ];
    for text in shown {
        assert!(!text.contains(&SECRET[..4]), "{text}");
        assert!(!text.contains("[1, 1"), "{text}");
    }
}

#[test]
fn malformed_tokens_are_named_without_being_repeated() {
    let good = join_token().reveal();
    let check = |text: &str, expected: TokenParseError| {
        assert_eq!(text.parse::<JoinToken>().unwrap_err(), expected);
        assert!(!expected.to_string().contains(&SECRET[..4]));
    };
    check("", TokenParseError::Prefix("jt1"));
    check(&operator_token().reveal(), TokenParseError::Prefix("jt1"));
    check("jt1.", TokenParseError::Parts(6));
    check("jt1.a.b", TokenParseError::Parts(6));
    check(&format!("{}.x", *good), TokenParseError::Parts(6));
    check(&"j".repeat(257), TokenParseError::TooLong);
    // A typing error is told from a refusal, before anything is sent.
    check(&good.replace("k3nq", "k4nq"), TokenParseError::Checksum);
    check(&good.to_uppercase().replace("JT1", "jt1"), TokenParseError::Checksum);
    assert_eq!(format!("  {}\n", *good).parse::<JoinToken>().unwrap(), join_token());
}

#[test]
fn join_tokens_are_refused_by_name() {
    let record = JoinTokenRecord {
        id: join_token().id,
        secret: join_token().secret.hash(),
        expires: Timestamp(1_000_000),
        uses_left: 1,
        revocation: Revocation::Live,
    };
    let wrong_secret = JoinToken { secret: TokenSecret::from_bytes([2; 32]), ..join_token() };
    let revoked = JoinTokenRecord { revocation: Revocation::Revoked, ..record.clone() };
    let consumed = JoinTokenRecord { uses_left: 0, ..record.clone() };
    let check = |record, token: &JoinToken, at, expected: Result<(), TokenRefusal>| {
        assert_eq!(admit_join(record, token, &cluster(OURS), Timestamp(at)), expected);
    };
    let good = join_token();
    check(Some(&record), &good, 1_000_000, Ok(()));
    check(Some(&record), &good, 1_000_001, Err(TokenRefusal::Expired));
    check(Some(&consumed), &good, 0, Err(TokenRefusal::Consumed));
    check(Some(&revoked), &good, 0, Err(TokenRefusal::Revoked));
    check(None, &good, 0, Err(TokenRefusal::Unknown));
    // Without the secret, not even the state of the token is told.
    check(Some(&revoked), &wrong_secret, 2_000_000, Err(TokenRefusal::BadSecret));
    let elsewhere = JoinToken { cluster: cluster(OTHER), ..good };
    check(Some(&record), &elsewhere, 0, Err(TokenRefusal::WrongCluster));
}

#[test]
fn operator_tokens_are_refused_by_name() {
    let record = OperatorTokenRecord {
        id: operator_token().id,
        secret: operator_token().secret.hash(),
        former: None,
        expires: None,
        revocation: Revocation::Live,
    };
    let expiring = OperatorTokenRecord { expires: Some(Timestamp(5)), ..record.clone() };
    let revoked = OperatorTokenRecord { revocation: Revocation::Revoked, ..record.clone() };
    let (good, stranger) = (operator_token(), OperatorToken::mint());
    let check = |record, token: &OperatorToken, at, expected: Result<(), TokenRefusal>| {
        assert_eq!(admit_operator(record, token, Timestamp(at)), expected);
    };
    check(Some(&record), &good, u64::MAX, Ok(()));
    check(Some(&expiring), &good, 5, Ok(()));
    check(Some(&expiring), &good, 6, Err(TokenRefusal::Expired));
    check(Some(&revoked), &good, 0, Err(TokenRefusal::Revoked));
    check(Some(&record), &stranger, 0, Err(TokenRefusal::Unknown));
    check(None, &good, 0, Err(TokenRefusal::Unknown));
}

/// R-CLI-6: after a rotation both secrets count until the moment that was said, and then the newer one alone.
#[test]
fn a_former_secret_counts_for_a_while() {
    let (new, former, other) =
        (operator_token(), OperatorToken::mint().secret, OperatorToken::mint().secret);
    let record = OperatorTokenRecord {
        id: new.id.clone(),
        secret: new.secret.hash(),
        former: Some((former.hash(), Timestamp(5))),
        expires: None,
        revocation: Revocation::Live,
    };
    let former = OperatorToken { id: new.id.clone(), secret: former };
    let other = OperatorToken { id: new.id.clone(), secret: other };
    let at = |token, now| admit_operator(Some(&record), token, Timestamp(now));
    assert_eq!((at(&new, 5), at(&new, 6)), (Ok(()), Ok(())));
    assert_eq!((at(&former, 5), at(&former, 6)), (Ok(()), Err(TokenRefusal::BadSecret)));
    assert_eq!(at(&other, 0), Err(TokenRefusal::BadSecret));
    let revoked = OperatorTokenRecord { revocation: Revocation::Revoked, ..record.clone() };
    let refused = admit_operator(Some(&revoked), &former, Timestamp(0));
    assert_eq!(refused, Err(TokenRefusal::Revoked));
}

/// A certificate counts for the key that it was issued for, until it expires or is revoked.
#[test]
fn operator_certificates_are_checked() {
    let key = Fingerprint::from_bytes([1; 32]);
    let record = OperatorCertificateRecord {
        key,
        expires: Some(Timestamp(5)),
        revocation: Revocation::Live,
    };
    let revoked = OperatorCertificateRecord { revocation: Revocation::Revoked, ..record.clone() };
    let check = |record, key, at, expected: Result<(), TokenRefusal>| {
        assert_eq!(admit_certificate(record, key, Timestamp(at)), expected);
    };
    check(Some(&record), key, 5, Ok(()));
    check(Some(&record), key, 6, Err(TokenRefusal::Expired));
    check(Some(&revoked), key, 0, Err(TokenRefusal::Revoked));
    let other = Fingerprint::from_bytes([2; 32]);
    check(Some(&record), other, 0, Err(TokenRefusal::AnotherKey));
    check(None, key, 0, Err(TokenRefusal::AnotherKey));
}

/// On the wire a guesser cannot tell an unknown id from a wrong secret.
#[test]
fn refusals_have_codes() {
    use TokenKind::{Join, Operator};
    let malformed = TokenRefusal::Malformed(TokenParseError::Checksum);
    let cases = [
        (malformed, ErrorCode::JoinTokenInvalid, ErrorCode::TokenInvalid),
        (TokenRefusal::WrongCluster, ErrorCode::JoinTokenInvalid, ErrorCode::TokenInvalid),
        (TokenRefusal::Unknown, ErrorCode::JoinTokenInvalid, ErrorCode::TokenInvalid),
        (TokenRefusal::BadSecret, ErrorCode::JoinTokenInvalid, ErrorCode::TokenInvalid),
        (TokenRefusal::AnotherKey, ErrorCode::JoinTokenInvalid, ErrorCode::TokenInvalid),
        (TokenRefusal::Revoked, ErrorCode::TokenRevoked, ErrorCode::TokenRevoked),
        (TokenRefusal::Expired, ErrorCode::JoinTokenExpired, ErrorCode::TokenExpired),
        (TokenRefusal::Consumed, ErrorCode::JoinTokenConsumed, ErrorCode::TokenInvalid),
    ];
    for (refusal, join, operator) in cases {
        assert_eq!(refusal.code(Join), join, "{refusal}");
        assert_eq!(refusal.code(Operator), operator, "{refusal}");
    }
}

proptest! {
    /// Law: what is minted parses back.
    #[test]
    fn tokens_round_trip(authority: [u8; 32], secret: [u8; 32], id in "[a-z0-9-]{1,32}") {
        let id = TokenId::new(&id).unwrap();
        let secret = TokenSecret::from_bytes(secret);
        let authority = Fingerprint::from_bytes(authority);
        let operator = OperatorToken { id: id.clone(), secret: secret.clone() };
        prop_assert_eq!(&operator.reveal().parse::<OperatorToken>().unwrap(), &operator);
        let join = JoinToken { cluster: cluster(OURS), authority, id, secret };
        prop_assert_eq!(&join.reveal().parse::<JoinToken>().unwrap(), &join);
    }

    /// Law: parsing is total, and accepts a text only if it is the one spelling of its token.
    #[test]
    fn parsing_is_total(
        text in prop_oneof![
            "\\PC{0,300}",
            "jt1\\.[0-9a-f]{32}\\.[a-z2-7]{50,54}\\.[a-z0-9-]{0,9}\\.[a-z2-7]{50,54}\\.[a-z2-7]{7}",
            "jo1(\\.[a-z2-7]{0,60}){0,5}",
        ]
    ) {
        if let Ok(token) = text.parse::<JoinToken>() {
            prop_assert!(*token.reveal() == text.trim());
        }
        if let Ok(token) = text.parse::<OperatorToken>() {
            prop_assert!(*token.reveal() == text.trim());
        }
    }

    /// Law: one changed character is always noticed.
    #[test]
    fn one_wrong_character_is_noticed(at in 0usize..1000, to in "[a-z0-9]") {
        let good = join_token().reveal();
        let at = at % good.len();
        let mut bad = good.to_string();
        bad.replace_range(at..=at, &to);
        prop_assume!(bad != *good);
        prop_assert!(bad.parse::<JoinToken>().is_err());
    }
}
