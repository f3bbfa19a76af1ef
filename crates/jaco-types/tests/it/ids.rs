//! Names and ids: which texts are accepted, and that an accepted one is kept as it is.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use jaco_types::{
    ClusterId, ConsumerName, ContentId, ContentName, DeploymentName, Hostname, ImageDigest,
    InstanceId, InvalidName, NodeId, Ordinal, RegistryUsername, ReplicaId, RequestId, Revision,
    ServiceKey, ServiceName, SpecHash, StateIndex, TokenId,
};
use proptest::prelude::*;

/// Accepted texts are shown as they were given; refused ones name their kind and the rule.
fn check<N>(kind: &str, accepted: &[&str], refused: &[&str])
where
    N: FromStr<Err = InvalidName> + Display + Debug,
{
    for text in accepted {
        let name = text.parse::<N>().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(name.to_string(), *text);
        assert_eq!(format!("{name:?}"), format!("{text:?}"), "a name is debugged as its text");
        let column = format!("{name:>300}").chars().count();
        assert_eq!(column, 300, "columns can be aligned");
    }
    for text in refused {
        let error = text.parse::<N>().expect_err(text);
        assert_eq!(error.kind, kind);
        assert!(error.to_string().starts_with(&format!("invalid {kind} ")), "{error}");
        assert!(error.to_string().ends_with(error.rule), "{error}");
    }
}

const LONG_63: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const LONG_64: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn deployment_names() {
    check::<DeploymentName>(
        "deployment name",
        &["shop", "0", "a-b_c", "9-", LONG_63],
        &["", "Shop", "-a", "_a", "a.b", "a b", "a/b", "schön", "a\n", LONG_64],
    );
}

#[test]
fn service_names() {
    let kind = "service name";
    let accepted = ["web", "Web", "0.1", "a-b_c.d", LONG_63];
    let refused = ["", ".a", "-a", "_a", "a b", "a/b", "a@b", "é", LONG_64];
    check::<ServiceName>(kind, &accepted, &refused);
    check::<ContentName>("name of a config or secret", &accepted, &refused);
}

#[test]
fn host_names() {
    let longest = [LONG_63, LONG_63, LONG_63, &LONG_63[..61]].join(".");
    assert_eq!(longest.len(), 253);
    check::<Hostname>(
        "host name",
        &["n1", "a.b-c.d", "127.0.0.1", LONG_63, &longest],
        &["", "a..b", ".a", "a.", "-a", "a-", "A", "a_b", "a b", LONG_64, &format!("{longest}a")],
    );
}

#[test]
fn cluster_ids() {
    check::<ClusterId>(
        "cluster id",
        &["0123456789abcdef0123456789abcdef"],
        &[
            "",
            "0123",
            "0123456789ABCDEF0123456789abcdef",
            "0123456789abcdef0123456789abcdeg",
            LONG_64,
        ],
    );
}

#[test]
fn token_ids() {
    let longest = "a".repeat(32);
    let refused = ["", "A", "a_b", "a b", "a.b", &"a".repeat(33)];
    check::<TokenId>("token id", &["ops", "ci-1", "-", &longest], &refused);
}

#[test]
fn consumer_names() {
    check::<ConsumerName>(
        "consumer name",
        &["proxy", "edge-1.example", "0_a", LONG_63],
        &["", "Proxy", ".a", "-a", "a b", "a:1", LONG_64],
    );
}

/// R-CLI-6: a colon would end the user name in the header that carries it.
#[test]
fn registry_usernames() {
    let longest = "u".repeat(255);
    check::<RegistryUsername>(
        "username of a registry",
        &["me", "Me@example.com", "a b", "größe", &longest],
        &["", "a:b", "a\nb", "a\u{7f}", &"u".repeat(256)],
    );
}

#[test]
fn request_ids() {
    let (longest, over) = ("r".repeat(64), "r".repeat(65));
    check::<RequestId>(
        "request id",
        &["1", "apply-7f3a", "{}!~", &longest],
        &["", "a b", "a\n", "é", &over],
    );
}

/// An error shows no more of a text than a line has room for.
#[test]
fn refused_texts_are_cut() {
    let error = DeploymentName::new(&"é".repeat(10_000)).unwrap_err();
    assert_eq!(error.text, "é".repeat(80));
}

#[test]
fn replica_ids_are_read_from_labels() {
    for text in ["shop-web-3", "a", &"r".repeat(512)] {
        assert_eq!(ReplicaId::parse(text).unwrap().as_str(), text);
    }
    for text in ["", "shop web", "a\n", "é", &"r".repeat(513)] {
        assert_eq!(ReplicaId::parse(text).unwrap_err().kind, "replica id", "{text}");
    }
}

fn key(deployment: &str, service: &str) -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new(deployment).unwrap(),
        service: ServiceName::new(service).unwrap(),
    }
}

/// R-PLACE-5
#[test]
fn composed_ids_show_their_parts() {
    let service = key("shop", "web");
    assert_eq!(service.to_string(), "shop/web");
    let host = Ordinal::Host(Hostname::new("n1").unwrap());
    assert_eq!((Ordinal::Index(3).to_string(), host.to_string()), ("3".into(), "n1".into()));
    let replica = ReplicaId::new(&service, &Ordinal::Index(u64::MAX));
    assert_eq!(replica.as_str(), "shop-web-18446744073709551615");
    let instance = InstanceId { replica, raft_index: StateIndex(42) };
    assert_eq!(instance.to_string(), "shop-web-18446744073709551615@42");
    assert_eq!(format!("{:>4}|{:<4}|{}", NodeId(7), Revision(8), StateIndex(9)), "   7|8   |9");
}

/// A replica's instances are ordered by age, and replicas of a service are together.
#[test]
fn instances_are_ordered_by_replica_then_age() {
    let instance = |replica: &str, index: u64| InstanceId {
        replica: ReplicaId::parse(replica).unwrap(),
        raft_index: StateIndex(index),
    };
    let ordered = [instance("a-b-0", 9), instance("a-b-1", 2), instance("a-b-1", 10)];
    assert!(ordered.is_sorted());
}

#[test]
fn hashes_are_hex() {
    let hash = SpecHash([0xab; 32]);
    assert_eq!(hash.to_string(), "ab".repeat(32));
    assert_eq!(hash.short(), "abababababab");
    assert_eq!(format!("{hash:?}"), "abababababab", "debug output stays readable");
}

proptest! {
    /// A name that is accepted is written as it was read, and accepted again.
    #[test]
    fn accepted_names_round_trip(text in "\\PC{0,70}|[a-zA-Z0-9._-]{0,70}") {
        macro_rules! round_trip {
            ($($name:ty),*) => {$(
                if let Ok(name) = text.parse::<$name>() {
                    prop_assert_eq!(name.as_str(), &text);
                    prop_assert_eq!(name.to_string().parse::<$name>(), Ok(name));
                }
            )*};
        }
        round_trip!(
            DeploymentName, ServiceName, ContentName, Hostname, ClusterId, TokenId, ConsumerName,
            RegistryUsername, RequestId
        );
    }

    /// What names a deployment and its services cannot break a path, a label or a line of a log.
    #[test]
    fn names_are_safe_in_paths_and_labels(text in "\\PC{0,70}") {
        if DeploymentName::new(&text).is_ok() || ServiceName::new(&text).is_ok() {
            prop_assert!(text.is_ascii() && !text.contains(['/', '\\', '@', ':', ' ', '"']), "{}", text);
            prop_assert!(text != "." && text != "..");
        }
    }

    #[test]
    fn content_ids_round_trip(bytes: [u8; 32]) {
        let id = ContentId(bytes);
        prop_assert_eq!(ContentId::from_hex(&id.to_string()), Some(id));
        prop_assert_eq!(id.to_string(), SpecHash(bytes).to_string());
    }

    /// R-ROLL-5: a digest that is accepted is kept whole, and its parts are parts of it.
    #[test]
    fn image_digests_round_trip(
        repository in "[a-z0-9./:-]{1,40}",
        digest in "[0-9a-f]{63,65}|[0-9A-F]{64}",
    ) {
        let text = format!("{repository}@sha256:{digest}");
        let parsed = ImageDigest::parse(&text);
        let is_valid = digest.len() == 64 && !digest.contains(|c: char| c.is_ascii_uppercase());
        prop_assert_eq!(parsed.is_some(), is_valid);
        if let Some(image) = parsed {
            prop_assert_eq!(image.as_str(), &text);
            prop_assert_eq!(&*image.reference(), text.as_str());
            prop_assert_eq!(image.digest(), format!("sha256:{digest}"));
            prop_assert_eq!(image.to_string(), text);
        }
    }
}
