//! Scopes of allocations: which of them lie in which, and their order (R-SEL-2, R-SEL-4).

use jaco_types::gpu::{GpuChoice, GpuDemand};
use jaco_types::{
    AllocationScope, ContentName, DeploymentName, NamedKey, NamedKind, NodeId, ReplicaId,
    ServiceKey, ServiceName,
};

fn service(name: &str) -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: ServiceName::new(name).unwrap(),
    }
}

fn scopes() -> Vec<AllocationScope> {
    let (nodes, services) = ([NodeId(1), NodeId(2)], [service("db"), service("web")]);
    let mut all: Vec<AllocationScope> = nodes.map(AllocationScope::Node).into();
    all.extend(services.iter().cloned().map(AllocationScope::Service));
    for service in &services {
        for node in nodes {
            all.push(AllocationScope::Pair { service: service.clone(), node });
        }
    }
    for service in services {
        let id = ReplicaId::parse(&format!("shop-{}-0", service.service)).unwrap();
        all.push(AllocationScope::Replica { service, id });
    }
    all
}

/// Lists show the widest scope first.
#[test]
fn scopes_are_ordered_from_wide_to_narrow() {
    assert!(scopes().is_sorted());
}

#[test]
fn a_scope_contains_itself_and_no_wider_one() {
    for scope in scopes() {
        assert!(scope.contains(&scope), "{scope:?}");
        for other in scopes().iter().filter(|other| **other != scope) {
            assert!(!(scope.contains(other) && other.contains(&scope)), "{scope:?} {other:?}");
        }
    }
}

#[test]
fn containment_is_transitive() {
    let all = scopes();
    for (a, b, c) in all
        .iter()
        .flat_map(|a| all.iter().flat_map(move |b| scopes().into_iter().map(move |c| (a, b, c))))
    {
        if a.contains(b) && b.contains(&c) {
            assert!(a.contains(&c), "{a:?} {b:?} {c:?}");
        }
    }
}

/// A replica may move: a node contains what a service has on it, and no replica for good.
#[test]
fn nodes_contain_pairs_and_services_contain_replicas() {
    let replica = AllocationScope::Replica {
        service: service("web"),
        id: ReplicaId::parse("shop-web-0").unwrap(),
    };
    let pair = AllocationScope::Pair { service: service("web"), node: NodeId(1) };
    let (node, web) = (AllocationScope::Node(NodeId(1)), AllocationScope::Service(service("web")));
    assert!(node.contains(&pair) && web.contains(&pair) && web.contains(&replica));
    assert!(!node.contains(&replica) && !node.contains(&web) && !pair.contains(&replica));
    assert!(!AllocationScope::Node(NodeId(2)).contains(&pair));
    assert!(!AllocationScope::Service(service("db")).contains(&pair));
    assert_eq!((pair.node(), pair.service()), (Some(NodeId(1)), Some(&service("web"))));
    assert_eq!((replica.node(), node.service()), (None, None));
}

#[test]
fn gpu_demands_are_shown() {
    let shown = |choice| GpuDemand { driver: "nvidia".to_owned(), choice }.to_string();
    assert_eq!(shown(GpuChoice::All), "all GPUs of nvidia");
    assert_eq!(shown(GpuChoice::Count(2.try_into().unwrap())), "2 of nvidia");
    assert_eq!(shown(GpuChoice::These(vec!["0".into(), "GPU-a".into()])), "0, GPU-a of nvidia");
}

#[test]
fn named_contents_are_shown_with_their_kind() {
    let name = ContentName::new("tls").unwrap();
    let shown = [NamedKind::Config, NamedKind::Secret]
        .map(|kind| NamedKey { kind, name: name.clone() }.to_string());
    assert!(shown[0].contains("config") && shown[1].contains("secret"), "{shown:?}");
    assert!(shown.iter().all(|text| text.contains("tls")), "{shown:?}");
}
