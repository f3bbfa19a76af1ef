//! The orders of ids and records. Tables are kept in them, lists are shown in them, and plans are made in
//! them: two members that disagreed about one would not hold equal states.

use jaco_types::spec::{Constraint, Operator, SpreadCriterion};
use jaco_types::{
    AllocationScope, ContentName, DeploymentName, GpuChoice, Hostname, Identity, ImageDigest,
    ImageNeed, InstanceId, NamedKey, NamedKind, NodeId, Ordinal, ReplicaId, Revision, ServiceKey,
    ServiceName, SpecHash, StateIndex, TokenId,
};

/// Each is less than all that come after it, and equal to itself.
fn check<T: Ord + std::fmt::Debug>(ascending: &[T]) {
    for (at, one) in ascending.iter().enumerate() {
        assert!(one.cmp(one).is_eq());
        for later in &ascending[at + 1..] {
            assert!(one.cmp(later).is_lt() && later.cmp(one).is_gt(), "{one:?} {later:?}");
        }
    }
}

fn service(deployment: &str, service: &str) -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new(deployment).unwrap(),
        service: ServiceName::new(service).unwrap(),
    }
}

fn replica(text: &str) -> ReplicaId {
    ReplicaId::parse(text).unwrap()
}

/// By the deployment first, as a whole: `shop` and all of it come before `shop-2`.
#[test]
fn services_are_sorted_by_deployment() {
    check(&[
        service("blog", "web"),
        service("shop", "api"),
        service("shop", "web"),
        service("shop-2", "api"),
        service("shop2", "api"),
    ]);
    check(&["10", "9", "A", "a"].map(|name| ServiceName::new(name).unwrap()));
}

/// Numbers as numbers, and before hosts; hosts as text.
#[test]
fn ordinals_are_sorted_as_numbers() {
    let host = |name: &str| Ordinal::Host(Hostname::new(name).unwrap());
    check(&[
        Ordinal::Index(0),
        Ordinal::Index(2),
        Ordinal::Index(10),
        Ordinal::Index(u64::MAX),
        host("1"),
        host("n1"),
        host("n10"),
        host("n2"),
    ]);
}

/// The instances of a replica by their age; a later replica comes after all of them.
#[test]
fn instances_are_sorted_by_replica_and_age() {
    let instance = |id: &str, raft_index| InstanceId {
        replica: replica(id),
        raft_index: StateIndex(raft_index),
    };
    check(&[
        instance("shop-web-0", 5),
        instance("shop-web-0", 40),
        instance("shop-web-1", 4),
        instance("shop-web-10", 1),
        instance("shop-web-2", 1),
    ]);
    check(&[StateIndex(0), StateIndex(9), StateIndex(10)]);
    check(&[NodeId::FIRST, NodeId(2), NodeId(10)]);
    check(&[Revision(1), Revision(2), Revision(10)]);
}

/// R-SEL-4: the widest scope comes first, so that a list begins with what disables the most.
#[test]
fn scopes_are_sorted_from_wide_to_narrow() {
    let web = || service("shop", "web");
    check(&[
        AllocationScope::Node(NodeId(1)),
        AllocationScope::Node(NodeId(9)),
        AllocationScope::Service(service("blog", "web")),
        AllocationScope::Service(web()),
        AllocationScope::Pair { service: service("blog", "web"), node: NodeId(9) },
        AllocationScope::Pair { service: web(), node: NodeId(1) },
        AllocationScope::Pair { service: web(), node: NodeId(2) },
        AllocationScope::Replica { service: web(), id: replica("shop-web-0") },
        AllocationScope::Replica { service: web(), id: replica("shop-web-1") },
    ]);
}

/// The counts of refusals are kept by author.
#[test]
fn authors_are_sorted_by_kind() {
    let operator = |id: &str| Identity::Operator { token: TokenId::new(id).unwrap() };
    check(&[
        Identity::Local { uid: 0 },
        Identity::Local { uid: 1000 },
        operator("a"),
        operator("b"),
        Identity::Node { id: NodeId(1) },
        Identity::Node { id: NodeId(2) },
        Identity::Scheduler,
        Identity::Anonymous,
    ]);
}

#[test]
fn contents_are_sorted_by_kind_and_name() {
    let key = |kind, name: &str| NamedKey { kind, name: ContentName::new(name).unwrap() };
    check(&[
        key(NamedKind::Config, "a"),
        key(NamedKind::Config, "b"),
        key(NamedKind::Secret, "a"),
        key(NamedKind::Secret, "b"),
    ]);
}

/// R-ROLL-5: what a node fetches is listed by spec, and where nothing is pinned first.
#[test]
fn images_are_sorted_by_spec() {
    let digest = |digit: &str| ImageDigest::parse(&format!("web@sha256:{}", digit.repeat(64)));
    let need = |spec: u8, digit: Option<&str>| ImageNeed {
        spec: SpecHash([spec; 32]),
        digest: digit.map(|digit| digest(digit).unwrap()),
    };
    check(&[need(1, None), need(1, Some("0")), need(1, Some("f")), need(2, None)]);
}

#[test]
fn rules_are_sorted_by_attribute() {
    let rule = |attribute: &str, operator, value: &str| Constraint {
        attribute: attribute.to_owned(),
        operator,
        value: value.to_owned(),
    };
    check(&[
        rule("a", Operator::Equal, "2"),
        rule("a", Operator::NotEqual, "1"),
        rule("a", Operator::SetContainsAny, "1"),
        rule("b", Operator::Equal, "1"),
        rule("b", Operator::Equal, "2"),
    ]);
    let criterion = |attribute: &str, weight| SpreadCriterion {
        attribute: attribute.to_owned(),
        weight,
        targets: Vec::new(),
    };
    check(&[criterion("rack", 1), criterion("rack", 2), criterion("zone", 0)]);
    let one = std::num::NonZeroU32::MIN;
    check(&[GpuChoice::All, GpuChoice::Count(one), GpuChoice::These(vec!["0".into()])]);
}

/// A table can align every name: the width of a format counts.
#[test]
fn names_can_be_aligned() {
    let padded = [
        format!("[{:>8}]", DeploymentName::new("shop").unwrap()),
        format!("[{:<8}]", Hostname::new("n1").unwrap()),
        format!("[{:^8}]", replica("s-w-0")),
        format!("[{:>8}]", NodeId(7)),
        format!("[{:<8}]", Revision(12)),
        format!("[{:>8}]", Ordinal::Index(3)),
        format!("[{:>8}]", Ordinal::Host(Hostname::new("n1").unwrap())),
    ];
    assert_eq!(
        padded,
        [
            "[    shop]",
            "[n1      ]",
            "[ s-w-0  ]",
            "[       7]",
            "[12      ]",
            "[       3]",
            "[      n1]"
        ]
    );
    assert_eq!(format!("{:?}", replica("shop-web-0")), "\"shop-web-0\"", "traces quote texts");
    assert_eq!(format!("{:?}", TokenId::new("ops").unwrap()), "\"ops\"");
}
